"""A recording as a feed: its readings in the order and at the pace in which they came, times a speed."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar

from probes.clock import StoryClock
from probes.readings import AnyReading, Reading
from watch.session import SessionReader

STRAY = 600.0
"""Seconds: a reading that claims to be so much later than the one after it has a wrong time, and is not waited for."""

MOST = 500
"""Readings in a batch, so that a screen gets its turn while a long backlog comes in."""

R = TypeVar("R", bound=Reading)


class Replay:
    """Gives what a session file holds, and is the tape it is read back from.

    ``clock`` says what time it is; it stops with the last reading. Readings from before the recording began (a
    journal that was there already) come at once, as they did then.
    """

    path: Path | None = None
    stopped = ""
    recording = False

    def __init__(self, reader: SessionReader, clock: StoryClock) -> None:
        self._reader = reader
        self._clock = clock
        self._places: deque[int] = deque()

    async def batches(self) -> AsyncIterator[list[Reading]]:
        """The readings that are due, until the recording is over. To be iterated once."""
        batch: list[Reading] = []
        last: float | None = None
        for at, place, reading in _due(iter(self._reader)):
            if batch and (at > self._clock.now() or len(batch) >= MOST):
                yield batch
                batch = []
            if last is None or at > last:
                await self._clock.sleep_until(at)
                last = at
            batch.append(reading)
            self._places.append(place)
        if batch:
            yield batch
        self._clock.pause()
        if last is not None:
            self._clock.move(last)

    def keep(self, reading: R) -> tuple[int, R]:
        """The place of a reading in its file; asked for each reading, in the order in which they were given."""
        return self._places.popleft(), reading

    def clean(self, reading: R) -> R:
        """A recording has no secrets any more."""
        return reading

    def read(self, place: int) -> AnyReading:
        """The reading at a place. Raises ValueError or OSError."""
        return self._reader.read(place)

    def flush(self) -> None:
        """Nothing is written."""


def opening(reader: SessionReader) -> float:
    """When a recording begins, UTC seconds: by its header, else by its first reading."""
    if reader.header.started > 0:
        return reader.header.started
    return next((reading.at for _, reading in reader), 0.0)


def _due(readings: Iterator[tuple[int, AnyReading]]) -> Iterator[tuple[float, int, AnyReading]]:
    """Each reading with the time to give it at: its own, unless the next one shows that to be wrong."""
    held = next(readings, None)
    while held is not None:
        following = next(readings, None)
        place, reading = held
        at = reading.at
        if following is not None and at > following[1].at + STRAY:
            at = following[1].at
        yield at, place, reading
        held = following
