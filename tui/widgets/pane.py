"""Titled boxes of rows, and the panes of the watch, drawn again only where a row differs."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size

from tui.keys import bindings
from tui.scene import Scene
from tui.text import safe
from tui.widgets.rows import Row, Rows


class Box(Rows, can_focus=True):
    """Rows in a titled border, moved through with the keys of hands that know less and vi."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("pane")]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._titled: tuple[str, str] = ("", "")

    def title(self, text: str, below: str = "") -> None:
        """Set the title and the text in the lower edge; the border is painted again only if they differ."""
        if (text, below) != self._titled:
            self._titled = (text, below)
            self.border_title = Content(safe(text))
            self.border_subtitle = Content(safe(below))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("up", "down", "page_up", "page_down", "top", "bottom"):
            return self.max_scroll_y > 0
        return super().check_action(action, parameters)

    def _to(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, immediate=True)

    def action_down(self) -> None:
        self._to(self.scroll_offset.y + 1)

    def action_up(self) -> None:
        self._to(self.scroll_offset.y - 1)

    def action_page_down(self) -> None:
        self._to(self.scroll_offset.y + max(1, self.inner.height - 1))

    def action_page_up(self) -> None:
        self._to(self.scroll_offset.y - max(1, self.inner.height - 1))

    def action_top(self) -> None:
        self._to(0)

    def action_bottom(self) -> None:
        self._to(self.max_scroll_y)


class Pane(Box):
    """A pane of the watch; ``draw`` says what stands in it."""

    pane: ClassVar[str] = ""
    """Its id."""
    label: ClassVar[str] = ""
    """Its title without figures."""
    tab: ClassVar[str] = ""
    """Its name where one pane is shown at a time."""

    def __init__(self) -> None:
        super().__init__(id=self.pane)
        self._scene: Scene | None = None
        self._drawn: object = None
        self.title(self.label)

    def part(self, scene: Scene) -> object:
        """What its rows are made of, to be compared: while it stays equal, they are not made again."""
        return scene

    def draw(self, scene: Scene, size: Size) -> list[Row]:
        """The rows in ``size`` cells; there may be more rows than fit."""
        raise NotImplementedError

    def heading(self, scene: Scene) -> tuple[str, str]:
        """Title, and what stands in the lower edge."""
        return self.label, ""

    def badge(self, scene: Scene) -> str:
        """A figure for the tab: a count, a percentage."""
        return ""

    def show(self, scene: Scene) -> None:
        self._scene = scene
        self.title(*self.heading(scene))
        size = self.inner
        if self.display and self.is_mounted and size.width > 0:
            wanted = (size, self.part(scene))
            if wanted != self._drawn:
                self._drawn = wanted
                self.fill(self.draw(scene, size))

    def redraw(self) -> None:
        self._drawn = None
        if self._scene is not None:
            self.show(self._scene)

    def on_resize(self) -> None:
        self.redraw()

    def on_show(self) -> None:
        self.redraw()
