"""Serving, once ready: requests, tokens a second, KV cache, latencies, speculation."""

from __future__ import annotations

from typing import Final

from textual.geometry import Size

from tui.scene import METRICS_INTERVAL, Scene
from tui.text import pad, right, safe
from tui.units import about, number, percent
from tui.widgets.pane import Pane
from tui.widgets.rows import Row, beside, line_bar, paragraph
from watch.view import ServingView

_LEFT: Final = 62
_TABLE: Final = 40
_ENGINE: Final = 9
_MOST_ENGINES: Final = 8
"""Engines that get room of their own on the whole screen; the others are scrolled to."""
_COLUMN: Final = 10
_WITH_DRAFTS: Final = frozenset(("drafts", "draft tokens", "accepted tokens", "accepted by position"))
"""What only a server with speculative decoding offers: not missed where there is none."""


class Serving(Pane):
    pane = "serving"
    label = "Serving"
    tab = "Serving"

    def heading(self, scene: Scene) -> tuple[str, str]:
        serving = scene.view.serving
        if serving is None:
            return self.label, ""
        over = f"over the last {about(serving.window)}" if serving.window else "since it began"
        over = "" if serving.error else over
        engines = f"{len(serving.engines)} engines" if len(serving.engines) > 1 else ""
        age = scene.age(serving.at, METRICS_INTERVAL)
        return " ── ".join(filter(None, (self.label, engines, over, age))), ""

    def badge(self, scene: Scene) -> str:
        serving = scene.view.serving
        if serving is None or serving.running is None:
            return ""
        return f"{number(serving.running)} running"

    def part(self, scene: Scene) -> object:
        serving = scene.view.serving
        return serving, serving is not None and bool(scene.age(serving.at, METRICS_INTERVAL))

    def wanted_height(self, scene: Scene) -> int:
        """Rows that several engines need below what is said of all; 0: no more than usual."""
        each = len(scene.view.serving.each) if scene.view.serving is not None else 0
        return 6 + 1 + min(each, _MOST_ENGINES) if each else 0

    def draw(self, scene: Scene, size: Size) -> list[Row]:
        serving = scene.view.serving
        if serving is None:
            return paragraph("Ready. No figures from /metrics yet.", size.width - 2, "muted", indent=1)
        if serving.error:
            return paragraph(serving.error, size.width - 2, "warn", indent=1)
        stale = bool(scene.age(serving.at, METRICS_INTERVAL))
        if size.height < 5 and size.width < _LEFT + 40:
            return _brief(serving, "muted" if stale else "text")
        left = _figures(serving, min(size.width, _LEFT), "muted" if stale else "text")
        if serving.cut:
            left.append(Row()(" ⚠ the last page was cut short: what it lacks stands as it was", "warn"))
        table = _latencies(serving, "muted" if stale else "text")
        each = _engines(serving, "muted" if stale else "text")
        if size.width >= _LEFT + 2 * _TABLE and each:
            return beside(left, beside(table, each, _TABLE), _LEFT)
        if size.width >= _LEFT + _TABLE:
            return [*beside(left, table, _LEFT), *each]
        rows = [*left, Row(), *table] if size.height >= len(left) + len(table) + 1 else [*left, *table]
        return [*rows, *each]


def _brief(serving: ServingView, plain: str) -> list[Row]:
    """The same in three rows: requests and tokens, latencies, cache and drafts."""
    requests, tokens, cache, *_ = _figures(serving, 72, plain)
    first = Row(requests)
    first("   ", "").extend(tokens[1:])
    second = Row()(" latency   ", "muted")
    for name, values in (("TTFT", serving.ttft), ("ITL", serving.itl)):
        second(f"{name} ", "muted")(_triple(values), "strong" if plain == "text" else plain)("   ", "")
    second("p50 p90 p99", "muted")
    third = Row(cache)
    if serving.acceptance_length is not None:
        third("   ", "")(number(serving.acceptance_length, 2), plain)(" tok a step", "muted")
    return [first, second, third]


