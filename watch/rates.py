"""From a bar, or from bytes read, to the time at which it will be full."""

from __future__ import annotations

import math
from collections.abc import Sequence

from watch.pieces import Point, ran

_RECENT = 0.35
"""Share of what is done over which the recent pace is taken."""
_NEWS = 0.5
"""Weight of the recent pace against the pace since the bar's start. Shards are not alike, page caches run out and
prefetchers get ahead: the whole bar forgets nothing, the last part knows what is true now; neither is right alone."""


def bar_ends(bar: Sequence[Point], now: float) -> tuple[float, float] | None:
    """When the bar will be full (UTC seconds) and the share of it that is done (0–1). None: too early to say.

    ``bar``: updates of one bar, oldest first. A bar that has not moved for longer than it usually takes is about to
    finish its next unit at best: its end moves away with ``now``.
    """
    if not bar or bar[-1].done <= 0 or bar[-1].total <= 0:
        return None
    first, last = bar[0], bar[-1]
    start = first.at - ran(first)
    if first.done > 0:
        start = min(start, last.at - ran(last))
    now = max(now, last.at)
    left = last.total - last.done
    if left <= 0:
        return last.at, 1.0
    whole = max(last.at - start, 0.25) / last.done
    edge = next((p for p in reversed(bar) if p.done <= last.done * (1 - _RECENT) and p.at < last.at), None)
    recent = (last.at - edge.at) / (last.done - edge.done) if edge is not None and edge.done < last.done else whole
    pace = math.exp((1 - _NEWS) * math.log(max(whole, 1e-9)) + _NEWS * math.log(max(recent, whole / 20, 1e-9)))
    unit = _step(bar)
    silent = now - last.at
    if silent <= pace * unit:
        return max(now, last.at + pace * left), last.done / last.total
    # The next update is late: it may come now, and what is left is at least as slow as this wait.
    slower = max(pace, silent / unit)
    rest = max(0.0, left - unit)
    return now + math.sqrt(pace * slower) * rest, last.done / last.total


def bytes_end(read: float, total: float, rate: float, now: float) -> tuple[float, float] | None:
    """The same from bytes: ``read`` of ``total`` so far, ``rate`` bytes a second. None: nothing moves, or what is read
    no longer says anything (more than the whole: every rank reads on its own)."""
    if not (total > 0 and rate > 0 and 0 < read < total):
        return None
    return now + (total - read) / rate, read / total


def _step(bar: Sequence[Point]) -> float:
    """How much the bar usually moves from one update to the next (the newest updates count)."""
    steps = sorted(b.done - a.done for a, b in zip(bar[-8:], bar[-7:], strict=False) if b.done > a.done)
    return steps[len(steps) // 2] if steps else max(1.0, bar[-1].done)
