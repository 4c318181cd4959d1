"""Help: every key and what it does, made from the same table as the bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui.keyed import keys_of
from tui.keys import PLACES, bindings, table
from tui.leaving import Modal
from tui.text import right, wrap
from tui.widgets.footer import Footer
from tui.widgets.pane import Box
from tui.widgets.rows import Row

_KEYS = 22


class HelpScreen(Modal[None]):
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("help")]

    def __init__(self) -> None:
        super().__init__()
        self.whole = HelpRows()

    def compose(self) -> ComposeResult:
        yield self.whole
        yield Footer()

    def on_mount(self) -> None:
        self.whole.title("Help ── every key", "keys can be changed in the configuration, by these names")
        self.whole.focus()

    def action_close(self) -> None:
        self.dismiss()


class HelpRows(Box):
    def __init__(self) -> None:
        super().__init__(id="whole")

    def on_resize(self) -> None:
        if self.inner.width > 0:
            self.fill(list(self._lines(self.inner.width)))

    def _lines(self, width: int) -> Iterable[Row]:
        # room for the longest name: it is what a configuration has to say
        ids = max(len(key.id) for key in table()) + 1 if width >= 96 else 0
        for place, title in PLACES.items():
            keys = [key for key in table() if key.where == place]
            yield Row()
            yield Row()(f" {title}", "title strong")
            for key in keys:
                shown = ", ".join(self._displays(key.id, key.keys))
                for number, words in enumerate(wrap(key.help, width - _KEYS - 4 - ids)):
                    row = Row()(right("" if number else shown, _KEYS), "key")("  ", "")(words)
                    if ids and not number:
                        row(" " * (width - ids - 1 - len(row.text)), "")(key.id, "faint")
                    yield row
        yield Row()

    def _displays(self, name: str, keys: str) -> list[str]:
        """The keys as this operator has them."""
        chosen = keys_of(self.app, name)
        return [self.app.get_key_display(binding) for binding in Binding.make_bindings([Binding(chosen or keys, "")])]
