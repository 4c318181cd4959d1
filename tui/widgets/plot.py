"""Small plots of our own, drawn with braille dots, and the one large plot, drawn by plotext.

A braille plot of 240 points costs well under a millisecond; a plotext chart about 12 ms, so it is drawn only where it
is seen and only when its data changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from tui.widgets.rows import Row

Series = Sequence[tuple[float, float]]
"""(UTC seconds, value), ascending in time."""

_FILL: Final = ((0x40, 0x44, 0x46, 0x47), (0x80, 0xA0, 0xB0, 0xB8))
"""Dots of the left and the right half of a cell, filled from below to a height of 1 to 4."""


def braille(series: Series, width: int, height: int, *, start: float, end: float, top: float) -> list[str]:
    """A filled plot in ``height`` rows of ``width`` cells, two columns and four levels a cell, top row first.

    ``start``..``end``: the time it spans; ``top``: the value at its upper edge. Columns without a point take the last
    value before them; those before the first point stay empty. Any value above zero shows at least one dot.
    """
    columns = width * 2
    heights = [0] * columns
    if columns and end > start and top > 0:
        step = (end - start) / columns
        peaks: list[float | None] = [None] * columns
        held: float | None = None
        for at, value in series:
            column = int((at - start) / step)
            if column < 0:
                held = value
                continue
            if column > columns:
                break
            column = min(column, columns - 1)
            peak = peaks[column]
            peaks[column] = value if peak is None else max(peak, value)
        last_at = series[-1][0] if series else start
        for column in range(columns):
            peak = peaks[column]
            if peak is not None:
                held = peak
            if held is None or (peak is None and start + column * step > last_at + step):
                continue
            level = round(min(1.0, max(0.0, held / top)) * height * 4)
            heights[column] = max(1, level) if held > 0 else 0
    rows: list[str] = []
    for row in range(height):
        below = (height - 1 - row) * 4
        cells: list[str] = []
        for cell in range(width):
            dots = 0
            for side in (0, 1):
                level = min(4, heights[2 * cell + side] - below)
                if level > 0:
                    dots |= _FILL[side][level - 1]
            cells.append(chr(0x2800 + dots) if dots else " ")
        rows.append("".join(cells))
    return rows


COLOURS: Final = (12, 10, 11, 13)
"""Numbers that stand for ``plot-1`` to ``plot-4`` while plotext draws."""
_FAINT: Final = 8


def chart(
    series: Sequence[Series],
    width: int,
    height: int,
    *,
    start: float,
    end: float,
    top: float,
    marks: Sequence[tuple[float, str]] = (),
    expected: float | None = None,
    labels: Sequence[tuple[float, str]] = (),
) -> list[Row]:
    """A large chart of several series over the same axes.

    ``marks``: (time, name) of phases, drawn as vertical lines, with a row above that names them; ``expected``: a level
    to reach; ``labels``: (time, text) of the time axis.
    """
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)  # else the size of the terminal it believes to be in
    plotext.plot_size(width, height - bool(marks))
    plotext.xlim(start, max(end, start + 1))
    plotext.ylim(0, top)
    for at, _name in marks:
        plotext.vline(at, _FAINT)
    if expected:
        plotext.hline(expected, _FAINT)
    for number, points in reversed(list(enumerate(series))):  # the first one on top
        if points:
            plotext.plot(
                [at for at, _ in points],
                [value for _, value in points],
                color=COLOURS[number % len(COLOURS)],
                marker="braille",
            )
    plotext.xticks([at for at, _ in labels], [text for _, text in labels])
    ticks = [0.0, top / 2, top]
    plotext.yticks(ticks, [f"{tick:,.0f}" for tick in ticks])
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    drawn = plotext.build()
    rows = [coloured(line) for line in Text.from_ansi(drawn).split("\n")]
    return [named_marks(marks, width, len(f"{top:,.0f}") + 1, start, max(end, start + 1)), *rows] if marks else rows


def named_marks(marks: Sequence[tuple[float, str]], width: int, left: int, start: float, end: float) -> Row:
    """One row of names above their vertical lines, which begin after ``left`` cells. A name stands to the right of its
    line, else to the left; one without room is left out, and its line still stands."""
    cells = [" "] * width
    free = 0
    columns = max(1, width - left - 1)
    places = [left + round((at - start) / (end - start) * columns) for at, _ in marks]
    for place, after, (_, name) in zip(places, [*places[1:], width + 1], marks, strict=True):
        if place >= free and place + len(name) + 1 < min(after, width + 1):
            cells[place : place + len(name) + 1] = f"╷{name}"
            free = place + len(name) + 2
        elif place - len(name) >= free and place < width:
            cells[place - len(name) : place + 1] = f"{name}╷"
            free = place + 1
    return Row()("".join(cells), "muted")


def coloured(line: Text) -> Row:
    """plotext's colours are numbers of a palette; ours are names in the style sheet."""
    row = Row()
    plain = line.plain
    at = 0
    for span in sorted(line.spans, key=lambda span: span.start):
        if span.start > at:
            row(plain[at : span.start], "faint")
        style = span.style
        number = style.color.number if not isinstance(style, str) and style.color is not None else None
        name = f"plot-{COLOURS.index(number) + 1}" if number in COLOURS else "faint"
        row(plain[max(at, span.start) : span.end], name)
        at = max(at, span.end)
    return row(plain[at:], "faint")
