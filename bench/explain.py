"""Megabytes a second that ``explain`` reads of a large log, and its memory, beside reading the file alone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.figures import Figure

LOAD = Path(__file__).parent.parent / "tests/recordings/gpu-h200x2/b1-ngram-cold-cache/server.raw.txt"
MEGABYTES = int(os.environ.get("FIRSTLIGHT_BENCH_MB", "1000"))
"""A real load, then a day of a server's ordinary lines."""
CHILD = """
import re, sys, time
from pathlib import Path
from watch.explain import explain
began = time.process_time()
explain([Path(sys.argv[1])])
seconds = time.process_time() - began
print(seconds, int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="firstlight-bench-") as folder:
        large, small = Path(folder, "large.log"), Path(folder, "small.log")
        size = write(large, MEGABYTES * 1_000_000)
        write(small, 20_000_000)
        began = time.process_time()
        with large.open("rb") as file:
            while file.read(1 << 20):
                pass
        reading = time.process_time() - began
        seconds, memory = _explain(large)
        _, base = _explain(small)
    speed = size / 1e6 / seconds
    return [
        Figure(
            name=f"explain, {MEGABYTES} MB of log",
            value=speed,
            unit="MB/s",
            floor=size / 1e6 / max(reading, 1e-3),
            floor_name="reading the file",
            goal="≥ 50 MB/s on one core",
            good=speed >= 50,
        ),
        Figure(
            name="explain, memory at its peak",
            value=memory,
            unit="MiB",
            floor=base,
            floor_name="of 20 MB of log",
            goal="flat",
            good=memory < base * 1.25,
        ),
    ]


def _explain(path: Path) -> tuple[float, float]:
    """CPU seconds and peak memory of a process of its own."""
    told = subprocess.run([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, check=True).stdout.split()
    return float(told[0]), float(told[1])


def write(path: Path, size: int) -> int:
    """One load, then requests and throughput, some of them refused; the same bytes each time."""
    chance = random.Random(1)
    load = LOAD.read_bytes()
    ready = load.index(b"Application startup complete")
    at = 1796002769.0
    with path.open("wb") as file:
        file.write(load[: load.index(b"\n", ready) + 1])
        written = file.tell()
        while written < size:
            lines = []
            for _ in range(2000):
                at += 0.05
                lines.append(_line(chance, time.strftime("%m-%d %H:%M:%S", time.gmtime(at))))
            block = "".join(lines).encode()
            file.write(block)
            written += len(block)
    return written


def _line(chance: random.Random, stamp: str) -> str:
    which = chance.random()
    client = f"10.0.0.{chance.randint(1, 250)}:{chance.randint(2000, 60000)}"
    if which < 0.9:
        return f'(APIServer pid=1793) INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    if which < 0.98:
        prompt = "Explain the difference between " * chance.randint(1, 8)
        return (
            f"(APIServer pid=1793) INFO {stamp} [logger.py:39] Received request chatcmpl-{chance.getrandbits(64):x}: "
            f"prompt: {prompt!r}, params: SamplingParams(n=1, temperature=0.6)\n"
        )
    if which < 0.997:
        return (
            f"(APIServer pid=1793) INFO {stamp} [loggers.py:259] Engine 000: Avg prompt throughput: "
            f"{chance.random() * 900:.1f} tokens/s, Avg generation throughput: {chance.random() * 900:.1f} tokens/s, "
            f"Running: {chance.randint(0, 32)} reqs, Waiting: 0 reqs, GPU KV cache usage: {chance.random() * 60:.1f}%\n"
        )
    return f'(APIServer pid=1793) INFO:     {client} - "POST /v1/completions HTTP/1.1" 400 Bad Request\n'
