"""Acts on units of a real host: restart, stop, start, roll back, undo, fallback, and who may."""

from __future__ import annotations

import asyncio
import contextlib
import re

import pytest

from probes.operate.actions import follow_on, kill_now, under_way
from probes.operate.files import read_files, saved
from probes.operate.orders import Edit, File, Order, Rights, runner
from probes.operate.rights import by_hand
from probes.readings import OperatorAction
from tests.host.machine import Machine
from tests.host.operator import Operator, story
from tests.host.service import Service, fresh_name, shell

GOOD = f"[Unit]\nDescription=a server\n[Service]\nExecStart={shell('echo good; exec sleep 600')}\n"
BAD = f"[Unit]\nDescription=a server\n[Service]\nExecStart={shell('echo bad; exit 3')}\n"
STUBBORN = shell('trap "" TERM; while :; do sleep 1; done')


async def state(service: Service) -> str:
    return await service.shows("ActiveState")


async def gone(machine: Machine, steps: list[OperatorAction]) -> None:
    """Nothing of this action is left on the host: no folder, no process, no transient unit."""
    folders = "/run/firstlight /home/ops/.cache/firstlight /run/systemd/transient"
    said = await machine.do("sh", "-c", f"ls -A {folders} 2>/dev/null; true")
    own = {f"{steps[-1].id}.log"}  # what a runner of the login's own said, for whoever comes back later
    left = [line for line in said.text.split() if steps[-1].id in line or line == runner(steps[-1].unit)]
    assert set(left) <= own
    assert not [args for _, _, args in machine.processes() if f"/{steps[-1].id}." in args]


async def test_restart(machine: Machine, target: str, service: Service) -> None:
    service.write(GOOD)
    await service.start(wait=True)
    before = await service.shows("InvocationID")
    async with Operator(target) as ann:
        steps = await ann.does("restart", service.name)
        assert steps[-1].outcome == "done", story(steps)
        assert [step.step for step in steps if step.outcome == "begun"] == [
            "begin",
            "stop",
            "leftovers",
            "memory",
            "start",
        ]
        assert {(step.unit, step.who, step.action) for step in steps} == {
            (f"{service.name}.service", "ann@laptop", "restart")
        }
        assert sorted(steps, key=lambda step: step.at) == steps
    assert await state(service) == "active"
    assert await service.shows("InvocationID") != before
    await gone(machine, steps)


async def test_stop_and_start(machine: Machine, target: str, service: Service) -> None:
    service.write(GOOD)
    async with Operator(target) as ann:
        steps = await ann.does("start", service.name)
        assert steps[-1].outcome == "done", story(steps)
        assert await state(service) == "active"
        steps = await ann.does("stop", service.name)
        assert steps[-1].outcome == "done", story(steps)
        assert await state(service) == "inactive"
    await gone(machine, steps)


