"""One out of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.keys import bindings
from tui.leaving import Modal
from tui.options import Options
from tui.text import content


class Choice(Modal[str | None]):
    """``options``: (value, text); the answer is a value, or None for no choice."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("choice")]

    def __init__(self, question: str, options: Sequence[tuple[str, str]], current: str) -> None:
        super().__init__()
        self._question = question
        self._options = options
        self._start = current

    def compose(self) -> ComposeResult:
        with Vertical(id="choice") as box:
            box.border_title = content(self._question)
            yield Options(*(Option(content(text)) for _, text in self._options), markup=False)

    def on_mount(self) -> None:
        values = [value for value, _ in self._options]
        chooser = self.query_one(OptionList)
        chooser.highlighted = values.index(self._start) if self._start in values else 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._options[event.option_index][0])

    def action_cancel(self) -> None:
        self.dismiss(None)
