"""A time of a recording, as an operator types it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from typing import Final

from tui.spans import span
from watch.timeline import Timeline

WRITE: Final = "15:32 or 15:32:07, +10m, -30s, 45m (from the beginning), 50 %, start, end, or a phase"

_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


def wanted(text: str, timeline: Timeline, shift: float, zone: tzinfo | None) -> float | None:
    """The time of the replay that is meant; None where it cannot be told. ``shift``: what the replay's time is ahead of
    the clock that is shown, in ``zone``."""
    text = text.strip()
    if clock := _CLOCK.fullmatch(text):
        return _nearest(int(clock[1]), int(clock[2]), int(clock[3] or 0), timeline, shift, zone)
    if text.endswith("%"):
        try:
            share = float(text[:-1])
        except ValueError:
            return None
        return timeline.start + (timeline.end - timeline.start) * share / 100 if 0 <= share <= 100 else None
    if text[:1] in ("+", "-"):
        length = _length(text[1:])
        return None if length is None else timeline.at + (length if text[0] == "+" else -length)
    length = _length(text)
    if length is not None:
        return timeline.start + length
    word = text.lower()
    if word in ("start", "end"):
        return timeline.start if word == "start" else timeline.end
    return next((one.at for one in timeline.moments if one.kind in ("load", "phase") and one.text == word), None)


def _length(text: str) -> float | None:
    try:
        return span(text)
    except ValueError:
        return None


def _nearest(
    hour: int, minute: int, second: int, timeline: Timeline, shift: float, zone: tzinfo | None
) -> float | None:
    """That time of the day within the recording; of several, the one nearest to where it is now."""
    if hour > 23 or minute > 59 or second > 59:
        return None
    day = datetime.fromtimestamp(timeline.start - shift, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    last = timeline.end - shift
    found: list[float] = []
    day -= timedelta(days=1)
    while day.timestamp() <= last and len(found) < 400:
        found.append(day.replace(hour=hour, minute=minute, second=second).timestamp() + shift)
        day += timedelta(days=1)
    inside = [at for at in found if timeline.start - 60 <= at <= timeline.end + 60]
    return min(inside, key=lambda at: abs(at - timeline.at), default=None)
