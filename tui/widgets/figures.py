"""What is said of a benchmark, in rows: how far it is, its figures, the verdict, what is to be doubted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from probes.bench.orders import MEASURED
from tui.scene import GPU_INTERVAL, METRICS_INTERVAL, Scene
from tui.text import clip, pad, right, safe
from tui.units import about, elapsed, number, percent
from tui.widgets.flow import flow
from tui.widgets.rows import Row, bar, line_bar, paragraph
from tui.words.benchmarks import STATES, VERDICTS, pair, value
from watch.benchmarks.told import figure
from watch.view import BenchLevelView, BenchView, GpuView, ServingView

_NAME: Final = 14
_GAP: Final = 2


def heading(scene: Scene) -> tuple[str, str]:
    bench = scene.view.benchmark
    if bench is None:
        return "Benchmark", ""
    title = f"Benchmark {bench.preset} of {bench.unit or scene.view.unit} on {scene.view.target}"
    clock = f"{scene.zone.clock(bench.started)} {scene.zone.name(bench.started)}"
    return title, f"by {bench.who}, since {clock}" if bench.who else f"since {clock}"


def rows_of(scene: Scene, width: int, *, alone: bool) -> list[Row]:
    """``alone``: what the server does meanwhile is not shown beside it, so that a few rows tell it here."""
    bench = scene.view.benchmark
    if bench is None:
        return [Row()(" This server has not been measured in this watch.", "muted")]
    rows = [] if alone else [Row()]
    rows += _state(bench, scene, width)
    if bench.state == "running":
        rows += _progress(bench, scene, width)
    rows += _failures(bench, width)
    if bench.verdict and bench.state != "running":
        rows += [Row(), *verdict_rows(bench, width)]
    if bench.levels:
        rows += [Row(), *level_rows(bench.levels, width)]
    rows += _doubts(bench, width)
    if bench.differs and bench.state != "running":
        rows += [Row(), *differs_rows(bench.differs, width, "baseline", "this one")]
    if bench.state == "running":
        if alone:
            rows += [Row(), Row()(f" {beside_title(scene)}", "title"), *beside_rows(scene, width)]
        said = "It runs on the server's host: a lost link, or leaving firstlight, does not end it."
        if bench.facts.get(MEASURED):
            said = "It runs on the machine of whoever began it, through the SSH connection, and ends with that."
        rows += [Row(), *paragraph(said, width - 2, "muted", indent=1)]
    return rows


def _state(bench: BenchView, scene: Scene, width: int) -> list[Row]:
    sign = STATES[bench.state]
    if bench.state == "armed":
        held = "It holds while this watch runs: whoever leaves firstlight before is asked."
        rows = paragraph(f"{sign.sign} {bench.text}", width - 2, sign.style, indent=1, hang=2)
        return [*rows, *paragraph(held, width - 2, "muted", indent=3)]
    if bench.state == "running":
        if scene.link_lost:
            words = "✖ The link is lost; the benchmark goes on on the host. This is what was known."
            return paragraph(words, width - 2, "strong warn", indent=1, hang=2)
        words = f"{sign.sign} {bench.text if bench.text != 'measuring' else sign.word}"
        return paragraph(words, width - 2, sign.style, indent=1, hang=2)
    took = f" after {elapsed(bench.ended - bench.started)}" if bench.ended is not None else ""
    words = f"{sign.sign} {sign.word}{took}" + (f": {bench.text}" if bench.text and bench.state != "done" else "")
    return paragraph(words, width - 2, sign.style, indent=1, hang=2)


def _progress(bench: BenchView, scene: Scene, width: int) -> list[Row]:
    if not bench.part:
        return []
    now = scene.view.now
    parts = f"run {bench.part} of {bench.parts}, " if bench.parts > 1 else ""
    rows = [Row(), _fact("now", f"{parts}{bench.concurrency} requests at a time", "strong")]
    if bench.total:
        counted = f"  {number(bench.done)} of {number(bench.total)} requests  {percent(bench.done / bench.total)} "
        row = Row([(" ", ""), *bar(bench.done / bench.total, max(6, width - 1 - cell_len(counted)))])
        rows += [row(counted, "strong")]
    ran = max(0.0, now - bench.level_began) if bench.level_began else 0.0
    left = ran / bench.done * (bench.total - bench.done) if bench.done and bench.total > bench.done else None
    time = elapsed(ran) + (f", about {about(left)} left in this run" if left is not None else "")
    rows.append(_fact("time", time))
    speed = f"{figure(bench.generation_tps)} tokens/s since it began" if bench.generation_tps is not None else "–"
    rows.append(_fact("output", speed, "strong" if bench.generation_tps is not None else "muted"))
    return rows


def _failures(bench: BenchView, width: int) -> list[Row]:
    if not bench.failed and not bench.first_error:
        if bench.state == "running" and bench.part:
            return [_fact("failed", "none so far")]
        return []
    rows = [_fact("failed", f"✖ {number(bench.failed)} requests", "strong error")]
    if bench.first_error:
        rows += paragraph(f"first error: {bench.first_error}", width - 2, "error", indent=1 + _NAME)
    return rows


def _fact(name: str, text: str, style: str = "text") -> Row:
    return Row()(f" {pad(name, _NAME)}", "muted")(safe(text), style)


def verdict_rows(bench: BenchView, width: int) -> list[Row]:
    """The verdict by itself, its word first."""
    sign = VERDICTS.get(bench.word)
    if sign is None:
        return paragraph(bench.verdict, width - 2, "strong", indent=1)
    if bench.word in ("refused", "baseline"):  # the sentence begins with the word itself
        said = bench.verdict[:1].upper() + bench.verdict[1:]
        return paragraph(f"{sign.sign} {said}", width - 2, sign.style, indent=1, hang=2)
    rows = [Row()(f" {sign.sign} {clip(sign.word.capitalize(), width - 4)}", sign.style)]
    return [*rows, *paragraph(bench.verdict, width - 2, "text", indent=3)]


def _doubts(bench: BenchView, width: int) -> list[Row]:
    doubts = list(dict.fromkeys([*bench.warnings, *(mark for level in bench.levels for mark in level.marks)]))
    rows = [Row()] if doubts else []
    for doubt in doubts:
        rows += paragraph(f"⚠ {doubt}", width - 2, "warn", indent=1, hang=2)
    return rows


def differs_rows(rows: Sequence[tuple[str, str, str]], width: int, a: str, b: str) -> list[Row]:
    """What else is not the same: brackets say what colours repeat."""
    if not rows:
        return []
    out = [Row()(" What else differs", "title")(f"  [-{safe(a)}-]{{+{safe(b)}+}}", "faint")]
    column = min(34, max(cell_len(safe(what)) for what, _, _ in rows), max(12, width // 3))
    for what, old, new in rows:
        key = safe(what)
        lead = pad(key, column) + "  " if cell_len(key) <= column else key + " "
        pieces = [(" ~ ", "strong accent"), (lead, "text")]
        pieces += [(f"[-{old}-]", "error")] if old != "–" else []
        pieces += [(f"{{+{new}+}}", "ok")] if new != "–" else []
        out += flow(pieces, width - 1, indent=5 + column)
    return out


# ----- figures of its runs


class _Column:
    """``cells``: of a run. ``rank``: the highest goes first where room is short; 0 always stays."""

    def __init__(self, head: str, rank: int, cells: Callable[[BenchLevelView], str]) -> None:
        self.head, self.rank, self.cells = head, rank, cells


_COLUMNS: Final = (
    _Column("output tok/s", 0, lambda one: figure(one.output_tps)),
    _Column("req/s", 3, lambda one: figure(one.requests_per_second)),
    _Column("TTFT ms", 1, lambda one: pair(one.ttft)[0]),
    _Column("p99", 2, lambda one: pair(one.ttft)[1]),
    _Column("TPOT ms", 1, lambda one: pair(one.tpot)[0]),
    _Column("p99", 4, lambda one: pair(one.tpot)[1]),
    _Column("ITL ms", 5, lambda one: pair(one.itl)[0]),
    _Column("p99", 5, lambda one: pair(one.itl)[1]),
    _Column("E2EL ms", 6, lambda one: pair(one.e2el)[0]),
    _Column("accepted", 2, lambda one: value(one.acceptance_length)),
    _Column("rate", 7, lambda one: percent(one.acceptance_rate) if one.acceptance_rate is not None else "–"),
    _Column("J/token", 3, lambda one: "–" if one.joules_per_token is None else f"{one.joules_per_token:.3g}"),
    _Column("GPU W", 7, lambda one: value(one.watts)),
    _Column("failed", 4, lambda one: number(one.failed)),
)


def level_rows(levels: Sequence[BenchLevelView], width: int) -> list[Row]:
    """One row a run. Columns that no run has a figure for are left out; then those that have no room."""
    repeats = len({level.level for level in levels}) < len(levels)
    heads = [f"{level.level}{f', repeat {level.repeat}' if repeats else ''}" for level in levels]
    first = max(cell_len(safe(head)) for head in heads)
    columns = [one for one in _COLUMNS if any(_cell(one, level) != "–" for level in levels)]
    room = width - 2 - min(first, 30)
    while columns and _wide(columns, levels) > room and max(one.rank for one in columns):
        columns.remove(max(columns, key=lambda one: one.rank))
        columns = [one for place, one in enumerate(columns) if one.head != "p99" or _owned(columns, place)]
    widths = [max([cell_len(one.head), *(cell_len(_cell(one, level)) for level in levels)]) for one in columns]
    head = Row()(" " + pad("", min(first, 30)), "")
    for one, cells in zip(columns, widths, strict=True):
        head(" " * _GAP + right(one.head, cells), "muted")
    rows = [head]
    for level, name in zip(levels, heads, strict=True):
        row = Row()(" " + pad(safe(name), min(first, 30)), "text")
        for one, cells in zip(columns, widths, strict=True):
            style = "muted" if level.unusable else "strong" if one.rank == 0 else "text"
            row(" " * _GAP + right(_cell(one, level), cells), style)
        rows.append(row)
        if level.unusable:
            rows += paragraph(f"✖ {level.unusable}", width - 2, "error", indent=3, hang=2)
    return rows


def _owned(columns: Sequence[_Column], place: int) -> bool:
    """A p99 whose median has gone says nothing."""
    return place > 0 and columns[place - 1].head.endswith(" ms")


def _cell(column: _Column, level: BenchLevelView) -> str:
    return "–" if level.unusable and column.head != "failed" else column.cells(level)


def _wide(columns: Sequence[_Column], levels: Sequence[BenchLevelView]) -> int:
    return sum(_GAP + max([cell_len(one.head), *(cell_len(_cell(one, level)) for level in levels)]) for one in columns)


# ----- what the server does meanwhile


def beside_rows(scene: Scene, width: int) -> list[Row]:
    """Power, cache and latencies, as the watch sees them: of all requests, ours and others'."""
    return [*_served(scene, width), Row(), *_powered(scene, width)]


