"""Results compared, whole: the verdict, the figures of each load, what else differs, the curve over the sweep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len

from tui.screens.whole import WholeScreen
from tui.text import clip, pad, right, safe
from tui.widgets.curve import Curve, curves
from tui.widgets.figures import differs_rows
from tui.widgets.rows import Row, beside, paragraph
from tui.words.benchmarks import VERDICTS
from watch.benchmarks.compare import Comparison, Point, Ratio
from watch.benchmarks.keep import compare_kept, word_of
from watch.benchmarks.told import Summary, comparison_markdown, figure, interval, summaries
from watch.history import Benchmark, History

_WIDE: Final = 150
"""From this width on the curve stands beside the figures."""

_LETTERS: Final = ("A", "B")
_SHORT: Final = {"output throughput": "output tok/s", "request throughput": "requests/s"}
_STYLES: Final = {"better": "ok", "worse": "error", "level": "text"}


Sweeps = tuple[Sequence[Summary], Sequence[Summary]]
"""The loads of both sides."""


class CompareScreen(WholeScreen):
    """One or more comparisons with the same first side. ``swept``: of each."""

    def __init__(self, found: Sequence[Comparison], swept: Sequence[Sweeps]) -> None:
        super().__init__()
        self._found = tuple(found)
        self._swept = tuple(swept)
        self._at = 0

    @classmethod
    def of(cls, history: History | None, chosen: Sequence[Benchmark]) -> CompareScreen:
        """The first against each of the others. Raises HistoryError."""
        first, *others = chosen
        swept = [(summaries(first), summaries(other)) for other in others]
        return cls([compare_kept(history, first, other) for other in others], swept)

    @property
    def found(self) -> Comparison:
        return self._found[self._at]

    def rows(self, width: int) -> list[Row]:
        found = self.found
        count = f"{self._at + 1} of {len(self._found)}, " if len(self._found) > 1 else ""
        self.whole.title(f"{found.b} against {found.a}", f"{count}y copies it as Markdown")
        return comparison_rows(found, self._swept[self._at], width, self.whole.inner.height)

    def text(self) -> str:
        return "\n".join(safe(line) for line in comparison_markdown(self.found).split("\n"))

    def step(self, way: int) -> bool:
        if not 0 <= self._at + way < len(self._found):
            return False
        self._at += way
        return True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "step":
            return 0 <= self._at + int(str(parameters[0])) < len(self._found)
        return super().check_action(action, parameters)


def comparison_rows(found: Comparison, swept: Sweeps, width: int, height: int) -> list[Row]:
    rows = [*_verdict(found, width), Row()]
    brief, table = _brief(found), _table(found)
    brief += [Row()] if brief else []
    if width >= _WIDE:
        left = max((cell_len(row.text) for row in (*brief, *table)), default=0) + 3
        left = max(left, width // 2 - 8)
        room = width - left - 1
        aside = [*_curve(found, swept, room, 18), *_around(found, room)]
        return [*rows, *(beside([*brief, *table], aside, left) if table else aside)]
    curve = _curve(found, swept, min(width - 1, 100), max(10, min(16, height - 4)))
    return [*rows, *brief, *_around(found, width), Row(), *curve, *table]


def _verdict(found: Comparison, width: int) -> list[Row]:
    word = word_of(found)
    sign = VERDICTS[word]
    if found.refused:
        rows = [Row(), Row()(f" {sign.sign} No verdict", sign.style)]
        for why in found.refused:
            rows += paragraph(f"✖ {why}", width - 2, "error", indent=3, hang=2)
        return rows
    said = f"{word.capitalize()}: " if word != "mixed" else "Better and worse: "
    return [Row(), *paragraph(f"{sign.sign} {said}{found.verdict}", width - 2, sign.style, indent=1, hang=2)]


def _around(found: Comparison, width: int) -> list[Row]:
    """What stands beside the verdict."""
    rows = differs_rows(found.differs, width, found.a, found.b)
    if not found.differs:
        rows = [Row()(" Nothing else is known to differ", "muted")]
    if found.doubts:
        rows.append(Row())
    for doubt in found.doubts:
        rows += paragraph(f"⚠ {doubt}", width - 2, "warn", indent=1, hang=2)
    return rows


# ----- the figures


def _brief(found: Comparison) -> list[Row]:
    """Output tokens a second alone, one row a load, where there are several."""
    if len(found.points) < 2:
        return []
    rows = [(f"{point.level}{_runs(point)}", *_cells(point.throughput)[1:]) for point in found.points]
    return _columns(found, "output tokens/s", [(None, rows)])


def _table(found: Comparison) -> list[Row]:
    """Every figure of each load."""
    groups = [(f" {point.level}{_runs(point)}", [_cells(ratio) for ratio in point.ratios]) for point in found.points]
    return _columns(found, "", groups) if groups else []


def _columns(
    found: Comparison, title: str, groups: Sequence[tuple[str | None, Sequence[tuple[str, ...]]]]
) -> list[Row]:
    """A table; each group of rows below its heading, if it has one. ``title``: what stands above the first column."""
    names = [clip(safe(name), 14) for name in (found.a, found.b)]
    heads = (title, f"A {names[0]}", f"B {names[1]}", "ratio", "95 %")
    every = [row for _, rows in groups for row in rows]
    widths = [max(cell_len(heads[place]), *(cell_len(row[place]) for row in every)) for place in range(5)]
    out = [Row()("   " + pad(heads[0], widths[0]), "muted")]
    for place in (1, 2, 3, 4):
        out[0]("  " + right(heads[place], widths[place]), "muted")
    for heading, rows in groups:
        if heading is not None:
            out.append(Row()(heading, "title"))
        for number, row in enumerate(rows):
            loud = "strong " if heading is None or not number else ""
            style = loud + _STYLES[row[5].split(" ")[-1]]
            shown = Row()(f"   {pad(row[0], widths[0])}", f"{loud}text")
            for place in (1, 2):
                shown("  " + right(row[place], widths[place]), "text")
            shown("  " + right(row[3], widths[3]), style)("  " + right(row[4], widths[4]), "muted")
            out.append(shown(f"  {row[5]}", style))
    return out


def _cells(ratio: Ratio) -> tuple[str, ...]:
    shown = f"{ratio.ratio:.2f}" if math.isfinite(ratio.ratio) else "–"
    name = _SHORT.get(ratio.name, f"{ratio.name} {ratio.unit}")
    return name, figure(ratio.a), figure(ratio.b), shown, interval(ratio), f"{VERDICTS[ratio.word].sign} {ratio.word}"


def _runs(point: Point) -> str:
    a, b = point.runs
    return f"  {a} against {b} run{'' if b == 1 else 's'}" if (a, b) != (1, 1) else ""


# ----- the curve


def _curve(found: Comparison, swept: Sweeps, width: int, height: int) -> list[Row]:
    """Throughput against latency over the loads, where there are several."""
    if found.refused or width < 40:  # side by side in a plot they would be compared by eye
        return []
    what, lines = next(
        ((what, lines) for what, get in (("TPOT", "tpot"), ("E2EL", "e2el")) if _sweeps(lines := _lines(swept, get))),
        ("", []),
    )
    if not lines:
        return []
    legend = Row()(" A ", "strong plot-1")(clip(safe(found.a), 30), "text")
    legend("   B ", "strong plot-2")(clip(safe(found.b), 30), "text")("   the numbers: requests at a time", "muted")
    title = Row()(f" Median {what}, ms", "title")(" over output tokens/s: right and low is better", "muted")
    return [title, *curves(lines, width, height), legend, Row()]


def _lines(swept: Sweeps, get: str) -> list[Curve]:
    return [
        Curve(
            letter,
            tuple(
                (level.output_tps, latency, str(level.concurrency or ""))
                for level in sorted(side, key=lambda one: one.concurrency or 0)
                if not level.unusable and (latency := getattr(level, get)) is not None
            ),
        )
        for letter, side in zip(_LETTERS, swept, strict=True)
    ]


def _sweeps(lines: Sequence[Curve]) -> bool:
    return any(len(line.points) > 1 for line in lines)
