"""GPU memory: a bar per GPU with its history, and, where there is room, all histories in one large chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message

from probes.readings import GpuDevice
from tui.keys import bindings
from tui.scene import GPU_INTERVAL, Scene
from tui.text import pad, right, safe
from tui.units import Zone, about, percent, rate
from tui.widgets.pane import Pane
from tui.widgets.plot import Series, braille, chart
from tui.widgets.rows import Row, beside, line_bar, paragraph
from watch.gpu_notes import GpuNote
from watch.memory import Holder
from watch.view import GpuView, View
from watch.words import rank

_FIGURES: Final = 39
"""Cells of the figures beside a bar: used of total, temperature, power, utilisation."""

_MORE: Final = 28
"""Cells of what is added to them where there is room: the power's limit, the clock, what comes over PCIe."""

_ROLE: Final = 16
"""Cells for who holds its memory: ``Worker_TP3 +1``."""

TABLE: Final = 84
"""Cells of the table where a chart stands beside it."""

_CHART_PERIOD: Final = 2.0
"""Seconds, of the operator's own time, at least, between two drawings of the chart: plotext takes about 12 ms for one.
In a load of an hour half a column is as much as half a minute."""


class Gpu(Pane):
    pane = "gpu"
    label = "GPU memory"
    tab = "GPU"

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("gpu")]

    class Opened(Message):
        """The operator wants to see the GPUs one by one, with everything that is known of each."""

    def __init__(self) -> None:
        super().__init__()
        self._chart_key: object = None
        self._chart_levels: list[float] = []
        """in dots, unrounded: a level that trembles about the edge of a dot must not have it drawn each time"""
        self._chart_end = 0.0
        """the time at its right edge"""
        self._chart: list[Row] = []

    @property
    def scene(self) -> Scene | None:
        """What was shown last."""
        return self._scene

    def action_open(self) -> None:
        self.post_message(self.Opened())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open":
            return self._scene is not None and self._scene.view.gpu is not None
        return super().check_action(action, parameters)

    def heading(self, scene: Scene) -> tuple[str, str]:
        gpu = scene.view.gpu
        if gpu is None:
            return self.label, ""
        age = scene.age(gpu.at, GPU_INTERVAL)
        return " ── ".join(filter(None, (self.label, _models(gpu), age))), ""

    def badge(self, scene: Scene) -> str:
        gpu = scene.view.gpu
        full = _shares(gpu) if gpu is not None else []
        return percent(sum(full) / len(full)) if full else ""

    def part(self, scene: Scene) -> object:
        view = scene.view
        age = scene.age(view.gpu.at, GPU_INTERVAL) if view.gpu is not None else ""
        started = [phase.started for phase in view.load.phases] if view.load is not None else None
        return view.gpu, bool(age), view.unit, scene.troubles("gpu"), started

    def wanted_height(self, scene: Scene, width: int) -> int:
        """Rows it would fill in ``width`` cells, without its chart."""
        gpu = scene.view.gpu
        return max(3, len(gpu.devices) + len(_below(scene, gpu, width))) if gpu is not None else 3

    def draw(self, scene: Scene, size: Size) -> list[Row]:
        gpu = scene.view.gpu
        if gpu is None:
            why = scene.troubles("gpu") or ["No figures from the GPUs yet."]
            return [Row(), *paragraph("\n".join(why), size.width - 2, "muted", indent=1)]
        if not gpu.devices:
            return [Row(), *paragraph("No GPU was found on this host.", size.width - 2, "muted", indent=1)]
        stale = bool(scene.age(gpu.at, GPU_INTERVAL))
        under = size.height - self.wanted_height(scene, size.width) - 1
        wide = size.width >= TABLE + 40 and size.height >= 7 and under < 12
        width = TABLE if wide else size.width
        start, end = _span(scene.view, gpu)
        below = not wide and under >= 7 and size.width >= 40
        rows = [
            _device(device, gpu, number, width, start, end, stale=stale, small=not wide and not below)
            for number, device in enumerate(gpu.devices)
        ]
        rows.extend(_below(scene, gpu, width))
        if wide:
            return beside(rows, self._large(scene, size.width - width - 2, size.height), width + 2)
        return [*rows, Row(), *self._large(scene, size.width, size.height - len(rows) - 1)] if below else rows

    def _large(self, scene: Scene, width: int, height: int) -> list[Row]:
        """The chart, drawn again when time has gone on by half a column, a level moved by a dot, or a phase began."""
        gpu = scene.view.gpu
        assert gpu is not None
        start, end = _span(scene.view, gpu)
        step = max((end - start) / (2 * width), _CHART_PERIOD * max(1.0, scene.status.speed))
        levels = [4 * height * share for share in _shares(gpu)]
        load = scene.view.load
        begun = [phase.started for phase in load.phases] if load is not None else []
        key = (width, height, start, len(levels), gpu.expected_mib, begun)
        moved = any(abs(now - then) >= 1.0 for now, then in zip(levels, self._chart_levels, strict=False))
        if key != self._chart_key or moved or not 0 <= end - self._chart_end < step:
            self._chart_key, self._chart_levels, self._chart_end = key, levels, end
            self._chart = _draw_chart(scene.view, gpu, scene.zone, width, height)
        return self._chart