def beside_title(scene: Scene) -> str:
    serving = scene.view.serving
    over = f" ── over the last {about(serving.window)}" if serving is not None and serving.window else ""
    return "The server" + over


def _served(scene: Scene, width: int) -> list[Row]:
    serving = scene.view.serving
    if serving is None or serving.error:
        why = serving.error if serving is not None else "No figures from /metrics."
        return paragraph(why, width - 2, "muted", indent=1)
    old = scene.age(serving.at, METRICS_INTERVAL)
    plain = "muted" if old else "text"
    rows = [_fact("", f"{old}", "warn")] if old else []
    requests = f"{_count(serving.running)} running, {_count(serving.waiting)} waiting"
    rows.append(_fact("requests", requests, plain))
    rows += _cache(serving, width, plain)
    for name, found in (("TTFT", serving.ttft), ("ITL", serving.itl)):
        if found is not None:
            rows.append(_fact(name, f"p50 {about(found[0])}, p99 {about(found[2])}", plain))
    if serving.acceptance_length is not None:
        rows.append(_fact("accepted", f"{serving.acceptance_length:.2f} tokens a step", plain))
    return rows


def _cache(serving: ServingView, width: int, plain: str) -> Iterator[Row]:
    if serving.kv_cache is None:
        return
    row = _fact("KV cache", right(percent(serving.kv_cache), 5), plain)
    row("  ", "").extend(line_bar(serving.kv_cache, min(24, max(4, width - _NAME - 10))))
    yield row


