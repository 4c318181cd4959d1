"""Whether a load that says nothing has stopped: judged on every signal at once, against what is usual for its phase.

What is usual is data (``stalls.toml``). Movement is a telling line, a bar that advances, and, where the phase's row
says so, GPU memory that changes and bytes that are read. Notices that repeat while nothing moves are not movement.
Processors and GPUs in use are no movement either (a process that waits in a collective spins at 100 %), but where the
row says so they show work that leaves no trace, and the longer limit holds. What cannot be seen is not judged: with the
link down, or after lines were lost, silence says nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from watch.matching import Matcher
from watch.pieces import Point, last_bar
from watch.view import StallView
from watch.words import Phase

STALLS_FILE = Path(__file__).with_name("stalls.toml")

_DEAF = 120.0
"""Seconds without any reading of any kind after which we are the ones who do not hear."""
_WORKING_CORES = 0.5
_IDLE_CORES = 0.05
_WORKING_GPU = 5.0
_IDLE_SHARE = 0.5
"""Share of the limit that holds where every figure is known and all of them say that nothing is done."""
_EARLIER = 1.5
"""An earlier load of this unit that spent longer in this phase than the limit raises it to this many times that."""
_GIB = 1024.0


class Signals(Struct, frozen=True, kw_only=True):
    """What is known about a load's movement at ``now``. Times are UTC seconds; None: no such source, or nothing yet.

    ``phase_since``: first mark of the running phase. ``line_at``: last line of this load, of any process;
    ``telling_at``: last line of it that is not one of the notices that repeat while nothing moves.
    ``last_line``: message of the last telling line. ``points``: updates of the running phase's newest bar, oldest
    first (counters inside, so that the usual interval can be seen). ``gpu_mib``: memory used on the fullest GPU;
    ``gpu_moved_at``: when the memory of any GPU last changed by more than noise; ``gpu_since``: first GPU reading of
    the load. ``gpu_busy``: mean utilisation 0–100. ``read_moved_at``: when bytes read last grew; ``read_rate``: bytes
    a second. ``cpu_rate``: cores in use; ``cpu_since``: first such reading.
    ``heard_at``: last reading of any kind; ``link_up``: False while the link is down or silent; ``gap``: the journal
    has lost lines since the last telling line. ``compilers``: nvcc, cicc, ptxas … run on the host.
    ``weights_bytes``, ``bytes_read``: as in a forecast. ``earlier_seconds``: the longest that an earlier load of this
    unit, which reached ready, spent in this phase.
    """

    now: float
    phase: Phase
    phase_since: float
    engine: str = ""
    line_at: float | None = None
    telling_at: float | None = None
    last_line: str = ""
    points: tuple[Point, ...] = ()
    gpu_mib: float | None = None
    gpu_moved_at: float | None = None
    gpu_since: float | None = None
    gpu_busy: float | None = None
    read_moved_at: float | None = None
    read_rate: float | None = None
    cpu_rate: float | None = None
    cpu_since: float | None = None
    heard_at: float | None = None
    link_up: bool = True
    gap: bool = False
    compilers: bool = False
    weights_bytes: float | None = None
    bytes_read: float | None = None
    earlier_seconds: float | None = None


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of ``stalls.toml``; see there."""

    phases: tuple[Phase, ...]
    when: Literal["", "before-bar", "bar", "bar-full"] = ""
    engine: str = ""
    words: tuple[str, ...] = ()
    usual: float
    limit: float
    busy: float
    download: float = 0.0
    interval: float = 0.0
    moves: tuple[Literal["memory", "reads"], ...] = ()
    works: tuple[Literal["cpu", "gpu", "compilers"], ...] = ()
    about: str
    trap: str = ""
    source: str


def parse_rows(text: str) -> tuple[Row, ...]:
    """Raises tomllib.TOMLDecodeError or msgspec.ValidationError."""
    return tuple(msgspec.convert(tomllib.loads(text), dict[Literal["silence"], tuple[Row, ...]])["silence"])


@functools.cache
def _rows() -> Mapping[Phase, tuple[tuple[Row, Matcher], ...]]:
    table: dict[Phase, list[tuple[Row, Matcher]]] = {}
    for row in parse_rows(STALLS_FILE.read_text(encoding="utf-8")):
        for phase in row.phases:
            table.setdefault(phase, []).append((row, Matcher(row.words)))
    return {phase: tuple(rows) for phase, rows in table.items()}


def judge(signals: Signals) -> StallView | None:
    """The stall, or None while the load moves, is silent in a known way, or cannot be judged (link down).

    ``since``: when the last signal moved. Pure; never raises.
    """
    judged = _judge(signals)
    if judged is None or judged.silence <= judged.limit:
        return None
    row = judged.row
    usual = f"usually at most {spell(max(row.usual, judged.longest))} of silence here ({row.about}); "
    usual += f"more than {spell(judged.limit)} is taken for a stall"
    return StallView(since=judged.since, what=_what(signals, judged), usual=usual)


