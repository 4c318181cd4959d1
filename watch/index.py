"""The index of a recording: where its readings stand, when each is due, what happened, and the fold at moments on the
way, so that any time of it can be gone to at once."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from probes.readings import AnyReading, JournalLine, Note, OperatorAction
from watch.changes import Changes
from watch.columns import Columns
from watch.lines import LineMarker
from watch.session import SessionReader
from watch.snapshots import Snapshot
from watch.state import WatchState
from watch.timeline import Kind, Moment
from watch.words import Severity

STRAY = 600.0
"""Seconds: a reading that claims to be so much later than the one after it has a wrong time, and is not waited for."""

BACK = 30.0
"""Seconds: two samples in a row that are so much earlier than what came before say that the host's clock was set."""

APART = 0.060
"""Seconds of folding between two copies of the fold: what it takes at most, about, to go from a copy to any moment
near it."""

MOST_STOPS = 512
"""Copies kept; when there are more, every other one is dropped and they are taken half as often."""

LINES_AT_ONCE = 100

_TELLING = Changes.LOAD | Changes.FINDINGS


class Stop(Struct, frozen=True):
    """The fold after ``reading`` readings, ``lines`` of them journal lines."""

    reading: int
    lines: int
    fold: Snapshot
    marker: LineMarker


class Index:
    """Built by ``step``, slice by slice. ``start``: when the recording began, UTC seconds; ``fold``: an empty fold.

    Times of the replay (``due``) never go backwards. They are UTC seconds until the host's clock is set back; from then
    on ``shift(reading)`` is what they are ahead of it.
    """

    def __init__(self, reader: SessionReader, fold: Callable[[], WatchState], start: float) -> None:
        self.start = start
        self.due = array("d")
        self.places = array("Q")
        self.line_readings = array("I")
        """number of the reading that each journal line is"""
        self.columns = Columns()
        self.moments: list[Moment] = []
        self.done = False
        self._reader = reader
        self._state = fold()
        self._readings = self._read()
        self._stops = [Stop(0, 0, Snapshot(self._state), self.columns.marker())]
        self._apart = APART
        self._spent = 0.0
        self._told: set[tuple[int, str]] = set()
        self._number = 0
        self._findings: set[tuple[int, str, str]] = set()
        self._shifts: list[tuple[int, float]] = [(0, 0.0)]
        self._sampled = 0.0
        self._back = False

    def __len__(self) -> int:
        return len(self.due)

    @property
    def end(self) -> float:
        """When the last reading known so far is due."""
        return self.due[-1] if self.due else self.start

    @property
    def share(self) -> float:
        """How much of the file has been read, 0 to 1."""
        if self.done:
            return 1.0
        return self.places[-1] / max(1, self._reader.size) if self.places else 0.0

    def shift(self, reading: int) -> float:
        """Seconds that the replay's time is ahead of the host's clock once so many readings are taken in."""
        return self._shifts[bisect_right(self._shifts, (reading, float("inf"))) - 1][1]

    def before(self, reading: int) -> Stop:
        """The copy of the fold nearest before so many readings."""
        return self._stops[bisect_right(self._stops, reading, key=lambda stop: stop.reading) - 1]

    def number(self, at: float) -> int:
        """How many readings are due by then."""
        return bisect_right(self.due, at)

    @property
    def stops(self) -> Sequence[Stop]:
        return self._stops

    # ----- building

    def step(self, seconds: float) -> bool:
        """Read on for about so long; whether there is more to be read."""
        began = time.perf_counter()
        lines: list[JournalLine] = []
        places: list[int] = []
        for place, reading in self._readings:
            self.places.append(place)
            if isinstance(reading, JournalLine):
                self.line_readings.append(len(self.places) - 1)
                lines.append(reading)
                places.append(place)
                if len(lines) < LINES_AT_ONCE:
                    continue
            self._take(lines, places, reading)
            lines, places = [], []
            if time.perf_counter() - began > seconds:
                break
        else:
            self.done = True
        self._take(lines, places, None)
        self._spent += time.perf_counter() - began
        if self._spent > self._apart:
            self._spent = 0.0
            self._stop()
        return not self.done

    def _take(self, lines: list[JournalLine], places: list[int], reading: AnyReading | None) -> None:
        alone = reading is not None and not isinstance(reading, JournalLine)
        if lines:
            self.columns.add(lines, places)
            if self._state.apply_lines(lines) & _TELLING:
                self._note(len(self.places) - len(lines) - alone, [line.at for line in lines])
        if reading is None or isinstance(reading, JournalLine):
            return
        if self._state.apply(reading) & _TELLING:
            self._note(len(self.places) - 1, [reading.at])
        if isinstance(reading, Note):
            self._moment(len(self.places), "note", reading.text)
        elif isinstance(reading, OperatorAction) and reading.step in ("begin", "end"):
            self._moment(len(self.places), "action", f"{reading.action}: {reading.outcome}")

    def _note(self, first: int, times: Sequence[float]) -> None:
        """What is new about the load since the reading ``first``; ``times`` are those of the readings from it on."""

        def told(at: float) -> int:
            return first + 1 + next((n for n, when in enumerate(times) if when >= at), len(times) - 1)

        attempt = self._state.attempts.current
        load = attempt.load if attempt is not None else None
        if load is not None:
            for phase, span in list(load.spans.items()):
                if phase != "n/a" and (load.number, phase) not in self._told:
                    new = self._number != load.number
                    self._number = load.number
                    self._told.add((load.number, phase))
                    self._moment(told(span.started), "load" if new else "phase", phase)
            if load.failed_at is not None and (load.number, "failed") not in self._told:
                self._told.add((load.number, "failed"))
                self._moment(told(load.failed_at), "phase", f"failed in {load.phase}", "fatal")
        number = load.number if load is not None else 0
        fresh = [entry for entry in self._state.findings.entries(number) if entry.key not in self._findings]
        if not fresh:
            return
        self._findings.update(entry.key for entry in fresh)
        views = {view.id: view for view in self._state.findings.views(number)}
        for entry in fresh:
            view = views.get(entry.row.id)
            if view is not None and not view.benign:
                self._moment(told(entry.first), "finding", view.title, view.severity)

    def _moment(self, reading: int, kind: Kind, text: str, severity: Severity = "info") -> None:
        moment = Moment(self.due[reading - 1], reading, kind, text, severity)
        insort(self.moments, moment, key=lambda one: one.reading)

    def _stop(self) -> None:
        self._stops.append(Stop(len(self.due), len(self.columns), Snapshot(self._state), self.columns.marker()))
        if len(self._stops) > MOST_STOPS:
            del self._stops[1::2]
            self._apart *= 2

    def _read(self) -> Iterator[tuple[int, AnyReading]]:
        """The readings, each timed before it is given."""
        readings = iter(self._reader)
        held = next(readings, None)
        while held is not None:
            following = next(readings, None)
            place, reading = held
            at = reading.at
            # a journal that tells of hours ago among the samples of now says nothing about these
            told = following is not None and (
                isinstance(reading, JournalLine) or not isinstance(following[1], JournalLine)
            )
            if told and following is not None and at > following[1].at + STRAY:
                at = following[1].at
            elif following is None and self.due and at > self.due[-1] + STRAY:
                at = self.due[-1] - self._shifts[-1][1]
            self.due.append(self._due(at, isinstance(reading, JournalLine)))
            yield place, reading
            held = following

    def _due(self, at: float, line: bool) -> float:
        """When a reading is due. A journal may tell of hours ago among the samples of now; samples may not."""
        last = self.due[-1] if self.due else self.start
        shift = self._shifts[-1][1]
        if not line:
            early = at < self._sampled - BACK
            if early and self._back:
                shift = last - at
                self._shifts.append((len(self.due) + 1, shift))
                early = False
            self._back = early
            self._sampled = self._sampled if early else at
        return max(last, at + shift)
