"""The bar of one phase, followed: how far, how fast. Counters only rise, except with a new bar."""

from __future__ import annotations

from dataclasses import dataclass, field

from watch.bars import Bar
from watch.pieces import Point
from watch.view import Progress

KEEP = 240
"""Points kept of a bar; when there are more, every second of the older ones goes."""
WINDOW = 240.0
"""Seconds over which the rate is taken."""


@dataclass(slots=True)
class Track:
    """``speaker``: who draws the bar (others draw copies)."""

    speaker: int | str
    unit: str
    label: str
    total: float
    done: float = 0.0
    at: float = 0.0
    elapsed: float | None = None
    own_rate: float | None = None
    points: list[Point] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return self.total > 0 and self.done >= self.total

    def restarts(self, bar: Bar) -> bool:
        """Whether this is the first of another bar, not a late copy of this one."""
        if bar.done >= self.done and bar.total == self.total:
            return False
        if self.complete:
            return True
        earlier = bar.elapsed is not None and self.elapsed is not None and bar.elapsed < self.elapsed
        return earlier and (bar.total != self.total or bar.label != self.label)

    def add(self, at: float, bar: Bar) -> bool:
        """Take in an update of this bar. False: it says nothing new (a copy, or an older count)."""
        if bar.total != self.total or bar.done < self.done:
            return False
        moved = bar.done > self.done or not self.points
        self.done, self.at, self.label = bar.done, max(at, self.at), bar.label
        self.elapsed, self.own_rate = bar.elapsed, bar.rate
        if moved:
            self.points.append(Point(self.at, bar.done, bar.total, bar.elapsed))
            if len(self.points) > KEEP:
                del self.points[1:-1:2]
        return moved

    def rate(self) -> float | None:
        """Units a second over the last minutes, from the bar's own counters and its own clock where arrival times say
        less (a buffered bar arrives all at once; a dropped line costs nothing). None: too early to say."""
        last = self.points[-1] if self.points else None
        if last is None:
            return None
        first = None
        for point in reversed(self.points[:-1]):
            if first is not None and _seconds(point, last) > WINDOW:
                break
            first = point
        if first is not None:
            seconds = _seconds(first, last)
            if seconds > 0:
                return (last.done - first.done) / seconds
        if last.elapsed and last.done:
            return last.done / last.elapsed
        return self.own_rate if last.done else None

    def view(self) -> Progress:
        return Progress(
            done=self.done, total=self.total, unit=self.unit, at=self.at, rate=self.rate(), label=self.label
        )


def _seconds(first: Point, last: Point) -> float:
    """Between two points: by arrival, unless the bar's own clock shows that arrival was late or missing."""
    arrived = last.at - first.at
    if first.elapsed is not None and last.elapsed is not None:
        counted = last.elapsed - first.elapsed
        if abs(counted - arrived) > 2.0 and counted > 0:
            return counted
    return arrived


def track(at: float, bar: Bar, unit: str, speaker: int | str) -> Track:
    """A new bar."""
    found = Track(speaker, "bytes" if bar.unit == "bytes" else unit, bar.label, bar.total)
    found.add(at, bar)
    return found
