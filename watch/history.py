"""What earlier loads left behind: one SQLite file in the state folder. Loads, revisions of units, benchmarks."""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import platformdirs
from msgspec import Struct

from probes.readings import UNDECODABLE
from watch.aside import exact, exact_folder, keep_exact
from watch.database import Database, HistoryError
from watch.load_key import Key, load_key
from watch.pieces import EarlierLoad, PhaseSeen, Point
from watch.redact import HIDDEN
from watch.words import State

__all__ = ["Benchmark", "History", "HistoryError", "Key", "LoadRecord", "Revision", "load_key"]

T = TypeVar("T")

_POINTS_KEPT = 12

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE loads (
            id INTEGER PRIMARY KEY,
            target TEXT NOT NULL, unit TEXT NOT NULL, model TEXT NOT NULL, arguments TEXT NOT NULL,
            invocation TEXT NOT NULL,
            started REAL NOT NULL, first_line REAL NOT NULL, ended REAL NOT NULL,
            outcome TEXT NOT NULL,
            phases TEXT NOT NULL,
            compile_cache_warm INTEGER,
            versions TEXT NOT NULL,
            revision INTEGER NOT NULL,
            cause TEXT NOT NULL,
            UNIQUE (target, unit, invocation)
        )""",
        "CREATE INDEX loads_by_key ON loads (target, unit, model, arguments, started)",
        """CREATE TABLE revisions (
            id INTEGER PRIMARY KEY,
            target TEXT NOT NULL, unit TEXT NOT NULL,
            digest TEXT NOT NULL, text TEXT NOT NULL,
            first_seen REAL NOT NULL, last_seen REAL NOT NULL,
            UNIQUE (target, unit, digest)
        )""",
        """CREATE TABLE benchmarks (
            id INTEGER PRIMARY KEY,
            target TEXT NOT NULL, unit TEXT NOT NULL,
            at REAL NOT NULL,
            run TEXT NOT NULL, preset TEXT NOT NULL,
            result TEXT NOT NULL, versions TEXT NOT NULL,
            revision INTEGER NOT NULL, invocation TEXT NOT NULL,
            baseline INTEGER NOT NULL, note TEXT NOT NULL,
            UNIQUE (target, unit, run)
        )""",
    ),
    ("ALTER TABLE revisions ADD COLUMN environment TEXT NOT NULL DEFAULT '{}'",),
)
"""One tuple of statements a step; ``PRAGMA user_version`` counts the steps that a file has been through. Steps are only
ever added."""


class LoadRecord(Struct, frozen=True, kw_only=True):
    """One load as kept. ``outcome``: ready (however it ended later), failed, stopped, loading (we were not there when
    it ended). ``ended``: UTC seconds at which it was ready, failed or stopped; 0: not known. ``versions``: vllm, torch,
    driver … where known. ``revision``: id of the unit's text, 0 if not known. ``cause``: id of the finding that ended
    it. An empty ``invocation`` (no systemd) is replaced by the start's second."""

    id: int = 0
    key: Key
    invocation: str
    started: float
    first_line: float = 0.0
    ended: float = 0.0
    outcome: State = "loading"
    phases: tuple[PhaseSeen, ...] = ()
    compile_cache_warm: bool | None = None
    versions: dict[str, str] = {}
    revision: int = 0
    cause: str = ""

    @property
    def seconds(self) -> float | None:
        """How long it took to ready; None for a load that was not seen to get there."""
        return self.ended - self.started if self.outcome == "ready" and self.ended > self.started else None


class Revision(Struct, frozen=True, kw_only=True):
    """The text of a unit with its drop-ins at the time of a load, exact: it is what a roll-back writes.
    ``environment``: its environment files by path, without their secrets. ``known_good``: a load with it reached
    ready. ``load_seconds``: of its last load that did. ``versions``: vllm, torch, driver … of its last load."""

    id: int
    target: str
    unit: str
    text: str
    first_seen: float
    last_seen: float
    environment: dict[str, str] = {}
    loads: int = 0
    known_good: bool = False
    last_outcome: str = ""
    load_seconds: float | None = None
    versions: dict[str, str] = {}


class Benchmark(Struct, frozen=True, kw_only=True):
    """One result, whole. ``result``: vllm's JSON with what firstlight adds to it. ``baseline``: others are compared
    with it (one a deployment)."""

    id: int = 0
    target: str
    unit: str
    at: float
    run: str
    preset: str
    result: dict[str, object]
    versions: dict[str, str] = {}
    revision: int = 0
    invocation: str = ""
    baseline: bool = False
    note: str = ""


