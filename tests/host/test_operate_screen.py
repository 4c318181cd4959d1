"""Acting on a unit of the real host through the app's keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host import tape
from tests.host.machine import Machine
from tests.host.screen import Screen, state, watched  # noqa: F401 a fixture
from tests.host.service import Service, fresh_name
from tests.host.test_load import READY
from watch.audit import read_audit
from watch.config import Deployment

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
    machine: Machine, target: str, service: Service, state: Path  # noqa: F811
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
    await service.start(wait=True)
    async with watched(Deployment(target=target, unit=service.name)) as screen:
        await failed_after_edit(screen, machine, service)
        await screen.press("v")
        await screen.until(f"Revisions of {service.name}.service")
        rows = [line for line in screen.text().splitlines() if "load" in line and "UTC" in line]
        assert "✖ failed" in rows[0]
        assert "runs now" in rows[0]
        assert "✔ ready" in rows[1]
        assert "last known good" in rows[1]
        await screen.press("j", "enter")
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
        await screen.until("Go to the fallback of")
        await screen.confirm()
        # the same screen goes on with the other unit
        await screen.until(lambda: screen.view.unit == f"{second.name}.service" or screen.view.unit == second.name)
        await screen.until("Fallback of")
        assert (await screen.ended("done")).fallback == f"{second.name}.service"
        await screen.until(lambda: screen.view.state == "ready")
        assert screen.view.lines
        assert (await service.shows("ActiveState"), await second.shows("ActiveState")) == ("inactive", "active")
        await screen.press("escape")
        await screen.until("U Undo")
        await screen.press("U")
        await screen.until("Go to the fallback of")
        assert service.name in screen.text()
        await screen.confirm()
        await screen.until(lambda: screen.view.unit.startswith(service.name))
        await screen.until(lambda: screen.view.state == "ready")
        assert (await service.shows("ActiveState"), await second.shows("ActiveState")) == ("active", "inactive")
    await second.stop()
