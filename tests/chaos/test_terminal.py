"""Whatever happens to the terminal and to the program itself, while a load is under way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path

from bench.terminal import Terminal
from bench.watched import resident
from tests.chaos.watched import all_is_well, chatty, recordings, same
from tests.host.machine import Machine
from tests.host.service import Service, shell
from tests.host.terminal import PROGRAM
from tests.host.watcher import nothing_left

CHATTER = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo line $i; sleep 0.02; done"
GROWTH = 40e6
"""Bytes that the program may hold more of after thousands of new sizes than before them."""


async def until(terminal: Terminal, text: str, limit: float = 60.0) -> None:
    await asyncio.to_thread(terminal.until, text, limit)


async def drained(terminal: Terminal, seconds: float) -> None:
    """Let the program draw for a while, and read what it draws."""
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        await asyncio.to_thread(terminal.read, 0.05)


async def ended(terminal: Terminal, limit: float = 30.0) -> int:
    """Its exit status."""
    async with asyncio.timeout(limit):
        while (status := terminal.process.poll()) is None:
            await asyncio.to_thread(terminal.read, 0.05)
    return status


async def test_a_terminal_of_thousands_of_sizes(
    machine: Machine, target: str, service: Service, chance: random.Random, tmp_path: Path
) -> None:
    service.write_server(chatty(20.0, 20))
    with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await until(terminal, service.name)
        await service.start()
        await until(terminal, "line 20")
        before = resident(terminal.process.pid)
        for _ in range(2000):
            terminal.resize(chance.randint(1, 400), chance.randint(1, 120))
            await drained(terminal, 0.003)
        terminal.resize(200, 50)
        terminal.seen = b""
        await until(terminal, "READY")
        await service.stop()
        await until(terminal, "STOPPED")
        await drained(terminal, 1.0)
        assert resident(terminal.process.pid) - before < GROWTH
        terminal.send("q")
        assert await ended(terminal) == 0
    await all_is_well(machine, service, tmp_path)


async def test_suspended_and_brought_back(
    machine: Machine, target: str, service: Service, chance: random.Random, tmp_path: Path
) -> None:
    """Ctrl-Z gives the shell back as it was; fg goes on, and what was said meanwhile is all there."""
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    with Terminal(["bash", "--norc", "--noprofile", "-i"], env={"PS1": "prompt> "}) as terminal:
        await until(terminal, "prompt>")
        terminal.send(f"{PROGRAM} watch {target} {service.name}\n")
        await until(terminal, "Journal")
        await service.start()
        await until(terminal, "line 5")
        for _ in range(3):
            await drained(terminal, chance.uniform(0.2, 1.0))
            terminal.seen = b""
            terminal.send("\x1a")
            await until(terminal, "Stopped")
            assert b"\x1b[?1049l" in terminal.seen, "the shell's own screen is back"
            await drained(terminal, chance.uniform(0.2, 1.0))
            terminal.seen = b""
            terminal.send("fg\n")
            await until(terminal, "\x1b[?1049h")
            await until(terminal, "line ")
        await service.stop()
        await until(terminal, "STOPPED")
        terminal.send("q")
        await until(terminal, "recorded in")
        terminal.send("exit\n")
        await ended(terminal)
    await all_is_well(machine, service, tmp_path)


async def test_its_terminal_is_closed(machine: Machine, target: str, service: Service, chance: random.Random) -> None:
    """The window is shut, or the operator's own SSH login is lost: it ends by itself, its recording whole."""
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    await service.start()
    with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await until(terminal, "line ")
        await drained(terminal, chance.uniform(0.0, 2.0))
        terminal.hang_up()
        async with asyncio.timeout(30):
            while terminal.process.poll() is None:  # noqa: ASYNC110 nobody tells
                await asyncio.sleep(0.05)
    await nothing_left(machine)
    (path,) = recordings()
    assert path.suffix == ".gz"
    same(path, await service.journal(), begin=True)


async def test_killed_at_random_moments(machine: Machine, target: str, service: Service, chance: random.Random) -> None:
    """kill -9: what was recorded is whole and in order, nothing stays on the host, the next run tidies up."""
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    await service.start()
    for number in range(1, 5):
        with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
            await drained(terminal, chance.uniform(0.3, 5.0) if number < 4 else 6.0)
            with contextlib.suppress(ProcessLookupError):
                os.kill(terminal.process.pid, signal.SIGKILL)
            await ended(terminal)
        await nothing_left(machine)
    held = await service.journal()
    files = recordings()
    assert files
    for path in files:
        if path.stat().st_size > 2000:
            same(path, held, begin=True)
    with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await until(terminal, "line ")
        await drained(terminal, 1.0)
        terminal.send("q")
        assert await ended(terminal) == 0
    files = recordings()
    assert all(path.suffix == ".gz" for path in files), files
    await nothing_left(machine)