def _triple(values: tuple[float, float, float] | None) -> str:
    """``124 341 812 ms`` where all have one unit."""
    if values is None:
        return "–"
    words = [about(value) for value in values]
    units = {word.split(" ", 1)[1] for word in words}
    return " ".join([word.split(" ")[0] for word in words]) + f" {units.pop()}" if len(units) == 1 else " ".join(words)


def _figures(serving: ServingView, width: int, plain: str) -> list[Row]:
    strong = "strong" if plain == "text" else plain
    rows = [
        Row()(" requests  ", "muted")(_count(serving.running), strong)(" running   ", "muted")(
            _count(serving.waiting), "warn" if serving.waiting and plain == "text" else strong
        )(" waiting", "muted"),
        Row()(" tokens    ", "muted")(_count(serving.generation_tps), strong)(" tok/s out   ", "muted")(
            _count(serving.prompt_tps), plain
        )(" tok/s in", "muted"),
    ]
    cache = Row()(" KV cache  ", "muted")
    if serving.kv_cache is not None:
        cache.extend(line_bar(serving.kv_cache, 16, "bar" if plain == "text" else "faint"))
        cache(f" {percent(serving.kv_cache)}", strong)
    else:
        cache("–", plain)
    if serving.prefix_hit is not None:
        cache("   prefix hits ", "muted")(percent(serving.prefix_hit), plain)
    if serving.preemptions:
        cache("   preempted ", "muted")(number(serving.preemptions), "warn")
    rows.append(cache)
    if serving.acceptance_rate is not None or serving.acceptance_length is not None:
        drafts = Row()(" drafts    ", "muted")
        if serving.acceptance_rate is not None:
            drafts(percent(serving.acceptance_rate), strong)(" accepted", "muted")
        if serving.acceptance_length is not None:
            drafts("   ", "")(number(serving.acceptance_length, 2), strong)(" tokens a step", "muted")
        rows.append(drafts)
        if serving.per_position:
            shares = "  ".join(percent(share) for share in serving.per_position)
            rows.append(Row()(" by place  ", "muted")(shares, plain))
    missing = ", ".join(name for name in serving.missing if name not in _WITH_DRAFTS)
    if missing:
        rows.extend(paragraph(f"not offered by this version: {missing}", width - 2, "muted", indent=1))
    return rows


def _latencies(serving: ServingView, plain: str) -> list[Row]:
    rows = [Row()(" latency ", "muted")("".join(right(name, _COLUMN) for name in ("p50", "p90", "p99")), "muted")]
    for name, values in (
        ("TTFT", serving.ttft),
        ("ITL", serving.itl),
        ("queue", serving.queue),
        ("end to end", serving.e2e),
    ):
        row = Row()(f" {name:<10}", "muted")
        words = [about(value) for value in values] if values is not None else ["–"]
        for place, word in enumerate(words):
            row(right(word, _COLUMN - (0 if place else 2)), plain)
        rows.append(row)
    return rows


def _engines(serving: ServingView, plain: str) -> list[Row]:
    """One row an engine, where there are several: running, waiting, tokens a second, KV cache, median TTFT and ITL."""
    if not serving.each:
        return []
    heads = ("running", "waiting", "tok/s", "KV", "TTFT p50", "ITL p50")
    rows = [Row()(" engine" + "".join(right(head, _ENGINE) for head in heads), "muted")]
    for one in serving.each:
        cells = (
            _count(one.running),
            _count(one.waiting),
            _count(one.generation_tps),
            percent(one.kv_cache) if one.kv_cache is not None else "–",
            about(one.ttft[0]) if one.ttft is not None else "–",
            about(one.itl[0]) if one.itl is not None else "–",
        )
        row = Row()(f" {pad(safe(one.name), 6)}", "muted")
        rows.append(row("".join(right(cell, _ENGINE) for cell in cells), plain))
    return rows


def _count(value: float | None) -> str:
    return number(value, 1 if value is not None and value % 1 and value < 100 else 0) if value is not None else "–"
