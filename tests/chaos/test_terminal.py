"""Whatever happens to the terminal and to the program itself, while a load is under way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path

from bench.terminal import Terminal
from tests.chaos.account import Account
from tests.chaos.footprint import Footprint
from tests.chaos.watched import all_is_well, chatty, recorded, recorded_rightly, recordings
from tests.host.service import Service, shell
from tests.host.terminal import PROGRAM

CHATTER = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo line $i; sleep 0.02; done"


async def until(terminal: Terminal, text: str, limit: float = 60.0) -> None:
    await asyncio.to_thread(terminal.until, text, limit)


async def drained(terminal: Terminal, seconds: float) -> None:
    """Let the program draw for a while, and read what it draws."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (left := end - loop.time()) > 0:
        await asyncio.to_thread(terminal.read, min(left, 0.05))


async def ended(terminal: Terminal, limit: float = 30.0) -> int:
    """Its exit status."""
    async with asyncio.timeout(limit):
        while (status := terminal.process.poll()) is None:
            await asyncio.to_thread(terminal.read, 0.05)
    return status


def footprint(terminal: Terminal, pid: int = 0) -> Footprint:
    """Of the program in a terminal. ``pid``: where that runs something else, which runs it."""
    return Footprint(pid or terminal.process.pid, lambda: drained(terminal, 0.2))


def children(pid: int) -> list[int]:
    """Processes that this one has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def session(pid: int) -> list[int]:
    """Processes of the session that this one leads or has led."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if os.getsid(int(entry.name)) == pid:
                found.append(int(entry.name))
    return found


async def resized(terminal: Terminal, chance: random.Random, times: int) -> None:
    """So many sizes in quick succession, from one cell to more than any screen has, and back to the usual one."""
    for _ in range(times):
        terminal.resize(chance.randint(1, 400), chance.randint(1, 120))
        await drained(terminal, chance.uniform(0.0, 0.01))
    terminal.resize(200, 50)
    await drained(terminal, 0.5)


async def left(terminal: Terminal, service: Service, size: Footprint) -> None:
    """The load is over, memory is back where it was, and the operator leaves firstlight and the shell around it."""
    await service.stop()
    await until(terminal, "STOPPED")
    await size.is_back()
    terminal.send("q")
    await until(terminal, "recorded in")
    terminal.send("exit\n")
    await ended(terminal)


async def test_a_terminal_of_thousands_of_sizes(
    target: str, service: Service, account: Account, chance: random.Random
) -> None:
    service.write_server(chatty(20.0, 20))
    with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await until(terminal, service.name)
        await service.start()
        await until(terminal, "line 20")
        await resized(terminal, chance, 200)  # what a screen of a size is drawn with is kept for the next
        size = footprint(terminal)
        await size.take()
        await resized(terminal, chance, 2000)
        terminal.seen = b""
        await until(terminal, "READY")
        await service.stop()
        await until(terminal, "STOPPED")
        await drained(terminal, 1.0)
        await size.is_back()
        terminal.send("q")
        assert await ended(terminal) == 0
    await all_is_well(account, size)


async def test_suspended_and_brought_back(
    target: str, service: Service, account: Account, chance: random.Random
) -> None:
    """Ctrl-Z gives the shell back as it was; fg goes on, and what was said meanwhile is all there."""
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    with Terminal(["bash", "--norc", "--noprofile", "-i"], env={"PS1": "prompt> "}) as terminal:
        await until(terminal, "prompt>")
        terminal.send(f"{PROGRAM} watch {target} {service.name}\n")
        await until(terminal, "Journal")
        await service.start()
        await until(terminal, "line 5")
        (program,) = children(terminal.process.pid)
        size = footprint(terminal, program)
        await size.take()
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
        await left(terminal, service, size)
    await all_is_well(account, size)


async def test_its_terminal_is_closed(target: str, service: Service, account: Account, chance: random.Random) -> None:
    """The window is shut, or the operator's own SSH login is lost: it ends by itself, its recording whole. Its memory
    is then nobody's; that no process of it lives on is what can be checked of it."""
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    await service.start()
    with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await until(terminal, "line ")
        await drained(terminal, chance.uniform(0.0, 2.0))
        terminal.hang_up()
        async with asyncio.timeout(30):
            while session(terminal.process.pid):
                terminal.process.poll()
                await asyncio.sleep(0.05)
    assert recordings()[0].suffix == ".gz"
    await all_is_well(account, None, whole=False)


async def test_killed_at_random_moments(target: str, service: Service, account: Account, chance: random.Random) -> None:
    """kill -9: what was recorded is whole and in order, nothing stays on the host, the next run tidies up. A killed
    program holds no memory; that of the next run is what the first run's was."""
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    await service.start()
    before: Footprint | None = None
    for _ in range(4):
        with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
            if before is None:
                await until(terminal, "line ")
                before = footprint(terminal)
                await before.take()
            await drained(terminal, chance.uniform(0.3, 5.0))
            with contextlib.suppress(ProcessLookupError):
                os.kill(terminal.process.pid, signal.SIGKILL)
            await ended(terminal)
            assert not session(terminal.process.pid)
        await account.nothing_left()
    assert before is not None
    killed = {path: lines for path in recordings() if path.stat().st_size > 2000 and (lines := recorded(path))}
    assert killed
    for path in killed:
        await recorded_rightly(account, path, whole=False)
    with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await until(terminal, "line ")
        await drained(terminal, 1.0)
        await service.stop()
        await until(terminal, "STOPPED")
        size = footprint(terminal)
        size.before = before.before
        await size.is_back()
        terminal.send("q")
        assert await ended(terminal) == 0
    files = recordings()
    assert all(path.suffix == ".gz" for path in files), files
    await all_is_well(account, size, path=max(files, key=lambda path: path.stat().st_mtime))
    for path, lines in killed.items():
        packed = path if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")
        assert recorded(packed) == lines
