"""Who did what, when, to which unit, with which outcome: one line of JSON an action step, in the state folder.

Append-only: nothing here rewrites or shortens the file; it is opened for appending and each line is written at once,
so that several watches may write to it. Secrets are taken out before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import platformdirs
from msgspec import Struct

from probes.readings import UNDECODABLE, OperatorAction
from probes.unit import full_name
from watch.actions import INSTEAD
from watch.redact import Redactor
from watch.regular import opened

KEPT = frozenset({"begun", "done", "failed", "refused", "cancelled", "unknown", "undo", "skipped"})
"""Outcomes that are worth a line; ``wait`` comes each second."""


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. ``at``: UTC seconds."""

    at: float
    who: str
    target: str
    unit: str
    action: str
    step: str = ""
    outcome: str = ""
    detail: str = ""
    undo: str = ""
    id: str = ""


def default_path() -> Path:
    """``audit.jsonl`` in the user's state folder."""
    return platformdirs.user_state_path("firstlight") / "audit.jsonl"


class Audit:
    """``reason``: why the last entry could not be written, one sentence; empty while it can. Never raises."""

    def __init__(self, target: str, path: Path | None = None, redactor: Redactor | None = None) -> None:
        self.path = path or default_path()
        self.reason = ""
        self._target = target
        self._redactor = redactor or Redactor()

    def write(self, reading: OperatorAction) -> None:
        """Keep a step of an action, if it is one worth keeping."""
        if reading.outcome not in KEPT:
            return
        entry = Entry(
            at=reading.at,
            who=reading.who,
            target=self._target,
            unit=reading.unit,
            action=reading.action,
            step=reading.step,
            outcome=reading.outcome,
            detail=reading.detail,
            undo=reading.undo,
            id=reading.id,
        )
        line, _ = self._redactor.encode(entry)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
            try:
                # one write: O_APPEND puts it whole behind what others have written
                written = os.write(file, line + b"\n")
            finally:
                os.close(file)
        except OSError as error:
            self.reason = f"the audit log {self.path} cannot be written: {error.strerror or error}"
            return
        whole = written == len(line) + 1
        self.reason = "" if whole else f"the audit log {self.path} took only part of a line: is the disk full?"


def read_audit(
    path: Path | None = None, *, target: str = "", unit: str = "", since: float = 0.0, limit: int | None = 1000
) -> tuple[Entry, ...]:
    """Entries, oldest first, at most the last ``limit`` (None: all) from ``since`` on (UTC seconds); lines that are
    none (cut short by a full disk) are left out. No file: none. Raises OSError where it cannot be read."""
    try:
        with opened(path or default_path()) as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return ()
    out: list[Entry] = []
    for line in reversed(lines):
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except UNDECODABLE:
            continue
        if entry.at < since or target not in ("", entry.target):
            continue
        if not unit or full_name(unit) == full_name(entry.unit):
            out.append(entry)
            if len(out) == limit:
                break
    return tuple(reversed(out))


class Done(Struct, frozen=True, kw_only=True):
    """One action, out of its entries. ``outcome``: as its end says, or "no end" where none was recorded. ``ended``: UTC
    seconds, 0 without an end. ``detail``: how it ended, in words."""

    id: str
    began: float
    ended: float
    who: str
    target: str
    unit: str
    action: str
    outcome: str
    detail: str = ""
    undo: str = ""


def actions(entries: Iterable[Entry]) -> tuple[Done, ...]:
    """The actions that these entries are of, in the order in which they began."""
    by_id: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        by_id.setdefault((entry.target, entry.unit, entry.id or f"{entry.at}"), []).append(entry)
    done = [(_done(steps), _instead(steps)) for steps in by_id.values()]
    out: list[Done] = []
    gone: set[tuple[str, str, str]] = set()
    for one, other in done:
        way = (one.target, full_name(one.unit), full_name(other)) if other else None
        if way is not None and (way[0], way[2], way[1]) in gone:
            gone.discard((way[0], way[2], way[1]))
            one = msgspec.structs.replace(one, action="undo fallback")
        elif way is not None and one.outcome == "done":
            gone.add(way)
        out.append(one)
    return tuple(out)


def _instead(steps: list[Entry]) -> str:
    """The other unit of a fallback."""
    if steps[0].action != "fallback":
        return ""
    return next((found[1] for step in steps if (found := INSTEAD.search(step.detail)) is not None), "")


def _done(steps: list[Entry]) -> Done:
    first = steps[0]
    end = next((step for step in reversed(steps) if step.step == "end"), None)
    failed = next((step for step in reversed(steps) if step.outcome == "failed" and step.detail), None)
    return Done(
        id=first.id,
        began=first.at,
        ended=end.at if end is not None else 0.0,
        who=first.who,
        target=first.target,
        unit=first.unit,
        action=first.action,
        outcome=end.outcome if end is not None else "no end",
        detail=(end.detail if end is not None else "") or (failed.detail if failed is not None else ""),
        undo=end.undo if end is not None else "",
    )
