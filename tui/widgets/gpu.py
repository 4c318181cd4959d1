"""GPU memory: a bar per GPU with its history, and, where there is room, all histories in one large chart."""

from __future__ import annotations

from typing import Final

from textual.geometry import Size

from probes.readings import GpuDevice
from tui.scene import GPU_INTERVAL, Scene
from tui.text import right, safe
from tui.units import Zone, about, percent
from tui.widgets.pane import Pane
from tui.widgets.plot import Series, braille, chart
from tui.widgets.rows import Row, beside, line_bar, paragraph
from watch.view import GpuView, View

_FIGURES: Final = 39
"""Cells of the figures beside a bar: used of total, temperature, power, utilisation."""

TABLE: Final = 84
"""Cells of the table where a chart stands beside it."""

_CHART_PERIOD: Final = 1.0
"""Seconds, of the operator's own time, at least, between two drawings of the chart: plotext takes about 12 ms for one.
In a load of an hour half a column is as much as half a minute."""


class Gpu(Pane):
    pane = "gpu"
    label = "GPU memory"
    tab = "GPU"

    def __init__(self) -> None:
        super().__init__()
        self._chart_key: object = None
        self._chart: list[Row] = []

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
        rows = [
            _device(device, gpu, number, width, start, end, stale=stale) for number, device in enumerate(gpu.devices)
        ]
        rows.extend(_below(scene, gpu, width))
        if wide:
            return beside(rows, self._large(scene, size.width - width - 2, size.height), width + 2)
        spare = size.height - len(rows) - 1
        if spare >= 7 and size.width >= 40:
            return [*rows, Row(), *self._large(scene, size.width, spare)]
        return rows

    def _large(self, scene: Scene, width: int, height: int) -> list[Row]:
        """The chart, drawn again when time has gone on by half a column, or a level moved by a dot."""
        gpu = scene.view.gpu
        assert gpu is not None
        start, end = _span(scene.view, gpu)
        step = max((end - start) / (2 * width), _CHART_PERIOD * max(1.0, scene.status.speed))
        dots = [round(4 * height * share) for share in _shares(gpu)]
        key = (width, height, start, int(end / step), dots, gpu.expected_mib)
        if key != self._chart_key:
            self._chart_key = key
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


def _device(device: GpuDevice, gpu: GpuView, number: int, width: int, start: float, end: float, *, stale: bool) -> Row:
    row = Row()(f" {device.index:>2} ", "muted")
    if device.error:
        return row("✖ ", "error")(safe(device.error), "error")
    room = max(8, width - 4 - _FIGURES)
    history: Series = gpu.history[number] if number < len(gpu.history) else ()
    spark = min(16, room // 3) if room >= 24 and history else 0
    length = room - (spark + 2 if spark else 0)
    used, total = device.used_mib, device.total_mib
    if used is not None and total:
        row.extend(line_bar(used / total, length, "faint" if stale else "bar"))
        memory = f"{used / 1024:.1f} / {total / 1024:.1f} GiB"
    else:
        row("┄" * length, "bar-rest")
        memory = f"{used / 1024:.1f} GiB" if used is not None else "not offered"
    figures = "muted" if stale else "text"
    row(right(memory, 18), figures if stale else "strong")
    row(right(_figure(device.temperature, "°C"), 7), _warm(device, figures))
    row(right(_figure(device.power, "W"), 8), figures)
    row(right(_figure(device.utilization, "%"), 6), figures)
    if spark:
        top = total or max((value for _, value in history), default=1.0)
        row("  ", "")(braille(history, spark, 1, start=start, end=end, top=top)[0], "faint" if stale else "plot-1")
    return row


def _figure(value: float | None, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value is not None else f"– {unit}"


def _warm(device: GpuDevice, usual: str) -> str:
    return "warn" if device.temperature is not None and device.temperature >= 85 else usual


def _below(scene: Scene, gpu: GpuView, width: int) -> list[Row]:
    """What the figures mean, why they are old, and whose memory it is where it is not the unit's."""
    rows: list[Row] = []
    view = scene.view
    for why in scene.troubles("gpu"):
        rows.extend(paragraph(f"⚠ {why}", width - 2, "warn", indent=1, hang=2))
    if gpu.step:
        rows.extend(paragraph(gpu.step, width - 2, "muted", indent=1))
    for process in gpu.processes:
        if process.unit and process.unit != view.unit:
            held = (
                f"{process.used_mib / 1024:.1f} GiB of GPU {process.gpu}" if process.used_mib else f"GPU {process.gpu}"
            )
            who = f"pid {process.pid} {process.name} of {process.unit}"
            since = f", running for {about(view.now - process.started)}" if process.started else ""
            rows.extend(paragraph(f"⚠ {held} held by {who}{since}", width - 2, "warn", indent=1, hang=2))
    return rows


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
        history, width, height - 1, start=start, end=end, top=top, marks=marks, expected=expected, labels=labels
    )
    words = f" GiB a GPU, times {zone.name(end)}"
    if marks:
        words += "   │ phases"
    if expected:
        words += f"   ─ {expected:.0f} expected"
    return [Row()(words, "muted"), *rows]
