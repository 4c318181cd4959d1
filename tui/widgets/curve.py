"""Curves of two measures against each other, drawn by plotext; each point bears its curve's letter and its name, so
that they are told apart without colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from tui.widgets.plot import COLOURS, coloured
from tui.widgets.rows import Row

_MARGIN: Final = 0.12
"""Of the range, around all points: room for their names."""


@dataclass(frozen=True, slots=True)
class Curve:
    """``points``: (x, y, name), in the order in which they are joined. ``letter``: stands before each name."""

    letter: str
    points: tuple[tuple[float, float, str], ...]


def curves(lines: Sequence[Curve], width: int, height: int) -> list[Row]:
    """A chart of ``height`` rows. Points that are no figures are left out."""
    kept = [
        Curve(line.letter, tuple(one for one in line.points if math.isfinite(one[0]) and math.isfinite(one[1])))
        for line in lines
    ]
    xs = [x for line in kept for x, _, _ in line.points]
    ys = [y for line in kept for _, y, _ in line.points]
    if not xs:
        return []
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)  # else the size of the terminal it believes to be in
    plotext.plot_size(width, height)
    left, right, low, high = 0.0, max(xs) * (1 + _MARGIN), 0.0, max(ys) * (1 + _MARGIN)
    plotext.xlim(left, max(right, 1e-9))
    plotext.ylim(low, max(high, 1e-9))
    for number, line in reversed(list(enumerate(kept))):  # the first one on top
        colour = COLOURS[number % len(COLOURS)]
        if len(line.points) > 1:
            plotext.plot([x for x, _, _ in line.points], [y for _, y, _ in line.points], color=colour, marker="braille")
    taken: list[tuple[int, int, int]] = []
    tall = max(high, 1e-9) / max(1, height - 2)
    for number, line in enumerate(kept):
        for x, y, name in line.points:
            label = f"{line.letter}{name}"
            column = round(x / max(right, 1e-9) * width)
            place = _free(taken, column, round(y / tall), len(label), round(high / tall))
            y += (place - round(y / tall)) * tall
            plotext.text(label, x, y, color=COLOURS[number % len(COLOURS)], alignment="left")
    plotext.xticks(*_ticks(left, right, 5))
    plotext.yticks(*_ticks(low, high, 4))
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    return [coloured(line) for line in Text.from_ansi(plotext.build()).split("\n")]


def _free(taken: list[tuple[int, int, int]], column: int, row: int, size: int, rows: int) -> int:
    """The row nearest to this one where a name hides no other, as it is then taken: (row, first column, one past)."""
    for place in (row, row + 1, row - 1, row + 2, row - 2):
        free = all(at != place or column >= end or column + size <= start for at, start, end in taken)
        if free and 0 <= place < rows:
            taken.append((place, column, column + size))
            return place
    return row


def _ticks(low: float, high: float, count: int) -> tuple[list[float], list[str]]:
    """Round values within a range, and how they are written."""
    step = (high - low) / count
    scale = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    step = next(scale * factor for factor in (1, 2, 5, 10) if scale * factor >= step)
    values = [step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1)]
    digits = max(0, -math.floor(math.log10(step)))
    return values, [f"{value:,.{digits}f}" for value in values]
