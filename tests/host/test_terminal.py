"""The program itself, in a real terminal, against the real host."""

from __future__ import annotations

from tests.host import tape
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service
from tests.host.terminal import PROGRAM, Terminal
from tests.host.test_load import MEMORY_CHECK, READY
from tests.host.watcher import nothing_left


async def test_watched_from_start_to_ready(machine: Machine, target: str, service: Service, keyring: Keyring) -> None:
    load = tape.server("cpu-small-ngram").until(READY).without_waiting(1)
    service.write_server(load, speed=4, service=MEMORY_CHECK)
    async with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await terminal.until(service.name)
        await service.start()
        screen = await terminal.until("READY")
        assert service.name in screen
        assert "llm-two" in screen
        await terminal.until("free")  # systemd expands $free to nothing
        terminal.resize(80, 24)
        await terminal.until("READY")
        terminal.resize(120, 35)
        await terminal.until(lambda screen: "READY" in screen and "Journal" in screen)
        terminal.send("q")
        assert await terminal.ended() == 0
    await nothing_left(machine)
    sessions = keyring.files()
    assert any(service.name in path.name for path in sessions), sessions


async def test_a_changed_host_key_ends_in_one_sentence(machine: Machine, keyring: Keyring) -> None:
    other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0rqe5N2kP0GZ7p8Gm0kzZ1w9q3X5V1rS7Q2yJ4aB1c"
    keyring.add("changed", machine.port, host_key=other)
    async with Terminal([str(PROGRAM), "watch", "changed", "any"]) as terminal:
        screen = await terminal.until("key")
        assert "Traceback" not in screen
