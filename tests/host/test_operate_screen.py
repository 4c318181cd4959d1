"""Acting on a unit of the real host through the app's keys."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest

from tests.host import tape
from tests.host.machine import Machine
from tests.host.operator import Operator
from tests.host.proxy import Proxy
from tests.host.screen import Screen, state, watched  # noqa: F401 a fixture
from tests.host.service import Service, fresh_name, shell
from tests.host.test_load import READY
from watch.audit import read_audit
from watch.config import Deployment
from watch.session import SessionReader
from watch.state import WatchState

pytestmark = pytest.mark.usefixtures("state")


def server(service: Service, arguments: str = "", **how: object) -> None:
    """A model server that is ready after some two seconds."""
    load = tape.server("cpu-small-ngram").until(READY).without_waiting(1)
    service.write_server(load, speed=12, arguments=arguments, **how)  # type: ignore[arg-type]


async def test_restart(machine: Machine, target: str, service: Service, state: Path) -> None:  # noqa: F811
    server(service)
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await screen.until(lambda: screen.view.state == "ready")
        began = await service.shows("InvocationID")
        await screen.press("r")
        await screen.until(f"Restart {service.name}.service on {target}?")
        # no single key says yes
        await screen.press("enter")
        assert await service.shows("InvocationID") == began
        await screen.press("r")
        await screen.until("nothing is known that stands in its way")
        assert "It serves now" in screen.text()
        await screen.confirm()
        await screen.until("Restart of")
        await screen.ended("done")
        assert "followed from its first line" in screen.text()
        await screen.until(lambda: screen.view.state == "ready" and screen.view.load.invocation != began)
        assert await service.shows("InvocationID") != began
        await screen.press("escape")
        assert "Restart of" not in screen.text()
        view = screen.view
        assert view.load is not None
        assert not view.load.attached_late
    entries = read_audit(state / "audit.jsonl", target=target)
    assert {entry.unit for entry in entries} == {f"{service.name}.service"}
    assert entries[-1].outcome == "done"


def unit_file(machine: Machine, service: Service) -> Path:
    return machine.root / f"etc/systemd/system/{service.name}.service"


def spoil(machine: Machine, service: Service) -> str:
    """A bad edit: an argument with which it ends at once. The text of before."""
    good = unit_file(machine, service).read_text()
    bad = good.replace("--host 127.0.0.1", "--host 127.0.0.1 --max-model-len 999999").replace(
        "ExecStart=/usr/bin/python3 /opt/vllm/bin/vllm", "ExecStart=/usr/bin/python3 /opt/broken/vllm"
    )
    machine.write("/opt/broken/vllm", "import sys\nprint('ValueError: max_model_len is too large')\nsys.exit(3)\n")
    service.write(bad)
    return good


async def failed_after_edit(screen: Screen, machine: Machine, service: Service) -> str:
    """Ready once, then edited, restarted through the keys, and failed. The good text."""
    await screen.until(lambda: screen.view.state == "ready")
    good = spoil(machine, service)
    await screen.press("r")
    await screen.confirm()
    await screen.ended("failed")
    await screen.press("escape")
    await screen.until(lambda: screen.view.state == "failed")
    return good


async def to_the_difference(screen: Screen) -> None:
    """From the watch to the difference with the last known-good revision."""
    await screen.press("R")
    await screen.until("to which revision?")
    await screen.until("last known good")
    await screen.press("enter")
    await screen.until("compared with what is on the host now")


async def test_back_to_known_good_after_a_bad_edit_and_undone(
    machine: Machine,
    target: str,
    service: Service,
    state: Path,  # noqa: F811
) -> None:
    server(service)
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        good = await failed_after_edit(screen, machine, service)
        bad = unit_file(machine, service).read_text()
        assert "U Undo" not in screen.footer()
        await to_the_difference(screen)
        text = screen.text()
        assert "− --max-model-len" in text
        assert "[-/opt/broken/vllm-]{+/opt/vllm/bin/vllm+}" in text.replace("\n", "")
        assert "R Roll back to it" in screen.footer()
        await screen.press("R")
        await screen.until("Roll back")
        await screen.until("systemd verify the new ones")
        await screen.confirm()
        await screen.until("Roll back of")
        await screen.ended("done")
        await screen.until(lambda: screen.view.state == "ready")
        assert unit_file(machine, service).read_text() == good
        assert await service.shows("ActiveState") == "active"
        kept = list((state / "before").rglob("*.txt"))
        assert [bad in file.read_text() for file in kept] == [True]

        # undone from the screen of the steps: the bad text returns, is started, and fails as it did
        await screen.until("U Undo")
        await screen.press("U")
        await screen.until("Undo the change of")
        await screen.until("+ --max-model-len")
        await screen.confirm()
        action = await screen.ended("failed")
        assert action.action == "undo"
        assert "failed at once" in screen.text()
        assert unit_file(machine, service).read_text() == bad
        # it is offered to be undone again, and nothing was tried by itself
        assert await service.shows("NRestarts") == "0"
        await screen.until("U Undo")
    told = [(entry.action, entry.outcome) for entry in read_audit(state / "audit.jsonl") if entry.step == "end"]
    assert told == [("restart", "failed"), ("rollback", "done"), ("undo", "failed")]


async def test_revisions_are_looked_at(machine: Machine, target: str, service: Service) -> None:
    server(service)
    machine.write("/opt/vllm/lib/python3.13/site-packages/torch-2.9.0+cu128.dist-info/METADATA", "Name: torch\n")
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await failed_after_edit(screen, machine, service)
        await screen.press("r")
        await screen.until("The last load failed with --max-model-len 999999")
        await screen.press("escape", "v")
        await screen.until(f"Revisions of {service.name}.service")
        rows = [line for line in screen.text().splitlines() if "load" in line and "UTC" in line]
        assert "✖ failed" in rows[0]
        assert "runs now" in rows[0]
        assert "✔ ready" in rows[1]
        assert "last known good" in rows[1]
        await screen.press("j")
        await screen.until("torch 2.9.0+cu128")
        await screen.press("enter")
        await screen.until("compared with what runs now")
        assert "− --max-model-len" in screen.text()
        await screen.press("escape")
        await screen.until(f"Revisions of {service.name}.service")
        await screen.press("k", "enter")
        await screen.until("No difference")


async def test_to_the_fallback_unit_and_back(machine: Machine, target: str, service: Service) -> None:
    second = Service(machine, fresh_name("vllm-fallback"))
    server(second)
    server(service)
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name, fallback=second.name)) as screen:
        await screen.until(lambda: screen.view.state == "ready")
        await screen.press("R")
        await screen.until("to which revision?")
        await screen.press("G")
        assert second.name in screen.text()
        await screen.press("enter")
        await screen.until("Go from")
        await screen.confirm()
        # the same screen goes on with the other unit
        await screen.until(lambda: screen.view.unit == f"{second.name}.service" or screen.view.unit == second.name)
        await screen.until("Fallback of")
        assert (await screen.ended("done")).fallback == f"{second.name}.service"
        await screen.until(lambda: screen.view.state == "ready")
        await screen.until(lambda: screen.view.lines)  # its journal as well as its endpoint
        assert (await service.shows("ActiveState"), await second.shows("ActiveState")) == ("inactive", "active")
        await screen.press("escape")
        await screen.until("U Undo")
        await screen.press("U")
        await screen.until("Go from")
        assert service.name in screen.text()
        await screen.confirm()
        await screen.until(lambda: screen.view.unit.startswith(service.name))
        await screen.until(lambda: screen.view.state == "ready")
        assert (await service.shows("ActiveState"), await second.shows("ActiveState")) == ("active", "inactive")
    await second.stop()


async def test_a_file_changed_between_the_difference_and_the_yes(
    machine: Machine, target: str, service: Service
) -> None:
    server(service)
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        good = await failed_after_edit(screen, machine, service)
        await to_the_difference(screen)
        await screen.press("R")
        await screen.until("▸ Cancel ◂")
        other = unit_file(machine, service).read_text().replace("--max-model-len 999999", "--max-model-len 888888")
        unit_file(machine, service).write_text(other)
        await screen.confirm()
        await screen.until("changed by somebody since you were shown")
        await screen.until("888888")  # the new difference
        assert unit_file(machine, service).read_text() == other
        await screen.press("R")
        await screen.confirm()
        await screen.ended("done")
        assert unit_file(machine, service).read_text() == good


async def test_failing_at_once_after_a_roll_back_offers_undo_and_does_not_loop(
    machine: Machine, target: str, service: Service
) -> None:
    server(service)
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await screen.until(lambda: screen.view.state == "ready")
        began = unit_file(machine, service).read_text()
        machine.write("/opt/again/vllm", (machine.root / "opt/vllm/bin/vllm").read_bytes(), 0o755)
        service.write(began.replace("/opt/vllm/bin/vllm", "/opt/again/vllm").replace("127.0.0.1", "127.0.0.1 --seed 7"))
        await screen.press("r")
        await screen.confirm()
        await screen.ended("done")
        await screen.until(lambda: screen.view.state == "ready")
        await screen.press("escape")
        machine.write("/opt/vllm/bin/vllm", "import sys\nsys.exit(4)\n", 0o755)  # what was good then is gone
        await to_the_difference(screen)
        assert "− --seed" in screen.text()
        await screen.press("R")
        await screen.confirm()
        action = await screen.ended("failed")
        assert "failed at once" in action.detail
        assert "undo brings them back" in action.undo
        await screen.until("what would undo it")
        await screen.until("U Undo")
        said = await machine.do("journalctl", f"--unit={service.name}", "--output=cat", "--no-pager")
        assert said.text.count(f"Started {service.name}.service") + said.text.count("Started vLLM") == 3
        await screen.press("U")
        await screen.confirm()
        await screen.ended("done")
        await screen.until(lambda: screen.view.state == "ready")
        assert "--seed 7" in unit_file(machine, service).read_text()


STUBBORN = shell('trap "" TERM; echo here; while :; do sleep 1; done')


async def test_a_server_that_does_not_stop_is_killed_when_the_operator_says_so(target: str, service: Service) -> None:
    service.write(f"[Service]\nTimeoutStopSec=500\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await screen.until(lambda: screen.view.unit_reading.active == "active")
        await screen.press("S")
        await screen.until(f"Stop {service.name}.service on {target}?")
        await screen.confirm()
        await screen.until("SIGTERM was sent; systemd sends SIGKILL in 8:")
        await screen.press("K")
        await screen.until(f"Kill {service.name}.service")
        await screen.press("enter")  # Cancel has the focus
        await screen.until("K Kill now")
        await screen.press("K")
        await screen.confirm()
        await screen.ended("done")
        assert await service.shows("ActiveState") == "failed"  # as systemd has it after a SIGKILL
        await screen.press("escape")
        await screen.until(lambda: screen.view.unit_reading.active == "failed")
        await screen.press("S")
        await screen.until(f"Start {service.name}.service on {target}?")
        await screen.press("escape")


async def test_an_action_goes_on_without_its_screen_and_is_found_again(
    target: str,
    service: Service,
    state: Path,  # noqa: F811
) -> None:
    service.write(f"[Service]\nTimeoutStopSec=9\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await screen.until(lambda: screen.view.unit_reading.active == "active")
        await screen.press("S")
        await screen.confirm()
        await screen.until("SIGTERM was sent")
        await screen.press("escape")
        await screen.until("▶ stop: stop")  # in the header
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await screen.until(lambda: screen.action is not None)
        await screen.press("A")
        await screen.until("Stop of")
        await screen.ended("done")
    ends = [entry for entry in read_audit(state / "audit.jsonl") if entry.step == "end"]
    assert [entry.outcome for entry in ends] == ["done"]


async def test_the_link_cut_in_the_middle(proxy: Proxy, service: Service) -> None:
    service.write(f"[Service]\nTimeoutStopSec=8\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    async with watched(Deployment(target="far", unit=service.name)) as screen:
        await screen.until(lambda: screen.view.unit_reading.active == "active")
        began = await service.shows("InvocationID")
        await screen.press("r")
        await screen.confirm()
        await screen.until("SIGTERM was sent")
        proxy.refusing = True
        proxy.cut()
        await screen.until("the link is lost; the steps go on on the host")
        await screen.until("LINK LOST")
        assert "Kill now" not in screen.footer()
        await screen.press("escape")
        assert "Restart" not in screen.footer()
        assert screen.app.may("restart") is None
        assert "link to the host is lost" in screen.app.why_not("restart")
        proxy.refusing = False
        await screen.ended("done")
        assert await service.shows("InvocationID") != began
        action = screen.action
        assert action is not None
        assert [step.status for step in action.steps] == ["done", "done", "skipped", "done"]


async def test_another_operators_action_is_shown_and_keeps_ours_from_beginning(target: str, service: Service) -> None:
    service.write(f"[Service]\nTimeoutStopSec=10\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen, Operator(target, "bob@desk") as bob:
        await screen.until(lambda: screen.view.unit_reading.active == "active")
        began = await service.shows("InvocationID")
        await screen.press("r")
        await screen.until(lambda: "Cancel ◂" in screen.text() and "(not now)" not in screen.text())
        theirs = asyncio.create_task(bob.does("stop", service.name))
        await bob.until(lambda: bob.waits("stop"))
        await screen.press("tab", "enter")
        # refused; or their steps took the question's place before it was answered
        await screen.until(lambda: "bob@desk is at it" in screen.text() or "by bob@desk" in screen.text())
        await screen.press("escape")
        await screen.until(lambda: screen.action is not None and screen.action.who == "bob@desk")
        if not screen.app.shows_steps:
            await screen.press("A")
        await screen.until("by bob@desk")
        assert (await theirs)[-1].outcome == "done"
        await screen.until(lambda: not screen.action.running)
        assert await service.shows("ActiveState") in ("inactive", "failed")
        assert await service.shows("InvocationID") in ("", began)


async def test_without_any_right_the_commands_are_shown(target: str, service: Service) -> None:
    service.write(f"[Service]\nTimeoutStopSec=1\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    began = await service.shows("InvocationID")
    async with watched(Deployment(target=f"guest@{target}", unit=service.name)) as screen:
        await screen.press("r")
        await screen.until("by hand")
        assert f"sudo systemctl stop {service.name}.service" in screen.text()
        await screen.press("y")
        assert f"sudo systemctl stop {service.name}.service\n" in screen.app.clipboard
        await screen.press("escape", "d")
        await screen.until("the kernel's last lines")
    assert await service.shows("InvocationID") == began


async def test_the_right_to_systemctl_alone(machine: Machine, target: str, service: Service) -> None:
    server(service)
    await service.start(wait=True)
    async with watched(Deployment(target=f"ops@{target}", unit=service.name)) as screen:
        await failed_after_edit(screen, machine, service)
        bad = unit_file(machine, service).read_text()
        await to_the_difference(screen)
        await screen.press("R")
        await screen.until("by hand")
        assert "cannot be changed" in screen.text()
        assert "tee /etc/systemd/system" in screen.text()
    assert unit_file(machine, service).read_text() == bad


async def test_steps_are_shown_again_in_a_replay(target: str, service: Service) -> None:
    service.write(f"[Service]\nTimeoutStopSec=2\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await screen.until(lambda: screen.view.unit_reading.active == "active")
        await screen.press("S")
        await screen.confirm()
        steps = (await screen.ended("done")).steps
        recording = Path(screen.app.source.status().recording)
    again = WatchState(target, service.name)
    with SessionReader(recording.with_name(recording.name + ".gz")) as reader:
        for _, reading in reader:
            again.apply(reading)
    action = again.view(0.0).action
    assert action is not None
    assert (action.outcome, action.steps) == ("done", steps)


async def test_a_diagnosis_is_shown_recorded_and_written_to_a_file(
    target: str,
    service: Service,
    state: Path,  # noqa: F811
) -> None:
    service.write(f"[Service]\nTimeoutStopSec=1\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await screen.until(lambda: screen.view.unit_reading.active == "active")
        await screen.press("d")
        await screen.until(f"What {service.name}.service does now")
        await screen.until(" answers")
        assert "== ps" in screen.text()
        await screen.press("w")
        (file,) = (state / "diagnoses").iterdir()
        assert "wchan" in file.read_text().lower() or "WCHAN" in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
        recording = Path(screen.app.source.status().recording)
        await screen.press("escape", "q")
    packed = recording.with_name(recording.name + ".gz")
    assert b'"kind":"command"' in gzip.decompress(packed.read_bytes())


async def test_read_only_offers_no_action(target: str, service: Service) -> None:
    service.write(f"[Service]\nTimeoutStopSec=1\nExecStart={STUBBORN}\n")
    await service.start(wait=True)
    began = await service.shows("InvocationID")
    async with watched(Deployment(target=target, unit=service.name, read_only=True)) as screen:
        footer = screen.footer()
        assert "Revisions" in footer
        for word in ("Restart", "Roll back", "Undo", "Start, stop", "Diagnose"):
            assert word not in footer
        await screen.press("r", "R", "S", "d", "U")
        assert screen.app.screen is screen.app.watching
        await screen.press("colon")
        await screen.until("Revisions of the unit")
        assert "Restart the unit" not in screen.text()
    assert await service.shows("InvocationID") == began