def _shares(gpu: GpuView) -> list[float]:
    """How full each GPU is, 0 to 1, of those that say."""
    return [
        device.used_mib / device.total_mib for device in gpu.devices if device.used_mib is not None and device.total_mib
    ]


def _models(gpu: GpuView) -> str:
    names = [safe(device.name).removeprefix("NVIDIA ") for device in gpu.devices]
    kinds = list(dict.fromkeys(names))
    return ", ".join(f"{names.count(kind)} × {kind or 'GPU'}" for kind in kinds)


def _span(view: View, gpu: GpuView) -> tuple[float, float]:
    first = min((series[0][0] for series in gpu.history if series), default=gpu.at)
    start = min(first, view.load.started) if view.load is not None else first
    return start, max(gpu.at, start + 60.0)


def label(device: GpuDevice, gpu: GpuView) -> str:
    """Its number; of a MIG device that of its GPU and its own: ``0.1``."""
    if device.parent is None:
        return str(device.index)
    parts = [one.index for one in gpu.devices if one.parent == device.parent]
    return f"{device.parent}.{parts.index(device.index)}"


def on_gpu(gpu: GpuView, index: int) -> list[Holder]:
    """Who holds memory of this GPU, most first."""
    return [holder for holder in gpu.holders if index in holder.gpus]


def _role(device: GpuDevice, gpu: GpuView) -> str:
    found = on_gpu(gpu, device.index)
    more = f" +{len(found) - 1}" if len(found) > 1 else ""
    return f"{safe(found[0].role)}{more}" if found else ""


