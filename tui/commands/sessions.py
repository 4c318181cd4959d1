"""``firstlight sessions``: the recordings that are kept, and which of them may go."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from probes.command import plain
from tui.exits import Ending, Exit
from tui.json import inert
from tui.listing import columns, heading, names, row
from tui.units import Zone, about, size
from watch.session import folder
from watch.session.shelf import Recording, completed, listed, remove

_WIDE = 200
"""Columns where the output is no terminal."""


def run(outcomes: Sequence[str], unit: str, target: str, *, as_json: bool) -> Exit:
    """Print the list. Raises Ending where the folder cannot be read."""
    found = _chosen(outcomes, unit, target)
    if as_json:
        for recording in found:
            sys.stdout.buffer.write(inert(msgspec.json.encode(_object(recording))) + b"\n")
        sys.stdout.flush()
        return Exit.OK
    if not found:
        print(_none(outcomes, unit, target), file=sys.stderr)
        return Exit.OK
    zone = Zone()
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    wide = columns(found, width)
    print((heading(wide, zone, time.time()) + "FILE").rstrip())
    for recording in found:
        print(row(recording, wide, zone, width, last=recording.path.name))
    return Exit.OK


def prune(older_than: float | None, larger_than: int | None, outcomes: Sequence[str], unit: str, *, yes: bool) -> Exit:
    """Say what goes, ask, and delete it. Raises Ending."""
    if older_than is None and larger_than is None and not outcomes:
        raise Ending(
            Exit.USAGE, "prune is not told what may go", "Give --older-than 30d, --larger-than 2G or --outcome failed."
        )
    now = time.time()
    by_measure = older_than is not None or larger_than is not None
    going = [
        recording
        for recording in _chosen(outcomes, unit, "")
        if not recording.recording
        and (
            not by_measure
            or (older_than is not None and now - recording.changed > older_than)
            or (larger_than is not None and recording.bytes > larger_than)
        )
    ]
    if not going:
        print("Nothing to be deleted.", file=sys.stderr)
        return Exit.OK
    for recording in going:
        when = f"ended {about(now - recording.changed)} ago"
        print(f"{size(recording.bytes):>9}  {plain(names(recording))}, {when}: {recording.path.name}")
    many = "1 recording" if len(going) == 1 else f"{len(going)} recordings"
    whole = size(sum(recording.bytes for recording in going))
    if not yes and not _agreed(f"Delete {many}, {whole} in all? [y/N] "):
        print("Nothing was deleted.", file=sys.stderr)
        return Exit.OK
    failed = remove(going)
    for path, why in failed:
        print(f"firstlight: {plain(str(path))} stays: {why}", file=sys.stderr)
    done = len(going) - len(failed)
    print(f"{done} deleted." if done else "Nothing was deleted.", file=sys.stderr)
    return Exit.FAILED if failed else Exit.OK


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise Ending(Exit.USAGE, "nobody can be asked here", "Give --yes to delete what is listed above.")
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _chosen(outcomes: Sequence[str], unit: str, target: str) -> list[Recording]:
    """Newest first. What is not known of a recording yet is read only where it decides something or is shown."""
    where = folder()
    try:
        found = listed(where)
    except OSError as error:
        raise Ending(Exit.UNREADABLE, f"{where}: {error.strerror}", "Make that folder yours.") from None
    fitting = [
        one for one in found if unit.lower() in one.header.unit.lower() and target.lower() in one.header.target.lower()
    ]
    unknown = sum(not one.outcome for one in fitting)
    if unknown > 1 and sys.stderr.isatty():
        print(f"reading {unknown} recordings, once …", file=sys.stderr)
    whole = [completed(one) for one in fitting]
    return [one for one in whole if not outcomes or one.outcome in outcomes]


def _none(outcomes: Sequence[str], unit: str, target: str) -> str:
    if outcomes or unit or target:
        return f"No such recording in {folder()}."
    return f"No recording yet in {folder()}: firstlight watch leaves one."


def _object(recording: Recording) -> dict[str, Any]:
    """For programs: what the table has, and all that is known."""
    summary = recording.summary
    return {
        "file": str(recording.path),
        "target": recording.header.target,
        "unit": recording.header.unit,
        "started": recording.started,
        "ended": recording.ended,
        "seconds": max(0.0, recording.ended - recording.started) if recording.started else None,
        "outcome": recording.outcome,
        "bytes": recording.bytes,
        "phase": summary.phase if summary is not None else None,
        "headline": summary.headline if summary is not None else recording.problem,
        "model": summary.model if summary is not None else None,
        "loads": summary.loads if summary is not None else None,
        "lines": summary.lines if summary is not None else None,
        "notes": list(summary.notes) if summary is not None else [],
        "version": recording.header.version,
    }
