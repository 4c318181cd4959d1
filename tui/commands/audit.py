"""``firstlight audit``: the audit log of this machine, for people and for programs."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import datetime

import msgspec

from probes.command import plain
from tui.commands.doctor import meant
from tui.commands.tables import Tint, hanging
from tui.exits import Ending, Exit
from tui.json import inert
from tui.settings import configuration
from tui.spans import span
from tui.units import Zone, about
from watch.audit import Done, Entry, actions, default_path, read_audit

HUES = {
    "done": "green",
    "failed": "red",
    "refused": "yellow",
    "cancelled": "yellow",
    "unknown": "yellow",
    "no end": "yellow",
}


def run(words: Sequence[str], *, since: str | None, steps: bool, as_json: bool) -> Exit:
    """Print the entries. Raises Ending for a time or a name that is none, and for a log that cannot be read."""
    target = unit = ""
    if words:
        found = meant(configuration(), words, endpoint=None, user=None).deployment
        target, unit = found.target, found.unit
    begin = moment(since, time.time()) if since is not None else 0.0
    try:
        entries = read_audit(target=target, unit=unit, since=begin, limit=None)
    except OSError as error:
        raise Ending(
            Exit.UNREADABLE, f"{default_path()} cannot be read: {error.strerror}", "It is kept by whoever acts here."
        ) from None
    out = sys.stdout
    if as_json:
        out.buffer.writelines(inert(msgspec.json.encode(entry)) + b"\n" for entry in entries)
    elif not entries:
        print(f"No action is on record{' for that' if words or since else ''} ({default_path()}).", file=sys.stderr)
    else:
        tint = Tint(out.isatty() and "NO_COLOR" not in os.environ)
        width = shutil.get_terminal_size((100, 24)).columns if out.isatty() else 10_000
        rows = [_step(entry) for entry in entries] if steps else [_done(action) for action in actions(entries)]
        for lead, outcome, rest, below in rows:
            first, *more = hanging(f"{lead}{outcome:<10}{rest}".rstrip(), max(width, 60), 4)
            out.write("\n".join([first.replace(outcome, tint(outcome, HUES.get(outcome, "")), 1), *more, ""]))
            for text in below:
                out.write("\n".join([*hanging(f"    {text}", max(width, 60), 6), ""]))
    out.flush()
    return Exit.OK


def moment(text: str, now: float) -> float:
    """UTC seconds: ``2h`` and ``7d`` are ago, a date or a date and a time are local. Raises Ending."""
    words = text.strip()
    if words in ("today", "yesterday"):
        midnight = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight.timestamp() - (86_400 if words == "yesterday" else 0)
    try:
        return datetime.fromisoformat(words).timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return now - span(words.removeprefix("-").removesuffix("ago"))
    except ValueError:
        raise Ending(Exit.USAGE, f"{text!r} is no time", 'Write 2h, 7d, 2026-11-30 or "2026-11-30 14:00".') from None


Row = tuple[str, str, str, list[str]]
"""What stands before the outcome, the outcome, what stands behind it, and lines below."""


def _done(action: Done) -> Row:
    took = f"after {about(action.ended - action.began)}" if action.ended else ""
    below = [plain(action.detail, 500)] if action.detail and action.outcome != "done" else []
    if action.undo and action.outcome != "done":
        below.append(f"undone by: {plain(action.undo, 500)}")
    return _lead(action.began, action.who, action.target, action.unit, action.action), action.outcome, took, below


def _step(entry: Entry) -> Row:
    lead = _lead(entry.at, entry.who, entry.target, entry.unit, f"{entry.action} {entry.step}".strip())
    return lead, plain(entry.outcome, 20), plain(entry.detail, 500), []


def _lead(at: float, who: str, target: str, unit: str, what: str) -> str:
    zone = Zone()
    when = zone.full(at)
    when = f"{when[:19]} {zone.name(at)}"
    return (
        f"{when}  {plain(who) or '?':<18} {plain(what):<18} {plain(unit.removesuffix('.service'))} @ {plain(target)}  "
    )
