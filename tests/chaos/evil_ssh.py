"""A real host behind an evil SSH server: commands are run for real, and after each login it does what it pleases.

What it sends is sent below asyncssh's own rules, as a server could that is written for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncssh
from asyncssh.packet import Boolean, String, UInt32

from tests.host.machine import Machine
from tests.probes.sshserver import SshServer

IGNORE, UNIMPLEMENTED, DEBUG, KEXINIT = 2, 3, 4, 20
GLOBAL_REQUEST, REQUEST_SUCCESS, REQUEST_FAILURE = 80, 81, 82
CHANNEL_OPEN, OPEN_FAILURE, WINDOW_ADJUST, CHANNEL_REQUEST = 90, 92, 93, 98

Connection = Any
"""An ``asyncssh.SSHServerConnection``, whose inside is used here."""
Attack = Callable[[Connection], Awaitable[None]]


def deaf(connection: Connection, *kinds: int) -> None:
    """Takes messages of these kinds without a look at them."""

    def unheard(_self: object, _kind: int, _number: int, packet: Any) -> None:
        packet.get_remaining_payload()

    connection._packet_handlers = {**connection._packet_handlers, **dict.fromkeys(kinds, unheard)}


async def flood(connection: Connection, send: Callable[[int], None], *, reading: bool = True) -> None:
    """``send(n)`` as fast as the other side takes it. ``reading``: else nothing that it answers is taken from it."""
    transport = connection._transport
    if not reading:
        transport.pause_reading()
    number = 0
    while connection._transport is not None and not transport.is_closing():
        for _ in range(200):
            send(number)
            number += 1
        await asyncio.sleep(0)
        while transport.get_write_buffer_size() > 1 << 20 and not transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def ignored(connection: Connection) -> None:
    await flood(connection, lambda _: connection.send_packet(IGNORE, String(b"x" * 10)))


async def debug_messages(connection: Connection) -> None:
    await flood(
        connection, lambda _: connection.send_packet(DEBUG, Boolean(True), String("\x1b]0;EVIL\x07"), String(""))
    )


async def unknown_messages(connection: Connection) -> None:
    """Each is answered."""
    deaf(connection, UNIMPLEMENTED)
    await flood(connection, lambda _: connection.send_packet(192, String(b"")), reading=False)


async def global_requests(connection: Connection) -> None:
    deaf(connection, REQUEST_SUCCESS, REQUEST_FAILURE)
    await flood(connection, lambda _: connection.send_packet(GLOBAL_REQUEST, String(b"evil"), Boolean(True)))


async def global_requests_unread(connection: Connection) -> None:
    await flood(
        connection, lambda _: connection.send_packet(GLOBAL_REQUEST, String(b"evil"), Boolean(True)), reading=False
    )


async def channels(connection: Connection) -> None:
    deaf(connection, OPEN_FAILURE)
    kinds = (b"session", b"forwarded-tcpip", b"x11", b"auth-agent@openssh.com", b"direct-tcpip", b"\x1b[2J")

    def send(number: int) -> None:
        kind = kinds[number % len(kinds)]
        rest = String(b"localhost") + UInt32(22) if kind == b"x11" else b""
        if kind == b"forwarded-tcpip":
            rest = String(b"localhost") + UInt32(22) + String(b"x") + UInt32(1)
        connection.send_packet(CHANNEL_OPEN, String(kind), UInt32(number), UInt32(1 << 20), UInt32(1 << 15), rest)

    await flood(connection, send)


async def channels_unread(connection: Connection) -> None:
    await flood(
        connection,
        lambda number: connection.send_packet(
            CHANNEL_OPEN, String(b"auth-agent@openssh.com"), UInt32(number), UInt32(1 << 20), UInt32(1 << 15)
        ),
        reading=False,
    )


async def windows(connection: Connection) -> None:
    """More and more room for what we might send, on whatever channel is open."""

    def send(_: int) -> None:
        for channel in list(connection._channels.values()):
            if channel._send_chan is not None:
                connection.send_packet(WINDOW_ADJUST, UInt32(channel._send_chan), UInt32(1 << 30))

    await flood(connection, send)


async def channel_requests(connection: Connection) -> None:
    def send(_: int) -> None:
        for channel in list(connection._channels.values()):
            if channel._send_chan is not None:
                channel.send_packet(CHANNEL_REQUEST, String(b"evil"), Boolean(True))

    deaf(connection, 99, 100)
    for channel in list(connection._channels.values()):
        deaf(channel, 99, 100)
    await flood(connection, send, reading=False)


async def key_changes(connection: Connection) -> None:
    while connection._transport is not None:
        connection._send_kexinit()
        connection._kexinit_sent = True
        while not connection._kex_complete and connection._transport is not None:  # noqa: ASYNC110 nobody tells
            await asyncio.sleep(0)


async def key_change_without_end(connection: Connection) -> None:
    """Begins to change keys and says all sorts of things instead of going on: each answer waits for its end."""

    class Endless:
        def process_packet(self, _kind: int, _number: int, packet: Any) -> bool:
            packet.get_remaining_payload()
            return True

        def log_received_packet(self, *_: object) -> None:
            pass

    deaf(connection, KEXINIT, REQUEST_SUCCESS, REQUEST_FAILURE)
    connection._kex = Endless()
    connection._send_kexinit()
    connection._kex_complete = True  # it goes on with the old ones
    await flood(connection, lambda _: connection.send_packet(GLOBAL_REQUEST, String(b"evil"), Boolean(True)))


async def no_answers(connection: Connection) -> None:
    """Nothing is answered and no command says anything any more, but there is always something of no use to say."""
    deaf(connection, GLOBAL_REQUEST, CHANNEL_OPEN)
    for channel in connection._channels.values():
        channel.send_packet = lambda *_: None
    while connection._transport is not None:
        connection.send_packet(IGNORE, String(b""))
        await asyncio.sleep(0.5)


class EvilServer(SshServer):
    """``attack`` begins ``after`` seconds after each login."""

    attack: Attack | None = None
    after: float = 0.0
    attacks: set[asyncio.Task[None]]

    async def start(self, path: object = None) -> None:
        self.attacks = set()
        await super().start()
        assert self.acceptor is not None
        self._watching = asyncio.create_task(self._await_logins())

    async def _await_logins(self) -> None:
        known: list[Connection] = []
        while True:
            for connection in list(self.connections):
                if not any(connection is one for one in known):
                    known.append(connection)
                    task = asyncio.create_task(self._attack(connection))
                    self.attacks.add(task)
                    task.add_done_callback(self.attacks.discard)
            await asyncio.sleep(0.02)

    async def _attack(self, connection: Connection) -> None:
        while not connection._auth_complete:
            if connection._transport is None:
                return
            await asyncio.sleep(0.02)
        await asyncio.sleep(self.after)
        if self.attack is not None:
            with suppress(ConnectionError, asyncssh.Error, OSError):
                await self.attack(connection)

    async def stop(self) -> None:
        self._watching.cancel()
        for task in list(self.attacks):
            task.cancel()
        await asyncio.gather(self._watching, *self.attacks, return_exceptions=True)
        await super().stop()


@asynccontextmanager
async def evil(machine: Machine, attack: Attack | None, *, after: float = 0.0, **how: Any) -> AsyncIterator[EvilServer]:
    server = EvilServer(shell=machine.argv("/bin/sh"), user="root", **how)
    server.attack, server.after = attack, after
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


ATTACKS: Mapping[str, Attack] = {
    one.__name__: one
    for one in (
        *(ignored, debug_messages, unknown_messages, global_requests, global_requests_unread, channels),
        *(channels_unread, windows, channel_requests, key_changes, key_change_without_end, no_answers),
    )
}
