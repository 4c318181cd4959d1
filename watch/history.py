"""What earlier loads left behind: one SQLite file in the state folder. Loads, revisions of units, benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct

from watch.pieces import EarlierLoad, PhaseSeen
from watch.words import State


class HistoryError(Exception):
    """The history cannot be used. The text is one sentence with a remedy; the product goes on without history."""


class Key(Struct, frozen=True, kw_only=True):
    """What makes two loads alike: the unit on its host, the model, and the arguments that change how long a load takes
    (see ``load_key``)."""

    target: str
    unit: str
    model: str
    arguments: str
    """short hash over the arguments that matter"""


class LoadRecord(Struct, frozen=True, kw_only=True):
    """One load as kept. ``outcome``: ready, failed, stopped, loading (we were not there when it ended).
    ``versions``: vllm, torch, driver … where known. ``revision``: id of the unit's text, 0 if not known."""

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
    """id or title of the finding that ended it"""


class Revision(Struct, frozen=True, kw_only=True):
    """The text of a unit, its drop-ins and environment files at the time of a load. ``known_good``: a load with it
    reached ready. ``load_seconds``: of its last load that did."""

    id: int
    target: str
    unit: str
    text: str
    first_seen: float
    last_seen: float
    loads: int = 0
    known_good: bool = False
    last_outcome: str = ""
    load_seconds: float | None = None


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


def load_key(target: str, unit: str, model: str, arguments: Mapping[str, object]) -> Key:
    """The key of a load. ``arguments``: vLLM's non-default args, or those of ExecStart, names with ``-`` or ``_``."""
    raise NotImplementedError


class History:
    """The file. Safe with several processes at once (WAL, busy timeout). Not for use from several threads."""

    @classmethod
    def open(cls, path: Path | None = None) -> Self:
        """Open or make the file. ``path`` None: ``history.sqlite`` in the user's state folder.
        Raises HistoryError where it is corrupt, made by a newer firstlight, or cannot be written."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def record_load(self, load: LoadRecord) -> int:
        """Keep a load: made anew or brought up to date by target, unit and invocation. Returns its id."""
        raise NotImplementedError

    def earlier(self, key: Key, *, before: float | None = None, limit: int = 5) -> tuple[EarlierLoad, ...]:
        """Loads of this key that reached ready, most recent first. ``before``: only those started before then."""
        raise NotImplementedError

    def loads(self, target: str, unit: str, *, limit: int = 50) -> tuple[LoadRecord, ...]:
        """All loads of a unit, most recent first."""
        raise NotImplementedError

    def keep_revision(self, target: str, unit: str, text: str, at: float) -> int:
        """Id of the revision with this text, made anew if it is not the text of an earlier one."""
        raise NotImplementedError

    def revisions(self, target: str, unit: str) -> tuple[Revision, ...]:
        """Newest first, by last use."""
        raise NotImplementedError

    def revision(self, id: int) -> Revision | None:
        raise NotImplementedError

    def known_good(self, target: str, unit: str, *, before_revision: int = 0) -> Revision | None:
        """The last revision that reached ready, other than ``before_revision`` (the present one)."""
        raise NotImplementedError

    def record_benchmark(self, benchmark: Benchmark) -> int:
        """Keep a result; the same ``run`` again replaces it. Returns its id."""
        raise NotImplementedError

    def benchmarks(self, target: str = "", unit: str = "", *, limit: int = 100) -> tuple[Benchmark, ...]:
        """Most recent first; empty target or unit: any."""
        raise NotImplementedError

    def benchmark(self, id: int) -> Benchmark | None:
        raise NotImplementedError

    def set_baseline(self, id: int) -> None:
        """Make this the only baseline of its deployment. Raises KeyError for an unknown id."""
        raise NotImplementedError

    def baseline(self, target: str, unit: str) -> Benchmark | None:
        raise NotImplementedError
