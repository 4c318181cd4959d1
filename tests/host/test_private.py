"""What is written is the operator's alone, whatever the umask; two watches in one home; signals at any moment."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import tempfile
from pathlib import Path

import pytest

from bench.terminal import Terminal
from probes.readings import JournalLine
from tests.chaos.test_terminal import drained, ended, until
from tests.chaos.watched import recordings
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service, shell
from tests.host.terminal import PROGRAM
from tests.host.watcher import nothing_left
from watch.session import SessionReader

CHATTER = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done"


def ours(home: Path) -> list[Path]:
    """All that the program has made in a home, and in the folder for what is temporary."""
    return [path for path in home.rglob("*") if any("firstlight" in part for part in path.relative_to(home).parts)]


def private(home: Path) -> None:
    """Nobody else reaches any of it: each is the owner's alone, or lies in a folder that is."""
    found = ours(home)
    assert found
    for path in found:
        inside = [path, *(one for one in path.parents if one in found)]
        assert any(one.lstat().st_mode & 0o077 == 0 for one in inside), (path, oct(path.lstat().st_mode))
        if path.is_file():
            assert path.stat().st_mode & 0o077 == 0, (path, oct(path.stat().st_mode))


@pytest.mark.parametrize("umask", ["000", "077"])
async def test_files_are_the_operators_alone_whatever_the_umask(
    machine: Machine, target: str, service: Service, keyring: Keyring, umask: str
) -> None:
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    await service.start()
    temporary = Path(tempfile.mkdtemp(prefix="firstlight-private-", dir="/tmp"))  # a socket's name must be short
    argv = ["sh", "-c", f'umask {umask}; exec "$@"', "sh", str(PROGRAM), "watch", target, service.name]
    with Terminal(argv, env={"TMPDIR": str(temporary)}) as terminal:
        await until(terminal, "line ")
        await drained(terminal, 2.0)
        private(keyring.home)
        assert ours(temporary), "sockets are in a folder of their own"
        terminal.send("q")
        assert await ended(terminal) == 0
    private(keyring.home)
    assert not ours(temporary)
    temporary.rmdir()
    await nothing_left(machine)


async def test_two_at_once_in_one_home(machine: Machine, target: str, service: Service, keyring: Keyring) -> None:
    """Each has a recording of its own, whole; the history takes both."""
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    argv = [str(PROGRAM), "watch", target, service.name]
    with Terminal(argv) as one, Terminal(argv) as two:
        for terminal in (one, two):
            await until(terminal, service.name)
        await service.start()
        for terminal in (one, two):
            await until(terminal, "line 20")
        await service.stop()
        for terminal in (one, two):
            await until(terminal, "STOPPED")
            terminal.send("q")
            assert await ended(terminal) == 0
            assert b"history" not in terminal.seen.split(b"recorded in")[-1], "nothing was in the other's way"
    kept = recordings()
    assert len(kept) == 2
    for path in kept:
        with SessionReader(path) as reader:
            lines = [reading.text for _, reading in reader if isinstance(reading, JournalLine)]
            texts = [text for text in lines if text.startswith("line ")]
            assert texts == [f"line {number}" for number in range(1, len(texts) + 1)]
            assert len(texts) >= 20
            assert not reader.notes()
    await nothing_left(machine)


async def test_signals_end_it_at_any_moment(machine: Machine, target: str, service: Service, keyring: Keyring) -> None:
    """From before its first screen to after ``q``: it ends soon, the terminal is as it was, the recording is whole."""
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    await service.start()
    dice = random.Random(7)
    for number in range(9):
        what = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)[number % 3]
        with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
            if number >= 3:
                await until(terminal, service.name)
            await drained(terminal, dice.uniform(0.0, 1.5))
            if number >= 6:
                terminal.send("q")
                await drained(terminal, dice.uniform(0.0, 0.3))
            for _ in range(2):
                if terminal.process.poll() is None:
                    os.kill(terminal.process.pid, what)
                await drained(terminal, 0.05)
            status = await ended(terminal)
            await drained(terminal, 0.3)
            assert b"Traceback" not in terminal.seen, terminal.seen[-1500:]
            if b"\x1b[?1049h" in terminal.seen and status >= 0:
                assert terminal.seen.rfind(b"\x1b[?1049l") > terminal.seen.rfind(b"\x1b[?1049h"), (what, status)
    for path in recordings():
        with SessionReader(path) as reader:
            assert list(reader) or reader.notes() == []
    await asyncio.sleep(0)
    await nothing_left(machine)
