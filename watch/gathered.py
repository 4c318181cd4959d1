"""What has been found so far, by load: the common ground of those who find and those who judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from watch.catalogue import Row
from watch.entry import Entry
from watch.words import Phase

HOST = 0
"""The number of the load of what concerns the host, whatever the load."""
LOADS = 64
"""Loads that are remembered: a crash loop may make thousands."""


class Gathered:
    """``unit``: whose findings they are. ``failed``: loads in which something said that the start failed;
    ``stopped``: told to end; ``ready_at``: order reached when a load was ready. ``facts``: what a load says about
    itself."""

    def __init__(self, unit: str = "") -> None:
        self.unit = unit
        self.by_load: dict[int, list[Entry]] = {}
        self.facts: dict[int, dict[str, list[str]]] = {}
        self.failed: set[int] = set()
        self.stopped: set[int] = set()
        self.ready_at: dict[int, int] = {}
        self.order = 0
        self._entries: dict[tuple[int, str, str], Entry] = {}

    def ending(self, load: int) -> bool:
        """It was told to end and had not failed: how processes end after that is no failure."""
        return load in self.stopped and load not in self.failed

    def entry(self, row: Row, fold: str, load: int, phase: Phase, at: float) -> Entry:
        """The finding of this row in this load; begun if it is not there yet."""
        key = (load, row.id, fold)
        entry = self._entries.get(key)
        if entry is None:
            self.order += 1
            if row.kind == "compile" and phase == "profile":
                phase = "compile"  # the profiling run is what calls the compiler
            entry = Entry(key, row, load, self.order, row.phase or phase, at, at)
            self._entries[key] = entry
            self.by_load.setdefault(load, []).append(entry)
        elif entry.settled and load in self.ready_at and not row.benign:
            entry.settled = False  # it came back after ready
            entry.sure = False
            self.order += 1
            entry.order = self.order
        return entry

    def relevant(self, load: int) -> Iterator[Entry]:
        """Of this load, and of the host."""
        yield from self.by_load.get(load, ())
        if load != HOST:
            yield from self.by_load.get(HOST, ())

    def present(self, names: Iterable[str], load: int) -> Iterator[Entry]:
        """Findings with these ids in this load, on the host, or left over from the load before."""
        wanted = set(names)
        for number in dict.fromkeys((load, HOST, load - 1)):
            for entry in self.by_load.get(number, ()):
                if entry.row.id in wanted and not entry.cleared:
                    if number == load - 1 and number != HOST and entry.row.kind not in ("leftover", "gpu"):
                        continue
                    yield entry

    def begin(self, load: int) -> None:
        """A new load: the oldest ones are forgotten."""
        for number in sorted(number for number in self.by_load if number != HOST)[:-LOADS]:
            for entry in self.by_load.pop(number):
                self._entries.pop(entry.key, None)
            self.facts.pop(number, None)
            self.ready_at.pop(number, None)
            self.failed.discard(number)
            self.stopped.discard(number)

    def ready(self, load: int) -> None:
        """It is ready: what was found before did it no harm."""
        if load not in self.ready_at:
            self.ready_at[load] = self.order
            for entry in self.by_load.get(load, ()):
                entry.settled = True

    def called(self, row: str) -> Iterator[Entry]:
        """Every finding of a row, whatever the load."""
        return (entry for entry in self._entries.values() if entry.row.id == row)

    def forget(self, row: str, loads: Iterable[int]) -> None:
        for number in loads:
            for entry in [entry for entry in self.by_load.get(number, ()) if entry.row.id == row]:
                self.by_load[number].remove(entry)
                self._entries.pop(entry.key, None)
