"""Plays a recording: the source of a screen that can be paused, told faster, and moved to any time of it."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from probes.clock import StoryClock
from probes.readings import JournalLine
from watch.batch import Batch, SourceStatus
from watch.changes import Changes
from watch.index import Index
from watch.session import SessionReader
from watch.state import WatchState
from watch.timeline import Kind, Moment, Timeline
from watch.view import View

SPEEDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)

PACE = 0.1
"""Real seconds between two batches, so that what a screen costs is bounded at any speed."""

SLICE = 0.010
"""Real seconds of folding or reading after which the event loop gets its turn."""

LINES_AT_ONCE = 100

ALL = Changes(sum(change.value for change in Changes))


class Player:
    """What the screen calls a source. ``fold``: makes an empty fold; ``label``: see ``SourceStatus``.

    The recording is read once in the background, from its beginning to its end (see ``Index``); it is played from what
    has been read. All methods are to be called in the event loop; the reader stays the caller's.
    """

    def __init__(
        self, reader: SessionReader, fold: Callable[[], WatchState], speed: float = 1.0, *, label: str = ""
    ) -> None:
        self._reader = reader
        self._label = label
        start = opening(reader)
        self.index = Index(reader, fold, start)
        self.clock = StoryClock(start, speed)
        self.state = self.index.before(0).fold.state()
        self._taken = 0
        self._lines = 0
        self._wanted: int | None = None
        self._wake = asyncio.Event()
        self._grown = asyncio.Event()
        self._still = asyncio.Event()
        self._stood = asyncio.Event()
        self._ended = False
        self._marks: tuple[float, ...] = ()
        self.filmed = False
        """A film is made of it: it stands still for each picture, and is shown as playing."""
        self._shown: tuple[int, tuple[Moment, ...]] = (0, ())

    # ----- a source

    async def batches(self) -> AsyncIterator[Batch]:
        """Everything that is due, as it falls due, and the whole picture anew after each move. Never ends by itself: a
        recording that was played to its end can be gone back in."""
        reading = asyncio.create_task(self._read())
        try:
            while True:
                if self._wanted is None:
                    self._still.set()
                    self._stood.set()
                await self._due()
                self._still.clear()
                self._wake.clear()
                async for batch in self._moved() if self._wanted is not None else self._played():
                    yield batch
                if self._ended:
                    yield Batch(ALL)  # it has come to its end: that is shown at once
                if reading.done():
                    reading.result()  # what should never have happened is not kept from whoever watches
                if self._wanted is None and self.playing:
                    await _within(self._wake, PACE)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def now(self) -> float:
        """UTC seconds, by the recorded host's clock."""
        return self.at - self.index.shift(self._taken)

    def view(self, now: float) -> View:
        return self.state.view(now)

    def line(self, offset: int) -> JournalLine:
        """The journal line at an offset. OSError if the file cannot be read, ValueError if none stands there."""
        reading = self._reader.read(offset)
        if not isinstance(reading, JournalLine):
            raise ValueError(f"no journal line at {offset}")
        return reading

    def status(self) -> SourceStatus:
        notes = "; ".join(filter(None, (self._label, *self._reader.notes())))
        return SourceStatus(mode="replay", speed=self.clock.speed, ended=self._ended, label=notes)

    # ----- where it is

    @property
    def recording(self) -> Path:
        """The file that is played."""
        return self._reader.path

    @property
    def at(self) -> float:
        """The replay's time: never before its beginning or after its end."""
        return min(self.clock.now(), self.index.end) if self.index.done else self.clock.now()

    @property
    def playing(self) -> bool:
        return not self.clock.paused and not self._ended

    def timeline(self) -> Timeline:
        moments = self.index.moments
        if len(moments) != self._shown[0]:
            self._shown = (len(moments), tuple(moments))
        return Timeline(
            start=self.index.start,
            end=self.index.end,
            at=self.at,
            playing=self.playing or self.filmed,
            speed=self.clock.speed,
            moments=self._shown[1],
            marks=self._marks,
            read=self.index.share,
        )

    # ----- the operator's hands

    def toggle(self) -> None:
        """Pause, or play on; from the end: again from the beginning."""
        if self._ended:
            self.seek(self.index.start)
            self.clock.resume()
        elif self.clock.paused:
            self.clock.resume()
        else:
            self.clock.pause()
        self._wake.set()

    def faster(self, way: int) -> float:
        """The next speed up (1) or down (-1); what it is now."""
        speed = self.clock.speed
        better = [one for one in SPEEDS if (one > speed if way > 0 else one < speed)]
        if better:
            self.clock.speed = better[0] if way > 0 else better[-1]
        self._wake.set()
        return self.clock.speed

    def seek(self, at: float) -> None:
        """Go to a time of the replay; the nearest there is. What has not been read yet is waited for."""
        at = max(at, self.index.start)
        if self.index.done:
            at = min(at, self.index.end)
        self._ended = False
        self.clock.move(at)
        self._wanted = -1
        self._wake.set()

    async def read_whole(self) -> None:
        """Return once the recording has been read to its end."""
        while not self.index.done:
            await self._more()

    async def arrived(self) -> None:
        """Return once the last wish to go somewhere has been carried out, and its batches were taken."""
        while self._wanted is not None or not self._still.is_set():
            self._stood.clear()
            await self._stood.wait()

    def step(self, kinds: tuple[Kind, ...], way: int) -> Moment | None:
        """Go to the next such moment (1) or the one before (-1); None if there is none."""
        here, moments = self._taken, self.index.moments
        grace = self.at - (2.0 * self.clock.speed if self.playing else 0.0)
        if way > 0:
            found = next((one for one in moments if one.kind in kinds and one.reading > here), None)
        else:
            found = next(
                (
                    one
                    for one in reversed(moments)
                    if one.kind in kinds and one.reading < here and (one.at < grace or not self.playing)
                ),
                None,
            )
        if found is not None:
            self._go(found.reading)
        return found

    def step_line(self, way: int) -> bool:
        """Pause, and go to the next line of the journal or the one before; whether there is one."""
        self.clock.pause()
        line = bisect_left(self.index.line_readings, self._taken) - 1 + way
        if not 0 <= line < len(self.index.line_readings):
            return False
        self._go(self.index.line_readings[line] + 1)
        return True

    def mark(self) -> tuple[float, ...]:
        """Set the beginning of a range, then its end, then forget both. The marks there are now, ascending."""
        at = self.at
        self._marks = () if len(self._marks) == 2 else tuple(sorted((*self._marks, at)))
        return self._marks

    # ----- reading, playing, going

    def _go(self, reading: int) -> None:
        self._ended = False
        self._wanted = reading
        self.clock.move(self.index.due[reading - 1])
        self._wake.set()

    async def _read(self) -> None:
        while self.index.step(SLICE):
            self._grown.set()
            await asyncio.sleep(0.002 if self._wanted is None else 0)  # who waits for it gets more of it
        self._grown.set()
        self._wake.set()

    async def _due(self) -> None:
        """Wait until something is to be done: the operator moved, a reading falls due, more was read."""
        while not self._wake.is_set():
            index = self.index
            if self.clock.paused or self._ended:
                await self._wake.wait()
            elif self._taken < len(index):
                waiting = asyncio.ensure_future(self.clock.sleep_until(index.due[self._taken]))
                woken = asyncio.ensure_future(self._wake.wait())
                try:
                    await asyncio.wait((waiting, woken), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()
                    woken.cancel()
                return
            elif index.done:
                self._ended = True
                self.clock.move(index.end)
                self.clock.pause()
                return
            else:
                await self._more()

    async def _more(self) -> None:
        self._grown.clear()
        await self._grown.wait()

    async def _played(self) -> AsyncIterator[Batch]:
        if not self.clock.paused:
            async for batch in self._take_to(self.index.number(self.clock.now())):
                yield batch

    async def _moved(self) -> AsyncIterator[Batch]:
        """Go to where the operator wants to be: on from here, or from a copy of the fold that is nearer."""
        index = self.index
        wanted = self._wanted if self._wanted is not None and self._wanted >= 0 else None
        while wanted is None and not index.done and index.end <= self.clock.now():
            await self._more()
        self._wanted = None
        if wanted is None:
            if index.done:
                self.clock.move(min(self.clock.now(), index.end))
            wanted = index.number(self.clock.now())
        stop = index.before(wanted)
        if self._taken <= wanted and stop.reading <= self._taken:
            first: Batch | None = None
        else:
            self.state = stop.fold.state()
            self._taken, self._lines = stop.reading, stop.lines
            first = Batch(ALL, instead=index.columns.upto(stop.lines, stop.marker))
        gathered = [batch async for batch in self._take_to(wanted)]
        if first is not None:
            yield first
        for batch in gathered:
            yield batch
        yield Batch(ALL)

    async def _take_to(self, number: int) -> AsyncIterator[Batch]:
        """Fold up to so many readings; a batch each time the event loop has had its turn."""
        lines: list[JournalLine] = []
        offsets: list[int] = []
        changes = Changes.NONE
        began = time.perf_counter()
        folded = 0
        while self._taken < number:
            place = self.index.places[self._taken]
            reading = self._reader.read(place)
            self._taken += 1
            if isinstance(reading, JournalLine):
                lines.append(reading)
                offsets.append(place)
                if len(lines) - folded < LINES_AT_ONCE:
                    continue
            if len(lines) > folded:
                changes |= self.state.apply_lines(lines[folded:])
                folded = len(lines)
            if not isinstance(reading, JournalLine):
                changes |= self.state.apply(reading)
            if time.perf_counter() - began > SLICE:
                yield Batch(changes, lines, offsets)
                lines, offsets, changes, folded = [], [], Changes.NONE, 0
                await asyncio.sleep(0)
                began = time.perf_counter()
        if len(lines) > folded:
            changes |= self.state.apply_lines(lines[folded:])
        self._lines += len(lines)
        if changes:
            yield Batch(changes, lines, offsets)


def opening(reader: SessionReader) -> float:
    """When a recording begins, UTC seconds: by its header, else by its first reading."""
    if reader.header.started > 0:
        return reader.header.started
    return next((reading.at for _, reading in reader), 0.0)


async def _within(event: asyncio.Event, limit: float) -> None:
    try:
        async with asyncio.timeout(limit):
            await event.wait()
    except TimeoutError:
        return
