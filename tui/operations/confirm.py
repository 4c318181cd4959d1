"""Asks before anything is done. The first button is Cancel and has the focus; no single key says yes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Click

from tui.keys import bindings
from tui.leaving import Modal
from tui.text import clip, safe
from tui.widgets.footer import Footer
from tui.widgets.pane import Box
from tui.widgets.rows import Row, Rows, paragraph

_HINT: Final = "Tab chooses, Enter does it, Esc leaves all as it is"
_EDGES: Final = 2
_AROUND: Final = 7
"""Rows of the screen that the body leaves free: buttons, edges, the watch behind it."""


class Buttons(Rows):
    """Cancel, and what is asked. ``yes``: its words. ``on``: whether it can be chosen at all."""

    def __init__(self, yes: str) -> None:
        super().__init__(id="confirm-buttons")
        self.yes = yes
        self.on = False
        self.at = 0
        self._spans: tuple[tuple[int, int], ...] = ()

    def draw(self) -> None:
        row = Row()
        spans = []
        for number, word in enumerate(("Cancel", self.yes)):
            word = clip(safe(word), max(8, self.inner.width - 20))
            row("   " if number else " ", "")
            start = cell_len(row.text)
            if number == self.at:
                row(f"▸ {word} ◂", "badge")
            elif number and not self.on:
                row(f"  {word} (not now)  ", "faint")
            else:
                row(f"  {word}  ", "text")
            spans.append((start, cell_len(row.text)))
        self._spans = tuple(spans)
        self.fill([row])

    def on_resize(self) -> None:
        self.draw()

    def on_click(self, event: Click) -> None:
        """The first click chooses, one on what is chosen does it."""
        screen = self.screen
        for number, (start, end) in enumerate(self._spans):
            if start <= event.x < end and isinstance(screen, Confirm):
                if number == self.at:
                    screen.action_press()
                else:
                    screen.choose(number)


class Body(Box):
    """Asks its screen for rows when its width changes."""

    def __init__(self) -> None:
        super().__init__(id="confirm-body")

    def on_resize(self) -> None:
        if isinstance(self.screen, Confirm):
            self.screen.fill()


class Confirm(Modal[bool]):
    """``rows``: what is said, for a width. A subclass may say more as it comes to know it."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("confirm")]

    def __init__(self, title: str, yes: str, rows: Callable[[int], Sequence[Row]] | None = None) -> None:
        super().__init__()
        self._title = title
        self._rows = rows
        self.body = Body()
        self.buttons = Buttons(yes)
        self.buttons.on = rows is not None

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm"):
            yield self.body
            yield self.buttons
        yield Footer()  # else the watch's keys would be offered, of which none works here

    def on_mount(self) -> None:
        self.body.title(self._title, _HINT)
        self.body.focus()
        self.fill()

    def on_resize(self) -> None:
        self.fill()

    def rows(self, width: int) -> Sequence[Row]:
        return self._rows(width) if self._rows is not None else ()

    def fill(self) -> None:
        width = self.body.inner.width
        if width <= 0:
            return
        rows = self.rows(width)
        self.body.styles.height = min(len(rows) + _EDGES, max(6, self.size.height - _AROUND))
        self.body.fill(rows)
        if not self.buttons.on:
            self.buttons.at = 0
        self.buttons.draw()

    def choose(self, number: int) -> None:
        if number == 0 or self.buttons.on:
            self.buttons.at = number
            self.buttons.draw()

    def action_step(self, way: int) -> None:
        self.choose((self.buttons.at + way) % 2)

    def action_press(self) -> None:
        self.dismiss(self.buttons.at == 1 and self.buttons.on)

    def action_cancel(self) -> None:
        self.dismiss(False)


def warning(text: str) -> Callable[[int], list[Row]]:
    """Rows of one sentence."""

    def rows(width: int) -> list[Row]:
        return [Row(), *paragraph(text, width - 2, indent=1), Row()]

    return rows
