"""Storage and CPU during the load: for minutes often the only thing that moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from textual.geometry import Size

from tui.scene import IO_INTERVAL, Scene
from tui.text import clip, pad, right, safe
from tui.units import percent, rate, size_of
from tui.units import size as in_bytes
from tui.widgets.pane import Pane
from tui.widgets.plot import braille
from tui.widgets.rows import Row, beside, line_bar, paragraph
from watch.bound import Pace
from watch.view import IoView

_DEVICES: Final = 3
"""Devices that are named."""

_ROWS: Final = 6
"""Rows of what is said of all."""

_TABLE: Final = 3
"""Rows at least for the processes to be listed below each other: a head and two; else they stand in one row."""

_NAME: Final = 22
_COLUMN: Final = 12

_TEXT: Final = 76
"""Cells of the figures where a plot stands beside them."""


class Storage(Pane):
    pane = "storage"
    label = "Storage and CPU"
    tab = "Storage"

    def heading(self, scene: Scene) -> tuple[str, str]:
        io = scene.view.io
        age = scene.age(io.last.at, IO_INTERVAL) if io is not None else ""
        return " ── ".join(filter(None, (self.label, age))), ""

    def badge(self, scene: Scene) -> str:
        io = scene.view.io
        return rate(io.read_rate) if io is not None and io.read_rate is not None else ""

    def part(self, scene: Scene) -> object:
        io = scene.view.io
        return io, io is not None and bool(scene.age(io.last.at, IO_INTERVAL)), scene.troubles("io")

    def draw(self, scene: Scene, size: Size) -> list[Row]:
        io = scene.view.io
        if io is None:
            missing = scene.troubles("io") or ["No figures about storage yet."]
            return paragraph("\n".join(missing), size.width - 2, "muted", indent=1)
        wide = size.width >= _TEXT + 30 and size.height >= 3
        width = _TEXT if wide else size.width
        stale = bool(scene.age(io.last.at, IO_INTERVAL))
        listed = size.height >= _ROWS + 1 + _TABLE and len(io.workers) > 1
        rows = _figures(io, width, stale=stale, listed=listed)
        for why in scene.troubles("io"):
            rows.extend(paragraph(f"⚠ {why}", width - 2, "warn", indent=1, hang=2))
        if listed:
            rows.extend(_processes(io, size.height - len(rows), "muted" if stale else "text"))
        if not io.history:
            return rows
        if wide:
            return beside(rows, _plot(scene, io, size.width - width - 1, size.height), width + 1)
        spare = size.height - len(rows) - 1
        return [*rows, Row(), *_plot(scene, io, size.width - 2, spare, indent=1)] if spare >= 4 else rows


def _figures(io: IoView, width: int, *, stale: bool, listed: bool) -> list[Row]:
    """``listed``: the processes stand below, each in its own row."""
    last = io.last
    strong = "muted" if stale else "strong"
    plain = "muted" if stale else "text"
    rows: list[Row] = []
    read = Row()(" read    ", "muted")(rate(io.read_rate) if io.read_rate is not None else "–", strong)
    if io.read_since_start is not None:
        if last.model_bytes:
            ratio = io.read_since_start / last.model_bytes
            words = f"   {size_of(io.read_since_start, last.model_bytes)} "
            if ratio <= 1.0:
                words += f" {percent(ratio)} "  # above: more than the model was read, other files or parts of it twice
            length = width - cell_len(read.text) - cell_len(words) - 3
            read(words, plain)
            if length >= 8:
                read("  ", "").extend(line_bar(ratio, min(30, length), "faint" if stale else "bar"))
        else:
            read(f"   {in_bytes(io.read_since_start)} since the start", plain)
    rows.append(read)
    if io.bound:
        rows.append(Row()(" bound   ", "muted")(safe(io.bound), plain))
    if last.model_path or io.devices:
        mount = f"{last.model_mount}, " if last.model_mount else ""
        source = Row()(" from    ", "muted")
        places = [safe(f"{mount}{last.model_path}")] if last.model_path else []
        places += [f"{safe(device)} {rate(speed)}" for device, speed in io.devices[:_DEVICES]]
        rows.append(source(clip("   ".join(places), width - 10), plain))
    rows.append(_cpu(io, width, plain, () if listed else io.workers))
    memory = Row()(" memory  ", "muted")
    if last.unit_memory is not None and last.unit_memory_max:
        memory(f"{size_of(last.unit_memory, last.unit_memory_max)} allowed", plain)
    elif last.unit_memory is not None:
        memory(in_bytes(last.unit_memory), plain)(" by the unit", "muted")
    if last.mem_available is not None and last.mem_total:
        memory("   " if len(memory) > 1 else "", "")(size_of(last.mem_available, last.mem_total), plain)
        memory(" free on the host", "muted")
    if len(memory) > 1:
        rows.append(memory)
    cache = Row()(" cache   ", "muted")
    if last.page_cache is not None:
        cache(in_bytes(last.page_cache), plain)(" page cache", "muted")
    if last.shm_total:
        cache("   /dev/shm " if len(cache) > 1 else "/dev/shm ", "muted")
        cache(size_of(last.shm_used or 0, last.shm_total), plain)
    if len(cache) > 1:
        rows.append(cache)
    if last.error:
        rows.extend(paragraph(last.error, width - 2, "warn", indent=1))
    return rows


def _cpu(io: IoView, width: int, plain: str, workers: Sequence[Pace]) -> Row:
    """Cores in use, then of each process, as many as fit; ``D``: it waits for storage."""
    row = Row()(" cpu     ", "muted")(f"{io.cpu_rate:.1f} cores" if io.cpu_rate is not None else "–", plain)
    row("   " if workers else "", "")
    for number, one in enumerate(workers):
        waits = " D" if one.waits >= 0.5 else ""
        words = f"{safe(one.name) or one.pid} {one.cores:.2f}{waits}"
        rest = len(workers) - number - 1
        if cell_len(row.text) + cell_len(words) + (24 if rest else 0) > width:
            least = min(other.cores for other in workers[number:])
            row(f"{rest + 1} more, from {least:.2f}", "muted")
            break
        row(words, "muted")("   " if rest else "", "")
    return row


def _processes(io: IoView, room: int, plain: str) -> list[Row]:
    """Each process in a row of its own: CPU, waiting, what it reads."""
    room = max(room, _TABLE + 1)
    heads = "".join(right(head, _COLUMN) for head in ("cores", "waiting", "read"))
    rows = [Row(), Row()(pad(" process", _NAME) + heads, "muted")]
    shown = io.workers if len(io.workers) <= room - 2 else io.workers[: room - 3]
    for one in shown:
        read_of = rate(one.read) if one.read else "–"
        cells = (f"{one.cores:.2f}", percent(one.waits) if one.waits else "–", read_of)
        row = Row()(pad(f" {safe(one.name) or one.pid}", _NAME), "muted")
        rows.append(row("".join(right(cell, _COLUMN) for cell in cells), plain))
    if rest := io.workers[len(shown) :]:
        rows.append(Row()(f" {len(rest)} more, from {min(one.cores for one in rest):.2f} cores", "muted"))
    return rows


def _plot(scene: Scene, io: IoView, width: int, height: int, *, indent: int = 0) -> list[Row]:
    """Bytes read a second, over the load: a line of words, then the plot."""
    top = max((value for _, value in io.history), default=0.0)
    start = io.history[0][0]
    end = max(io.last.at, start + 60)
    zone = scene.zone
    since = f"{zone.clock(start, seconds=False)} {zone.name(start)}"
    words = Row()(" " * indent + "bytes read a second, up to ", "muted")(rate(top))(f" since {since}", "muted")
    if not top:
        words = Row()(" " * indent + f"nothing was read from storage since {since}", "muted")
    drawn = braille(io.history, width, max(1, height - 1), start=start, end=end, top=top or 1.0)
    return [words, *(Row()(" " * indent, "")(line, "plot-1") for line in drawn)]
