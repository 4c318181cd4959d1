"""A metrics page under our own names: one figure, whatever the server's version calls it (the table metrics.toml)."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from probes.readings import MetricsReading, Sample

Kind = Literal["gauge-sum", "gauge-mean", "counter", "histogram", "positions"]

Series = tuple[str, str, float]
"""(key, engine, part): one growing number. ``part``: a histogram's bucket bound, SUM or COUNT; a position; else 0."""

SUM, COUNT = -2.0, -1.0
_MOST_POSITIONS = 64
"""Positions of a draft that are told apart; nothing drafts more tokens a step."""


MOST_ENGINES = 64
"""Engines that are told apart; those beyond count as if they had no name."""
_MOST_BOUNDS = 200
"""Bounds of one figure's histogram; vLLM has up to thirty."""


class Figure(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table."""

    key: str
    kind: Kind
    names: tuple[tuple[str, str], ...]


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    figure: tuple[Figure, ...]


class Page(Struct, frozen=True):
    """``gauges``: by key and engine. ``series``: everything that only grows. Engine "": the page does not name one."""

    gauges: dict[tuple[str, str], float]
    series: dict[Series, float]


@cache
def figures() -> tuple[Figure, ...]:
    """The table, in its order. Raises msgspec.ValidationError for a row that is none."""
    text = resources.files("watch").joinpath("metrics.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Table).figure


@cache
def averaged() -> frozenset[str]:
    """Keys whose engines are averaged, not added."""
    return frozenset(figure.key for figure in figures() if figure.kind == "gauge-mean")


@cache
def _named() -> dict[str, tuple[Figure, int, str]]:
    """Sample name → its figure, its place among that figure's names, what it is of a histogram."""
    found: dict[str, tuple[Figure, int, str]] = {}
    for figure in figures():
        for place, (name, _) in enumerate(figure.names):
            kinds = ("bucket", "sum", "count") if figure.kind == "histogram" else ("",)
            for kind in kinds:
                found[f"{name}_{kind}" if kind else name] = figure, place, kind
    return found


def thinned(reading: MetricsReading) -> MetricsReading:
    """The reading with only those samples that anything is made of: under half of a busy page. One that has none of
    them stays as it is, since even that says that something answers."""
    known = _named()
    kept = tuple(sample for sample in reading.samples if sample.name in known)
    return replace(reading, samples=kept) if kept and len(kept) < len(reading.samples) else reading


def read_page(samples: Iterable[Sample]) -> Page:
    """Total: samples that nobody knows, or that make no sense, are left out. Several label sets of one engine (served
    names, adapters) are added."""
    named = _named()
    known = [(sample, *entry) for sample in samples if (entry := named.get(sample.name)) is not None]
    first: dict[str, int] = {}
    for _, figure, place, _ in known:
        first[figure.key] = min(place, first.get(figure.key, place))
    gauges: dict[tuple[str, str], float] = {}
    series: dict[Series, float] = {}
    engines: set[str] = set()
    bounds: dict[str, set[float]] = {}
    for sample, figure, place, kind in known:
        if place != first[figure.key] or not math.isfinite(sample.value):
            continue
        engine = sample.labels.get("engine", "")[:MOST_ENGINES]
        if engine not in engines and len(engines) < MOST_ENGINES:
            engines.add(engine)
        elif engine not in engines:
            engine = ""
        if figure.kind in ("gauge-sum", "gauge-mean"):
            at = figure.key, engine
            gauges[at] = gauges.get(at, 0.0) + sample.value
            continue
        part = _part(sample, figure.kind, kind)
        if part is not None:
            if figure.kind == "histogram":
                of = bounds.setdefault(figure.key, set())
                of.add(part)
                if len(of) > _MOST_BOUNDS:
                    of.discard(part)
                    continue
            grows = figure.key, engine, part
            series[grows] = series.get(grows, 0.0) + sample.value
    return Page(gauges=gauges, series=series)


def _part(sample: Sample, kind: Kind, of: str) -> float | None:
    if kind == "positions":
        position = sample.labels.get("position", "")
        small = position.isascii() and position.isdigit() and len(position) < 4
        return float(position) if small and int(position) < _MOST_POSITIONS else None
    if of == "bucket":
        try:
            bound = float(sample.labels.get("le", ""))
        except ValueError:
            return None
        return bound if bound >= 0 else None
    return {"sum": SUM, "count": COUNT}.get(of, 0.0)
