"""The panes by name, where only one of them is shown at a time."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.events import Click
from textual.message import Message

from tui.text import safe
from tui.widgets.rows import Row, Rows


class Tabs(Rows):
    class Chosen(Message):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, *, id: str = "tabs") -> None:
        super().__init__(id=id)
        self._spans: list[tuple[int, int]] = []

    def show(self, tabs: Sequence[tuple[str, str]], current: int) -> None:
        """``tabs``: (name, figure); the figures go first where room is short, then the longer names."""
        width = self.inner.width
        for short in (False, True):
            row = self._row(tabs, current, figures=not short)
            if cell_len(row.text) <= width:
                break
        self.fill([row])

    def _row(self, tabs: Sequence[tuple[str, str]], current: int, *, figures: bool) -> Row:
        row = Row()
        self._spans = []
        for number, (name, figure) in enumerate(tabs):
            start = cell_len(row.text)
            text = f" {number + 1} {name} "
            if number == current:
                row(text, "tab")
            else:
                row(text, "muted")
            if figures and figure:
                row(f"{safe(figure)} ", "tab" if number == current else "text")
            self._spans.append((start, cell_len(row.text)))
        return row

    def on_click(self, event: Click) -> None:
        for number, (start, end) in enumerate(self._spans):
            if start <= event.x < end:
                self.post_message(self.Chosen(number))
                return
