"""The time bar of a replay: where it is, how fast it goes, where phases begin and findings were made."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from textual.events import Click
from textual.message import Message

from tui.signs import SEVERITIES
from tui.units import elapsed
from tui.widgets.rows import Row, Rows
from watch.timeline import Moment, Timeline

_SHORTEST: Final = 10
_SIGN: Final = {"note": "✎", "action": "▣", "load": "┃", "phase": "│"}


class TimeBar(Rows):
    """One row. A click goes to where it points."""

    class Wanted(Message):
        def __init__(self, at: float) -> None:
            super().__init__()
            self.at = at

    def __init__(self) -> None:
        super().__init__(id="timebar")
        self._timeline: Timeline | None = None
        self._clock = ""
        self._bar = (0, 0)

    def show(self, timeline: Timeline, clock: str = "") -> None:
        """``clock``: what the recorded host's clock says."""
        self._timeline, self._clock = timeline, clock
        width = self.inner.width
        if width > 0:
            row, self._bar = time_row(timeline, width, clock)
            self.fill([row])

    def on_resize(self) -> None:
        if self._timeline is not None:
            self.show(self._timeline, self._clock)

    def on_click(self, event: Click) -> None:
        first, width = self._bar
        timeline = self._timeline
        if timeline is not None and width > 1 and first <= event.x < first + width:
            share = (event.x - first) / (width - 1)
            self.post_message(self.Wanted(timeline.start + share * (timeline.end - timeline.start)))


def time_row(timeline: Timeline, width: int, clock: str = "") -> tuple[Row, tuple[int, int]]:
    """The row in ``width`` cells, and where the bar stands in it: first cell, cells."""
    start, end, at = timeline.start, timeline.end, timeline.at
    ended = timeline.read >= 1.0 and at >= end > start
    sign = f"▶ {timeline.speed:g}×" if timeline.playing else "■ end" if ended else "❚❚ paused"
    left = Row()(f" {sign:<9}", "strong")(f" {elapsed(at - start)}", "strong")
    if clock and width >= 100:
        left(f"  {clock}", "muted")
    right = Row()(f" {elapsed(end - start)} ", "muted")
    if timeline.read < 1.0:
        right = Row()(f" {elapsed(end - start)}… {timeline.read:.0%} read ", "muted")
    if len(timeline.marks) == 2:
        right(f" range {elapsed(timeline.marks[1] - timeline.marks[0])} ", "accent")
    elif timeline.marks:
        right(f" from {elapsed(timeline.marks[0] - start)} ", "accent")
    left(" ", "")
    room = width - cell_len(left.text) - cell_len(right.text)
    if room < _SHORTEST:
        return left.__class__([*left, *right]), (0, 0)
    first = cell_len(left.text)
    left.extend(_bar(timeline, room))
    left.extend(right)
    return left, (first, room)


def _bar(timeline: Timeline, width: int) -> Row:
    cells = [("━", "bar")] * width
    here = _cell(timeline.at, timeline, width)
    for number in range(here, width):
        cells[number] = ("─", "bar-rest")
    for moment in sorted(timeline.moments, key=_weight):
        if moment.kind == "finding" and moment.severity == "info":
            continue  # they can be gone to; here they would hide what matters
        cells[_cell(moment.at, timeline, width)] = _mark(moment)
    for number, at in enumerate(timeline.marks):
        cells[_cell(at, timeline, width)] = ("[]"[number], "find")
    cells[here] = ("●", "strong")
    row = Row()
    for text, style in cells:
        row(text, style)
    return row


def _cell(at: float, timeline: Timeline, width: int) -> int:
    span = timeline.end - timeline.start
    share = (at - timeline.start) / span if span > 0 else 0.0
    return min(width - 1, max(0, round(share * (width - 1))))


def _weight(moment: Moment) -> tuple[int, str]:
    """What is drawn last is seen where several fall into one cell."""
    order = {"phase": 0, "load": 1, "action": 2, "note": 3, "finding": 4}
    severity = {"info": 0, "warning": 1, "error": 2, "fatal": 3}
    return order[moment.kind] * 10 + severity[moment.severity], moment.text


def _mark(moment: Moment) -> tuple[str, str]:
    if moment.kind == "finding" or moment.severity == "fatal":
        sign = SEVERITIES[moment.severity]
        return sign.sign, sign.style
    return _SIGN[moment.kind], "accent" if moment.kind in ("note", "action") else "muted"
