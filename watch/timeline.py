"""What a time bar shows of a recording. Cheap to import."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from watch.words import Severity

Kind = Literal["load", "phase", "finding", "action", "note"]


class Moment(Struct, frozen=True):
    """Something that happened. ``at``: when it is due (seconds of the replay's time). ``reading``: number of readings
    taken in once it has happened. ``text``: the phase, the finding's title, the action, the note: foreign text."""

    at: float
    reading: int
    kind: Kind
    text: str
    severity: Severity = "info"


class Timeline(Struct, frozen=True, kw_only=True):
    """What a time bar shows. Times are the replay's own, in UTC seconds: see ``Index``."""

    start: float
    end: float
    at: float
    playing: bool
    speed: float
    moments: tuple[Moment, ...] = ()
    marks: tuple[float, ...] = ()
    """none, the beginning of a range, or both its ends, ascending"""
    read: float = 1.0
    """how much of the recording has been read, 0 to 1: the rest cannot be gone to yet"""
