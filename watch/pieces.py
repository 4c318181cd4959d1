"""A load as it was seen, and the consecutive pieces it is cut into for forecasting.

Phases as the journal shows them overlap and repeat (profiling holds compilation, a draft model's weights come inside
the main model's, a phase may be missing). A forecast needs pieces that follow one another and add up to the whole, so
the phases are reduced to a row of *bounds*, each of which a load passes once:

=========  =========================================================================================
begin      the server's first own line
engine     the configuration is done: the engine core starts (or, where no line says so, dist-init begins)
weights    a worker starts to load the model
bar        the bar of the weights stands at 0
read       that bar is full
placed     the weights are in their final form, a draft model's included
compiled   torch.compile is done (no such bound without it)
kv         the size of the KV cache is known
up         warm-up and graph capture are done
ready      the server answers
=========  =========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

from msgspec import Struct

from watch.words import Phase

Bound = Literal["begin", "engine", "weights", "bar", "read", "placed", "compiled", "kv", "up", "ready"]
Piece = Literal["config", "dist-init", "prepare", "read", "place", "compile", "profile", "capture", "api-start"]

BOUNDS: tuple[Bound, ...] = get_args(Bound)
PIECES: tuple[Piece, ...] = get_args(Piece)
"""Piece number i lies between bounds i and i + 1."""

PHASE_OF: dict[Piece, Phase] = {
    "config": "config",
    "dist-init": "dist-init",
    "prepare": "weights",
    "read": "weights",
    "place": "weights",
    "compile": "compile",
    "profile": "profile",
    "capture": "graph-capture",
    "api-start": "api-start",
}
"""The phase under which the screen shows a piece."""

_LATER: tuple[Phase, ...] = ("compile", "profile", "kv-cache", "warmup", "graph-capture", "api-start")


class Point(Struct, frozen=True):
    """One update of a bar. ``at``: UTC seconds; ``done`` of ``total`` in the bar's own unit; ``elapsed``: seconds the
    bar says it has been running, None where it does not say."""

    at: float
    done: float
    total: float
    elapsed: float | None = None


class PhaseSeen(Struct, frozen=True):
    """One phase of a load. ``started``: UTC seconds of its first mark; ``ended``: of the mark that ends it, or of the
    first mark of a later phase; None while it runs. ``points``: its bars' updates in order of time (a thinned
    selection will do, the first and the last of each bar among them)."""

    name: Phase
    started: float
    ended: float | None = None
    points: tuple[Point, ...] = ()


class EarlierLoad(Struct, frozen=True, kw_only=True):
    """One load of the same key that reached ready. ``first_line``: when the server printed its first own line.
    Times are UTC seconds."""

    started: float
    first_line: float
    ready: float
    phases: tuple[PhaseSeen, ...]
    compile_cache_warm: bool | None = None


def bounds(begin: float | None, phases: Sequence[PhaseSeen], ready: float | None = None) -> dict[Bound, float]:
    """The bounds that the load has passed, in UTC seconds, never decreasing. What was not seen is left out."""
    by_name: dict[Phase, PhaseSeen] = {}
    for phase in phases:
        by_name.setdefault(phase.name, phase)
    found: dict[Bound, float | None] = {"begin": begin, "ready": ready}
    config, dist, weights = by_name.get("config"), by_name.get("dist-init"), by_name.get("weights")
    draft, compiling, kv = by_name.get("draft-weights"), by_name.get("compile"), by_name.get("kv-cache")
    api = by_name.get("api-start")
    later = [by_name[name].started for name in _LATER if name in by_name]

    found["engine"] = config.ended if config is not None and config.ended is not None else None
    if found["engine"] is None and dist is not None:
        found["engine"] = dist.started
    if weights is not None:
        found["weights"] = weights.started
        bar = first_bar(weights.points)
        if bar:
            found["bar"] = max(weights.started, bar[0].at - ran(bar[0]))
            if bar[-1].done >= bar[-1].total:
                found["read"] = next(point.at for point in bar if point.done >= point.total)
        open_draft = draft is not None and draft.ended is None
        if later:
            ends = [end for end in (weights.ended, draft.ended if draft else None) if end is not None]
            found["placed"] = min(max(ends), min(later)) if ends else min(later)
        elif weights.ended is not None and not open_draft:
            found["placed"] = max(weights.ended, draft.ended or 0.0) if draft is not None else weights.ended
    elif later:
        found["placed"] = min(later)
    if compiling is not None:
        found["compiled"] = compiling.ended
    captures = [by_name[name] for name in ("warmup", "graph-capture") if name in by_name]
    if kv is not None:
        found["kv"] = kv.ended if kv.ended is not None else kv.started
    elif captures:
        found["kv"] = min(phase.started for phase in captures)
    if api is not None:
        found["up"] = api.started
    if captures and all(phase.ended is not None for phase in captures):
        ended = max(phase.ended for phase in captures if phase.ended is not None)
        capture = by_name.get("graph-capture")
        if capture is not None and ended >= (found.get("kv") or 0.0):
            found["up"] = min(ended, found.get("up") or ended)
    return _ordered(found)


def _ordered(found: dict[Bound, float | None]) -> dict[Bound, float]:
    """In the order of the bounds, each not before the one ahead of it."""
    out: dict[Bound, float] = {}
    latest = float("-inf")
    for bound in BOUNDS:
        at = found.get(bound)
        if at is None or not math.isfinite(at):
            continue
        latest = max(latest, at)
        out[bound] = latest
    return out


def durations(passed: dict[Bound, float], *, compiles: bool = True) -> dict[Piece, float]:
    """Seconds of every piece whose two bounds were passed.

    ``compiles`` False: there is no torch.compile, and the time from ``placed`` to ``kv`` is all profile; otherwise,
    without a ``compiled``, it is neither of the two and left out.
    """
    out: dict[Piece, float] = {}
    for piece, start, end in zip(PIECES, BOUNDS, BOUNDS[1:], strict=False):
        if piece == "profile" and not compiles:
            start = "placed"
        elif piece == "compile" and not compiles:
            continue
        if start in passed and end in passed:
            out[piece] = passed[end] - passed[start]
    return out


def ran(point: Point) -> float:
    """Seconds that the bar says it has been running; 0 where it says nothing that makes sense."""
    return point.elapsed if point.elapsed is not None and 0 <= point.elapsed < math.inf else 0.0


def first_bar(points: Sequence[Point]) -> tuple[Point, ...]:
    """The updates of the first bar among these: until the count falls or the total changes. Updates that make no sense
    (no total, not a number) are left out."""
    bar: list[Point] = []
    for point in points:
        if not (math.isfinite(point.total) and 0 <= point.done <= point.total > 0 and math.isfinite(point.at)):
            continue
        if bar and (point.total != bar[-1].total or point.done < bar[-1].done or point.at < bar[-1].at):
            break
        bar.append(point)
    return tuple(bar)


def last_bar(points: Sequence[Point]) -> tuple[Point, ...]:
    """The updates of the newest bar among these."""
    bar: tuple[Point, ...] = ()
    rest: Sequence[Point] = points
    while rest:
        head = first_bar(rest)
        if not head:
            break
        bar = head
        last = max(index for index, point in enumerate(rest) if point is head[-1])
        rest = rest[last + 1 :]
    return bar
