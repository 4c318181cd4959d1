"""How to measure: the presets with what each costs in time, and the question before it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import BindingType

from probes.bench.orders import BenchOrder
from tui.keys import bindings
from tui.leaving import Modal
from tui.operations.confirm import Confirm
from tui.scene import Scene
from tui.stage import Watched
from tui.text import pad, right, safe
from tui.units import about, number
from tui.widgets.footer import Footer
from tui.widgets.listing import Listing
from tui.widgets.rows import Row, paragraph
from watch.benchmarks.cost import Cost
from watch.config import Preset
from watch.view import View


class PresetList(Listing):
    """``costs``: by name; a sentence where the preset cannot be measured."""

    def __init__(self, known: Mapping[str, Preset], costs: Mapping[str, Cost | str], start: str) -> None:
        super().__init__()
        self._known = known
        self._costs = costs
        self.names = list(known)
        self.at = self.names.index(start) if start in self.names else 0

    @property
    def count(self) -> int:
        return len(self.names)

    def entries(self, width: int) -> list[Row]:
        longest = min(24, max(cell_len(safe(name)) for name in self.names))
        rows = []
        for name in self.names:
            row = Row()(f" {pad(safe(name), longest)}", "strong")
            found = self._costs[name]
            if isinstance(found, str):
                rows.append(row("  ✖ cannot be measured", "error"))
                continue
            loads = ", ".join(map(str, self._known[name].concurrency))
            row(f"  {right(time_of(found), 16)}", "accent")
            row(f"  {right(number(found.requests), 6)} requests", "text")
            rows.append(row(f"  {loads} at a time", "muted"))
        return rows

    def below(self, width: int) -> list[Row]:
        """The chosen one, in full."""
        name = self.names[self.at]
        preset, found = self._known[name], self._costs[name]
        rows = [Row()]
        if preset.title:
            rows += paragraph(preset.title, width - 2, "text", indent=1)
        if isinstance(found, str):
            return [*rows, *paragraph(f"✖ {found}", width - 2, "error", indent=1, hang=2)]
        return [*rows, *cost_rows(preset, found, width)]


def time_of(found: Cost) -> str:
    """In few words."""
    if found.seconds is None:
        return f"at most {about(found.limit)}"
    return f"{'took' if found.measured else 'about'} {about(found.seconds)}"


def cost_rows(preset: Preset, found: Cost, width: int) -> list[Row]:
    runs = f"{found.runs} run{'' if found.runs == 1 else 's'}"
    repeats = f", each load {preset.repeats} times" if preset.repeats > 1 else ""
    rows = [
        _fact("runs", f"{runs}{repeats}"),
        _fact("requests", f"{number(found.requests)}, {preset.input_len} tokens in and {preset.output_len} out each"),
    ]
    if found.seconds is None:
        time = f"not known: nothing was measured here yet; it is ended after {about(found.limit)}"
    elif found.measured:
        time = f"{about(found.seconds)} the last time it was measured here; it is ended after {about(found.limit)}"
    else:
        time = f"about {about(found.seconds)}, by the speed measured here; it is ended after {about(found.limit)}"
    first, *rest = paragraph(time, width - 14)
    rows.append(Row([(f" {'time':<11}", "muted"), *first]))
    return [*rows, *(Row([(" " * 12, ""), *row]) for row in rest)]


def _fact(name: str, text: str) -> Row:
    return Row()(f" {name:<11}", "muted")(safe(text), "text")


class PresetScreen(Modal[str | None]):
    """``arming``: it is to begin when the load is ready. The answer is a name, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("presets")]

    def __init__(self, title: str, known: Mapping[str, Preset], costs: Mapping[str, Cost | str], start: str) -> None:
        super().__init__()
        self._title = title
        self._costs = costs
        self.list = PresetList(known, costs, start)

    def compose(self) -> ComposeResult:
        yield self.list
        yield Footer()

    def on_mount(self) -> None:
        self.list.title(self._title, "own ones: [presets.NAME] in the configuration")
        self.list.focus()
        self.list.draw()

    def action_open(self) -> None:
        if self.check_action("open", ()):
            self.dismiss(self.list.names[self.list.at])

    def action_close(self) -> None:
        self.dismiss(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open":
            return not isinstance(self._costs[self.list.names[self.list.at]], str)
        return super().check_action(action, parameters)


class AskMeasure(Confirm):
    """Follows the pictures of ``watch``: a warning that turns up while Yes is chosen is read first. ``arming``: it
    begins when the load is ready."""

    def __init__(
        self, order: BenchOrder, preset: Preset, found: Cost, watch: Watched, view: View, *, arming: bool = False
    ) -> None:
        what = "Arm" if arming else "Measure with"
        where = f"{order.unit} on {view.target}"
        super().__init__(
            f"{what} {order.preset}: {where}?", "Begin when it is ready" if arming else f"Measure for {_span(found)}"
        )
        self._order, self._preset, self._cost = order, preset, found
        self._watch = watch
        self._view = view
        self._arming = arming
        self._warned = self._warnings()

    def on_mount(self) -> None:
        self._watch.followers.add(self)
        super().on_mount()

    def on_unmount(self) -> None:
        self._watch.followers.discard(self)

    def show(self, scene: Scene) -> None:
        self._view = scene.view
        warned = self._warnings()
        if [kind for kind, _ in warned] != [kind for kind, _ in self._warned] and len(warned) >= len(self._warned):
            self.buttons.at = 0
        self._warned = warned
        if self.is_mounted:
            self.fill()

    @property
    def _obstacle(self) -> str:
        view = self._view
        if view.link is not None and view.link.state in ("down", "refused"):
            return "" if self._arming else "The link to the host is lost"
        bench = view.benchmark
        if bench is not None and bench.state == "running":
            return f"{bench.who or 'somebody'}'s benchmark {bench.preset} runs already"
        if not self._arming and view.state != "ready":
            return "The server is not ready any more"
        return ""

    def _warnings(self) -> list[tuple[str, str]]:
        """(kind, sentence)"""
        serving = self._view.serving
        if self._arming or serving is None or serving.error:
            return []
        others = (serving.running or 0) + (serving.waiting or 0)
        if not others:
            return []
        plural = "" if others == 1 else "s"
        words = f"{number(others)} request{plural} of others at work: both get slower, and the result is marked so"
        return [("others", words)]

    def rows(self, width: int) -> Sequence[Row]:
        why = self._obstacle
        self.buttons.on = not why
        rows = [Row(), *cost_rows(self._preset, self._cost, width), Row()]
        for _, words in self._warned:
            rows += [*paragraph(f"⚠ {words}", width - 2, "strong warn", indent=1, hang=2), Row()]
        if why:
            rows += [*paragraph(f"✖ {why}", width - 2, "strong error", indent=1, hang=2), Row()]
        rows.append(Row()(" A yes sets this going", "title"))
        for place, step in enumerate(self._steps(), 1):
            rows += paragraph(f"{place}. {step}", width - 2, indent=1, hang=3)
        if self._arming:
            held = (
                "It is held by this watch: it begins also while another screen is open here, not once firstlight is"
                " closed (that is asked before). A load that fails leaves it armed for the next one."
            )
            rows += [Row(), *paragraph(f"i {held}", width - 2, "muted", indent=1, hang=2)]
        return [*rows, Row()]

    def _steps(self) -> list[str]:
        steps = ["wait until the load is ready"] if self._arming else []
        return [
            *steps,
            "one real completion, to prove that it is ready",
            "vllm bench serve of the unit's own environment, on the host: the server is under load meanwhile",
            "the result into the history, and its verdict against the baseline",
        ]


def _span(found: Cost) -> str:
    return f"at most {about(found.limit)}" if found.seconds is None else f"about {about(found.seconds)}"
