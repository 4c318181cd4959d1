"""The line in which a search is typed."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from tui.keys import bindings


class SearchLine(Input):
    """Shown while the operator types; Enter searches, Escape leaves things as they were."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("search")]

    class Ended(Message):
        """``wanted``: what to search, empty to end the search; None: nothing was decided."""

        def __init__(self, wanted: str | None) -> None:
            super().__init__()
            self.wanted = wanted

    def __init__(self, hint: str = "search the journal, empty ends the search") -> None:
        super().__init__(placeholder=hint, id="search", compact=True)
        self.cursor_blink = False

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Ended(event.value))

    def action_cancel(self) -> None:
        self.post_message(self.Ended(None))
