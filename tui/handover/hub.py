"""The daemon's side: a socket on which any number of screens are told what the recording holds.

The recording is the buffer: each screen is given whole lines from its own place in it, as fast as it takes them. A slow
one falls behind and holds nobody up; one that takes nothing for ``STUCK`` seconds is dropped. Nothing is kept for it.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec

from probes.command import plain
from tui.connections import Connections
from tui.handover.words import BEAT, Asked, Said

STUCK: Final = 60.0
"""Seconds that a screen may take nothing."""

GREET: Final = 5.0
"""Seconds that a screen has to say who it is."""

MOST: Final = 64
"""Screens at a time."""

RECENT: Final = 900.0
"""Seconds of which every sample is told."""

EVERY: Final = 15

_SAMPLE: Final = re.compile(rb'\{"kind":"(gpu|gpu-processes|io|metrics)","at":([0-9.e+]+)[,}]')
"""Readings of a recording that are samples: kind and time come first."""

_PIECE: Final = 256 << 10
_LONGEST: Final = 64 << 10
"""Bytes of what a screen may ask in one line."""


class Recording(Protocol):
    """What is given away: ``watch.session.SessionWriter``."""

    def chunk(self, place: int, most: int = ...) -> bytes: ...


class Hub:
    """``said``: what to say of ourselves; ``others`` is filled in here. ``note``: takes a note of somebody's.
    ``stop``: ends the watch. ``grown()`` is to be called whenever there may be more in the recording."""

    def __init__(
        self,
        recording: Recording,
        said: Callable[[], Said],
        *,
        note: Callable[[str, str], object] | None = None,
        stop: Callable[[], object] | None = None,
    ) -> None:
        self._recording = recording
        self._said = said
        self._note = note
        self._stop = stop
        self._screens: dict[_Screen, None] = {}

    @property
    def who(self) -> list[str]:
        """Those who look now, in the order in which they came."""
        return [screen.who for screen in self._screens if screen.who]

    def grown(self) -> None:
        for screen in self._screens:
            screen.more.set()

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Take screens in, on a socket of this user alone, until the context ends."""
        listener = socket.socket(socket.AF_UNIX)
        listener.setblocking(False)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        connections = Connections()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.take(self._serve(reader, writer))

        server = await asyncio.start_unix_server(connected, sock=listener, limit=_LONGEST)
        try:
            yield
        finally:
            await connections.end(server)
            _remove(path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        screen = _Screen(reader, writer)
        try:
            if not may_come(writer.get_extra_info("socket")) or len(self._screens) >= MOST:
                return
            self._screens[screen] = None
            asking = asyncio.ensure_future(self._listen(screen))
            telling = asyncio.ensure_future(self._tell(screen))
            try:
                done, _ = await asyncio.wait({asking, telling}, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in (asking, telling):
                    task.cancel()
                await asyncio.gather(asking, telling, return_exceptions=True)
        except (OSError, ValueError, TimeoutError, RecursionError):
            return  # it has gone, speaks another language, or takes nothing: its own end of the line shows it
        finally:
            self._screens.pop(screen, None)
            writer.transport.abort()
            self._changed()

    async def _listen(self, screen: _Screen) -> None:
        """What one screen asks. ValueError for what is none of our language."""
        async with asyncio.timeout(GREET):
            line = await screen.reader.readline()
        while line:
            asked = msgspec.json.decode(line, type=Asked)
            if asked.who:
                screen.who = plain(asked.who, 80)
                self._changed()
            if asked.note and self._note is not None:
                self._note(screen.who, asked.note)
            if asked.stop and self._stop is not None:
                self._stop()
            line = await screen.reader.readline()

    async def _tell(self, screen: _Screen) -> None:
        place = 0
        thinner = Thinner()
        beat = 0.0
        loop = asyncio.get_running_loop()
        while True:
            if screen.news or loop.time() - beat >= BEAT:
                screen.news, beat = False, loop.time()
                others = tuple(other.who for other in self._screens if other is not screen and other.who)
                said = msgspec.structs.replace(self._said(), others=others)
                screen.writer.write(msgspec.json.encode(said) + b"\n")
            piece = self._recording.chunk(place, _PIECE)
            screen.writer.write(thinner.thin(piece, self._said().now))
            place += len(piece)
            async with asyncio.timeout(STUCK):
                await screen.writer.drain()
            if piece:
                await asyncio.sleep(0)
                continue
            screen.more.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT / 2):
                    await screen.more.wait()

    def _changed(self) -> None:
        """Somebody came or went: the others are told."""
        for screen in self._screens:
            screen.news = True
            screen.more.set()


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


class Thinner:
    """Of what is long past a screen is told all that was said, and one in ``EVERY`` of each kind of sample: a plot has
    no more points than that, and a day is shown within seconds."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()
        self._over = False

    def thin(self, piece: bytes, now: float) -> bytes:
        """Whole lines of a recording, as they are to be told at ``now``."""
        if self._over or not piece:
            return piece
        out: list[bytes] = []
        late = False
        for line in piece.split(b"\n")[:-1]:
            found = _SAMPLE.match(line)
            if found is None:
                out.append(line)
                continue
            late = float(found[2]) >= now - RECENT
            self._seen[found[1]] += 1
            if late or self._seen[found[1]] % EVERY == 1:
                out.append(line)
        self._over = late  # from here on it is told as it comes
        return b"".join(line + b"\n" for line in out)


class _Screen:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.who = ""
        self.news = True
        self.more = asyncio.Event()


def may_come(peer: socket.socket) -> bool:
    """Whether the other end is of this user, or root's. The folder keeps others out already; this holds also where
    somebody passes the open socket on."""
    data = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", data)
    return uid in (os.getuid(), 0)
