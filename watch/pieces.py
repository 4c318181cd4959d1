"""A load as it was seen, and the consecutive pieces it is cut into for forecasting."""

from __future__ import annotations

from msgspec import Struct

from watch.words import Phase


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