async def test_a_server_that_swallows_sigterm_is_killed_when_the_operator_says_so(
    machine: Machine, target: str, service: Service
) -> None:
    service.write(f"[Service]\nTimeoutStopSec=500\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    async with Operator(target) as ann:
        order = ann.order("stop", service.name)
        rights = await ann.rights(service.name)
        kills: list[asyncio.Task[str]] = []

        def kill(step: object) -> None:
            waits = [step for step in ann.steps if step.outcome == "wait" and step.step == "stop"]
            if len(waits) == 2 and not kills:
                kills.append(asyncio.create_task(kill_now(ann.host, rights, order)))

        steps = await ann.has_done(order, at=kill)
        assert await kills[0] == ""
        assert steps[-1].outcome == "done", story(steps)
        waits = [step.detail for step in steps if step.outcome == "wait"]
        assert "SIGKILL after 8min 20s" in waits[0]
        assert re.search(r"still there: \d+ \(\w+\)", waits[0])
    assert await state(service) == "failed"  # as systemd has it after a SIGKILL
    await gone(machine, steps)


async def test_workers_that_outlive_their_server_are_ended(machine: Machine, target: str, service: Service) -> None:
    script = "sleep 4321 & exec sleep 600"
    service.write(f"[Service]\nKillMode=process\nExecStart={shell(script)}\n")
    await service.start(wait=True)
    async with Operator(target) as ann:
        steps = await ann.does("restart", service.name)
        assert steps[-1].outcome == "done", story(steps)
        said = next(step.detail for step in steps if step.step == "leftovers" and step.outcome == "wait")
        assert "(sleep)" in said
    assert sum("sleep 4321" in args for _, _, args in machine.processes()) == 1


async def test_a_start_that_fails_says_so(machine: Machine, target: str, service: Service) -> None:
    service.write(BAD)
    async with Operator(target) as ann:
        steps = await ann.does("start", service.name)
        assert steps[-1].outcome == "failed", story(steps)
        assert "status 3" in steps[-1].detail
        assert any(step.outcome == "state" and "failed" in step.detail for step in steps)
    await gone(machine, steps)


async def test_a_start_limit_that_was_reached_is_reset(target: str, service: Service) -> None:
    service.write(BAD.replace("[Service]", "StartLimitBurst=1\nStartLimitIntervalSec=1000\n[Service]"))
    for _ in range(2):
        await service.start(wait=True)
    service.write(GOOD.replace("[Service]", "StartLimitBurst=1\nStartLimitIntervalSec=1000\n[Service]"))
    async with Operator(target) as ann:
        steps = await ann.does("start", service.name)
        assert steps[-1].outcome == "done", story(steps)


async def test_two_operators_at_once(machine: Machine, target: str, service: Service) -> None:
    service.write(f"[Service]\nTimeoutStopSec=8\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    async with Operator(target) as ann, Operator(f"ops@{target}", "bob@desk") as bob:
        first = asyncio.create_task(ann.does("stop", service.name))
        rights = await bob.rights(service.name)
        await ann.until(lambda: ann.waits("stop"))
        going = await under_way(bob.host, rights, service.name)
        assert going is not None
        assert (going.who, going.action) == ("ann@laptop", "stop")
        refused = await bob.does("restart", service.name)
        assert refused[-1].outcome == "refused", story(refused)
        assert "ann@laptop" in refused[-1].detail
        # who may see it may also follow it
        steps = await first
        assert steps[-1].outcome == "done", story(steps)
        assert await under_way(bob.host, rights, service.name) is None


async def test_the_lock_dies_with_its_holder(machine: Machine, target: str, service: Service) -> None:
    service.write(f"[Service]\nTimeoutStopSec=500\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    async with Operator(target) as ann:
        first = asyncio.create_task(ann.does("stop", service.name))
        await ann.until(lambda: ann.waits("stop"))
        await machine.do("systemctl", "kill", "--signal=KILL", runner(service.name))
        steps = await first
        assert steps[-1].outcome == "unknown", story(steps)
        assert "deactivating" in steps[-1].detail
        await machine.do("systemctl", "kill", "--signal=KILL", service.name)
        steps = await ann.does("stop", service.name)
        assert steps[-1].outcome == "done", story(steps)


async def test_an_action_is_found_again_by_a_firstlight_that_was_started_anew(
    machine: Machine, target: str, service: Service
) -> None:
    service.write(f"[Service]\nTimeoutStopSec=6\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    async with Operator(target) as ann:
        order = ann.order("stop", service.name)
        task = asyncio.create_task(ann.has_done(order))
        rights = await ann.rights(service.name)
        await ann.until(lambda: ann.waits("stop"))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    async with Operator(target) as ann:
        going = await under_way(ann.host, rights, service.name)
        assert going is not None
        assert going.id == order.id
        async with asyncio.timeout(60):
            steps = [step async for step in follow_on(ann.host, rights, going)]
        assert steps[0].step == "begin"
        assert steps[-1].outcome == "done", story(steps)


# ----- rights


@pytest.mark.parametrize(
    ("login", "level", "how"), [("root", "full", "root"), ("ops", "manage", "sudo"), ("guest", "none", "")]
)
async def test_rights(target: str, service: Service, login: str, level: str, how: str) -> None:
    service.write(GOOD)
    async with Operator(f"{login}@{target}") as ann:
        rights = await ann.rights(service.name)
        assert (rights.level, rights.how, rights.login) == (level, how, login)
        assert bool(rights.reason) == (level != "full")
        assert not rights.may("rollback") or level == "full"


async def test_the_right_to_systemctl_alone_is_enough_to_restart(
    machine: Machine, target: str, service: Service
) -> None:
    service.write(GOOD)
    await service.start(wait=True)
    before = await service.shows("InvocationID")
    async with Operator(f"ops@{target}") as ann:
        steps = await ann.does("restart", service.name)
        assert steps[-1].outcome == "done", story(steps)
        assert await service.shows("InvocationID") != before
        await gone(machine, steps)
        order = ann.order("rollback", service.name, edits=(Edit(f"/etc/systemd/system/{service.name}.service", BAD),))
        refused = await ann.has_done(order)
        assert refused[-1].outcome == "refused"
        assert "cannot be changed" in refused[-1].detail
    assert await state(service) == "active"
    await gone(machine, steps)


async def test_without_any_right_nothing_is_done(target: str, service: Service) -> None:
    service.write(GOOD)
    await service.start(wait=True)
    async with Operator(f"guest@{target}") as ann:
        steps = await ann.does("stop", service.name)
        assert [step.outcome for step in steps] == ["refused"]
        assert "guest" in steps[0].detail
    assert await state(service) == "active"


async def test_the_commands_for_somebody_who_may_do_what_the_action_does(
    machine: Machine, target: str, service: Service
) -> None:
    service.write(BAD)
    path = f"/etc/systemd/system/{service.name}.service"
    order = Order(id="a1", action="rollback", unit=service.name, edits=(Edit(path, GOOD),))
    for line in by_hand(order):
        if not line.startswith("nvidia-smi"):
            await machine.do("sh", "-c", line)
    assert await state(service) == "active"
    assert machine.root.joinpath(path.lstrip("/")).read_text() == GOOD


async def test_a_user_unit(machine: Machine, target: str) -> None:
    service = Service(machine, fresh_name("vllm-user"), user="ops")
    service.write(BAD)
    await machine.do("chown", "-R", "ops:", "/home/ops/.config")
    async with Operator(f"ops@{target}", user=True) as ann:
        rights = await ann.rights(service.name)
        assert rights == Rights(level="full", how="user", login="ops", user=True)
        path = f"/home/ops/.config/systemd/user/{service.name}.service"
        order = await ann.rollback(service.name, [File(path, GOOD)])
        steps = await ann.has_done(order)
        assert steps[-1].outcome == "done", story(steps)
        assert (await read_files(ann.host, rights, service.name)).files == (File(path, GOOD),)
        assert [one.edits for one in await saved(ann.host, rights, service.name)] == [(Edit(path, BAD),)]
        steps = await ann.does("stop", service.name)
        assert steps[-1].outcome == "done", story(steps)


async def test_a_template_instance_can_be_restarted(machine: Machine, target: str) -> None:
    machine.write("/etc/systemd/system/vllm-many@.service", GOOD)
    await machine.do("systemctl", "daemon-reload")
    async with Operator(target) as ann:
        steps = await ann.does("restart", "vllm-many@big")
        assert steps[-1].outcome == "done", story(steps)
        steps = await ann.does("stop", "vllm-many@big.service")
        assert steps[-1].outcome == "done", story(steps)
