"""The attached screen's side: the daemon's recording as a feed, folded here into the same state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec

from probes.readings import UNDECODABLE, JournalLine, Reading, encode, encode_lines
from tui.handover.hub import may_come
from tui.handover.words import DEAF, Asked, Said, myself
from tui.source import SourceStatus
from watch.session import SessionWriter, new_header
from watch.session.reader import decode_reading
from watch.state import WatchState
from watch.watching import Tape, Watching

R = TypeVar("R", bound=Reading)

_PIECE: Final = 256 << 10

_SAID: Final = b'{"kind":"daemon"'
_HEADER: Final = b'{"firstlight":'


class CannotAttach(Exception):
    """Why there is nothing to look at, one sentence."""


class Attached:
    """A daemon's watch as a feed, and its host's clock. ``async with await Attached.to(path) as feed``.

    ``said``: the daemon's last word. Raises CannotAttach where nobody answers, and ConnectionError out of ``batches``
    when the daemon ends.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: Said) -> None:
        self._reader = reader
        self._writer = writer
        self.said = said
        self._ahead = said.now - time.time()

    @classmethod
    async def to(cls, path: Path, who: str = "") -> Self:
        try:
            async with asyncio.timeout(DEAF):
                reader, writer = await asyncio.open_unix_connection(str(path), limit=_PIECE)
                if not may_come(writer.get_extra_info("socket")):
                    writer.close()
                    raise CannotAttach(f"{path} is another user's")
                writer.write(msgspec.json.encode(Asked(who=who or myself())) + b"\n")
                first = await reader.readline()
        except (OSError, TimeoutError, ValueError) as error:
            raise CannotAttach(f"the watch does not answer on {path}: {error or 'it hangs'}") from None
        try:
            return cls(reader, writer, msgspec.json.decode(first, type=Said))
        except UNDECODABLE:
            writer.close()
            raise CannotAttach(
                f"what answers on {path} is another version of firstlight; end it and begin anew"
            ) from None

    async def batches(self) -> AsyncIterator[list[Reading]]:
        """The recording from its first line on, then what comes. To be iterated once."""
        rest = b""
        while True:
            try:
                async with asyncio.timeout(DEAF):
                    piece = await self._reader.read(_PIECE)
            except TimeoutError:
                raise ConnectionError(
                    f"the watch (process {self.said.pid}) has said nothing for {DEAF:.0f} s"
                ) from None
            if not piece:
                raise ConnectionError(
                    f"the watch (process {self.said.pid}) tells no more: it has ended, or we took too long"
                )
            *lines, rest = (rest + piece).split(b"\n")
            batch: list[Reading] = []
            for line in lines:
                if line.startswith(_SAID):
                    self._hear(line)
                elif line and not line.startswith(_HEADER):
                    try:
                        batch.append(decode_reading(line))
                    except ValueError:
                        continue  # of a kind that a newer daemon knows
            if batch:
                yield batch

    async def ask(self, asked: Asked) -> None:
        """Raises OSError where the daemon is gone."""
        self._writer.write(msgspec.json.encode(asked) + b"\n")
        await self._writer.drain()

    async def gone(self) -> None:
        """Return when the daemon has ended."""
        while await self._reader.read(_PIECE):
            continue

    def now(self) -> float:
        """The host's time, as the daemon has it."""
        return time.time() + self._ahead

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    def _hear(self, line: bytes) -> None:
        try:
            self.said = msgspec.json.decode(line, type=Said)
        except UNDECODABLE:
            return
        ahead = self.said.now - time.time()
        if abs(ahead - self._ahead) > 0.5:  # less is the way here
            self._ahead = ahead

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()


class Lines(SessionWriter):
    """The attached screen's tape: a nameless file of the journal's lines alone, as the daemon has kept them, for they
    are all that is asked for again."""

    def __init__(self, said: Said) -> None:
        super().__init__(new_header(said.target, said.unit, said.now), where=None)

    def keep(self, reading: R) -> tuple[int, R]:
        if not isinstance(reading, JournalLine):
            return 0, reading
        return self.append(encode(reading)), reading

    def keep_all(self, readings: Sequence[R]) -> tuple[list[int], Sequence[R]]:
        return self.append_all(encode_lines(readings)), readings

    def clean(self, reading: R) -> R:
        return reading


class AttachedWatching(Watching):
    """Shows what the daemon records, and who else looks."""

    def __init__(self, attached: Attached, state: WatchState, tape: Tape) -> None:
        super().__init__(attached, state, tape, clock=attached)
        self.attached = attached

    def status(self) -> SourceStatus:
        said = self.attached.said
        return replace(
            super().status(),
            recording=said.recording,
            recording_error=said.recording_error,
            others=said.others,
        )

    async def note(self, text: str) -> None:
        """Put a note into the daemon's recording; it comes back as all else does. OSError where the daemon is gone."""
        await self.attached.ask(Asked(note=text))
