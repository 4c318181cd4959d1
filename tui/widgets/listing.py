"""A list with a cursor: one row a thing, moved through with the keys of every pane; more may stand below the rows."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Click

from tui.widgets.pane import Box
from tui.widgets.rows import Row


class Listing(Box):
    """``entries`` says what its rows are, ``below`` what stands under them."""

    def __init__(self, *, id: str = "whole") -> None:
        super().__init__(id=id)
        self.at = 0

    @property
    def count(self) -> int:
        raise NotImplementedError

    def entries(self, width: int) -> Sequence[Row]:
        """One row a thing, ``count`` of them."""
        raise NotImplementedError

    def below(self, width: int) -> Sequence[Row]:
        return ()

    def draw(self) -> None:
        width = self.inner.width
        if width <= 0:
            return
        rows = list(self.entries(width))
        if 0 <= self.at < len(rows):
            rows[self.at].base = "cursor"
        self.fill([*rows, *self.below(width)])

    def on_resize(self) -> None:
        self.draw()

    def move(self, at: int) -> None:
        self.at = min(max(0, at), max(0, self.count - 1))
        self.draw()
        self.scroll_to(y=max(0, self.at - self.inner.height // 2), animate=False, immediate=True)
        self.screen.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("up", "down", "page_up", "page_down", "top", "bottom"):
            return self.count > 1
        return super().check_action(action, parameters)

    def action_down(self) -> None:
        self.move(self.at + 1)

    def action_up(self) -> None:
        self.move(self.at - 1)

    def action_page_down(self) -> None:
        self.move(self.at + max(1, self.inner.height - 1))

    def action_page_up(self) -> None:
        self.move(self.at - max(1, self.inner.height - 1))

    def action_top(self) -> None:
        self.move(0)

    def action_bottom(self) -> None:
        self.move(self.count - 1)

    async def on_click(self, event: Click) -> None:
        """The first click chooses, a double click opens: what Enter does on its screen."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y + self.scroll_offset.y < self.count:
            self.move(offset.y + self.scroll_offset.y)
            if event.chain == 2:
                await self.screen.run_action("open")
