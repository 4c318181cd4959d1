"""The keys that apply now, the most useful first, as many as fit."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.events import Click
from textual.screen import Screen

from tui.keyed import keys_of
from tui.keys import by_id, first_key
from tui.widgets.rows import Row, Rows


class Footer(Rows):
    """Made from the screen's active bindings, so that a key that cannot work now is not offered."""

    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self, *, id: str = "footer") -> None:
        super().__init__(id=id)
        self._spans: list[tuple[int, int, str]] = []
        self._due = False

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)
        self.call_after_refresh(self.redraw)

    def on_resize(self) -> None:
        self.redraw()

    def _changed(self, screen: Screen[object]) -> None:
        """Several things change at once, at a start above all: one row is made of them."""
        if screen is self.screen and not self._due:
            self._due = True
            self.call_later(self.redraw)

    def redraw(self) -> None:
        self._due = False
        if self.is_attached and self.inner.width:
            self.fill([self._row(self.inner.width)])

    def _row(self, width: int) -> Row:
        row = Row()
        self._spans = []
        for key, binding in self._offered():
            shown = self.app.get_key_display(binding)
            gap = "   " if row else " "
            start = cell_len(row.text) + len(gap)
            end = start + cell_len(shown) + 1 + cell_len(binding.description)
            if end + 1 > width:
                continue
            row(gap, "")(shown, "key")(" ", "")(binding.description, "muted")
            self._spans.append((start, end, key))
        return row

    def _offered(self) -> list[tuple[str, Binding]]:
        """One key an action, the first that is given for it, in the order of their ranks."""
        table = by_id()
        active = self.screen.active_bindings
        offered: dict[str, tuple[int, str, Binding]] = {}
        for key, (_, binding, enabled, _) in active.items():
            row = table.get(binding.id or "")
            if row is None or not binding.show or not enabled:
                continue
            first = first_key(row.id, keys_of(self.app, row.id))
            if binding.action not in offered or key == first:
                offered[binding.action] = (row.rank, key, binding)
        return [(key, binding) for _, key, binding in sorted(offered.values(), key=lambda item: item[0])]

    def on_click(self, event: Click) -> None:
        for start, end, key in self._spans:
            if start <= event.x < end:
                self.app.simulate_key(key)
                return