def default_path() -> Path:
    """``history.sqlite`` in the user's state folder (``~/.local/state/firstlight``)."""
    return platformdirs.user_state_path("firstlight") / "history.sqlite"


class History:
    """The file. Safe with several processes (a write waits for another's, up to five seconds) and several threads.

    Every method raises HistoryError where the file cannot be read or written (locked for too long, disk full, damaged).
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def path(self) -> Path:
        return self._database.path

    @classmethod
    def open(cls, path: Path | None = None) -> Self:
        """Open or make the file. ``path`` None: ``default_path()``. Raises HistoryError where it is damaged, made by a
        newer firstlight, or cannot be written."""
        return cls(Database(path or default_path(), MIGRATIONS))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Loads

    def record_load(self, load: LoadRecord) -> int:
        """Keep a load: made anew, or brought up to date by target, unit and invocation. Returns its id.

        A load that reached ready stays ready, whatever ends it later; one that was seen from its start is not replaced
        by what a later watcher saw of it.
        """
        load = _tidied(load)
        with self._database.writing():
            row = self._database.one(
                "SELECT * FROM loads WHERE target = ? AND unit IN (?, ?) AND invocation = ?",
                (load.key.target, *_names(load.key.unit), load.invocation),
            )
            known = _load(row) if row is not None else None
            merged = _merged(known, load) if known is not None else load
            values = {
                "target": merged.key.target,
                "unit": row["unit"] if row is not None else merged.key.unit,
                "model": merged.key.model,
                "arguments": merged.key.arguments,
                "invocation": merged.invocation,
                "started": merged.started,
                "first_line": merged.first_line,
                "ended": merged.ended,
                "outcome": merged.outcome,
                "phases": _json(merged.phases),
                "compile_cache_warm": merged.compile_cache_warm,
                "versions": _json(merged.versions),
                "revision": merged.revision,
                "cause": merged.cause,
            }
            return self._database.put("loads", merged.id, values)

    def earlier(self, key: Key, *, before: float | None = None, limit: int = 5) -> tuple[EarlierLoad, ...]:
        """Loads of this key that reached ready and were seen from their first line, most recent first. ``before``: only
        those started before then (UTC seconds)."""
        rows = self._database.all(
            "SELECT * FROM loads WHERE target = ? AND unit IN (?, ?) AND model = ? AND arguments = ?"
            " AND outcome = 'ready' AND first_line > 0 AND ended > started AND started < ?"
            " ORDER BY started DESC LIMIT ?",
            (
                *(key.target, *_names(key.unit), key.model, key.arguments),
                *(math.inf if before is None else before, limit),
            ),
        )
        return tuple(
            EarlierLoad(
                started=load.started,
                first_line=load.first_line,
                ready=load.ended,
                phases=load.phases,
                compile_cache_warm=load.compile_cache_warm,
            )
            for load in map(_load, rows)
        )

    def loads(self, target: str, unit: str, *, limit: int = 50) -> tuple[LoadRecord, ...]:
        """All loads of a unit, most recent first."""
        rows = self._database.all(
            "SELECT * FROM loads WHERE target = ? AND unit IN (?, ?) ORDER BY started DESC, id DESC LIMIT ?",
            (target, *_names(unit), limit),
        )
        return tuple(map(_load, rows))

    def latest(self, *, limit: int = 100) -> tuple[LoadRecord, ...]:
        """The last load of each unit of each host, most recent first."""
        rows = self._database.all(
            "SELECT *, MAX(started) FROM loads GROUP BY target, REPLACE(unit || '/', '.service/', '/')"
            " ORDER BY started DESC LIMIT ?",
            (limit,),
        )
        return tuple(map(_load, rows))

    # Revisions

    def keep_revision(
        self,
        target: str,
        unit: str,
        text: str,
        at: float,
        environment: Mapping[str, str] | None = None,
        *,
        redacted: str | None = None,
    ) -> int:
        """Id of the revision with this text and these environment files, made anew if there is none. ``environment``:
        without secrets: it is kept as it is given. ``redacted``: the text without its secrets, where it has some: that
        is what stands here, and the exact one in a file of its own (``watch.aside``)."""
        files = dict(sorted((environment or {}).items()))
        whole = text + (_json(files) if files else "")
        digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
        hidden = redacted is not None and redacted != text
        if hidden:
            with suppress(OSError):  # without it a roll-back to this revision is refused, and says why
                keep_exact(exact_folder(self.path), digest, text)
        with self._database.writing():
            row = self._database.one(
                "SELECT * FROM revisions WHERE target = ? AND unit IN (?, ?) AND digest = ?",
                (target, *_names(unit), digest),
            )
            values = {
                "target": target,
                "unit": row["unit"] if row is not None else unit,
                "digest": digest,
                "text": redacted if redacted is not None and hidden else text,
                "environment": _json(files),
                "first_seen": min(at, row["first_seen"]) if row is not None else at,
                "last_seen": max(at, row["last_seen"]) if row is not None else at,
            }
            return self._database.put("revisions", row["id"] if row is not None else 0, values)

    def revisions(self, target: str, unit: str) -> tuple[Revision, ...]:
        """Newest first, by last use."""
        rows = self._database.all(
            "SELECT * FROM revisions WHERE target = ? AND unit IN (?, ?) ORDER BY last_seen DESC, id DESC",
            (target, *_names(unit)),
        )
        return tuple(self._revision(row) for row in rows)

    def revision(self, id: int) -> Revision | None:
        row = self._database.one("SELECT * FROM revisions WHERE id = ?", (id,))
        return self._revision(row) if row is not None else None

    def known_good(self, target: str, unit: str, *, before_revision: int = 0) -> Revision | None:
        """The revision with which a load last reached ready, other than ``before_revision`` (the present one)."""
        row = self._database.one(
            "SELECT revision FROM loads WHERE target = ? AND unit IN (?, ?) AND outcome = 'ready'"
            " AND revision NOT IN (0, ?) ORDER BY started DESC, id DESC LIMIT 1",
            (target, *_names(unit), before_revision),
        )
        return self.revision(row["revision"]) if row is not None else None

    def _revision(self, row: sqlite3.Row) -> Revision:
        loads = [
            _load(found)
            for found in self._database.all(
                "SELECT * FROM loads WHERE revision = ? ORDER BY started DESC, id DESC", (row["id"],)
            )
        ]
        seconds = (load.seconds for load in loads)
        return Revision(
            id=row["id"],
            target=row["target"],
            unit=row["unit"],
            text=self._text(row),
            first_seen=row["first_seen"],
            last_seen=row["last_seen"],
            environment=_read(row["environment"], dict[str, str], {}),
            loads=len(loads),
            known_good=any(load.outcome == "ready" for load in loads),
            last_outcome=loads[0].outcome if loads else "",
            load_seconds=next((value for value in seconds if value is not None), None),
            versions=next((load.versions for load in loads if load.versions), {}),
        )

    def _text(self, row: sqlite3.Row) -> str:
        text: str = row["text"]
        whole = exact(exact_folder(self.path), row["digest"]) if HIDDEN in text else None
        return text if whole is None else whole

    # Benchmarks

    def record_benchmark(self, benchmark: Benchmark) -> int:
        """Keep a result; the same ``run`` again replaces it (it stays the baseline if it was). Returns its id."""
        with self._database.writing():
            row = self._database.one(
                "SELECT id, unit, baseline FROM benchmarks WHERE target = ? AND unit IN (?, ?) AND run = ?",
                (benchmark.target, *_names(benchmark.unit), benchmark.run),
            )
            values = {
                "target": benchmark.target,
                "unit": row["unit"] if row is not None else benchmark.unit,
                "at": benchmark.at,
                "run": benchmark.run,
                "preset": benchmark.preset,
                "result": _json(benchmark.result),
                "versions": _json(benchmark.versions),
                "revision": benchmark.revision,
                "invocation": benchmark.invocation,
                "baseline": benchmark.baseline or (row is not None and bool(row["baseline"])),
                "note": benchmark.note,
            }
            made = self._database.put("benchmarks", row["id"] if row is not None else 0, values)
            if benchmark.baseline:
                self._only_baseline(made)
            return made

    def benchmarks(self, target: str = "", unit: str = "", *, limit: int = 100) -> tuple[Benchmark, ...]:
        """Most recent first; empty target or unit: any."""
        rows = self._database.all(
            "SELECT * FROM benchmarks WHERE ? IN ('', target) AND (? = '' OR unit IN (?, ?))"
            " ORDER BY at DESC, id DESC LIMIT ?",
            (target, unit, *_names(unit), limit),
        )
        return tuple(map(_benchmark, rows))

    def benchmark(self, id: int) -> Benchmark | None:
        row = self._database.one("SELECT * FROM benchmarks WHERE id = ?", (id,))
        return _benchmark(row) if row is not None else None

    def set_baseline(self, id: int) -> None:
        """Make this the only baseline of its deployment. Raises KeyError for an unknown id."""
        with self._database.writing():
            if self._database.one("SELECT id FROM benchmarks WHERE id = ?", (id,)) is None:
                raise KeyError(id)
            self._only_baseline(id)

    def baseline(self, target: str, unit: str) -> Benchmark | None:
        row = self._database.one(
            "SELECT * FROM benchmarks WHERE target = ? AND unit IN (?, ?) AND baseline = 1 ORDER BY at DESC LIMIT 1",
            (target, *_names(unit)),
        )
        return _benchmark(row) if row is not None else None

    def _only_baseline(self, id: int) -> None:
        row = self._database.one("SELECT target, unit FROM benchmarks WHERE id = ?", (id,))
        if row is not None:
            self._database.run(
                "UPDATE benchmarks SET baseline = (id = ?) WHERE target = ? AND unit IN (?, ?)",
                (id, row["target"], *_names(row["unit"])),
            )


def _names(unit: str) -> tuple[str, str]:
    """How a service may be named: systemctl takes it with and without its suffix, and so do we."""
    plain = unit.removesuffix(".service")
    return plain, f"{plain}.service"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _read(text: str, kind: type[T], otherwise: T) -> T:
    """JSON from the file; ``otherwise`` for what is none (a value that somebody edited)."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (*UNDECODABLE, TypeError):
        return otherwise


