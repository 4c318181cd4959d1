"""Between a watch and the history: what earlier loads tell it, and what it leaves behind.

The fold itself does no I/O: it is handed a ``Recall`` and asks it once a key is known; whoever drives the fold hands
each load that changed to a ``Keeper``. Neither ever raises: a history that cannot be used is said once, and the watch
goes on without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from probes.readings import EarlierReading
from watch.history import History, HistoryError, LoadRecord
from watch.load import ORDER, Load
from watch.load_key import Key
from watch.picture import seen
from watch.pieces import EarlierLoad, PhaseSeen
from watch.words import State


class EarlierLoads(Protocol):
    """What the fold needs of a history."""

    def earlier(self, key: Key, *, before: float | None = None, limit: int = 5) -> tuple[EarlierLoad, ...]: ...


class Recall:
    """Earlier loads, read once a key and start. ``history`` None: there are none. ``reason``: why the history cannot be
    read, one sentence; empty while it can."""

    def __init__(self, history: History | None, reason: str = "") -> None:
        self._history = history
        self.reason = reason
        self._known: dict[tuple[Key, float | None, int], tuple[EarlierLoad, ...]] = {}
        self._fresh: list[EarlierReading] = []

    def earlier(self, key: Key, *, before: float | None = None, limit: int = 5) -> tuple[EarlierLoad, ...]:
        asked = (key, before, limit)
        if asked not in self._known:
            self._known[asked] = loads = self._read(key, before, limit)
            if loads and before is not None:
                told = tuple(msgspec.to_builtins(load) for load in loads)
                self._fresh.append(
                    EarlierReading(at=before, before=before, model=key.model, arguments=key.arguments, loads=told)
                )
        return self._known[asked]

    def fresh(self) -> list[EarlierReading]:
        """What was answered since this was last asked, for the recording."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def _read(self, key: Key, before: float | None, limit: int) -> tuple[EarlierLoad, ...]:
        if self._history is None:
            return ()
        try:
            return self._history.earlier(key, before=before, limit=limit)
        except HistoryError as error:
            self.reason = str(error)
            return ()


class Keeper:
    """Writes loads and the texts of their units. ``reason``: why nothing can be kept, one sentence; empty while it can.
    A load is written when its outcome, phase, files or versions changed, not at every line."""

    def __init__(self, history: History | None, reason: str = "") -> None:
        self._history = history
        self.reason = reason
        self._written: dict[str, tuple[object, ...]] = {}

    def keep(
        self,
        load: Load,
        key: Key,
        *,
        unit_text: str = "",
        redacted: str | None = None,
        environment: Mapping[str, str] | None = None,
        versions: Mapping[str, str] | None = None,
        cause: str = "",
    ) -> None:
        """``unit_text``: the unit with its drop-ins as the load was started with it, where known; with the environment
        files (without secrets) it becomes the load's revision. ``redacted``: it without its secrets."""
        record = load_record(load, key, versions=versions or {}, cause=cause)
        name = record.invocation or f"started:{record.started:.0f}"
        stamp = (record.outcome, load.phase, key.arguments, unit_text, tuple(sorted(record.versions.items())))
        if self._history is None or self._written.get(name) == stamp:
            return
        try:
            revision = 0
            if unit_text:
                revision = self._history.keep_revision(
                    key.target, key.unit, unit_text, load.started, environment, redacted=redacted
                )
            self._history.record_load(load_record(load, key, versions=versions or {}, cause=cause, revision=revision))
        except HistoryError as error:
            self.reason = str(error)
            return
        self.reason = ""
        self._written[name] = stamp


def load_record(load: Load, key: Key, *, versions: Mapping[str, str], cause: str = "", revision: int = 0) -> LoadRecord:
    """A load as the history keeps it. One whose beginning was not seen has no ``first_line``: it tells no one how long
    a load takes."""
    outcome: State = "loading"
    ended = 0.0
    if load.ready_line is not None:
        outcome, ended = "ready", load.ready_line
    elif load.failed_at is not None:
        outcome, ended = "failed", load.failed_at
    elif load.stop_at is not None or load.ended is not None:
        outcome, ended = "stopped", load.stop_at if load.stop_at is not None else load.ended or 0.0
    warm = True if "cache_hit" in load.facts and "compiled" not in load.facts else None
    known = {"vllm" if load.engine != "sglang" else "sglang": load.facts["version"]} if "version" in load.facts else {}
    return LoadRecord(
        key=key,
        invocation=load.invocation,
        started=load.started,
        first_line=load.first_line if load.first_line is not None and not load.attached_late else 0.0,
        ended=ended,
        outcome=outcome,
        phases=phases_seen(load),
        compile_cache_warm=False if "compiled" in load.facts else warm,
        versions={**versions, **known},
        revision=revision,
        cause=cause,
    )


def phases_seen(load: Load) -> tuple[PhaseSeen, ...]:
    """The phases of a load up to ready, with the updates of their bars."""
    return tuple(phase for phase in seen(load) if ORDER[phase.name] < ORDER["ready"])
