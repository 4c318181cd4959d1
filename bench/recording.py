"""A day of recording: its size, and how long it takes to be read, gone about in, and listed.

Synthetic but lifelike: a load of 90 minutes out of a real one, then a server that is used: eight GPUs, the disks, the
unit and the link each second, ``/metrics`` each two, and its own lines with a request every few seconds.
"""

from __future__ import annotations

import asyncio
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.figures import Figure
from probes.readings import (
    GpuDevice,
    GpuReading,
    HealthReading,
    IoReading,
    JournalLine,
    LinkReading,
    MetricsReading,
    ProcessIo,
    Reading,
    Sample,
)
from tests.watch.fed import a_load
from tests.watch.feeds import RECORDINGS
from watch.player import Player
from watch.session import SessionReader, SessionWriter, new_header
from watch.session.shelf import completed, listed
from watch.state import WatchState

HOURS = 24
LOAD = 5400.0
UNIT = "vllm-tiny-ngram.service"
SEEKS = 40
_BUCKETS = (0.001, 0.01, 0.02, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def readings(hours: float) -> Iterator[Reading]:
    """In the order in which they would come."""
    chance = random.Random(1)
    real = a_load(RECORDINGS)
    start, span = real[0].at, real[-1].at - real[0].at
    stretched = [
        msgspec.structs.replace(reading, at=start + (reading.at - start) * LOAD / span)
        for reading in real
        if not (isinstance(reading, JournalLine) and ("Stopping" in reading.text or "Shutting" in reading.text))
    ]
    load = iter(stretched)
    waiting = next(load, None)
    tokens = requests = 0
    for second in range(int(hours * 3600)):
        at = start + second
        while waiting is not None and waiting.at <= at:
            yield waiting
            waiting = next(load, None)
        loading = second < LOAD
        used = min(120_000.0, 600 + second * 30.0) if loading else 132_000.0
        yield GpuReading(
            at=at,
            devices=tuple(
                GpuDevice(
                    index=gpu,
                    name="NVIDIA H200",
                    used_mib=used + gpu,
                    total_mib=143_771.0,
                    utilization=float(chance.randrange(101)),
                    power=round(chance.uniform(90, 690), 1),
                    power_limit=700.0,
                    temperature=float(chance.randrange(35, 75)),
                    sm_mhz=1980.0,
                    throttle=0,
                    energy_j=second * 400.0,
                )
                for gpu in range(8)
            ),
        )
        yield IoReading(
            at=at,
            read_bytes=min(second, int(LOAD)) << 27,
            cpu_seconds=second * 3.1,
            mem_available=700 << 30,
            processes=tuple(ProcessIo(pid=100 + one, name="VLLM::Worker", read_bytes=second << 24) for one in range(9)),
        )
        if second % 5 == 0:
            yield LinkReading(at=at, state="up", rtt_ms=round(chance.uniform(0.5, 3), 2))
        if second % 2 == 0:
            yield HealthReading(at=at, status=None if loading else 200, error="refused" if loading else "", ms=1.5)
        if loading:
            continue
        if chance.random() < 0.3:
            requests += 1
            port = 40_000 + requests % 20_000
            text = f'(APIServer pid=103) INFO:     10.0.0.7:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
            yield JournalLine(at=at + 0.1, text=text, pid=103, invocation=INVOCATION, unit=UNIT)
        if second % 10 == 0:
            said = f"Engine 000: Avg prompt throughput: {tokens % 9000} tokens/s, Running: 3 reqs, Waiting: 0 reqs"
            text = f"(APIServer pid=103) INFO 11-30 10:00:00 [loggers.py:271] {said}"
            yield JournalLine(at=at + 0.2, text=text, pid=103, invocation=INVOCATION, unit=UNIT)
        if second % 2 == 0:
            tokens += chance.randrange(4000)
            yield MetricsReading(at=at, status=200, bytes=50_000, samples=tuple(_page(tokens, requests, chance)))


INVOCATION = next(line.invocation for line in a_load(RECORDINGS) if isinstance(line, JournalLine) and line.invocation)


def _page(tokens: int, requests: int, chance: random.Random) -> Iterator[Sample]:
    engine = {"engine": "0", "model_name": "/opt/models/small"}
    yield Sample("vllm:num_requests_running", engine, float(chance.randrange(40)))
    yield Sample("vllm:num_requests_waiting", engine, 0.0)
    yield Sample("vllm:kv_cache_usage_perc", engine, round(chance.random(), 4))
    yield Sample("vllm:generation_tokens_total", engine, float(tokens))
    yield Sample("vllm:prompt_tokens_total", engine, float(tokens * 3))
    for name in ("vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds"):
        for number, edge in enumerate(_BUCKETS):
            yield Sample(f"{name}_bucket", {**engine, "le": str(edge)}, float(requests * number // len(_BUCKETS)))
        yield Sample(f"{name}_count", engine, float(requests))
        yield Sample(f"{name}_sum", engine, requests * 0.3)


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="firstlight-bench-") as folder:
        return _figures(Path(folder))


def _figures(where: Path) -> list[Figure]:
    floor = _floor()
    began = time.perf_counter()
    writer = SessionWriter(new_header("llm-two", UNIT, 1_796_007_659.0), where=where)
    count = 0
    for reading in readings(HOURS):
        writer.write(reading)
        count += 1
        if count % 1000 == 0:
            writer.flush()
    writer.flush()
    assert writer.path is not None
    plain = writer.path.stat().st_size
    path = writer.close()
    assert path is not None
    written = time.perf_counter() - began
    packed = path.stat().st_size
    began = time.perf_counter()
    listed(where)
    first = time.perf_counter() - began
    began = time.perf_counter()
    completed(listed(where)[0])
    read = time.perf_counter() - began
    began = time.perf_counter()
    assert listed(where)[0].outcome
    again = time.perf_counter() - began
    before = _memory()
    opened, indexed, seeks, stops = asyncio.run(_gone_about(path))
    memory = _memory() - before
    seeks.sort()
    day = f"{HOURS} h, {count:,} readings"
    plain_hour, packed_hour = plain / HOURS / 2**20, packed / HOURS / 2**20
    slowest = seeks[-1] * 1e3
    return [
        Figure(name=f"{day}: while written", value=plain_hour, unit="MiB/h"),
        Figure(name=f"{day}: kept", value=packed_hour, unit="MiB/h", floor=plain_hour, floor_name="plain"),
        Figure(
            name="written without secrets, and compressed",
            value=written / count * 1e6,
            unit="µs a reading",
            floor=floor * 1e6,
            floor_name="encoding alone",
        ),
        Figure(name="list, outcome not known", value=first * 1e3, unit="ms"),
        Figure(name="outcome, read out of the recording once", value=read, unit="s"),
        Figure(name="list, outcome known", value=again * 1e3, unit="ms"),
        Figure(name="opened for a replay", value=opened, unit="s"),
        Figure(name="read through in the background", value=indexed, unit="s"),
        Figure(name=f"gone to a time, median of {SEEKS}", value=seeks[len(seeks) // 2] * 1e3, unit="ms"),
        Figure(name="gone to a time, slowest", value=slowest, unit="ms", goal="200 ms of 90 min", good=slowest < 200),
        Figure(name=f"peak memory of the replay, {stops} copies of the fold in it", value=memory, unit="MiB"),
    ]


async def _gone_about(path: Path) -> tuple[float, float, list[float], int]:
    began = time.perf_counter()
    reader = SessionReader(path)
    player = Player(reader, lambda: WatchState("llm-two", UNIT))
    player.clock.pause()
    opened = time.perf_counter() - began

    async def take() -> None:
        async for _ in player.batches():
            pass

    taking = asyncio.create_task(take())
    began = time.perf_counter()
    await player.read_whole()
    indexed = time.perf_counter() - began
    chance = random.Random(2)
    seeks = []
    for _ in range(SEEKS):
        began = time.perf_counter()
        player.seek(chance.uniform(player.index.start, player.index.end))
        await player.arrived()
        seeks.append(time.perf_counter() - began)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    stops = len(player.index.stops)
    reader.close()
    return opened, indexed, seeks, stops


def _floor() -> float:
    """Seconds that encoding alone takes for one reading."""
    some = [reading for reading, _ in zip(readings(0.2), range(2000), strict=False)]
    began = time.perf_counter()
    for reading in some:
        msgspec.json.encode(reading)
    return (time.perf_counter() - began) / len(some)


def _memory() -> float:
    """The most this process has held, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 2**20)
