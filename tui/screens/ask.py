"""One line to be typed, at the lower edge of what it is asked over."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Label

from tui.leaving import Modal
from tui.text import content
from tui.widgets.searchline import SearchLine


class AskLine(Modal[str | None]):
    """The answer is what was typed, without blanks around it; None for Escape."""

    def __init__(self, question: str, hint: str = "", most: int = 0) -> None:
        super().__init__()
        self._question = question
        self._hint = hint
        self._most = most

    def compose(self) -> ComposeResult:
        with Horizontal(id="ask"):
            yield Label(content(f" {self._question} "), markup=False)
            line = SearchLine(self._hint)
            line.max_length = self._most
            yield line

    def on_mount(self) -> None:
        self.query_one(SearchLine).focus()

    def on_search_line_ended(self, message: SearchLine.Ended) -> None:
        message.stop()
        self.dismiss(message.wanted.strip() if message.wanted is not None else None)
