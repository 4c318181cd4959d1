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
_STARTED = 19


class Columns(NamedTuple):
    """Cells of the names."""

    names: int


def columns(recordings: Sequence[Recording]) -> Columns:
    return Columns(min(_MOST, max((cell_len(names(one)) for one in recordings), default=10)))


def names(recording: Recording) -> str:
    header = recording.header
    return f"{safe(header.unit).removesuffix('.service') or 'unknown'} @ {safe(header.target) or 'unknown'}"


def heading(wide: Columns, zone: Zone, at: float) -> str:
    return (
        f"{pad('DEPLOYMENT', wide.names)}  {pad(f'STARTED ({zone.name(at)})', _STARTED)}  "
        f"{right('LENGTH', 12)}  {pad('OUTCOME', 13)}  {right('SIZE', 9)}  "
    )


def row(recording: Recording, wide: Columns, zone: Zone, width: int, *, last: str = "") -> str:
    """One line, at most ``width`` cells. ``last``: stands at its end instead of what became of it in words."""
    length = elapsed(recording.ended - recording.started) if recording.started and not recording.problem else "–"
    outcome = recording.outcome
    sign = _SIGN.get(outcome) or STATES[outcome].sign
    started = f"{zone.day(recording.started)} {zone.clock(recording.started)}" if recording.started else "–"
    why = recording.problem.removeprefix(f"{recording.path} ").removeprefix(f"{recording.path}: ") or (
        recording.summary.headline if recording.summary is not None else ""
    )
    if not outcome:
        why = "being read …"
    line = (
        f"{pad(names(recording), wide.names)}  {pad(started, _STARTED)}  {right(length, 12)}  "
        f"{pad(f'{sign} {outcome}', 13)}  {right(size(recording.bytes), 9)}  {safe(last or why)}"
    )
    return clip(line.rstrip(), width)
