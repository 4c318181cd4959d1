"""The base of screens that show one thing whole: rows to scroll, a footer, copy, next and previous."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tui.keys import bindings
from tui.leaving import Modal
from tui.text import safe
from tui.widgets.footer import Footer
from tui.widgets.pane import Box
from tui.widgets.rows import Row


class WholeBox(Box):
    """Asks its screen for rows when its width changes."""

    def __init__(self) -> None:
        super().__init__(id="whole")

    def on_resize(self) -> None:
        if isinstance(self.screen, WholeScreen):
            self.screen.fill()


class WholeScreen(Modal[None]):
    """``rows`` says what is shown; ``text`` what is copied; ``step`` goes to the neighbour."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("line")]

    def __init__(self) -> None:
        super().__init__()
        self.whole = WholeBox()

    def compose(self) -> ComposeResult:
        yield self.whole
        yield Footer()

    def on_mount(self) -> None:
        self.whole.focus()
        self.fill()

    def rows(self, width: int) -> list[Row]:
        raise NotImplementedError

    def text(self) -> str:
        """What is copied, already safe."""
        raise NotImplementedError

    def step(self, way: int) -> bool:
        """Go to the next or the one before; whether there is one."""
        raise NotImplementedError

    def fill(self) -> None:
        width = self.whole.inner.width
        if width > 0:
            self.whole.fill(self.rows(width))

    def action_close(self) -> None:
        self.dismiss()

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.text())
        self.app.notify("Copied.", timeout=2, markup=False)

    def action_step(self, way: int) -> None:
        if self.step(way):
            self.whole.scroll_to(y=0, animate=False, immediate=True)
            self.fill()
            self.refresh_bindings()


def fields(pairs: list[tuple[str, str]]) -> list[Row]:
    """Names and values beside each other; empty values are left out."""
    return [Row()(f" {name:<14}", "muted")(safe(value)) for name, value in pairs if value]
