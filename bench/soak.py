"""Memory, open files and threads over eight hours of a watch, replayed in minutes.

Played once the index of the file is made, whose size is the file's. The last two hours are held against the third and
fourth: till then pictures and caches are made for the first time. Medians, since Python's collector leaves a peak now
and then.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from msgspec import Struct

from bench.figures import Figure
from bench.terminal import Terminal
from bench.watched import cpu_share, resident
from probes.readings import (
    GpuDevice,
    GpuReading,
    HealthReading,
    IoReading,
    JournalLine,
    LinkReading,
    MetricsReading,
    Reading,
    Sample,
    UnitReading,
)
from tests.host.terminal import PROGRAM
from tui.units import elapsed
from watch.session import SessionWriter, new_header

HOURS = 8.0
SPEED = 300
SHORT = 1000
SAMPLES = 32
UNIT = "vllm-soak.service"
BEGAN = 1796009895.0
FLAT = 0.05
INDEXED = 120.0
"""Seconds that the index may take on a busy machine."""
LATE = 5
"""Times as long as it should take before a replay counts as one that never ends."""
END = "■ end".encode()


class Size(Struct, frozen=True):
    memory: float
    """MB"""
    files: int
    threads: int


def figures() -> list[Figure]:
    return _figures(SPEED)


def short() -> list[Figure]:
    return _figures(SHORT)


def _figures(speed: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="firstlight-bench-") as folder:
        path = record(Path(folder))
        argv = [str(PROGRAM), "replay", str(path), "--speed", str(speed)]
        with Terminal(argv, env={"HOME": folder, "LANG": "C.UTF-8"}) as terminal:
            terminal.until("vllm-soak")
            terminal.send(" ")
            terminal.until("paused")
            terminal.until(f" {elapsed(HOURS * 3600 - 1)} ", INDEXED)  # until it is read the length has a "…" behind it
            terminal.seen = b""
            terminal.send(" ")
            seen: list[Size] = []
            whole = HOURS * 3600 / speed
            limit = time.monotonic() + whole * LATE
            while END not in terminal.seen:
                if time.monotonic() > limit:
                    raise TimeoutError(f"the replay was not at its end after {LATE} times as long as it takes")
                terminal.seen = terminal.seen[-len(END) :]
                cpu_share(terminal, whole / SAMPLES)
                seen.append(_size(terminal.process.pid))
    quarter = len(seen) // 4
    begun, last = seen[quarter : 2 * quarter], seen[-quarter:]
    before, after = (statistics.median(one.memory for one in some) for some in (begun, last))
    out = [
        Figure(name=f"{HOURS:g} h replayed at {speed}×, memory in the last two hours", value=after, unit="MB",
               floor=before, floor_name="in the third and fourth hour", goal="± 5 %",
               good=abs(after / before - 1) <= FLAT, must=after > before)
    ]  # fmt: skip
    for what in ("files", "threads"):
        value, floor = getattr(last[-1], what), max(getattr(one, what) for one in begun)
        name = f"… open {what} at the end" if what == "files" else f"… {what} at the end"
        out.append(Figure(name=name, value=value, unit=what, floor=floor, floor_name="in the third and fourth hour",
                          goal="no more", good=value <= floor, must=True))  # fmt: skip
    return out


def _size(pid: int) -> Size:
    here = f"/proc/{pid}"
    return Size(resident(pid) / 1e6, len(os.listdir(f"{here}/fd")), len(os.listdir(f"{here}/task")))


def record(folder: Path) -> Path:
    """A watch of a server that was ready from the first minute: samples each second, a line every other."""
    writer = SessionWriter(new_header("llm-two", UNIT, BEGAN), where=folder)
    for second in range(int(HOURS * 3600)):
        for reading in _second(BEGAN + second, second):
            writer.write(reading)
    path = writer.close()
    assert path is not None
    return path


def _second(at: float, number: int) -> list[Reading]:
    out: list[Reading] = [
        GpuReading(
            at=at,
            devices=tuple(
                GpuDevice(index=gpu, name="GPU", uuid=f"GPU-{gpu}", used_mib=80000.0 + (number + gpu) % 100,
                          total_mib=97887.0, utilization=float((number + gpu) % 100), power=400.0, temperature=60.0)
                for gpu in range(2)
            ),
        ),
        IoReading(at=at, read_bytes=number * 1000, cpu_seconds=number * 0.3, mem_available=1 << 36, mem_total=1 << 38),
    ]  # fmt: skip
    if number == 0:
        out.insert(0, UnitReading(at=at, unit=UNIT, load="loaded", active="active", sub="running", started=at,
                                  invocation="a" * 32, main_pid=7))  # fmt: skip
    if number % 2 == 0:
        text = f'(APIServer pid=7) INFO:     10.1.2.3:{number % 60000} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        if number == 4:
            text = "(APIServer pid=7) INFO:     Application startup complete."
        out.append(JournalLine(at=at, text=text, pid=7, unit=UNIT, invocation="a" * 32, cursor=f"c{number}"))
        out.append(MetricsReading(at=at, status=200, samples=(
            Sample("vllm:num_requests_running", {"model_name": "m"}, float(number % 9)),
            Sample("vllm:generation_tokens_total", {"model_name": "m"}, number * 100.0),
        )))  # fmt: skip
    if number % 5 == 0:
        out.append(HealthReading(at=at, status=200))
        out.append(LinkReading(at=at, state="up", rtt_ms=10.0 + number % 3))
    return out
