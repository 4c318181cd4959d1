"""A start waits for the GPUs' memory: whose it is, whether it comes back, and whether the driver can be asked at all.

nvidia-smi is played by a script whose answers are files, in the form in which it prints them (csv,noheader,nounits).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.host.machine import Machine
from tests.host.operator import Operator, outcomes, story
from tests.host.service import Service

SMI = """#!/bin/sh
# each question takes its answers one after the other; the last one stays
case $1 in *compute-apps*) kind=apps ;; *) kind=used ;; esac
cd /run/fake-smi || exit 9
count=$(cat $kind.count 2>/dev/null || echo 0)
[ ! -e "$kind.$((count + 1))" ] || { count=$((count + 1)); echo $count >$kind.count; }
. "./$kind.$count"
"""
A, B = "GPU-aaaa", "GPU-bbbb"


class Smi:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def answers(self, apps: list[str], used: list[str]) -> None:
        """Shell text for each time that processes, and memory in use, are asked for."""
        self.machine.run("rm", "-rf", "/run/fake-smi")
        for kind, texts in (("apps", apps), ("used", used)):
            for number, text in enumerate(texts, 1):
                self.machine.write(f"/run/fake-smi/{kind}.{number}", text)


@pytest.fixture
def smi(machine: Machine) -> Iterator[Smi]:
    path = "/usr/local/sbin/nvidia-smi"
    machine.write(path, SMI, 0o755)
    yield Smi(machine)
    machine.run("rm", "-rf", path, "/run/fake-smi")


PID = "$(systemctl show -p MainPID --value $(cat /run/fake-unit))"


@pytest.fixture
async def running(machine: Machine, service: Service) -> Service:
    service.write("[Service]\nExecStart=/bin/sleep 600\n")
    await service.start(wait=True)
    machine.write("/run/fake-unit", f"{service.name}.service")
    return service


def row(pid: str, gpu: str, mib: int, name: str = "VLLM::Worker") -> str:
    """As asked for: before a stop pid and GPU, afterwards these, the memory and the name."""
    return f'case $1 in *name*) echo "{pid}, {gpu}, {mib}, {name}" ;; *) echo "{pid}, {gpu}" ;; esac\n'


async def test_it_waits_until_the_memory_no_longer_falls(target: str, running: Service, smi: Smi) -> None:
    smi.answers(
        [row(PID, A, 70000), ""],
        [f"echo '{A}, {mib}'; echo '{B}, 90000'" for mib in (70000, 40000, 600, 600)],
    )
    async with Operator(target) as ann:
        steps = await ann.does("restart", running.name)
    assert steps[-1].outcome == "done", story(steps)
    assert "free after 3 s (600 MiB in use" in next(
        step.detail for step in steps if (step.step, step.outcome) == ("memory", "done")
    )


async def test_a_neighbour_of_before_and_one_on_another_gpu_are_no_obstacle(
    target: str, running: Service, smi: Smi
) -> None:
    others = row("4242", A, 500, "Xorg") + row("4343", B, 90000)
    smi.answers([row(PID, A, 70000) + others, others], [f"echo '{A}, 600'"])
    async with Operator(target) as ann:
        steps = await ann.does("restart", running.name)
    assert steps[-1].outcome == "done", story(steps)
    assert "shared with 4242 as before" in story(steps)


async def test_one_that_came_meanwhile_is(target: str, running: Service, smi: Smi) -> None:
    smi.answers([row(PID, A, 70000), row("4242", A, 80000, "python3")], [f"echo '{A}, 80000'"])
    async with Operator(target) as ann:
        steps = await ann.does("restart", running.name)
        assert steps[-1].outcome == "failed", story(steps)
        assert "4242 (80000, python3)" in steps[-1].detail
        assert "inactive" in next(step.detail for step in steps if step.outcome == "state")
        steps = await ann.does("start", running.name, accept_held=True)
        assert outcomes(steps)["memory"] == "skipped"
        assert steps[-1].outcome == "done", story(steps)


async def test_a_driver_that_was_upgraded_stops_the_start(target: str, running: Service, smi: Smi) -> None:
    said = "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18"
    smi.answers([row(PID, A, 70000), said], ["exit 18"])
    async with Operator(target) as ann:
        steps = await ann.does("restart", running.name)
    assert steps[-1].outcome == "failed", story(steps)
    assert "reboot the host" in steps[-1].undo


async def test_a_driver_that_does_not_answer_stops_the_start(target: str, running: Service, smi: Smi) -> None:
    smi.answers([row(PID, A, 70000), "exec sleep 100"], ["exec sleep 100"])
    async with Operator(target) as ann:
        steps = await ann.does("restart", running.name)
    assert steps[-1].outcome == "failed", story(steps)
    assert "does not answer" in steps[-1].detail


async def test_memory_that_does_not_come_back(target: str, running: Service, smi: Smi) -> None:
    falling = [f"echo '{A}, {80000 - second}'" for second in range(40)]
    smi.answers([row(PID, A, 80000), ""], falling)
    async with Operator(target) as ann:
        steps = await ann.does("restart", running.name, wait_memory=3)
    assert steps[-1].outcome == "failed", story(steps)
    assert "did not come back within 3 s" in steps[-1].detail