def quiet(signals: Signals) -> str:
    """What goes on while nothing moves, and for how long that is known ("silent for 6 min; …: a stall after 30 min").
    Empty while lines come as usual, and in a stall."""
    judged = _judge(signals)
    if judged is None or not max(judged.row.usual * 0.5, 20.0) < judged.silence <= judged.limit:
        return ""
    row = judged.row
    return f"silent for {spell(judged.silence)}: {row.about}; taken for a stall after {spell(judged.limit)}"


class _Judged(Struct, frozen=True):
    row: Row
    since: float
    silence: float
    limit: float
    longest: float
    """the longest wait between two updates of the bar, 0 without one"""
    working: bool


def _judge(signals: Signals) -> _Judged | None:
    """The row that holds, and how long nothing has moved. None: cannot be judged."""
    now = signals.now
    if not math.isfinite(now) or not math.isfinite(signals.phase_since) or not signals.link_up:
        return None
    if signals.heard_at is not None and not now - signals.heard_at <= _DEAF:
        return None
    row = _row(signals)
    if row is None:
        return None
    figures = [
        at
        for name, at in (("memory", signals.gpu_moved_at), ("reads", signals.read_moved_at))
        if name in row.moves and at is not None
    ]
    if signals.gap and not figures:
        return None
    bar = last_bar(signals.points)
    moved = [signals.phase_since, *figures]
    moved += [at for at in (signals.telling_at, bar[-1].at if bar else None) if at is not None]
    since = max((at for at in moved if math.isfinite(at) and at <= now), default=now)
    longest = max((b.at - a.at for a, b in itertools.pairwise(bar) if b.done > a.done), default=0.0)
    limit, working = _limit(signals, row, longest)
    return _Judged(row, since, now - since, limit, longest, working)


def _row(signals: Signals) -> Row | None:
    bar = last_bar(signals.points)
    when = "before-bar" if not bar else "bar-full" if bar[-1].done >= bar[-1].total else "bar"
    for row, matcher in _rows().get(signals.phase, ()):
        if row.when not in ("", when) or (row.engine and row.engine != signals.engine.lower()):
            continue
        if row.words and not matcher.rows(signals.last_line):
            continue
        return row
    return None


def _limit(signals: Signals, row: Row, longest: float) -> tuple[float, bool]:
    """Seconds of silence that are a stall, and whether work without movement is seen."""
    works = {
        "cpu": (signals.cpu_rate or 0.0) >= _WORKING_CORES,
        "gpu": (signals.gpu_busy or 0.0) >= _WORKING_GPU,
        "compilers": signals.compilers,
    }
    working = any(works[name] for name in row.works)
    limit = row.busy if working else row.limit
    if row.download and signals.weights_bytes is None:
        limit = max(limit, row.download)
    if row.interval:
        limit = max(limit, row.interval * longest)
    idle = (
        signals.cpu_rate is not None
        and signals.cpu_rate < _IDLE_CORES
        and (signals.gpu_busy or 0.0) < 1
        and not (signals.read_rate or 0.0) > 0
        and not signals.compilers
    )
    if idle and not longest:
        limit *= _IDLE_SHARE
    if signals.earlier_seconds is not None and signals.earlier_seconds > limit / _EARLIER:
        limit = max(limit, _EARLIER * min(signals.earlier_seconds, 86400.0))
    return limit, working


def _what(signals: Signals, judged: _Judged) -> str:
    """What stopped, and when each signal last moved."""
    now, row = signals.now, judged.row
    parts = [f"nothing has moved in {signals.phase} for {spell(judged.silence)}"]
    bar = last_bar(signals.points)
    if bar:
        parts.append(f"bar at {bar[-1].done:g} of {bar[-1].total:g} for {spell(now - bar[-1].at)}")
    if signals.telling_at is not None:
        parts.append(f"last telling line {spell(now - signals.telling_at)} ago")
    if signals.line_at is not None and (signals.telling_at is None or signals.line_at > signals.telling_at + 1):
        parts.append(f"since then only repeated notices, the last {spell(now - signals.line_at)} ago")
    if "memory" in row.moves and signals.gpu_mib is not None:
        held = f"GPU memory at {signals.gpu_mib / _GIB:.1f} GiB"
        moved = signals.gpu_moved_at
        parts.append(f"{held}, unchanged for {spell(now - moved)}" if moved is not None else held)
    if "reads" in row.moves and signals.read_moved_at is not None:
        parts.append(f"nothing read from storage for {spell(now - signals.read_moved_at)}")
    if signals.gpu_busy is not None:
        parts.append(f"GPUs at {signals.gpu_busy:.0f} %")
    if signals.cpu_rate is not None:
        parts.append(f"{signals.cpu_rate:.1f} cores in use")
    text = "; ".join(parts)
    return f"{text} ({row.trap})" if row.trap and (signals.gpu_busy or 0.0) >= _WORKING_GPU else text


def spell(seconds: float) -> str:
    """A duration in words: ``45 s``, ``6 min``, ``1 h 20 min``."""
    if not math.isfinite(seconds):
        return "an unknown time"
    seconds = max(0.0, seconds)
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
