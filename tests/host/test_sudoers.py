"""The sudoers file that ships: valid, enough for what it says, and for nothing more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.machine import Machine
from tests.host.operator import Operator, story
from tests.host.service import Service, fresh_name
from tests.host.test_operate import GOOD, state

SHIPPED = Path(__file__).parents[2] / "docs" / "sudoers"
PLACE = "/etc/sudoers.d/firstlight"


@pytest.fixture
def granted(machine: Machine, service: Service) -> Iterator[Service]:
    """``guest``, who has no other right to anything, gets those of the file for one unit."""
    text = SHIPPED.read_text()
    assert "%llm-operators" in text
    assert "vllm.service" in text
    machine.write(
        PLACE, text.replace("%llm-operators", "guest").replace("vllm.service", f"{service.name}.service"), 0o440
    )
    yield service
    (machine.root / PLACE.lstrip("/")).unlink()


async def test_sudo_itself_finds_no_fault_in_it(machine: Machine) -> None:
    machine.write("/tmp/sudoers", SHIPPED.read_text(), 0o440)
    said = await machine.do("visudo", "--check", "--strict", "--file=/tmp/sudoers")
    assert b"parsed OK" in said.out


async def test_it_is_enough_to_act_on_the_named_unit(machine: Machine, target: str, granted: Service) -> None:
    granted.write(GOOD)
    await granted.start(wait=True)
    before = await granted.shows("InvocationID")
    async with Operator(f"guest@{target}") as ann:
        rights = await ann.rights(granted.name)
        assert (rights.level, rights.how) == ("manage", "sudo")
        for action, then in (("restart", "active"), ("stop", "inactive"), ("start", "active")):
            steps = await ann.does(action, granted.name)  # type: ignore[arg-type]
            assert steps[-1].outcome == "done", story(steps)
            assert await state(granted) == then
        assert await granted.shows("InvocationID") != before
        await gone_of(machine, steps[-1].id)


async def test_it_is_enough_for_nothing_else(machine: Machine, target: str, granted: Service) -> None:
    other = Service(machine, fresh_name())
    other.write(GOOD)
    await other.start(wait=True)
    async with Operator(f"guest@{target}") as ann:
        assert (await ann.rights(other.name)).level == "none"
    name = f"{granted.name}.service"
    for command in (
        ("id",),
        ("systemctl", "stop", f"{other.name}.service"),
        ("systemctl", "stop", name, f"{other.name}.service"),
        ("systemctl", "edit", name),
        ("systemctl", "daemon-reload"),
        ("systemctl", "start", "--no-block", "--", name, "rescue.target"),
        ("systemctl", "kill", "-s", "SIGKILL", "--", f"{other.name}.service"),
        ("systemctl", "status", name),  # its pager would run a shell
    ):
        said = await machine.do("sudo", "-n", *command, user="guest", check=False)
        assert said.status != 0, command
        assert b"password is required" in said.err, (command, said.err)
    assert await state(other) == "active"
    await other.stop()


async def gone_of(machine: Machine, action: str) -> None:
    assert not [args for _, _, args in machine.processes() if f"/{action}." in args]
