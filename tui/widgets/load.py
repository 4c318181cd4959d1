"""The phases of the load: done, running, to come; how long each took, and how long it usually takes."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from textual.geometry import Size

from tui.scene import Scene
from tui.signs import PHASES
from tui.text import pad, right, safe
from tui.units import about, between, elapsed, pace, percent, size_of
from tui.widgets.figures import verdict_rows
from tui.widgets.pane import Pane
from tui.widgets.rows import Row, bar, paragraph
from tui.words.benchmarks import STATES, in_a_line, of_this_load
from watch.benchmarks.told import figure
from watch.view import LoadView, PhaseView, Progress

_NAME: Final = 14
_TIME: Final = 8
_ROOMY: Final = 56
"""From this width on there is room for "usually"; below it is "~"."""
_OURS: Final = ("journal", "unit", "health", "metrics", "hooks", "catalogue")


class Load(Pane):
    pane = "load"
    label = "Load"
    tab = "Load"
    offer = ""
    """The key that has the server measured; empty: nobody may, or it was."""

    def heading(self, scene: Scene) -> tuple[str, str]:
        view = scene.view
        title = self.label
        if len(view.loads) > 1 and view.load is not None:
            title += f" ── {view.load.number} of {len(view.loads)}"
        if view.load is not None:
            at = view.load.started
            title += f" ── since {scene.zone.clock(at)} {scene.zone.name(at)}"
        return title, " ".join(filter(None, (safe(view.engine), safe(view.version))))

    def badge(self, scene: Scene) -> str:
        load = scene.view.load
        progress = load.progress if load is not None else None
        return percent(progress.done / progress.total) if progress is not None and progress.total else ""

    def part(self, scene: Scene) -> object:
        view = scene.view
        forecast = view.forecast.basis if view.forecast is not None else ""
        unit = view.unit_reading.active if view.unit_reading is not None else ""
        troubles = (scene.troubles(*_OURS), view.link if scene.link_lost else None)
        stands = (unit, troubles, view.notes)
        measured = (view.benchmark, self.offer)
        return view.load, int(view.now), view.model, view.stall, forecast, view.last_load_seconds, stands, measured

    def draw(self, scene: Scene, size: Size) -> list[Row]:
        view = scene.view
        width = size.width
        load = view.load
        if load is None:
            rows = [Row(), *paragraph(_nothing_yet(scene), width - 2, "muted", indent=1)]
            return [*rows, Row(), *_measured(scene, width), *_troubles(scene, width), *_notes(scene, width)]
        foot = _foot(scene, load, width, self.offer)
        rows = _phases(scene, load, width, together=False)
        if len(rows) + len(foot) > size.height:
            rows = _phases(scene, load, width, together=True)
        gap = 1 if foot and len(rows) + len(foot) < size.height else 0
        return [*rows, *([Row()] * gap), *foot]


def _phases(scene: Scene, load: LoadView, width: int, *, together: bool) -> list[Row]:
    """All phases below each other. ``together``: those to come in as few rows as they need."""
    rows: list[Row] = []
    if scene.view.model:
        rows.append(Row()(" model  ", "muted")(safe(scene.view.model)))
    pending: list[str] = []
    for phase in load.phases:
        if together and phase.status == "pending":
            pending.append(phase.name)
            continue
        if phase.before:
            rows.append(_between(phase))
        rows.append(_phase(phase, load, scene, width))
        rows.extend(_detail(phase, scene.view.now, width))
    if pending:
        rows.extend(paragraph("  ".join(f"· {name}" for name in pending), width - 1, "faint", indent=1))
    return rows


def _nothing_yet(scene: Scene) -> str:
    view = scene.view
    if view.unit_reading is not None and view.unit_reading.active == "inactive":
        return f"{view.unit} is not running. Its next start is watched from the first line on."
    return "No start of this unit has been seen yet."


def _between(phase: PhaseView) -> Row:
    """The time before a phase that belongs to none."""
    now = phase.status == "awaited"
    sign = PHASES["running" if now else "pending"]
    row = Row()(f" {sign.sign} ", sign.style)(pad("between", _NAME), "strong" if now else "muted")
    return row(right(elapsed(phase.before), _TIME), "strong" if now else "muted")


def _phase(phase: PhaseView, load: LoadView, scene: Scene, width: int) -> Row:
    awaited = phase.status == "awaited"
    sign = PHASES["pending" if awaited else phase.status]
    row = Row()(f" {sign.sign} ", sign.style)
    name = pad(phase.name, _NAME)
    row(
        name,
        {"running": "strong", "failed": "strong error", "pending": "faint", "awaited": "faint"}.get(
            phase.status, "text"
        ),
    )
    took = ""
    if phase.started is not None and not awaited:
        end = phase.ended if phase.ended is not None else load.ended or scene.view.now
        took = elapsed(end - phase.started)
        if phase.name == "ready":
            took = scene.zone.clock(phase.started)
    row(right(took, _TIME), "strong" if phase.status == "running" else "text")
    if phase.usual is not None and width >= _NAME + _TIME + 20 and phase.status != "failed":
        room = width - 4 - _NAME - _TIME
        usual = f"usually {between(*phase.usual)}" if width >= _ROOMY else f"~{between(*phase.usual)}"
        row(right(usual, room), "faint" if phase.status != "running" else "muted")
    return row


def _detail(phase: PhaseView, now: float, width: int) -> list[Row]:
    """What stands under a phase: its bar, its pace, what is going on where nothing is printed."""
    if phase.status not in ("running", "awaited", "failed"):
        return []
    rows: list[Row] = []
    progress = phase.progress
    if progress is not None and progress.total:
        rows.append(_bar(progress, width))
        words = " · ".join(filter(None, (pace(progress.rate or 0.0, progress.unit), _quiet(progress, now))))
        if words:
            rows.append(Row()(f"   {words}", "muted"))
    if phase.note:
        rows.extend(paragraph(phase.note, width - 1, "muted", indent=3))
    return rows


def _bar(progress: Progress, width: int) -> Row:
    ratio = progress.done / progress.total
    counted = (
        size_of(progress.done, progress.total)
        if progress.unit == "bytes"
        else f"{progress.done:,.0f} of {progress.total:,.0f} {safe(progress.unit)}"
    )
    words = f"  {counted}  {percent(ratio)} "
    row = Row()("   ", "")
    row.extend(bar(ratio, max(6, width - 3 - cell_len(words))))
    return row(words, "strong")


def _quiet(progress: Progress, now: float) -> str:
    still = now - progress.at
    return f"last moved {about(still)} ago" if still > 30 else ""


def _troubles(scene: Scene, width: int) -> list[Row]:
    """Sources that have no pane of their own to say it in."""
    rows: list[Row] = []
    link = scene.view.link
    if scene.link_lost and link is not None:
        why = " ".join(part for part in (link.reason, link.remedy) if part)
        rows.extend(paragraph(f"✖ {why}", width - 2, "warn", indent=1, hang=2))
    for why in scene.troubles(*_OURS):
        rows.extend(paragraph(f"⚠ {why}", width - 2, "warn", indent=1, hang=2))
    return rows


def _foot(scene: Scene, load: LoadView, width: int, offer: str) -> list[Row]:
    view = scene.view
    rows = [*_measured(scene, width, offer), *_troubles(scene, width)]
    if view.stall is not None:
        rows.extend(paragraph(f"‖ {view.stall.what}", width - 2, "strong warn", indent=1, hang=2))
        rows.extend(paragraph(f"usual here: {view.stall.usual}", width - 2, "warn", indent=3))
    lagging = [rank for rank in load.ranks if rank.lags]
    if lagging:
        names = ", ".join(f"{rank.name} ({rank.phase})" for rank in lagging)
        rows.extend(paragraph(f"behind the others: {names}", width - 2, "warn", indent=1))
    elif len(load.ranks) > 1 and load.state in ("loading", "stalled"):
        rows.append(Row()(f" {len(load.ranks)} processes, none behind", "muted"))
    if view.forecast is not None and load.state in ("loading", "stalled"):
        rows.extend(paragraph(f"forecast from {view.forecast.basis}", width - 2, "muted", indent=1))
    if view.last_load_seconds is not None:
        rows.append(Row()(" last load of this unit: ", "muted")(about(view.last_load_seconds)))
    rows.extend(_notes(scene, width))
    if load.attached_late:
        rows.extend(paragraph("the first lines of this load were not seen", width - 2, "muted", indent=1))
    return rows


def _measured(scene: Scene, width: int, offer: str = "") -> list[Row]:
    """How this load's story ends: what its benchmark says. ``offer``: the key that begins one."""
    bench = of_this_load(scene.view)
    if bench is None:
        return [Row()(f" {offer}", "key")(" measures how fast it is", "accent")] if offer else []
    if bench.state in ("done", "running", "armed") and (bench.verdict or bench.state != "done"):
        if bench.verdict and bench.state != "running":
            return verdict_rows(bench, width)
        text, style = in_a_line(scene.view)
        speed = f", {figure(bench.generation_tps)} tok/s" if bench.generation_tps is not None else ""
        return paragraph(text + (speed if bench.state == "running" else ""), width - 2, style, indent=1, hang=2)
    sign = STATES[bench.state]
    words = f"{sign.sign} benchmark {bench.preset}: {sign.word.lower()}"
    why = f". {bench.text}" if bench.state != "done" and bench.text else ""
    return paragraph(words + why, width - 2, sign.style, indent=1, hang=2)


def _notes(scene: Scene, width: int) -> list[Row]:
    """The last lines that operators wrote."""
    rows: list[Row] = []
    for note in scene.view.notes[-3:]:
        clock = scene.zone.clock(note.at, seconds=False)
        rows.extend(paragraph(f"✎ {clock} {note.text}", width - 2, "accent", indent=1, hang=2)[:3])
    return rows
