"""What a server may send that nobody asked for, before its connection is given up.

asyncssh answers whatever comes, as the protocol wants it: each refused channel, each global request, each change of
keys. A server that sends nothing else would keep this program too busy for its own screen, and one that takes none of
the answers would have them pile up here without end. So what was not asked for is counted, and what was is set against
it: OpenSSH sends a few such messages an hour, servers built on asyncssh one IGNORE with each message of use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncssh

KEXINIT, DATA, EXTENDED_DATA = 20, 94, 95
USED = range(30, 54)
"""Messages of a key exchange and of a login: each is one step of what has an end."""

MOST = 4000
"""Messages that nobody asked for, at once."""
A_SECOND = 400
"""And that many more each second."""
KEYS = 200
"""A change of keys counts as so many: it costs both sides milliseconds, and is due after a gigabyte."""
OF_USE = 2
"""Each piece of a command's output stands for so many that may come along."""
SMALL = 16
"""Bytes of payload from which output is of use: a flood may come as one byte a message, too."""
_HEAD = 4
"""Bytes of a message's payload before the data: their length."""


class Flooded(asyncssh.ProtocolError):
    """The server has sent more than that."""


class Guard:
    """Counts what comes over one connection. Raises Flooded from within asyncssh, which then ends the connection."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.heard = clock()
        """when output of use was last received"""
        self._clock = clock
        self._spent = 0.0
        self._at = self.heard

    def watch(self, connection: asyncssh.SSHClientConnection) -> None:
        """Count from now on. Every message passes ``process_packet`` of its connection or of its channel; asyncssh has
        no public place for this."""
        inside: Any = connection
        self._watch(inside)
        add = inside.add_channel

        def add_channel(channel: Any) -> int:
            self._watch(channel)
            number: int = add(channel)
            return number

        inside.add_channel = add_channel

    def _watch(self, handler: Any) -> None:
        process = handler.process_packet

        def process_packet(kind: int, number: int, packet: Any) -> object:
            self.take(kind, len(packet.get_remaining_payload()) - _HEAD if kind in (DATA, EXTENDED_DATA) else 0)
            return process(kind, number, packet)

        handler.process_packet = process_packet

    def take(self, kind: int, size: int) -> None:
        """One message of this number, with ``size`` bytes of output."""
        if kind in USED and kind != 53:  # a banner
            return
        if size >= SMALL:
            self.heard = self._clock()
            self._spent = max(self._spent - OF_USE, 0.0)
            return
        self._spent += KEYS if kind == KEXINIT else 1
        if self._spent > MOST:
            now = self._clock()
            self._spent = max(self._spent - A_SECOND * (now - self._at), 0.0)
            self._at = now
            if self._spent > MOST:
                raise Flooded(f"more than {MOST} messages that nobody asked for")


def guard() -> Guard:
    return Guard(asyncio.get_running_loop().time)
