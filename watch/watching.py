"""One watch without its screen: a feed of readings, recorded and folded, and what changed, a few times a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from probes.clock import SYSTEM, Clock, StoryClock
from probes.readings import AnyReading, BacklogReading, JournalLine, MetricsReading, Reading, UnitFile
from watch.batch import Batch, Mode, SourceStatus
from watch.changes import Changes
from watch.courtesy import Courtesy
from watch.keeping import Recall
from watch.ledger import Ledger
from watch.metrics import thinned
from watch.provisional import Provisional
from watch.session import FLUSH_SECONDS
from watch.state import WatchState
from watch.view import View

PACE = 0.25
"""Seconds between two batches in a flood: what a screen costs falls with it."""

MANY = 2500
"""Lines in one batch that nobody reads any more: the next then waits twice as long."""

BURST = 4
"""Batches that may come at once after a pause, so that lines that come singly are shown without delay."""

GAP = 0.03
"""Seconds between two batches, always: what arrives together is drawn together."""

PATIENCE = 0.25
"""Seconds that samples wait for one another, so that those of one second are drawn together."""

URGENT = Changes.JOURNAL | Changes.LOAD | Changes.FINDINGS | Changes.UNIT | Changes.ACTION | Changes.BENCH
"""What is handed over at once."""

SLICE = 0.005
"""Seconds of recording and folding after which the event loop gets its turn, so that a key is answered."""

LINES_AT_ONCE = 250
"""Journal lines recorded and folded together, well within a slice."""

AHEAD = 20_000
"""Journal lines that may wait for a screen; then the feed waits."""

AHEAD_TEXT = 32 << 20
"""Characters that they may have together."""

R = TypeVar("R", bound=Reading)


class Feed(Protocol):
    """Where readings come from: a live host (``probes.supervise.Supervisor``) or a test's list."""

    def batches(self) -> AsyncIterator[list[Reading]]: ...


class Tape(Protocol):
    """What readings are recorded on and read back from: ``session.SessionWriter``."""

    @property
    def path(self) -> Path | None: ...

    @property
    def stopped(self) -> str: ...

    @property
    def recording(self) -> bool: ...

    def keep(self, reading: R) -> tuple[int, R]: ...

    def keep_all(self, readings: Sequence[R]) -> tuple[list[int], Sequence[R]]: ...

    def clean(self, reading: R) -> R: ...

    def read(self, place: int) -> AnyReading: ...

    def flush(self) -> None: ...


