"""The revisions of a unit as an operator chooses among them: which runs now, which was good, how fast each was."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from watch.history import Benchmark, History, LoadRecord, Revision
from watch.precheck import FailedArgument, failed_arguments


class RevisionRow(Struct, frozen=True, kw_only=True):
    """``runs``: what was started last was started with it. ``best``: the last known-good one other than that."""

    revision: Revision
    runs: bool = False
    best: bool = False
    cause: str = ""
    """of the failure of its last load"""
    benchmark: Benchmark | None = None
    """the last one that was measured with it"""


class Lineage(Struct, frozen=True, kw_only=True):
    """``rows``: newest first. ``trouble``: why the history cannot be read."""

    rows: tuple[RevisionRow, ...] = ()
    loads: tuple[LoadRecord, ...] = ()
    trouble: str = ""

    @property
    def running(self) -> RevisionRow | None:
        return next((row for row in self.rows if row.runs), None)

    def for_roll_back(self) -> tuple[RevisionRow, ...]:
        """The last known-good revision first, then the others, what runs now last."""
        return tuple(sorted(self.rows, key=lambda row: (row.runs, not row.best, not row.revision.known_good)))

    def failed_in(self, text: str) -> tuple[FailedArgument, ...]:
        """Which arguments of this text the last load failed with."""
        return failed_arguments(text, self.loads, {row.revision.id: row.revision.text for row in self.rows})


def lineage(history: History, target: str, unit: str, *, invocation: str = "") -> Lineage:
    """``invocation``: of the load that runs now, or ran last. Raises HistoryError."""
    revisions = history.revisions(target, unit)
    loads = history.loads(target, unit)
    present = next((load.revision for load in loads if load.invocation == invocation and invocation), 0)
    best = history.known_good(target, unit, before_revision=present)
    measured: dict[int, Benchmark] = {}
    for benchmark in history.benchmarks(target, unit):
        measured.setdefault(benchmark.revision, benchmark)
    return Lineage(
        rows=tuple(
            RevisionRow(
                revision=revision,
                runs=revision.id == present,
                best=best is not None and revision.id == best.id,
                cause=_cause(loads, revision.id),
                benchmark=measured.get(revision.id),
            )
            for revision in revisions
        ),
        loads=loads,
    )


def _cause(loads: Sequence[LoadRecord], revision: int) -> str:
    last = next((load for load in loads if load.revision == revision), None)
    return last.cause if last is not None and last.outcome == "failed" else ""
