"""The NVML agent: its own program run by a real Python, its lines read back whatever they are cut into."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.gpu_agent import AgentDecoder, NoAgent, gpu_agent
from probes.interpreter import interpreters
from probes.local import LocalHost
from probes.readings import GpuProcesses, GpuReading, ProbeReading
from watch.gpu import Gpus

FAKE = str(Path(__file__).parent / "nvml")


@pytest.fixture
def nvml(monkeypatch):
    """The stand-in for nvidia-ml-py; call it with the faults to play."""

    def faults(names: str = "") -> None:
        monkeypatch.setenv("PYTHONPATH", FAKE)
        monkeypatch.setenv("FAKE_NVML", names)

    return faults


async def collect(count: int, interval: float = 0.02, pythons=(sys.executable,)):
    """The first ``count`` readings of GPUs that the agent gives, and everything beside them."""
    gpus, others = [], []
    async with asyncio.timeout(20):
        async for batch in gpu_agent(LocalHost(), pythons, interval):
            for reading in batch:
                (gpus if isinstance(reading, GpuReading) else others).append(reading)
            if len(gpus) >= count:
                break
    return gpus, others


async def test_samples_carry_the_figures_in_one_meaning(nvml):
    nvml()
    gpus, others = await collect(6)
    first, last = gpus[0].devices, gpus[-1].devices
    assert [device.index for device in first] == [0, 1]
    device = first[0]
    assert (device.used_mib, device.reserved_mib, device.total_mib) == (11.0, 7.0, 1000.0)
    assert (device.power, device.power_limit, device.temperature, device.throttle) == (85.5, 600.0, 38, 4)
    assert (device.pcie_gen, device.pcie_width, device.pcie_width_max, device.pstate) == (5, 8, 16, "P0")
    assert device.ecc_uncorrected is None
    assert last[0].name == "NVIDIA Test GPU", "what is read seldom stands until it is read again"
    assert (first[0].pcie_rx_mbs, first[1].pcie_rx_mbs, last[1].pcie_rx_mbs) == (2.0, None, 2.0)
    assert any(isinstance(reading, ProbeReading) and reading.state == "up" for reading in others)


async def test_a_process_is_named_with_its_unit_user_and_start(nvml):
    nvml()
    _, others = await collect(2)
    (processes,) = [reading for reading in others if isinstance(reading, GpuProcesses)]
    (process,) = processes.processes
    assert process.used_mib == 5.0
    assert process.name.startswith("python")
    assert process.user
    assert process.started > 1.7e9
    assert process.state == "", "that it lives is no news each time it sleeps or wakes"


async def test_a_lost_gpu_is_one_device_in_error_and_the_other_lives_on(nvml):
    nvml("lost")
    gpus, _ = await collect(4)
    assert gpus[-1].devices[1].error == "GPU is lost"
    assert gpus[-1].devices[0].used_mib


async def test_mig_devices_stand_beside_their_gpu(nvml):
    nvml("mig")
    gpus, _ = await collect(1)
    assert [(device.index, device.parent) for device in gpus[0].devices] == [(0, None), (2, 0), (3, 0), (1, None)]
    assert gpus[0].devices[0].mig == "on"


async def test_mig_without_rights_leaves_the_gpu_and_the_others_their_figures(nvml):
    nvml("mig-hidden")
    gpus, _ = await collect(2)
    divided, whole = gpus[-1].devices
    assert (divided.mig, divided.used_mib, divided.error, divided.power) == ("on", None, "", 85.5)
    assert whole.used_mib
    fold = Gpus()
    fold.apply(gpus[-1])
    view = fold.view(gpus[-1].at, "weights", alive=True, unit="vllm", started=0.0, expected_mib=None)
    assert view is not None
    (note,) = [note for note in view.notes if note.kind == "mig"]
    assert note.gpu == 0
    assert "this login may not see them" in note.text


async def test_unified_memory_has_no_figures_and_is_no_error(nvml):
    nvml("unified")
    gpus, _ = await collect(1)
    assert gpus[0].devices[0].used_mib is None
    assert gpus[0].devices[0].error == ""
    assert gpus[0].devices[0].utilization == 5


async def test_without_nvml_the_reason_names_each_interpreter(nvml):
    nvml("mismatch")
    with pytest.raises(NoAgent, match="Driver/library version mismatch"):
        await collect(1, pythons=("/nonexistent/python3", sys.executable))


async def test_a_hung_driver_is_said_and_not_asked_again(nvml):
    nvml("hang")
    program = "import probes.nvml_agent as agent, sys; agent.main(0.01, limit=0.05)"  # the limit is 5 s in the product
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([FAKE, *filter(None, sys.path)])},
    )  # fmt: skip
    assert process.stdout
    assert process.stdin
    decoder, hung = AgentDecoder(), []
    async with asyncio.timeout(20):
        while len(hung) < 2:
            hung += [r for r in decoder.feed(await process.stdout.read(4096)) if isinstance(r, GpuReading) and r.hung]
        process.stdin.close()
        assert await process.wait() == 0, "the end of its input ends the agent, hung or not"
    assert hung[1].hung > hung[0].hung
    assert hung[0].devices[0].used_mib == 11.0, "the last figures stay, with their age"


@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_are_survived_and_any_cut_reads_the_same(data, size):
    whole = AgentDecoder()
    expected = whole.feed(data)
    cut = AgentDecoder()
    got = [reading for at in range(0, len(data), size) for reading in cut.feed(data[at : at + size])]
    assert (got, cut.noise) == (expected, whole.noise)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("tgpwhov"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["t", "g", "p", "who", "hung", "error", "missing", "driver"]), json_values))
def test_any_json_object_is_survived(record):
    AgentDecoder().feed(json.dumps(record).encode() + b"\n")


def test_the_servers_own_interpreter_is_tried_first():
    assert interpreters(["/opt/vllm/bin/vllm", "serve", "/models/K"]) == (
        "/opt/vllm/bin/python3", "/opt/vllm/bin/python", "python3",
    )  # fmt: skip
    assert interpreters(["/bin/sh", "-c", "exec /srv/e/bin/python3.12 -m vllm.entrypoints.openai.api_server"]) == (
        "/srv/e/bin/python3.12", "python3",
    )  # fmt: skip
    assert interpreters([]) == ("python3",)
