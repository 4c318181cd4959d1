"""Timelines of real loads (``tests/recordings/timelines/README.md``) as the loads that a forecast is made from.

Only the marks' fields are used, never their ``line``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from watch.forecast import LoadSoFar
from watch.pieces import EarlierLoad, PhaseSeen, Point, bounds, durations
from watch.words import PHASES

GIB = float(1 << 30)


class BadTimelines(Exception):
    """A file that is none: one sentence with file and line."""


class Mark(Struct, frozen=True):
    phase: str
    event: str
    at: float | None = None
    seconds: float | None = None
    done: float | None = None
    total: float | None = None
    elapsed: float | None = None
    left: float | None = None
    line: str | None = None


class Timeline(Struct, frozen=True):
    id: str
    marks: list[Mark]
    source: str = ""
    engine: str | None = None
    version: str | float | None = None
    model: str | None = None
    weights_gib: float | None = None
    gpus: str | int | None = None
    params_b: float | None = None
    tp: float | None = None
    pp: float | None = None
    flags: list[str] | None = None
    compiled: bool | None = None
    compile_cache_warm: bool | None = None
    eager: bool | None = None
    from_process_start: bool | None = None

    @property
    def ready(self) -> float | None:
        """Seconds from the first mark to ready."""
        return next((m.at for m in self.marks if m.phase == "ready" and m.at is not None), None)

    @property
    def first_line(self) -> float:
        """Seconds from the first mark to the server's first line: 0, but for recordings that know when the process
        started (a mark without a line among marks that have one)."""
        timed = [m for m in self.marks if m.at is not None]
        if len(timed) > 1 and timed[0].line is None and timed[0].phase == "process-start" and timed[1].line is not None:
            return timed[1].at or 0.0
        return 0.0

    @property
    def owner(self) -> str:
        """Whose machines it comes from: the repository, or the timeline itself where it has no name."""
        named = re.match(r"[\w.-]+/[\w.-]+", self.source)
        return named[0] if named and "public file" not in self.source else self.source or self.id

    @property
    def configuration(self) -> tuple[str, str, str]:
        """Alike for repeats of one configuration on one machine."""
        if not self.model:
            return self.id, "", ""
        return self.owner, self.model, str(self.gpus or "")


_DECODER = msgspec.json.Decoder(Timeline)


def read_timelines(path: Path) -> list[Timeline]:
    """Raises BadTimelines, naming file and line, for a file that cannot be read or is not such a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadTimelines(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadTimelines(f"{path}: is not UTF-8 text; expected JSON lines") from None
    out = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                out.append(_DECODER.decode(line))
            except msgspec.MsgspecError as error:
                raise BadTimelines(f"{path}:{number}: is not a timeline: {error}") from None
    if not out:
        raise BadTimelines(f"{path}: holds no timelines")
    return out


def phases(timeline: Timeline, now: float) -> tuple[PhaseSeen, ...]:
    """The phases as the marks up to ``now`` (seconds from the first mark) show them."""
    started: dict[str, float] = {}
    ended: dict[str, float] = {}
    points: dict[str, list[Point]] = {}
    for mark in timeline.marks:
        if mark.at is None or mark.at > now or mark.phase not in PHASES or mark.phase == "ready":
            continue
        started.setdefault(mark.phase, mark.at)
        if mark.event == "end":
            ended[mark.phase] = mark.at
        if mark.done is not None and mark.total:
            points.setdefault(mark.phase, []).append(Point(mark.at, mark.done, mark.total, mark.elapsed))
    return tuple(
        msgspec.convert(
            {"name": name, "started": at, "ended": ended.get(name), "points": tuple(points.get(name, ()))},
            PhaseSeen,
        )
        for name, at in started.items()
    )


def load_at(timeline: Timeline, now: float, *, earlier: tuple[EarlierLoad, ...] = (), blind: bool = False) -> LoadSoFar:
    """What a watcher knows at ``now``, seconds from the first mark.

    ``weights_gib`` counts as known from the start (on a host the size of the checkpoint is looked up), ``blind``
    withholds it. The state of the compile cache is withheld until compilation is over, downloads are never announced.
    """
    seen = phases(timeline, now)
    over = any(phase.name == "compile" and phase.ended is not None for phase in seen)
    return LoadSoFar(
        started=0.0,
        now=now,
        first_line=timeline.first_line if timeline.first_line <= now else None,
        engine=timeline.engine or "",
        version=str(timeline.version or ""),
        gpu=str(timeline.gpus or ""),
        phases=seen,
        weights_bytes=timeline.weights_gib * GIB if timeline.weights_gib and not blind else None,
        params_b=timeline.params_b,
        tp=int(timeline.tp) if timeline.tp else None,
        pp=int(timeline.pp) if timeline.pp else None,
        eager=timeline.eager,
        compiled=False if timeline.engine == "sglang" else None,
        compile_cache_warm=timeline.compile_cache_warm if over else None,
        draft=drafts(timeline),
        earlier=earlier,
    )


def drafts(timeline: Timeline) -> bool:
    """Whether a draft model's weights are loaded: speculation of any kind that has weights."""
    words = [flag.lower() for flag in timeline.flags or () if "specul" in flag.lower() or "draft" in flag.lower()]
    return any("ngram" not in word and "n-gram" not in word and "suffix" not in word for word in words)


def as_earlier(timeline: Timeline) -> EarlierLoad | None:
    """A whole timeline as an entry of the history; None if it did not reach ready or does not show its start."""
    ready = timeline.ready
    if ready is None or not timeline.from_process_start:
        return None
    return EarlierLoad(
        started=0.0,
        first_line=timeline.first_line,
        ready=ready,
        phases=phases(timeline, ready),
        compile_cache_warm=timeline.compile_cache_warm,
    )


def alike(one: Timeline, other: Timeline) -> bool:
    """Whether two loads of one configuration met the same conditions (caches, storage, downloads): no piece of ten
    seconds or more took twice as long in one of them as in the other."""
    cut = [durations(bounds(t.first_line, phases(t, t.ready or 0.0), t.ready)) for t in (one, other)]
    both = [(first, cut[1][piece]) for piece, first in cut[0].items() if piece in cut[1]]
    return all(max(pair) < 10 or max(pair) <= 2 * min(pair) for pair in both)


def pairs(timelines: list[Timeline]) -> Iterator[tuple[Timeline, Timeline]]:
    """(earlier, later) among repeats of one configuration on one machine. The files do not say which was first, so each
    pair comes both ways round."""
    by_configuration: dict[tuple[str, str, str], list[Timeline]] = {}
    for timeline in timelines:
        by_configuration.setdefault(timeline.configuration, []).append(timeline)
    for alike in by_configuration.values():
        for later in alike:
            for before in alike:
                if before is not later and as_earlier(before) is not None and as_earlier(later) is not None:
                    yield before, later
