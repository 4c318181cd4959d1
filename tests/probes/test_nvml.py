"""NVML in process, against the stand-in where there is no GPU, and against the real one where there is."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from probes.gpu import GpuProbe
from probes.gpu_agent import NoAgent
from probes.nvml import nvml
from probes.readings import GpuProcesses, GpuReading
from tests.probes.hosts import PlainHost, Programs, Reader

STAND_IN = str(Path(__file__).parent / "nvml")
Faults = Callable[[str], None]


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    def play(names: str = "") -> None:
        monkeypatch.setenv("FAKE_NVML", names)
        monkeypatch.syspath_prepend(STAND_IN)
        monkeypatch.delitem(sys.modules, "pynvml", raising=False)

    yield play
    sys.modules.pop("pynvml", None)


async def test_samples_come_from_a_thread_of_their_own(faults: Faults) -> None:
    faults("")
    reader = Reader(nvml(interval=0.01))
    await reader.until(lambda reader: len(reader.of(GpuReading)) >= 3)
    await reader.stop()
    reading = reader.of(GpuReading)[0]
    assert (reading.source, [device.index for device in reading.devices]) == ("nvml", [0, 1])
    assert reader.of(GpuProcesses)


async def test_a_driver_that_hangs_is_said_while_everything_else_goes_on(faults: Faults) -> None:
    faults("hang")
    reader = Reader(nvml(interval=0.01, limit=0.05))
    await reader.until(lambda reader: any(reading.hung for reading in reader.of(GpuReading)))
    hung = next(reading for reading in reader.of(GpuReading) if reading.hung)
    assert hung.devices == reader.of(GpuReading)[0].devices, "the last figures stand"
    threads = [thread for thread in threading.enumerate() if thread.name == "firstlight-nvml"]
    assert len(threads) >= 1
    assert all(thread.daemon for thread in threads), "a call that never returns must not keep the program from ending"
    async with asyncio.timeout(2):
        await reader.stop()


async def test_no_nvml_falls_back_to_nvidia_smi(faults: Faults, tmp_path: Path) -> None:
    faults("mismatch")
    failed = await Reader(nvml()).end()
    assert isinstance(failed, NoAgent)
    machine = Programs(tmp_path, name="local")
    machine.put("nvidia-smi", "echo 'No devices were found'; exit 6")
    ended = await Reader(GpuProbe(machine.host).batches()).end()
    assert "finds no GPU" in ended.reason


@pytest.mark.gpu
async def test_the_real_driver_agrees_with_nvidia_smi() -> None:
    by_library = Reader(GpuProbe(PlainHost(name="local")).batches())
    by_tool = Reader(GpuProbe(PlainHost(), way="nvidia-smi").batches())
    await by_library.until(lambda reader: reader.of(GpuReading))
    await by_tool.until(lambda reader: reader.of(GpuReading))
    await by_library.stop()
    await by_tool.stop()
    ours, theirs = by_library.of(GpuReading)[0], by_tool.of(GpuReading)[0]
    assert (ours.source, theirs.source) == ("nvml", "nvidia-smi")
    assert ours.driver == theirs.driver
    for mine, other in zip(ours.devices, theirs.devices, strict=True):
        assert (mine.index, mine.uuid, mine.name, mine.total_mib) == (
            other.index,
            other.uuid,
            other.name,
            pytest.approx(other.total_mib, abs=1),
        )
        assert mine.used_mib == pytest.approx(other.used_mib, abs=64)
        assert mine.reserved_mib == pytest.approx(other.reserved_mib, abs=64)
        assert mine.power_limit == pytest.approx(other.power_limit, abs=1)
        assert (mine.pcie_gen_max, mine.pcie_width_max) == (other.pcie_gen_max, other.pcie_width_max)