def _device(
    device: GpuDevice, gpu: GpuView, number: int, width: int, start: float, end: float, *, stale: bool, small: bool
) -> Row:
    """``small``: with a small plot of its own; not where the large one stands beside or below it."""
    row = Row()(f" {label(device, gpu):>2} ", "muted")
    if device.error:
        return row("✖ ", "error")(safe(device.error), "error")
    roles = _ROLE if gpu.holders and width >= _FIGURES + _ROLE + 24 else 0
    more = width >= 4 + _FIGURES + _MORE + roles + 24
    room = max(8, width - 4 - _FIGURES - (_MORE if more else 0) - roles)
    history: Series = gpu.history[number] if number < len(gpu.history) else ()
    spark = min(16, room // 3) if small and room >= 24 and history else 0
    length = room - (spark + 2 if spark else 0)
    used, total = device.used_mib, device.total_mib
    shared = gpu.shared if used is None else None
    if shared is not None:
        used, total = shared
    if used is not None and total:
        row.extend(line_bar(used / total, length, "faint" if stale else "bar"))
        memory = f"{used / 1024:.1f} / {total / 1024:.1f} {'shared' if shared else 'GiB'}"
    else:
        row("┄" * length, "bar-rest")
        memory = f"{used / 1024:.1f} GiB" if used is not None else "not offered"
    figures = "muted" if stale else "text"
    row(right(memory, 18), figures if stale else "strong")
    row(right(_figure(device.temperature, "°C"), 7), _warm(device, figures))
    if more and device.power_limit:
        power = f"{device.power:,.0f}" if device.power is not None else "–"
        row(right(f"{power} / {device.power_limit:,.0f} W", 14), figures)
    else:
        row(right(_figure(device.power, "W"), 14 if more else 8), figures)
    row(right(_figure(device.utilization, "%"), 6), figures)
    if more:
        row(right(_figure(device.sm_mhz, "MHz"), 10), figures)
        come = device.pcie_rx_mbs
        row(right(f"{rate(come * 1e6)} in" if come is not None else "", 12), figures)
    if spark:
        top = total or max((value for _, value in history), default=1.0)
        row("  ", "")(braille(history, spark, 1, start=start, end=end, top=top)[0], "faint" if stale else "plot-1")
    if roles:
        row("  ", "")(pad(_role(device, gpu), roles - 2), "muted")
    return row


def _figure(value: float | None, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value is not None else f"– {unit}"


def _warm(device: GpuDevice, usual: str) -> str:
    return "warn" if device.temperature is not None and device.temperature >= 85 else usual


def _below(scene: Scene, gpu: GpuView, width: int) -> list[Row]:
    """What the figures mean, why they are old, what stands out, and whose memory it is where it is not the unit's."""
    rows: list[Row] = []
    for why in scene.troubles("gpu"):
        rows.extend(paragraph(f"⚠ {why}", width - 2, "warn", indent=1, hang=2))
    held = gpu.memory is not None and gpu.memory.state == "held"
    if gpu.step:
        sign = "⚠ " if held or gpu.hung else ""
        rows.extend(paragraph(sign + gpu.step, width - 2, "warn" if sign else "muted", indent=1, hang=len(sign)))
    for note, where in _together(gpu.notes):
        style, sign = _LOUD.get(note.severity, ("muted", "i"))
        rows.extend(paragraph(f"{sign} {where}: {note.text}", width - 2, style, indent=1, hang=2))
    shown = gpu.holders[:1] if held else ()  # the sentence above names it
    for holder in gpu.holders:
        if not holder.ours and holder not in shown and not (gpu.memory is not None and _was_ours(holder, scene)):
            rows.extend(paragraph(f"⚠ {stranger(holder, scene.view.now)}", width - 2, "warn", indent=1, hang=2))
    return rows


_LOUD: Final = {"warning": ("warn", "⚠"), "error": ("error", "✖"), "fatal": ("error", "✖")}


def _was_ours(holder: Holder, scene: Scene) -> bool:
    """Left over from an earlier load of this unit: the sentence on memory counts it."""
    return holder.unit.removesuffix(".service") == scene.view.unit.removesuffix(".service")


def stranger(holder: Holder, now: float) -> str:
    """Who holds memory that the load does not have, in words."""
    gpus = numbers(holder.gpus)
    held = f"{holder.mib / 1024:.1f} GiB of {gpus}" if holder.mib else gpus
    who = f"pid {holder.pid} {holder.role}" + (f" of {holder.unit}" if holder.unit else "")
    user = f", user {holder.user}" if holder.user else ""
    since = f", running for {about(now - holder.since)}" if holder.since else ""
    return f"{held} held by {who}{user}{since}" + (", dying" if holder.dying else "")


def numbers(gpus: Sequence[int]) -> str:
    """``GPU 3``, ``GPUs 0–7``, ``GPUs 0, 2, 5``."""
    if len(gpus) == 1:
        return f"GPU {gpus[0]}"
    first, last = min(gpus), max(gpus)
    if last - first == len(gpus) - 1:
        return f"GPUs {first}–{last}"
    return f"GPUs {', '.join(map(str, sorted(gpus)))}"


def _together(notes: Sequence[GpuNote]) -> list[tuple[GpuNote, str]]:
    """The same sentence about several GPUs once, with their numbers; the loudest first."""
    found: dict[tuple[str, str], list[GpuNote]] = {}
    for note in notes:
        found.setdefault((note.severity, note.text), []).append(note)
    groups = sorted(found.values(), key=lambda group: -rank(group[0].severity))
    return [(group[0], numbers([note.gpu for note in group])) for group in groups]


def _draw_chart(view: View, gpu: GpuView, zone: Zone, width: int, height: int) -> list[Row]:
    start, end = _span(view, gpu)
    history = [[(at, value / 1024) for at, value in series] for series in gpu.history]
    tops = [device.total_mib / 1024 for device in gpu.devices if device.total_mib]
    top = max(tops, default=max((value for series in history for _, value in series), default=1.0)) or 1.0
    marks = [
        (phase.started, phase.name)
        for phase in (view.load.phases if view.load is not None else ())
        if phase.started is not None and phase.started > start
    ]
    expected = gpu.expected_mib / 1024 if gpu.expected_mib else None
    middle = (start + end) / 2
    seconds = end - start < 600
    labels = [(at, zone.clock(at, seconds=seconds)) for at in (start, middle, end)]
    rows = chart(
        history,
        width,
        height - 1,
        start=start,
        end=end,
        top=top,
        marks=marks,
        expected=expected,
        labels=labels,
    )
    words = f" GiB a GPU, times {zone.name(end)}"
    if expected:
        words += f"   ─ {expected:.0f} expected"
    return [Row()(words, "muted"), *rows]