class Watching:
    """Takes in a feed, and is what the screen calls a source.

    ``clock``: the feed's. ``label``: see ``SourceStatus``. ``ledger``: keeps loads in the history.
    ``recall``: what ``state`` asks of earlier loads; its answers are recorded. ``fresh``: makes an
    empty fold like ``state``, for the picture while a long back-log is read. Feed and tape stay the caller's, to be
    closed after this.
    """

    def __init__(
        self,
        feed: Feed,
        state: WatchState,
        tape: Tape,
        *,
        clock: Clock = SYSTEM,
        mode: Mode = "live",
        label: Callable[[], str] | str = "",
        ledger: Ledger | None = None,
        recall: Recall | None = None,
        fresh: Callable[[], WatchState] | None = None,
    ) -> None:
        self.state = state
        self.courtesy = Courtesy()
        """towards whoever is at the keys"""
        self._provisional = Provisional(fresh)
        self._feed = feed
        self._tape = tape
        self._clock = clock
        self._mode: Mode = mode
        self._label = label
        self._ledger = ledger
        self._recall = recall
        self._changes = Changes.NONE
        self._lines: list[JournalLine] = []
        self._text = 0
        self._offsets: list[int] = []
        self._came = asyncio.Event()
        self._urgent = asyncio.Event()
        self._stepped = asyncio.Event()
        self._taken = asyncio.Event()
        self._ended = False
        self._pump: asyncio.Task[None] | None = None
        self._flusher: asyncio.Task[None] | None = None

    @property
    def tape(self) -> Tape:
        """What it is recorded on."""
        return self._tape

    # ----- what the screen asks

    async def batches(self) -> AsyncIterator[Batch]:
        """Everything from the beginning on: lines at once after a pause and each ``PACE`` seconds in a flood, samples
        of one second together. Ends when the feed does. To be iterated once; closing the iterator ends the feed."""
        self.start()
        tokens, counted = float(BURST), time.monotonic()
        try:
            while True:
                many = False
                await self._came.wait()
                if not self._urgent.is_set():
                    await _within(self._urgent, PATIENCE)
                if (batch := self._take()) is not None:
                    many = len(batch.lines) > MANY
                    yield batch
                elif self._ended and self._pump is not None:
                    self._pump.result()  # what should never have happened is not kept from whoever watches
                    return
                now = time.monotonic()
                tokens, counted = min(tokens + (now - counted) / PACE, BURST) - 1.0, now
                await asyncio.sleep(GAP if tokens >= 1.0 else 2 * PACE if many else PACE)
        finally:
            await self.stop()

    def now(self) -> float:
        """UTC seconds: the real time, or that of the recording."""
        return self._clock.now()

    def view(self, now: float) -> View:
        """The picture at ``now``."""
        provisional = self._provisional.state
        return self.state.view(now) if provisional is None else provisional.view(now)

    def line(self, offset: int) -> JournalLine:
        """The journal line at an offset. OSError if the file cannot be read, ValueError if none stands there."""
        reading = self._tape.read(offset)
        if not isinstance(reading, JournalLine):
            raise ValueError(f"no journal line at {offset}")
        return reading

    def status(self) -> SourceStatus:
        return SourceStatus(
            mode=self._mode,
            speed=self._clock.speed if isinstance(self._clock, StoryClock) else 1.0,
            recording=str(self._tape.path) if self._tape.recording else "",
            recording_error=self._tape.stopped,
            ended=self._ended,
            label=self._label if isinstance(self._label, str) else self._label(),
            backlog=self._provisional.share,
        )

    # ----- taking in

    def start(self) -> None:
        """Begin to take in, also before anybody asks for batches. Safe to call again."""
        if self._pump is None:
            self._pump = asyncio.create_task(self._take_in_all())
            self._flusher = asyncio.create_task(self._flush())

    async def until(self, ready: Callable[[], bool], limit: float) -> bool:
        """Take in until ``ready()`` is true, the feed ends, or ``limit`` real seconds are over; what ``ready()`` is."""
        self.start()
        try:
            async with asyncio.timeout(limit):
                while not ready() and not self._ended:
                    self._stepped.clear()
                    await self._stepped.wait()
        except TimeoutError:
            pass
        return ready()

    async def put(self, reading: Reading) -> None:
        """Take in a reading that comes from beside the feed: an operator's action, a diagnosis, a note."""
        await self._take_in([reading])

    async def stop(self) -> None:
        """End the feed. Lines can still be read back. Safe to call again."""
        tasks = [task for task in (self._pump, self._flusher) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tape.flush()

    async def _take_in_all(self) -> None:
        try:
            async for readings in self._feed.batches():
                await self._take_in(readings)
        finally:
            self._ended = True
            for event in (self._came, self._urgent, self._stepped):
                event.set()

    async def _take_in(self, readings: Sequence[Reading]) -> None:
        turn = time.perf_counter()
        at = 0
        while at < len(readings):
            if lines := _lines(readings, at):
                at += len(lines)
                self._take_lines(lines)
            else:
                await self._take_one(readings[at])
                at += 1
            if time.perf_counter() - turn > SLICE or (self.courtesy.asked and at < len(readings)):
                await self.courtesy.turn()
                turn = time.perf_counter()
            while len(self._lines) > AHEAD or self._text > AHEAD_TEXT:
                self._taken.clear()
                await self._taken.wait()

    def _take_lines(self, lines: Sequence[JournalLine]) -> None:
        offsets, kept = self._tape.keep_all(lines)
        self._provisional.see_lines(kept)
        changes = self.state.apply_lines(kept) | Changes.JOURNAL
        self._lines += kept
        self._text += sum([len(line.text) for line in kept])
        self._offsets += offsets
        self._follow(changes)

    async def _take_one(self, reading: Reading) -> None:
        if isinstance(reading, BacklogReading):
            await self._provisional.take(reading, [self._tape.clean(line) for line in reading.lines])
            self._changed(Changes.JOURNAL)
            return
        if isinstance(reading, MetricsReading):
            reading = thinned(reading)
        _, kept = self._tape.keep(reading)
        self._provisional.see(kept)
        if self._ledger is not None:
            self._ledger.see(reading)
        self._follow(self.state.apply(kept), files=isinstance(kept, UnitFile))

    def _follow(self, changes: Changes, *, files: bool = False) -> None:
        ledger = self._ledger
        if ledger is not None and (changes & Changes.LOAD or files or ledger.behind):
            ledger.keep()
        self._changed(changes)

    def _changed(self, changes: Changes) -> None:
        self._changes |= changes
        self._stepped.set()
        if changes:
            self._came.set()
        if changes & URGENT:
            self._urgent.set()

    def _take(self) -> Batch | None:
        if not self._ended:
            self._came.clear()
            self._urgent.clear()
        if not self._changes:
            return None
        behind = self._provisional
        batch = Batch(self._changes, self._lines, self._offsets, newest=behind.newest(), backlog=behind.share)
        self._changes, self._lines, self._offsets, self._text = Changes.NONE, [], [], 0
        self._taken.set()
        return batch

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            for reading in self._recall.fresh() if self._recall is not None else ():
                await self.put(msgspec.structs.replace(reading, at=max(reading.at, self._clock.now())))
            self._tape.flush()


def _lines(readings: Sequence[Reading], at: int) -> list[JournalLine]:
    """Journal lines that follow one another from a place on, not too many of them."""
    lines: list[JournalLine] = []
    for reading in readings[at : at + LINES_AT_ONCE]:
        if not isinstance(reading, JournalLine):
            break
        lines.append(reading)
    return lines


async def _within(event: asyncio.Event, limit: float) -> None:
    try:
        async with asyncio.timeout(limit):
            await event.wait()
    except TimeoutError:
        return
