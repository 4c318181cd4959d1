"""What a watch hands to its screen: cheap to import, so that a screen can be drawn before the rest is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from probes.readings import JournalLine
from watch.changes import Changes
from watch.columns import Columns

Mode = Literal["live", "demo", "replay"]


@dataclass(frozen=True, slots=True)
class Batch:
    """What arrived together. ``offsets[i]`` is where ``lines[i]`` stands in the session file: ``Watching.line`` takes
    it. A batch may be empty of lines (samples, link state).

    While a long back-log is read, ``newest`` are its newest lines ahead of their turn, and ``backlog`` says how much of
    it has been read, 0 to 1; None: what came is all there is."""

    changes: Changes
    lines: Sequence[JournalLine] = ()
    offsets: Sequence[int] = ()
    instead: Columns | None = None
    newest: Sequence[JournalLine] = ()
    backlog: float | None = None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How the watch itself is doing, for the header. ``speed``: times real time. ``recording``: path of the session
    file, empty when nothing is recorded; ``recording_error``: why recording stopped, one sentence. ``label``: what is
    played and how, for a demo or replay ("recorded load of demo-30b-a3b on 2 × NVIDIA H200, played at 30×")."""

    mode: Mode = "live"
    speed: float = 1.0
    recording: str = ""
    recording_error: str = ""
    ended: bool = False
    label: str = ""
    backlog: float | None = None
    """how much of a long back-log has been read, 0 to 1; None: none is being read"""
    others: tuple[str, ...] = ()
    """who else looks at this watch, each as he named himself"""
