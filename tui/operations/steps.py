"""An action on one screen: its steps, what each waits for, how it ended; beside it the load that it starts."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid

from tui.keys import bindings
from tui.scene import Scene
from tui.screens.over import OverWatch
from tui.signs import STATES
from tui.stage import Watched
from tui.text import pad, right, safe
from tui.units import Zone, about, elapsed, number, size
from tui.widgets.footer import Footer
from tui.widgets.header import Header
from tui.widgets.load import Load
from tui.widgets.pane import Box
from tui.widgets.rows import Row, paragraph
from tui.widgets.tail import Tail
from tui.words.actions import NAMES, OUTCOMES, SIGNS, STEPS
from watch.actions import ActionView, StepView

_NAME: Final = 15
_TIME: Final = 8


class StepsBox(Box):
    def __init__(self) -> None:
        super().__init__(id="steps")

    def on_resize(self) -> None:
        if isinstance(self.screen, StepsScreen):
            self.screen.again()


class StepsScreen(OverWatch):
    """The steps, with the last lines of the watch's journal. Leaving it leaves the action running."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("steps")]
    AUTO_FOCUS = "#steps"

    def __init__(self, watch: Watched, zone: Zone) -> None:
        super().__init__(watch, zone)
        self.steps = StepsBox()
        self.load = Load()
        self.tail = Tail()

    def compose(self) -> ComposeResult:
        yield Header()
        with Grid(id="acting"):
            yield self.steps
            yield self.load
            yield self.tail
        yield Footer()

    def lay_out(self, single: bool) -> None:
        self.load.display = not single

    def draw(self, scene: Scene) -> None:
        self.query_one(Header).show(scene)
        if self.load.display:
            self.load.show(scene)
        if self.steps.inner.width > 0:
            action = scene.view.action
            self.steps.title(*heading(action, scene))
            self.steps.fill(rows_of(scene, self.steps.inner.width, alone=not self.load.display))
        self.tail.show(self._watch.journal, self._zone)

    def offers(self, scene: Scene) -> object:
        action = scene.view.action
        return scene.link_lost, action and (action.id, action.running, action.step and action.step.name)


def heading(action: ActionView | None, scene: Scene) -> tuple[str, str]:
    if action is None:
        return "Steps", ""
    title = f"{NAMES.get(action.action, action.action)} {action.unit} on {scene.view.target}"
    return title, f"by {action.who}, since {scene.zone.clock(action.began)} {scene.zone.name(action.began)}"


def rows_of(scene: Scene, width: int, *, alone: bool) -> list[Row]:
    """``alone``: the load is not shown beside it, so that one line tells how it goes."""
    action = scene.view.action
    if action is None:
        return [Row()(" Nothing has been done to this unit from here.", "muted")]
    rows = [] if alone else [Row()]
    if action.fallback:
        rows += [Row()(" instead  ", "muted")(safe(action.fallback), "strong"), Row()]
    if action.link:
        rows += [*paragraph(f"✖ {action.link}", width - 2, "strong warn", indent=1, hang=2), Row()]
    if action.warning:
        rows += [*paragraph(f"⚠ {action.warning}", width - 2, "strong warn", indent=1, hang=2), Row()]
    if not action.running:
        rows += [*_end(action, scene, width), Row()]
    for step in action.steps:
        rows += _step(step, scene, width, short=alone)
    if alone and _started(action):
        state = STATES[scene.view.state]
        rows += [
            Row(),
            *paragraph(f"{state.sign} {state.word}: {scene.view.headline}", width - 2, "strong", indent=1, hang=2),
        ]
    return rows


def _step(step: StepView, scene: Scene, width: int, *, short: bool) -> list[Row]:
    """``short``: what is over has one row."""
    sign = SIGNS[step.status]
    row = Row()(f" {sign.sign} ", sign.style)
    look = {"running": "strong", "failed": "strong error", "pending": "faint"}.get(step.status, "text")
    row(pad(STEPS.get(step.name, safe(step.name)), _NAME), look)
    if step.started is None:
        return [row]
    took = (step.ended if step.ended is not None else scene.view.now) - step.started
    row(right(elapsed(took), _TIME) + "  ", "strong" if step.status == "running" else "muted")
    column = 3 + _NAME + _TIME + 2
    style = {"failed": "error", "running": "text"}.get(step.status, "muted")
    if short and step.status in ("done", "skipped"):
        return [row(safe(step.text), style)]
    if width - column >= 36:
        first, *rest = paragraph(step.text, width - column - 1, style)
        row.extend(first)
        rows = [row, *(Row([(" " * column, ""), *one]) for one in rest)]
    else:
        rows = [row, *paragraph(step.text, width - 2, style, indent=5)]
    if step.status == "running":
        rows += _waiting(step, scene, width)
    return rows


def _waiting(step: StepView, scene: Scene, width: int) -> list[Row]:
    """What a step that runs waits for, beyond its own words."""
    view = scene.view
    said: list[tuple[str, str]] = []
    if step.name == "stop":
        if step.kill_at is not None:
            left = step.kill_at - view.now
            said.append(
                (
                    f"SIGTERM was sent; systemd sends SIGKILL in {elapsed(left)}, at {scene.zone.clock(step.kill_at)}"
                    f" {scene.zone.name(step.kill_at)}"
                    if left > 0
                    else "systemd's limit is over: it sends SIGKILL now",
                    "warn",
                )
            )
        serving = view.serving
        if serving is not None and not serving.error and serving.running:
            streams = serving.running + (serving.waiting or 0)
            said.append((f"{number(streams)} requests were in flight; open streams hold the stop up", "text"))
        said.append(("K does not wait: SIGKILL now (asks before)", "accent"))
    if step.name == "memory" and view.gpu is not None:
        for holder in view.gpu.holders[:6]:
            held = size(holder.mib * 1024 * 1024) if holder.mib is not None else "memory"
            words = f"{safe(holder.role)} (pid {holder.pid}) holds {held}{', dying' if holder.dying else ''}"
            said.append((words, "text"))
        if view.gpu.memory is not None and view.gpu.memory.seconds_left:
            said.append((f"back in about {about(view.gpu.memory.seconds_left)}", "text"))
    return [row for words, style in said for row in paragraph(words, width - 2, style, indent=5)]


def _end(action: ActionView, scene: Scene, width: int) -> list[Row]:
    sign = OUTCOMES.get(action.outcome, OUTCOMES["unknown"])
    took = elapsed((action.ended or action.at) - action.began)
    words = f": {action.detail}" if action.detail and action.outcome != "done" else f" after {took}"
    rows = paragraph(f"{sign.sign} {sign.word}{words}", width - 2, sign.style, indent=1, hang=2)
    if action.state:
        rows += paragraph(f"the host: {action.state}", width - 2, indent=3)
    if action.undo:
        rows += paragraph(f"what would undo it: {action.undo}", width - 2, "accent", indent=3)
    if action.outcome == "done" and _started(action):
        rows += paragraph("The load that it began is followed from its first line.", width - 2, "muted", indent=3)
    load = scene.view.load
    late = load is not None and load.started >= action.began and scene.view.state == "failed"
    if action.outcome == "done" and late and action.action in ("rollback", "undo", "fallback"):
        rows += paragraph(
            "✖ But the load has failed since. Nothing is tried again by itself; U undoes the change.",
            width - 2, "strong error", indent=1, hang=2,
        )  # fmt: skip
    return rows


def _started(action: ActionView) -> bool:
    return any(step.name == "start" and step.status != "pending" for step in action.steps)
