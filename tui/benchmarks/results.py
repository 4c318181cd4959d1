"""The results of one deployment, newest first: to be marked and compared; one of them is the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tui.keys import bindings
from tui.leaving import Modal
from tui.text import pad, safe
from tui.units import Zone
from tui.widgets.footer import Footer
from tui.widgets.listing import Listing
from tui.widgets.rows import Row, paragraph
from watch.benchmarks.keep import method_of
from watch.benchmarks.told import Summary, figure, summaries
from watch.history import Benchmark, History, HistoryError

Chosen = tuple[Benchmark, ...]
"""The first is what the others are compared with; empty: nothing is to be compared."""


class ResultList(Listing):
    def __init__(self, kept: Sequence[Benchmark], zone: Zone, marked: set[int], at: int) -> None:
        super().__init__()
        self.kept = tuple(kept)
        self.marked = marked
        self.at = at
        self._zone = zone
        self._levels = [summaries(one) for one in kept]

    @property
    def current(self) -> Benchmark | None:
        return self.kept[self.at] if self.at < len(self.kept) else None

    @property
    def count(self) -> int:
        return len(self.kept)

    def entries(self, width: int) -> list[Row]:
        return [self._row(one, levels, width) for one, levels in zip(self.kept, self._levels, strict=True)]

    def _row(self, one: Benchmark, levels: Sequence[Summary], width: int) -> Row:
        marked = one.id in self.marked
        row = Row()(" ■ " if marked else " □ ", "strong accent" if marked else "faint")
        row("* " if one.baseline else "  ", "strong ok")(pad(f"run {one.id}", 8), "strong")
        at, zone = one.at, self._zone
        row(f"{zone.day(at)} {zone.clock(at, seconds=False)} {zone.name(at)}  ", "text")
        row(pad(safe(one.preset), 11) + " ", "text")
        if width >= 110:
            row(pad(safe(method_of(one)), 9), "muted")
            row(pad(f"revision {one.revision}" if one.revision else "", 13), "muted")
        good = [level for level in levels if not level.unusable]
        if len(good) < len(levels) or not levels:
            return row("✖ gives no verdict", "error")
        if len(good) > 1:
            best = max(good, key=lambda level: level.output_tps)
            row("up to ", "muted")(f"{figure(best.output_tps)} tok/s", "strong")(f", {len(good)} loads", "muted")
        else:
            row(f"{figure(good[0].output_tps)} tok/s", "strong")
            at_once = f" at {good[0].concurrency}" if good[0].concurrency else ""
            repeats = f", {good[0].runs} times" if good[0].runs > 1 else ""
            row(f"{at_once}{repeats}", "muted")
        return row

    def below(self, width: int) -> list[Row]:
        if not self.kept:
            words = "Nothing has been measured here yet: b, once the server is ready."
            return paragraph(words, width - 2, "muted", indent=1)
        rows = [Row()]
        for level in self._levels[self.at]:
            if level.unusable:
                rows += paragraph(f"✖ {level.level}: {level.unusable}", width - 2, "error", indent=1, hang=2)
        return rows if len(rows) > 1 else []

    def chosen(self) -> tuple[Chosen, str]:
        """What Enter compares, and in words."""
        marked = [one for one in reversed(self.kept) if one.id in self.marked]
        current = self.current
        if len(marked) < 2 and current is not None:
            known = next((one for one in self.kept if one.baseline), None)
            other = marked[0] if marked and marked[0].id != current.id else known
            marked = [other, current] if other is not None and other.id != current.id else []
        if len(marked) < 2:
            return (), "mark two or more to compare them"
        first = next((one for one in marked if one.baseline), marked[0])
        others = [one for one in marked if one.id != first.id]
        against = "the baseline" if first.baseline else f"run {first.id}"
        runs = ", ".join(str(one.id) for one in others)
        return (first, *others), f"Enter compares run{'s' if len(others) > 1 else ''} {runs} with {against}"


class ResultsScreen(Modal[Chosen]):
    """``target``, ``unit``: as the history has them."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("results")]

    def __init__(
        self, history: History, target: str, unit: str, zone: Zone, marked: set[int] | None = None, at: int = 0
    ) -> None:
        super().__init__()
        self._history = history
        self._where = (target, unit)
        self._zone = zone
        self._trouble = ""
        self._marked: set[int] = set() if marked is None else marked
        self.list = ResultList(self._read(), zone, self._marked, at)

    def again(self) -> ResultsScreen:
        """The same, to be shown once more."""
        return ResultsScreen(self._history, *self._where, self._zone, self._marked, self.list.at)

    def _read(self) -> tuple[Benchmark, ...]:
        try:
            return self._history.benchmarks(*self._where)
        except HistoryError as error:
            self._trouble = str(error)
            return ()

    def compose(self) -> ComposeResult:
        yield self.list
        yield Footer()

    def on_mount(self) -> None:
        self.list.focus()
        self._draw()

    def refresh_bindings(self) -> None:
        super().refresh_bindings()
        if self.is_mounted:
            self._title()

    def _title(self) -> None:
        target, unit = self._where
        self.list.title(f"Results of {unit} on {target} ── * baseline", self._trouble or self.list.chosen()[1])

    def _draw(self) -> None:
        self.list.draw()
        self._title()
        self.refresh_bindings()

    def action_mark(self) -> None:
        current = self.list.current
        if current is not None:
            self._marked ^= {current.id}
            self.list.move(min(self.list.at + 1, self.list.count - 1))
            self._draw()

    def action_baseline(self) -> None:
        current = self.list.current
        if current is None:
            return
        try:
            self._history.set_baseline(current.id)
        except (HistoryError, KeyError) as error:
            self.app.notify(safe(str(error)), severity="error", markup=False)
            return
        self.app.notify(f"Run {current.id} is the baseline from now on", timeout=4, markup=False)
        self.list.kept = self._read()
        self._draw()

    def action_open(self) -> None:
        chosen, _ = self.list.chosen()
        if chosen:
            self.dismiss(chosen)

    def action_close(self) -> None:
        self.dismiss(())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open":
            return bool(self.list.chosen()[0])
        if action == "mark":
            return self.list.count > 1
        if action == "baseline":
            current = self.list.current
            return current is not None and not current.baseline
        return super().check_action(action, parameters)
