"""Acting in a real terminal, by real keys: the program itself against the real host."""

from __future__ import annotations

from pathlib import Path

from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service
from tests.host.terminal import PROGRAM, Terminal
from tests.host.test_operate_screen import server, spoil, unit_file
from watch.audit import read_audit


async def test_restart_and_roll_back(machine: Machine, target: str, service: Service, keyring: Keyring) -> None:
    server(service)
    await service.start(wait=True)
    async with Terminal([str(PROGRAM), "watch", target, service.name], columns=120, rows=35) as terminal:
        await terminal.until("READY")
        good = spoil(machine, service)
        terminal.send("r")
        await terminal.until(f"Restart {service.name}.service on {target}?")
        await terminal.until(lambda screen: "▸ Cancel ◂" in screen and "(not now)" not in screen)
        terminal.send("Tab")
        await terminal.until("▸ Restart it ◂")
        terminal.send("Enter")
        await terminal.until("failed at once")
        terminal.send("Escape")
        await terminal.until(lambda screen: "Restart of" not in screen and "FAILED" in screen)  # ESC R is Alt+R
        terminal.send("R")
        await terminal.until("to which revision?")
        terminal.send("Enter")
        await terminal.until("R Roll back to it")
        terminal.send("R")
        await terminal.until(lambda screen: "▸ Cancel ◂" in screen and "(not now)" not in screen)
        terminal.send("Tab")
        await terminal.until("▸ Roll back and restart ◂")
        terminal.send("Enter")
        await terminal.until("Roll back of")
        await terminal.until("Done after")
        await terminal.until("READY")
        assert unit_file(machine, service).read_text() == good
        terminal.send("Escape")
        await terminal.until("U Undo")
        terminal.send("q")
        assert await terminal.ended() == 0
    audit = next(path for path in keyring.files() if path.name == "audit.jsonl")
    ends = [(entry.action, entry.outcome) for entry in read_audit(Path(audit)) if entry.step == "end"]
    assert ends == [("restart", "failed"), ("rollback", "done")]
