"""A recorded nvidia-smi on the host's path: what it prints, and what it does when a GPU goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes.readings import GpuReading, ProbeReading
from tests.host import tape
from tests.host.machine import Machine
from tests.host.service import Service, shell
from tests.host.watcher import Watcher, nothing_left

HERE = Path(__file__).parent
TALK = f"[Service]\nExecStart={shell('echo first words; exec sleep 600')}\n"


class Smi:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def install(self, **orders: object) -> None:
        self.machine.write("/etc/nvidia-smi.tape", tape.smi("gpu-h200x2/b1-ngram-cold-cache").data)
        self.machine.write("/etc/nvidia-smi.json", json.dumps(orders))
        self.machine.write("/usr/local/bin/nvidia-smi", (HERE / "nvidia_smi.py").read_bytes(), 0o755)


@pytest.fixture
def smi(machine: Machine) -> Iterator[Smi]:
    yield Smi(machine)
    for path in ("etc/nvidia-smi.tape", "etc/nvidia-smi.json", "usr/local/bin/nvidia-smi"):
        (machine.root / path).unlink(missing_ok=True)


async def test_memory_over_the_load(machine: Machine, target: str, service: Service, smi: Smi) -> None:
    smi.install(speed=100)
    service.write(TALK)
    await service.start()
    async with Watcher(target, service.name) as seen:
        await seen.until(
            lambda: any((one.devices[0].used_mib or 0) > 100_000 for one in seen.of(GpuReading) if one.devices)
        )
        first = next(one for one in seen.of(GpuReading) if one.devices)
        assert [device.index for device in first.devices] == [0, 1]
        assert {device.name for device in first.devices} == {"NVIDIA H200"}
        assert first.devices[0].total_mib == 143771
        assert first.source == "nvidia-smi"
    await nothing_left(machine)


async def test_no_nvidia_smi(machine: Machine, target: str, service: Service) -> None:
    service.write(TALK)
    await service.start()
    async with Watcher(target, service.name) as seen:
        await seen.until(lambda: any(probe.state == "missing" for probe in seen.probe("gpu")), what="no GPU source")
        assert "nvidia-smi" in seen.probe("gpu")[-1].reason
        await seen.until(lambda: seen.said("first words"))


@pytest.mark.parametrize(
    "orders",
    [
        {
            "lines": [
                [9, "Unable to determine the device handle for GPU1: 0000:00:07.0: GPU is lost.  Reboot the system"]
            ]
        },
        {"end": 8, "status": 255},
    ],
    ids=["an error between rows", "it ends"],
)
async def test_faults_stay_in_their_pane(
    machine: Machine, target: str, service: Service, smi: Smi, orders: dict[str, object]
) -> None:
    smi.install(speed=20, **orders)
    service.write(TALK)
    await service.start()
    async with Watcher(target, service.name) as seen:
        await seen.until(lambda: seen.of(GpuReading))
        await seen.until(
            lambda: (
                any(probe.state != "up" for probe in seen.probe("gpu"))
                or any(device.error for one in seen.of(GpuReading) for device in one.devices)
                or any("GPU is lost" in probe.reason for probe in seen.of(ProbeReading))
            ),
            what="a word on the fault",
        )
        await seen.until(lambda: seen.said("first words"))
    await nothing_left(machine)
