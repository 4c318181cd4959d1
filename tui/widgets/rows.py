"""Rows of styled text, drawn by Textual's line API: the base of every pane, and the one gate to the terminal.

A pane says what stands in its rows as pieces of text with names of styles; this class makes them safe to show
(``tui.text.safe``), cuts them to its width, and repaints only the rows that differ from before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final, Protocol, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.text import clip, safe, wrap

STYLES: Final = (
    "text",
    "muted",
    "faint",
    "strong",
    "accent",
    "ok",
    "warn",
    "error",
    "title",
    "bar",
    "bar-rest",
    "cursor",
    "cursor-blurred",
    "find",
    "badge",
    "badge-ready",
    "badge-stalled",
    "badge-failed",
    "lost",
    "key",
    "tab",
    "plot-1",
    "plot-2",
    "plot-3",
    "plot-4",
)


class Row(list[tuple[str, str]]):
    """Pieces of one row: (text, styles by name, separated by blanks). ``base``: style of the whole row."""

    def __init__(self, pieces: Iterable[tuple[str, str]] = (), base: str = "") -> None:
        super().__init__(pieces)
        self.base = base

    def __call__(self, text: str, style: str = "text") -> Row:
        """Append a piece; the row itself, so that calls chain."""
        if text:
            self.append((text, style))
        return self

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self.base == other.base and list.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


def bar(ratio: float, width: int) -> Row:
    """A thick bar of ``width`` cells, filled in eighths of a cell; what is left is drawn as ``░``, so that it reads
    without colour."""
    full, rest = divmod(round(_share(ratio) * width * 8), 8)
    filled = "█" * full + ("▏▎▍▌▋▊▉"[rest - 1] if rest else "")
    return Row()(filled, "bar")("░" * (width - len(filled)), "bar-rest")


def line_bar(ratio: float, width: int, style: str = "bar") -> Row:
    """A thin bar, for many below each other: filled in halves of a cell, what is left is a thinner line."""
    full, rest = divmod(round(_share(ratio) * width * 2), 2)
    filled = "━" * full + ("╸" if rest else "")
    return Row()(filled, style)("─" * (width - len(filled)), "bar-rest")


def _share(ratio: float) -> float:
    return min(1.0, max(0.0, ratio)) if ratio == ratio else 0.0


def paragraph(text: str, width: int, style: str = "text", *, indent: int = 0, hang: int = 0) -> list[Row]:
    """Foreign text in as many rows as it needs. ``hang``: more indent from its second row on."""
    rows: list[Row] = []
    for line in text.split("\n"):
        pieces = wrap(safe(line), width - indent - hang)
        rows.extend(Row([(" " * (indent + (hang if at else 0)) + piece, style)]) for at, piece in enumerate(pieces))
    return rows


def beside(left: Sequence[Row], extra: Sequence[Row], width: int) -> list[Row]:
    """Two columns of rows: the right one begins after ``width`` cells."""
    joined: list[Row] = []
    for first, second in zip_longest(left, extra):
        row = Row(first or ())
        row(" " * max(0, width - cell_len(row.text)), "")
        row.extend(second or ())
        joined.append(row)
    return joined


class Dressed(Protocol):
    """An app that knows the styles that pieces of text name."""

    def dress(self, name: str) -> Style:
        """What one name of ``STYLES`` sets: a partial style."""
        ...


class Drawn(ScrollView, can_focus=False):
    """A widget of rows that are made into strips one by one, in an app that is ``Dressed``."""

    ALLOW_SELECT = False

    @property
    def inner(self) -> Size:
        """Cells for the rows: without border, padding and scroll bar."""
        return self.scrollable_content_region.size

    _ground: Style | None = None

    @property
    def ground(self) -> Style:
        """The widget's own style, worked out once: Textual's ``rich_style`` walks the tree each time."""
        if self._ground is None:
            self._ground = self.rich_style
        return self._ground

    def notify_style_update(self) -> None:
        self._ground = None
        super().notify_style_update()

    def style(self, names: str, base: Style | None = None) -> Style:
        """The style of these names, over the base (the widget's own by default)."""
        base = self.ground if base is None else base
        app = cast(Dressed, self.app)
        for name in names.split():
            base += app.dress(name)
        return base

    def strip(self, row: Row, width: int) -> Strip:
        """One row as it is drawn: safe, in exactly ``width`` cells."""
        base = self.style(row.base) if row.base else self.ground
        segments: list[Segment] = []
        used = 0
        for text, names in row:
            text = safe(text)
            shown = clip(text, width - used)
            if not shown:
                break
            segment = Segment(shown, self.style(names, base))
            segments.append(segment)
            used += segment.cell_length
            if shown != text:
                break
        return Strip(segments, used).adjust_cell_length(width, base)


class Rows(Drawn, can_focus=False):
    """A widget of rows. ``fill(rows)`` replaces them."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: list[Row] = []
        self._strips: dict[int, Strip] = {}
        self._width = 0

    @property
    def rows(self) -> Sequence[Row]:
        return self._rows

    def fill(self, rows: Sequence[Row]) -> None:
        old, self._rows = self._rows, list(rows)
        width = self.inner.width
        if len(old) != len(self._rows):
            self.virtual_size = Size(width, len(self._rows))
        if width != self._width or self._width == 0:
            self._width = width
            self._strips.clear()
            self.refresh()
            return
        top = self.scroll_offset.y
        for y in range(max(len(old), len(self._rows))):
            if y < len(old) and y < len(self._rows) and old[y] == self._rows[y]:
                continue
            self._strips.pop(y, None)
            if top <= y < top + self.size.height:
                self.refresh(Region(0, y - top, self.size.width, 1))

    def notify_style_update(self) -> None:
        self._strips.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        y += self.scroll_offset.y
        strip = self._strips.get(y)
        if strip is None or strip.cell_length != width:
            row = self._rows[y] if y < len(self._rows) else Row()
            strip = self._strips[y] = self.strip(row, width)
        return strip
