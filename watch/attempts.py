"""Which load a reading belongs to, and where one load ends and the next begins.

A load is one start attempt, named by systemd's invocation id. Where a log knows no such ids, a start after an end, or
the first words of a new server process, begin the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from probes.readings import JournalLine, UnitReading
from watch.load import ORDER, Load
from watch.manager import UnitEvent, same_unit
from watch.ranks import Ranks

KEEP = 64
"""Loads remembered: a crash loop may make thousands."""


@dataclass(slots=True)
class Attempt:
    """A load and its processes."""

    load: Load
    ranks: Ranks = field(default_factory=Ranks)
    foretold: bool = False
    """``systemctl show`` knew of it first, and the journal, which is read beside it, has not come so far"""


class Attempts:
    """``unit``: whose lines count; empty: the first unit that is seen to start."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.all: list[Attempt] = []
        self.current: Attempt | None = None
        self.restarts = 0
        """as systemd counts them"""
        self._by_invocation: dict[str, Attempt] = {}
        self._ours: dict[str, bool] = {}
        self._count = 0

    def begin(self, at: float, invocation: str = "") -> Attempt:
        """A new load; the one before is over, whatever became of it."""
        self._count += 1
        attempt = Attempt(Load(self._count, at, invocation))
        if self.current is not None and self.current.load.ended is None and not self.current.load.waiting:
            self.current.load.replaced(at)
        self.all.append(attempt)
        if len(self.all) > KEEP:
            gone = self.all.pop(0)
            self._by_invocation.pop(gone.load.invocation, None)
        self.current = attempt
        if invocation:
            self._by_invocation[invocation] = attempt
        return attempt

    def ours(self, line: JournalLine) -> bool:
        """Whether a line of the unit or about a unit is about this one."""
        known = self._ours.get(line.unit)
        if known is None:
            known = self._ours[line.unit] = same_unit(line.unit, self.unit)
        return known

    def owner(self, line: JournalLine) -> Attempt:
        """The load a line of the unit (or systemd's about it) belongs to; begun if it is the first of it."""
        current = self.current
        if line.invocation:
            if current is not None and current.load.invocation == line.invocation:
                current.foretold = False
                return current
            known = self._by_invocation.get(line.invocation)
            if known is not None:
                return known
            if current is not None and not current.load.invocation and not current.load.over:
                current.load.invocation = line.invocation
                self._by_invocation[line.invocation] = current
                return current
            self._withdraw(line.at)
            return self.begin(line.at, line.invocation)
        return current if current is not None else self.begin(line.at)

    def _withdraw(self, at: float) -> None:
        """Lines of a load before those that are only foretold come first: these begin anew with their own."""
        while (last := self.current) is not None and last is self.all[-1]:
            if not last.foretold or last.load.last_line is not None or last.load.started <= at:
                return
            self.all.pop()
            self._count -= 1
            self._by_invocation.pop(last.load.invocation, None)
            self.current = self.all[-1] if self.all else None

    def first_words(self, attempt: Attempt, at: float, speaker: int | str, invocation: str) -> Attempt:
        """A server process introduces itself: the load it belongs to, a new one if this one has had its server."""
        load = attempt.load
        if attempt is not self.current or load.phase == "n/a":
            return attempt
        again = load.over or speaker in load.banner_from or ORDER[load.phase] >= ORDER["weights"]
        return self.begin(at, invocation) if again else attempt

    def manager(self, event: UnitEvent, line: JournalLine) -> Attempt | None:
        """Take in what systemd says about the unit. The load it was about; None: it is about another unit."""
        if not same_unit(event.unit, self.unit):
            return None
        if not self.unit and event.what in ("starting", "started") and event.unit.endswith(".service"):
            self.unit = event.unit
            self._ours.clear()
        at = line.at
        attempt = self.owner(line)
        load = attempt.load
        if event.what in ("starting", "started") and not line.invocation and load.phase != "n/a":
            used = event.what == "starting" and load.phase != "pre-start"
            if load.over or used:
                attempt = self.begin(at)
                load = attempt.load
        match event.what:
            case "starting":
                load.begin(at)
                load.enter("pre-start", at)
            case "started":
                load.begin(at)
                load.enter("process-start", at)
            case "stopping":
                load.stop(at)
            case "timed-out" | "refused":
                load.fail(at)
            case "exited":
                load.exit = event.detail
                if event.main and "status=0" not in event.detail and "15/TERM" not in event.detail:
                    load.fail(at)  # whether a control process' exit matters, the next line tells
            case "failed":
                load.result = event.detail
                load.fail(at)
                load.end(at)
            case "start-failed":
                load.fail(at)
                load.end(at)
            case "gone" | "stopped":
                load.result = load.result or "success"
                load.end(at)
            case "restarting":
                load.restarts = self.restarts = int(event.detail[:9] or 0)
        return attempt

    def _foretell(self, reading: UnitReading) -> Attempt:
        attempt = self.begin(reading.started or reading.at, reading.invocation)
        attempt.foretold = bool(reading.invocation)
        return attempt

    def reading(self, reading: UnitReading) -> None:
        """Take in ``systemctl show``."""
        alive = reading.active in ("active", "activating", "reloading", "deactivating")
        attempt = self._by_invocation.get(reading.invocation) if reading.invocation else None
        if attempt is None:
            attempt = self.current
            if attempt is not None and reading.invocation:
                if not attempt.load.invocation and not attempt.load.over:
                    attempt.load.invocation = reading.invocation
                    self._by_invocation[reading.invocation] = attempt
                elif alive and reading.sub != "auto-restart":
                    attempt = self._foretell(reading)
                else:
                    return
            elif attempt is None and alive and reading.sub != "auto-restart":
                attempt = self._foretell(reading)
            if attempt is None:
                return
        load = attempt.load
        load.restarts = self.restarts = reading.restarts
        if reading.started and not load.begun:
            load.started = min(load.started, reading.started)
        gone = reading.main_exited or reading.state_changed or reading.at
        if reading.active == "failed" or (reading.active == "activating" and reading.sub == "auto-restart"):
            load.result = reading.result
            load.fail(max(gone, load.started), told=False)
            load.end(max(gone, load.started))
        elif reading.active == "inactive":
            load.result = reading.result
            load.end(max(gone, load.started))
        elif reading.sub == "start-pre" and load.phase == "n/a":
            load.enter("pre-start", reading.started or reading.at)
        elif reading.main_pid and load.phase in ("n/a", "pre-start") and reading.sub in ("running", "start"):
            fresh = reading.active == "activating" or reading.at - (reading.active_since or reading.at) < 60
            if load.phase == "pre-start" or fresh:
                load.enter("process-start", reading.active_since or reading.at, explicit=False)
