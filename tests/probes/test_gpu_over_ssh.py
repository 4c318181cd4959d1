"""The NVML agent on another machine, over a real SSH server: it lives as long as its channel and leaves nothing."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from probes import gpu
from probes.gpu import FASTEST, GpuProbe
from probes.gpu_agent import gpu_agent
from probes.host import LinkDown
from probes.readings import GpuReading, ProbeReading
from probes.ssh import SshHost
from tests.probes.hosts import Programs, Reader
from tests.probes.sshserver import SshServer, Way, linked, processes, serving, until_gone

STAND_IN = str(Path(__file__).parent / "nvml")
_turns = itertools.count(1)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SshServer]:
    home = tmp_path / "home"
    home.mkdir()
    async with serving() as server:
        server.environment = {
            "PYTHONPATH": STAND_IN, "FAKE_NVML": "", "HOME": str(home), "TMPDIR": str(home),
            "PYTHONPYCACHEPREFIX": str(tmp_path / "stand-in"),
        }  # fmt: skip
        yield server
    assert list(home.iterdir()) == [], "the agent has written files on the host"


def interval() -> float:
    """One that no other process was started with, so that its process can be told by its arguments."""
    return round(0.02 + next(_turns) * 1e-7, 9)


async def test_nothing_is_left_once_nobody_listens(server: SshServer) -> None:
    every = interval()
    async with linked(server.host()) as links:
        await links.reach("up")
        async with aclosing(gpu_agent(links.host, [sys.executable], every)) as batches:
            async for batch in batches:
                if any(isinstance(reading, GpuReading) for reading in batch):
                    break
            assert processes(str(every)), "it runs while it is listened to"
        await until_gone(str(every))


async def cut_at_the_first_sample(host: SshHost, way: Way, every: float) -> None:
    async for batch in gpu_agent(host, [sys.executable], every):
        if any(isinstance(reading, GpuReading) for reading in batch):
            assert processes(str(every))
            way.cut()


async def test_nothing_is_left_when_the_link_is_cut(server: SshServer) -> None:
    every = interval()
    way = Way(server.port)
    await way.start()
    try:
        async with linked(server.host(way.port)) as links:
            await links.reach("up")
            with pytest.raises(LinkDown):
                await cut_at_the_first_sample(links.host, way, every)
            await until_gone(str(every))
    finally:
        await way.stop()


async def test_where_there_is_no_nvml_the_way_back_to_nvidia_smi_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Programs(tmp_path)
    machine.put("nvidia-smi", "printf 'index, name\\n0, NVIDIA Test\\n'; exec sleep 60")
    monkeypatch.setattr(gpu, "interpreters", lambda argv: ("/nonexistent/python3",))
    reader = Reader(GpuProbe(machine.host).batches())
    await reader.until(lambda reader: reader.of(GpuReading))
    await reader.stop()
    (why,) = reader.of(ProbeReading)
    assert why.state == "up"
    assert why.reason.startswith("nvidia-smi is asked for the GPUs' figures. No NVML here (/nonexistent/python3: ")


async def test_the_pace_can_be_chosen_up_to_ten_a_second(tmp_path: Path) -> None:
    machine = Programs(tmp_path)
    machine.put("nvidia-smi", 'printf "index, name\\n0, $*\\n"; exec sleep 60')
    reader = Reader(GpuProbe(machine.host, way="nvidia-smi", interval=0.001).batches())
    await reader.until(lambda reader: reader.of(GpuReading))
    await reader.stop()
    assert FASTEST == 0.1
    assert "-lms 100" in reader.of(GpuReading)[0].devices[0].name
