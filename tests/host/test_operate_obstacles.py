"""Rolling back through the app's keys where something stands in the way: what the operator is told, and that the host
is left whole. What the steps do there is in ``test_operate_files.py``."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.host import tape
from tests.host.machine import Machine
from tests.host.proxy import Proxy
from tests.host.screen import Screen, state, watched  # noqa: F401 a fixture
from tests.host.service import Service, fresh_name, shell
from tests.host.tape import RECORDINGS
from tests.host.test_load import READY
from watch.actions import STEPS
from watch.config import Deployment
from watch.history import History, LoadRecord
from watch.load_key import Key
from watch.revisions import File, joined

pytestmark = pytest.mark.usefixtures("state")

GOOD = f"[Unit]\nDescription=a server\n[Service]\nTimeoutStopSec=5\nExecStart={shell('echo good; exec sleep 600')}\n"
OTHER = GOOD.replace("echo good", "echo other")
DROP_IN = "[Service]\nEnvironment=A=1\n"
SHOWN = "compared with what is on the host now"


def path_of(unit: str) -> str:
    return f"/etc/systemd/system/{unit}.service"


def text_of(machine: Machine, path: str) -> str:
    return machine.root.joinpath(path.lstrip("/")).read_text()


def known_good(state: Path, target: str, unit: str, *files: File) -> None:  # noqa: F811
    """The history of an operator who saw the unit become ready with these files, some time ago."""
    state.mkdir(parents=True, exist_ok=True)
    history = History.open(state / "history.sqlite")
    revision = history.keep_revision(target, unit, joined(files), 1000.0)
    key = Key(target=target, unit=unit, model="/m", arguments="0")
    history.record_load(
        LoadRecord(key=key, invocation="a", started=1000.0, ended=1500.0, outcome="ready", revision=revision)
    )
    history.close()


@asynccontextmanager
async def at_the_difference(target: str, unit: str) -> AsyncIterator[Screen]:
    """The app, from the watch to the difference with the known-good revision, as far as the host has answered."""
    async with watched(Deployment(target=target, unit=unit)) as screen:
        await screen.press("R")
        await screen.until("last known good")
        await screen.press("enter")
        await screen.until("Revision of")
        await screen.until(lambda: "not known yet" not in screen.text())
        yield screen


async def rolled_back(screen: Screen, outcome: str) -> str:
    """From the difference on: asked, said yes to, ended. What the screen says then."""
    await screen.until("R Roll back to it")
    await screen.press("R")
    await screen.until("systemd verify the new ones")
    await screen.confirm()
    await screen.until("Roll back of")
    await screen.ended(outcome)
    await screen.until("✔ Done" if outcome == "done" else "✖ Failed")
    return " ".join(screen.text().split())


async def undone(screen: Screen) -> None:
    await screen.until("U Undo")
    await screen.press("U")
    await screen.until("Undo the change of")
    await screen.confirm()
    await screen.until(lambda: screen.action is not None and screen.action.action == "undo")
    await screen.ended("done")


@contextmanager
def mounted(machine: Machine, *commands: tuple[str, ...], over: str) -> Iterator[None]:
    for command in commands:
        machine.run("mount", *command)
    try:
        yield
    finally:
        machine.run("umount", over)


# ----- refused before anything is done: R is not offered, and why is said


async def test_a_masked_unit(machine: Machine, target: str, service: Service, state: Path) -> None:  # noqa: F811
    known_good(state, target, service.name, File(path_of(service.name), GOOD))
    machine.run("systemctl", "mask", "--runtime", f"{service.name}.service")
    try:
        async with at_the_difference(target, service.name) as screen:
            await screen.until("is masked, so that it cannot be started: systemctl unmask")
            assert "R Roll back to it" not in screen.footer()
            await screen.press("R", "escape", "escape")
            await screen.press("r")
            await screen.until("The unit is masked")
            assert "(not now)" in screen.text()
            await screen.press("tab", "enter", "escape")
            assert screen.action is None
    finally:
        machine.run("systemctl", "unmask", "--runtime", f"{service.name}.service")


async def test_a_unit_that_a_generator_makes(
    machine: Machine,
    target: str,
    service: Service,
    state: Path,  # noqa: F811
) -> None:
    machine.write(
        f"/etc/systemd/system-generators/{service.name}",
        f"#!/bin/sh\ncat >\"$1/{service.name}.service\" <<'END'\n{OTHER}END\n",
        0o755,
    )
    machine.run("systemctl", "daemon-reload")
    made = f"/run/systemd/generator/{service.name}.service"
    known_good(state, target, service.name, File(made, GOOD))
    try:
        assert text_of(machine, made) == OTHER
        async with at_the_difference(target, service.name) as screen:
            await screen.until("change its source instead")
            assert "R Roll back to it" not in screen.footer()
            # stopping and starting it is as of any other
            await screen.press("escape", "escape", "r")
            await screen.confirm()
            await screen.ended("done")
        assert await service.shows("ActiveState") == "active"
    finally:
        machine.run("rm", f"/etc/systemd/system-generators/{service.name}")


# ----- led round: another place is written, and which one is said before the yes


async def test_an_instance_of_a_template(machine: Machine, target: str, state: Path) -> None:  # noqa: F811
    stem = fresh_name("vllm-many")
    template = path_of(f"{stem}@")
    machine.write(template, OTHER)
    machine.run("systemctl", "daemon-reload")
    one = f"{stem}@one"
    known_good(state, target, one, File(template, GOOD))
    async with at_the_difference(target, one) as screen:
        await screen.press("R")
        await screen.until("serves other units too")
        await screen.press("escape", "escape", "R", "enter")
        await rolled_back(screen, "done")
        assert text_of(machine, template) == OTHER
        assert text_of(machine, path_of(one)) == GOOD
        await undone(screen)
        assert not machine.root.joinpath(path_of(one).lstrip("/")).exists()
    machine.run("systemctl", "stop", one)


async def test_a_unit_in_usr_lib_only(machine: Machine, target: str, service: Service, state: Path) -> None:  # noqa: F811
    packaged = f"/usr/lib/systemd/system/{service.name}.service"
    machine.write(packaged, OTHER)
    machine.run("systemctl", "daemon-reload")
    known_good(state, target, service.name, File(packaged, GOOD))
    async with at_the_difference(target, service.name) as screen:
        await screen.press("R")
        await screen.until("belongs to a package")
        await screen.press("escape", "escape", "R", "enter")
        await rolled_back(screen, "done")
        assert (text_of(machine, packaged), text_of(machine, path_of(service.name))) == (OTHER, GOOD)
        await undone(screen)
        assert await service.shows("FragmentPath") == packaged


async def test_a_symlink(machine: Machine, target: str, service: Service, state: Path) -> None:  # noqa: F811
    real = f"/opt/deploy/{service.name}.service"
    machine.write(real, OTHER)
    machine.run("systemctl", "link", real)
    known_good(state, target, service.name, File(path_of(service.name), GOOD))
    async with at_the_difference(target, service.name) as screen:
        await screen.press("R")
        await screen.until("is a link")
        await screen.press("escape", "escape", "R", "enter")
        await rolled_back(screen, "done")
        assert text_of(machine, real) == GOOD
        await undone(screen)
        assert text_of(machine, real) == OTHER
        assert machine.root.joinpath(path_of(service.name).lstrip("/")).is_symlink()


async def test_drop_ins_that_went_meanwhile(
    machine: Machine,
    target: str,
    service: Service,
    state: Path,  # noqa: F811
) -> None:
    folder = f"{path_of(service.name)}.d"
    service.write(GOOD)
    machine.write(f"{folder}/30-new.conf", "[Service]\nEnvironment=C=1\n")
    machine.run("systemctl", "daemon-reload")
    known_good(state, target, service.name, File(path_of(service.name), GOOD), File(f"{folder}/10-a.conf", DROP_IN))
    async with at_the_difference(target, service.name) as screen:
        await screen.until(SHOWN)
        assert "+ Service.Environment A" in screen.text()
        assert "− Service.Environment C" in screen.text()
        await rolled_back(screen, "done")
        assert await service.shows("Environment") == "A=1"
        await undone(screen)
        assert await service.shows("Environment") == "C=1"


# ----- fails in a step: the sequence ends there, the host is as it was, and the screen says so


@pytest.fixture
async def serving(target: str, service: Service, state: Path) -> AsyncIterator[Service]:  # noqa: F811
    """A unit that runs with the other text; the good one is known."""
    service.write(OTHER)
    await service.start(wait=True)
    known_good(state, target, service.name, File(path_of(service.name), GOOD))
    return service


async def as_it_was(machine: Machine, service: Service, began: str) -> None:
    assert text_of(machine, path_of(service.name)) == OTHER
    assert await service.shows("InvocationID") == began
    assert not list(machine.root.joinpath("etc/systemd/system").glob("*.firstlight"))


async def test_a_read_only_etc(machine: Machine, target: str, serving: Service) -> None:
    began = await serving.shows("InvocationID")
    etc = "/etc/systemd/system"
    async with at_the_difference(target, serving.name) as screen:
        with mounted(machine, ("--bind", etc, etc), ("-o", "remount,bind,ro", etc), over=etc):
            said = await rolled_back(screen, "failed")
        assert "Read-only file system" in said
        assert "what would undo it: the files are as they were" in said
        assert f"the host: {serving.name}.service is active (running)" in said
        assert [step.name for step in screen.action.steps if step.status == "failed"] == ["write"]
        assert "U Undo" not in screen.footer()
    await as_it_was(machine, serving, began)


async def test_a_full_disk(machine: Machine, target: str, serving: Service, state: Path) -> None:  # noqa: F811
    folder = f"{path_of(serving.name)}.d"
    machine.run("mkdir", folder)
    large = File(f"{folder}/10-a.conf", DROP_IN + "# words\n" * 2000)
    known_good(state, target, serving.name, File(path_of(serving.name), GOOD), large)
    began = await serving.shows("InvocationID")
    with mounted(machine, ("-t", "tmpfs", "-o", "size=8k", "tmpfs", folder), over=folder):
        async with at_the_difference(target, serving.name) as screen:
            # the unit's own file could be written, its drop-in cannot: neither is
            said = await rolled_back(screen, "failed")
            assert "No space left on device" in said
            assert "the files are as they were" in said
        assert not list(machine.root.joinpath(folder.lstrip("/")).iterdir())
    await as_it_was(machine, serving, began)


async def test_what_systemd_does_not_accept(machine: Machine, target: str, serving: Service, state: Path) -> None:  # noqa: F811
    bad = GOOD.replace("ExecStart=/bin/sh", "ExecStart=/no/such/program")
    known_good(state, target, serving.name, File(path_of(serving.name), bad))
    began = await serving.shows("InvocationID")
    async with at_the_difference(target, serving.name) as screen:
        said = await rolled_back(screen, "failed")
        assert "systemd does not accept the files" in said
        assert "/no/such/program" in said
        assert "nothing was changed" in said
    await as_it_was(machine, serving, began)


async def test_no_room_for_the_files_of_before_here(
    machine: Machine,
    target: str,
    serving: Service,
    state: Path,  # noqa: F811
) -> None:
    (state / "before").write_text("in the way of the folder\n")
    async with at_the_difference(target, serving.name) as screen:
        said = await rolled_back(screen, "done")
        assert "kept on the host alone: here it failed" in said
        await undone(screen)
    assert text_of(machine, path_of(serving.name)) == OTHER


# ----- what would go wrong with a restart is said before the yes


async def test_a_restart_says_what_would_go_wrong(
    machine: Machine,
    target: str,
    service: Service,
    state: Path,  # noqa: F811
) -> None:
    metrics = (RECORDINGS / "cpu-small-ngram" / "metrics-first.txt").read_bytes()
    busy = re.sub(rb"(?m)^(vllm:num_requests_running\{.*\}) .*$", rb"\1 3.0", metrics)
    assert busy != metrics
    load = tape.server("cpu-small-ngram").until(READY).without_waiting(1)
    service.write_server(load, speed=12, metrics=busy)
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await screen.until(lambda: screen.view.state == "ready")
        text = text_of(machine, path_of(service.name))
        machine.write(path_of(service.name), text.replace("Description=", "Description=edited "))
        await screen.press("r")
        await screen.until("Its file was changed on disk and not loaded since")
        await screen.until("3 requests in flight are cut off")
        assert "daemon-reload, so that the text on disk counts" in screen.text()
        await screen.confirm()
        await screen.ended("done")
        await screen.until(lambda: screen.view.state == "ready")
        assert await service.shows("NeedDaemonReload") == "no"
        await screen.press("escape", "r")
        await screen.until("last load")
        assert "to ready" in screen.text()


async def test_a_start_after_the_start_limit(machine: Machine, target: str, service: Service) -> None:
    service.write(
        "[Unit]\nStartLimitBurst=2\nStartLimitIntervalSec=600\n"
        f"[Service]\nRestart=always\nRestartSec=0\nExecStart={shell(f'[ -e /run/{service.name} ] && exec sleep 600')}\n"
    )
    await service.start()
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await screen.until(lambda: screen.view.unit_reading.active == "failed")
        machine.write(f"/run/{service.name}", "now it would run\n")
        await screen.press("S")
        await screen.until("systemd has given up starting it (start limit): reset-failed is done first")
        await screen.confirm()
        await screen.ended("done")
    assert await service.shows("ActiveState") == "active"


@pytest.fixture
def mismatched(machine: Machine) -> Iterator[None]:
    path = "/usr/local/sbin/nvidia-smi"
    words = "Failed to initialize NVML: Driver/library version mismatch"
    machine.write(path, f"#!/bin/sh\necho '{words}'\nexit 18\n", 0o755)
    yield
    machine.run("rm", path)


@pytest.mark.usefixtures("mismatched")
async def test_a_driver_that_does_not_match_cannot_be_said_yes_to(target: str, service: Service) -> None:
    service.write(GOOD)
    await service.start(wait=True)
    began = await service.shows("InvocationID")
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await screen.press("r")
        await screen.until("would fail: The driver was upgraded under the running system")
        assert "(not now)" in screen.text()
        await screen.press("tab", "enter")
        assert screen.action is None
    assert await service.shows("InvocationID") == began


# ----- the link cut at each step of a roll-back, with the same end state


@pytest.mark.parametrize("step", STEPS["rollback"])
async def test_the_link_cut_at_each_step(
    machine: Machine,
    proxy: Proxy,
    service: Service,
    state: Path,  # noqa: F811
    step: str,
) -> None:
    service.write(OTHER)
    await service.start(wait=True)
    known_good(state, "far", service.name, File(path_of(service.name), GOOD))
    async with at_the_difference("far", service.name) as screen:
        watching = screen.app.conductor.operations.desk.watching  # type: ignore[union-attr]
        put, cuts = watching.put, []

        async def put_and_cut(reading: object) -> None:
            await put(reading)
            if not cuts and getattr(reading, "step", "") == step:
                cuts.append(step)
                proxy.cut()

        watching.put = put_and_cut  # type: ignore[method-assign]
        await rolled_back(screen, "done")
        assert cuts == [step]
        action = screen.action
        assert action is not None
        assert [one.name for one in action.steps] == list(STEPS["rollback"])
        assert {one.name: one.status for one in action.steps} == {
            **dict.fromkeys(STEPS["rollback"], "done"),
            "memory": "skipped",
        }
        await screen.until("U Undo")
    assert text_of(machine, path_of(service.name)) == GOOD
    assert await service.shows("ActiveState") == "active"
    assert await service.shows("NeedDaemonReload") == "no"