def _powered(scene: Scene, width: int) -> list[Row]:
    gpu = scene.view.gpu
    powered = [one for one in gpu.devices if one.power is not None and one.parent is None] if gpu is not None else []
    if gpu is None or not powered:
        return [_fact("GPU power", "no figures", "muted")]
    old = scene.age(gpu.at, GPU_INTERVAL)
    plain = "muted" if old else "text"
    total = sum(one.power or 0.0 for one in powered)
    limit = sum(one.power_limit or 0.0 for one in powered)
    of = f" of {number(limit)} W" if limit and all(one.power_limit for one in powered) else ""
    row = _fact("GPU power", f"{number(total)}{of or ' W'}", plain)
    rows = [row(f"  {old}", "warn") if old else row]
    if of:
        bars = line_bar(total / limit, min(31, max(4, width - _NAME - 3)))
        rows.append(Row([(" " * (_NAME + 1), ""), *bars]))
    rows.append(_fact("GPU use", _busy(gpu), plain))
    return rows


def _busy(gpu: GpuView) -> str:
    known = [one.utilization for one in gpu.devices if one.utilization is not None]
    if not known:
        return "–"
    low, high = min(known), max(known)
    shown = f"{low:.0f} %" if round(low) == round(high) else f"{low:.0f}–{high:.0f} %"
    return f"{shown} of {len(gpu.devices)} GPU{'' if len(gpu.devices) == 1 else 's'}"


def _count(found: float | None) -> str:
    return "–" if found is None else number(found)
