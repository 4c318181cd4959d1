"""Recordings as rows of a table, on the screen and on standard output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from tui.signs import STATES
from tui.text import clip, pad, right, safe
from tui.units import Zone, elapsed, size
from watch.session.shelf import Recording

_SIGN = {"recording": "●", "unreadable": "!", "": "…"}
_MOST = 40
_NARROW = 90
_REST = 13 + 9 + 5 * 2
_WORDS = 8


class Columns(NamedTuple):
    """Cells of the names, of when it began, of its length."""

    names: int
    started: int
    length: int


def columns(recordings: Sequence[Recording], width: int) -> Columns:
    """For so many cells: where they are few the year and the seconds go, and long names are cut."""
    wanted = min(_MOST, max((cell_len(names(one)) for one in recordings), default=10))
    if width >= _NARROW:
        return Columns(wanted, 19, 12)
    return Columns(max(10, min(wanted, width - 11 - 8 - _REST)), 11, 8)


def names(recording: Recording) -> str:
    header = recording.header
    return f"{safe(header.unit).removesuffix('.service') or 'unknown'} @ {safe(header.target) or 'unknown'}"


def heading(wide: Columns, zone: Zone, at: float) -> str:
    began = f"STARTED ({zone.name(at)})"
    return (
        f"{pad('DEPLOYMENT', wide.names)}  {pad(began if wide.started > len(began) else 'STARTED', wide.started)}  "
        f"{right('LENGTH', wide.length)}  {pad('OUTCOME', 13)}  {right('SIZE', 9)}  "
    )


def row(recording: Recording, wide: Columns, zone: Zone, width: int, *, last: str = "") -> str:
    """One line, at most ``width`` cells. ``last``: stands at its end instead of what became of it in words."""
    length = elapsed(recording.ended - recording.started) if recording.started and not recording.problem else "–"
    outcome = recording.outcome
    sign = _SIGN.get(outcome) or STATES[outcome].sign
    at = recording.started or recording.changed  # of one that cannot be read: when it was last written
    started = f"{zone.day(at)} {zone.clock(at)}"
    if len(started) > wide.started:
        started = started[-wide.started - 3 : -3]
    why = recording.problem.removeprefix(f"{recording.path} ").removeprefix(f"{recording.path}: ") or (
        recording.summary.headline if recording.summary is not None else ""
    )
    if not outcome:
        why = "being read …"
    line = (
        f"{pad(names(recording), wide.names)}  {pad(started, wide.started)}  {right(length, wide.length)}  "
        f"{pad(f'{sign} {outcome}', 13)}  {right(size(recording.bytes), 9)}  "
    )
    if last or width - cell_len(line) >= _WORDS:
        line += safe(last or why)
    return clip(line.rstrip(), width)
