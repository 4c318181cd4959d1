"""Operators with fewer rights, other shells, and units that are not what was thought."""

from __future__ import annotations

import pytest

from probes.readings import ProbeReading, UnitReading
from tests.host.machine import Machine
from tests.host.service import Service, fresh_name, shell
from tests.host.watcher import Watcher, nothing_left

TALK = f"[Service]\nExecStart={shell('echo first words; exec sleep 600')}\n"


@pytest.mark.parametrize("user", ["root", "ops", "fisher", "noisy"])
async def test_whatever_the_login_shell_prints(machine: Machine, target: str, service: Service, user: str) -> None:
    service.write(TALK)
    await service.start()
    async with Watcher(f"{user}@{target}", service.name) as seen:
        await seen.until(lambda: seen.said("first words"))
        await seen.until(lambda: any(unit.active == "active" for unit in seen.of(UnitReading)))
        await seen.holds(await service.journal())
        assert not seen.said("Authorised use only")
        assert not seen.said("good morning")
    await nothing_left(machine)


async def test_no_right_to_the_journal(machine: Machine, target: str, service: Service) -> None:
    service.write(TALK)
    await service.start()
    async with Watcher(f"guest@{target}", service.name) as seen:
        await seen.until(
            lambda: any("systemd-journal" in probe.reason + probe.remedy for probe in seen.of(ProbeReading)),
            what="a word on the group",
        )
        # the other sources live on
        await seen.until(lambda: any(unit.active == "active" for unit in seen.of(UnitReading)))
    await nothing_left(machine)


async def test_a_unit_that_does_not_exist(machine: Machine, target: str, service: Service) -> None:
    service.write(TALK)
    missing = service.name.replace("ngram", "ngrm")
    async with Watcher(target, missing) as seen:
        await seen.until(lambda: any(unit.load == "not-found" for unit in seen.of(UnitReading)))
        assert any(service.name in near for near in seen.of(UnitReading)[-1].near)
    await nothing_left(machine)


async def test_a_unit_that_appears_later(machine: Machine, target: str, service: Service) -> None:
    async with Watcher(target, service.name) as seen:
        await seen.until(lambda: any(unit.load == "not-found" for unit in seen.of(UnitReading)))
        service.write(TALK)
        await service.start()
        await seen.until(lambda: any(unit.active == "active" for unit in seen.of(UnitReading)))
        await seen.holds(await service.journal())


async def test_a_user_unit(machine: Machine, target: str) -> None:
    service = Service(machine, fresh_name("vllm-user"), user="ops")
    service.write(TALK)
    await service.start()
    try:
        async with Watcher(f"ops@{target}", service.name, user=True) as seen:
            await seen.until(lambda: seen.said("first words"))
            await seen.until(lambda: any(unit.active == "active" for unit in seen.of(UnitReading)))
            await seen.holds(await service.journal())
    finally:
        await service.stop()
    await nothing_left(machine)


async def test_a_name_that_a_shell_would_run(machine: Machine, target: str) -> None:
    async with Watcher(target, "a'b$(touch /tmp/taken)`touch /tmp/taken`;touch /tmp/taken.service") as seen:
        await seen.until(lambda: seen.of(UnitReading) or seen.of(ProbeReading))
    assert not (machine.root / "tmp/taken").exists()
