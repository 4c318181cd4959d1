"""Memory and open files over eight hours of a watch, replayed in minutes.

Compared from the third hour on: before that a replay makes the index of its file beside what it shows.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

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
from watch.session import SessionWriter, new_header

HOURS = 8.0
SPEED = 300
UNIT = "vllm-soak.service"
BEGAN = 1796009895.0
FLAT = 0.05


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="firstlight-bench-") as folder:
        path = record(Path(folder))
        argv = [str(PROGRAM), "replay", str(path), "--speed", str(SPEED)]
        with Terminal(argv, env={"HOME": folder, "LANG": "C.UTF-8"}) as terminal:
            terminal.until("vllm-soak")
            pid = terminal.process.pid
            whole = HOURS * 3600 / SPEED
            seen: list[tuple[float, int]] = []
            end = time.monotonic() + whole
            while time.monotonic() < end:
                cpu_share(terminal, whole / 16)
                seen.append((resident(pid) / 1e6, len(os.listdir(f"/proc/{pid}/fd"))))
    memory, files = [one for one, _ in seen], [one for _, one in seen]
    start, last = sum(memory[5:8]) / 3, sum(memory[-3:]) / 3
    growth = last / start - 1
    return [
        Figure(
            name=f"{HOURS:g} h replayed at {SPEED}×, memory at the end over that after the first hours",
            value=last,
            unit="MB",
            floor=start,
            floor_name="after three hours",
            goal="± 5 %",
            good=abs(growth) <= FLAT,
        ),
        Figure(
            name="… open files at the end",
            value=files[-1],
            unit="files",
            floor=files[5],
            floor_name="after three hours",
            goal="the same",
            good=files[-1] <= files[5],
        ),
    ]


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