def _load(row: sqlite3.Row) -> LoadRecord:
    warm = row["compile_cache_warm"]
    return LoadRecord(
        id=row["id"],
        key=Key(target=row["target"], unit=row["unit"], model=row["model"], arguments=row["arguments"]),
        invocation=row["invocation"],
        started=row["started"],
        first_line=row["first_line"],
        ended=row["ended"],
        outcome=row["outcome"],
        phases=_read(row["phases"], tuple[PhaseSeen, ...], ()),
        compile_cache_warm=None if warm is None else bool(warm),
        versions=_read(row["versions"], dict[str, str], {}),
        revision=row["revision"],
        cause=row["cause"],
    )


def _benchmark(row: sqlite3.Row) -> Benchmark:
    empty: dict[str, Any] = {}
    return Benchmark(
        id=row["id"],
        target=row["target"],
        unit=row["unit"],
        at=row["at"],
        run=row["run"],
        preset=row["preset"],
        result=_read(row["result"], dict[str, object], empty),
        versions=_read(row["versions"], dict[str, str], {}),
        revision=row["revision"],
        invocation=row["invocation"],
        baseline=bool(row["baseline"]),
        note=row["note"],
    )


def _tidied(load: LoadRecord) -> LoadRecord:
    """Times that are numbers, bars thinned to what a forecast needs, a name for a load that has none."""

    def number(at: float) -> float:
        return at if math.isfinite(at) else 0.0

    started = number(load.started)
    phases = tuple(
        msgspec.structs.replace(
            phase,
            ended=phase.ended if phase.ended is not None and math.isfinite(phase.ended) else None,
            points=_thinned(phase),
        )
        for phase in load.phases
        if math.isfinite(phase.started)
    )
    return msgspec.structs.replace(
        load,
        id=0,
        invocation=load.invocation or f"started:{started:.0f}",
        started=started,
        first_line=number(load.first_line),
        ended=number(load.ended),
        phases=phases,
    )


