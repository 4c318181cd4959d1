"""On a real GPU: the NVML agent and nvidia-smi say the same while a process fills and frees memory beside them."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from bench.gpu_agent import FILL
from probes.gpu import GpuProbe
from probes.readings import GpuProcess, GpuProcesses, GpuReading
from tests.probes.hosts import PlainHost, Reader

ROOT = Path(__file__).parent.parent.parent
FILLED = 8 << 10
"""MiB that FILL takes on each GPU."""

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: it fills the memory"),
]


def used(reader: Reader) -> dict[int, float]:
    """MiB in use by GPU, as last seen."""
    readings = reader.of(GpuReading)
    return {device.index: device.used_mib or 0.0 for device in readings[-1].devices} if readings else {}


async def test_both_follow_a_process_that_fills_and_frees_memory() -> None:
    agent = GpuProbe(PlainHost(), interval=0.2)
    agent.argv = [sys.executable]
    by_agent, by_tool = Reader(agent.batches()), Reader(GpuProbe(PlainHost(), way="nvidia-smi", interval=0.2).batches())
    await by_agent.until(used)
    await by_tool.until(used)
    assert by_agent.of(GpuReading)[0].source == "nvml", "the agent did not start"
    before = used(by_agent)
    filler = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FILL, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert filler.stdin is not None
    assert filler.stdout is not None
    try:
        async with asyncio.timeout(120):
            assert await filler.stdout.readline() == b"full\n"

        def full(reader: Reader) -> bool:
            return all(now >= before[gpu] + FILLED for gpu, now in used(reader).items())

        await by_agent.until(full)
        await by_tool.until(full)
        assert used(by_agent) == pytest.approx(used(by_tool), abs=64), "MiB in use on each GPU"
        await by_agent.until(lambda reader: filler.pid in {p.pid for p in listed(reader)})
        mine = [process for process in listed(by_agent) if process.pid == filler.pid]
        assert {process.gpu for process in mine} == before.keys()
        assert all(process.name.startswith("python") and process.user for process in mine)
    finally:
        filler.stdin.close()
        async with asyncio.timeout(60):
            await filler.wait()

    def free(reader: Reader) -> bool:
        return all(now <= before[gpu] + 64 for gpu, now in used(reader).items())

    await by_agent.until(free)
    await by_tool.until(free)
    await by_agent.stop()
    await by_tool.stop()


def listed(reader: Reader) -> tuple[GpuProcess, ...]:
    found = reader.of(GpuProcesses)
    return found[-1].processes if found else ()


def test_the_cost_of_a_sample_can_be_measured_with_nothing_but_python() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "gpu_agent.py"), "--seconds", "12"],
        capture_output=True, text=True, timeout=120, cwd="/",
    )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left behind: False" in done.stdout
