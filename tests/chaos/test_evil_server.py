"""A host whose SSH server turns evil after the login: it is given up with a reason, nothing grows, the screen lives."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
from collections.abc import Callable

import asyncssh
import pytest

from bench.terminal import Terminal
from bench.watched import resident
from probes import asking, command, ssh_link
from probes.quoting import opening, unwrap
from probes.readings import JournalLine, LinkReading, ProbeReading
from tests.chaos.evil_ssh import ATTACKS, EvilServer, evil
from tests.chaos.test_terminal import drained, ended, until
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service, shell
from tests.host.terminal import PROGRAM
from tests.host.watcher import Watcher, nothing_left

CHATTER = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.1; done"
GROWTH = 40e6
TOLD = re.compile(r"floods the connection|answered nothing for a minute|breach of SSH's rules")


def known(keyring: Keyring, server: EvilServer) -> str:
    """An alias for it; its key is trusted, and its one key lets us in."""
    key = keyring.folder / "evil"
    server.client_key.write_private_key(str(key))
    key.chmod(0o600)
    keyring.config.write_text(
        f"Host evil\n  HostName 127.0.0.1\n  Port {server.port}\n  User root\n  IdentityFile {key}\n"
        "  IdentitiesOnly yes\n"
    )
    keyring.known_hosts.write_bytes(server.known_hosts())
    return "evil"


def lines(seen: Watcher) -> int:
    return len(seen.of(JournalLine))


@pytest.mark.parametrize("name", ATTACKS)
async def test_what_it_floods_with_ends_the_connection_with_a_reason_and_the_watch_goes_on(
    machine: Machine, keyring: Keyring, service: Service, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_link, "ANSWER_SECONDS", 3.0)
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    await service.start()
    async with evil(machine, ATTACKS[name], after=1.0) as server, Watcher(known(keyring, server), service.name) as seen:
        await seen.until(lambda: lines(seen) > 3)
        before = resident(os.getpid())

        def told() -> bool:
            return any(TOLD.search(one.reason) for one in seen.of(LinkReading) if one.state == "down")

        await seen.until(told, what="why it was given up")
        server.attack = None
        at = lines(seen)
        await seen.until(lambda: lines(seen) > at + 10, what="more of the journal")
        assert resident(os.getpid()) - before < GROWTH
        assert all(one.reason.isprintable() and len(one.reason) < 300 for one in seen.of(LinkReading))
        cursors = [line.cursor for line in seen.of(JournalLine)]
        assert len(set(cursors)) == len(cursors), "no line twice"
    await nothing_left(machine)


async def test_the_screen_tells_it_and_can_be_left(
    machine: Machine, keyring: Keyring, service: Service, chance: random.Random
) -> None:
    """In the program itself: it shows why, its memory does not grow, and ``q`` is answered in the midst of it."""
    attack = chance.choice([name for name in ATTACKS if name != "no_answers"])
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    await service.start()
    async with evil(machine, ATTACKS[attack], after=1.0) as server:
        with Terminal([str(PROGRAM), "watch", known(keyring, server), service.name]) as terminal:
            await until(terminal, "line ")
            before = resident(terminal.process.pid)
            await until(terminal, "LINK LOST")
            await drained(terminal, 10.0)
            assert resident(terminal.process.pid) - before < GROWTH
            assert b"floods the connection" in terminal.seen or b"breach of SSH" in terminal.seen
            terminal.send("q")
            assert await ended(terminal) == 0
    await nothing_left(machine)


# ---- commands that are no commands

Answer = Callable[["asyncssh.SSHServerProcess[bytes]"], None]


def begin(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """It knows how our commands begin, as it sees them."""
    mark = opening(unwrap(process.command or "").token)
    process.stdout.write(mark)
    process.stderr.write(mark)


def _writing(process: asyncssh.SSHServerProcess[bytes], data: Callable[[], bytes], where: str) -> None:
    async def write() -> None:
        out = process.stdout if where == "out" else process.stderr
        with contextlib.suppress(OSError, asyncssh.Error):
            while not process.channel.is_closing():
                out.write(data())
                await out.drain()

    TASKS.add(task := asyncio.ensure_future(write()))
    task.add_done_callback(TASKS.discard)


TASKS: set[asyncio.Task[None]] = set()


def endless_output(process: asyncssh.SSHServerProcess[bytes]) -> None:
    begin(process)
    _writing(process, lambda: b"y\n" * 8000, "out")


def endless_line(process: asyncssh.SSHServerProcess[bytes]) -> None:
    begin(process)
    _writing(process, lambda: b"x" * 32000, "out")


def endless_errors(process: asyncssh.SSHServerProcess[bytes]) -> None:
    begin(process)
    _writing(process, lambda: b"oh \x1b[2J no\n" * 2000, "err")


def endless_noise(process: asyncssh.SSHServerProcess[bytes]) -> None:
    _writing(process, lambda: b"welcome \x1b]0;EVIL\x07\n" * 1000, "out")


def garbage(process: asyncssh.SSHServerProcess[bytes]) -> None:
    dice = random.Random(1)
    words = (b"\n\n", b"__CURSOR=", b"MESSAGE\n\xff\xff\xff\xff\0\0\0\0", b"\x1e", b"\0", b"\x1b[2J", b" 0\n", b"{}\n")
    begin(process)
    _writing(process, lambda: b"".join(dice.choice(words) + dice.randbytes(20) for _ in range(500)), "out")


def never_begun(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """It accepts the command, and that is all."""


def never_ended(process: asyncssh.SSHServerProcess[bytes]) -> None:
    begin(process)


def no_status(process: asyncssh.SSHServerProcess[bytes]) -> None:
    begin(process)
    process.stdout.write(b"0\n")
    process.stdout.write_eof()


def closed(process: asyncssh.SSHServerProcess[bytes]) -> None:
    begin(process)
    process.channel.close()


def odd_status(process: asyncssh.SSHServerProcess[bytes]) -> None:
    begin(process)
    process.exit(0xFFFFFFFF)


ANSWERS: tuple[Answer, ...] = (
    *(endless_output, endless_line, endless_errors, endless_noise, garbage),
    *(never_begun, never_ended, no_status, closed, odd_status),
)


@pytest.mark.parametrize("answer", ANSWERS)
async def test_commands_that_are_answered_with_anything(
    machine: Machine, keyring: Keyring, service: Service, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every probe says why it has nothing, none by a fault of ours; nothing grows; all come back when it is over."""
    monkeypatch.setattr(command, "STATUS_SECONDS", 0.5)
    monkeypatch.setattr(command, "ENDLESS", 4 << 20)
    if answer is never_begun:
        monkeypatch.setattr(ssh_link, "BEGIN_SECONDS", 0.5)
    monkeypatch.setitem(asking.asking.__wrapped__.__kwdefaults__, "limit", 1.0)  # type: ignore[attr-defined]
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    await service.start()
    async with evil(machine, None, answer=answer) as server, Watcher(known(keyring, server), service.name) as seen:
        await seen.until(lambda: seen.links()[-1:] == ["up"])
        before = resident(os.getpid())
        needed = {"unit", "io"}
        await seen.until(
            lambda: (
                needed <= {one.probe for one in seen.of(ProbeReading) if one.state != "up" and one.reason}
                or any(one.state == "down" for one in seen.of(LinkReading))
            ),
            what="why there is nothing",
        )
        assert resident(os.getpid()) - before < 2 * GROWTH
        for one in (*seen.of(ProbeReading), *seen.of(LinkReading)):
            assert "fault of firstlight" not in one.reason, one
        server.answer = None
        if answer is not never_ended:  # that is told after twenty seconds only
            await seen.until(lambda: lines(seen) > 3, what="the journal")
    for task in list(TASKS):
        task.cancel()
    await nothing_left(machine)