def _thinned(phase: PhaseSeen) -> tuple[Point, ...]:
    points = [p for p in phase.points if math.isfinite(p.at + p.done + p.total + (p.elapsed or 0.0))]
    if len(points) <= _POINTS_KEPT:
        return tuple(points)
    last = len(points) - 1
    return tuple(points[round(index * last / (_POINTS_KEPT - 1))] for index in range(_POINTS_KEPT))


def _merged(known: LoadRecord, new: LoadRecord) -> LoadRecord:
    """What is kept of one load that was recorded before."""
    settled = known.outcome in ("ready", "failed", "stopped")
    outcome = known.outcome if known.outcome == "ready" or (settled and new.outcome == "loading") else new.outcome
    whole = known.first_line > 0 and (new.first_line <= 0 or known.first_line < new.first_line - 1)
    seen = known if (whole and settled) or (known.outcome == "ready" and new.outcome != "ready") else new
    return msgspec.structs.replace(
        new,
        id=known.id,
        key=new.key if new.key.model or not known.key.model else known.key,
        started=min(known.started, new.started)
        if known.started > 0 and new.started > 0
        else known.started or new.started,
        first_line=seen.first_line or known.first_line or new.first_line,
        ended=known.ended if outcome == known.outcome and known.ended > 0 else new.ended,
        outcome=outcome,
        phases=seen.phases or known.phases or new.phases,
        compile_cache_warm=known.compile_cache_warm if new.compile_cache_warm is None else new.compile_cache_warm,
        versions={**known.versions, **new.versions},
        revision=new.revision or known.revision,
        cause="" if outcome == "ready" else new.cause or known.cause,
    )
