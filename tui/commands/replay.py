"""``firstlight replay``: a recorded watch again, through the same fold and on the same screen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from probes.command import plain
from tui.commands.rows import operators, tell
from tui.commands.screen import configuration, in_loop, need_terminal, show
from tui.exits import Ending, Exit
from watch.history import History, HistoryError
from watch.keeping import Recall
from watch.player import Player
from watch.session import SessionError, SessionReader, folder
from watch.state import WatchState


def run(file: Path, speed: float) -> Exit:
    """Show a recording until the operator leaves. Raises Ending where it is none."""
    reader = open_recording(file)
    try:
        need_terminal("firstlight replay")
        return in_loop(_run(reader, speed))
    finally:
        reader.close()


def open_recording(file: Path) -> SessionReader:
    """A file, or the name of one in the folder of recordings. Raises Ending with what is wrong with it."""
    if not os.path.exists(file) and len(file.parts) == 1:
        ends = ("", ".jsonl.gz", ".jsonl")
        file = next((path for end in ends if os.path.isfile(path := folder() / f"{file}{end}")), file)
    try:
        return SessionReader(file)
    except SessionError as error:
        raise Ending(Exit.UNREADABLE, error.reason, error.remedy) from None


async def _run(reader: SessionReader, speed: float) -> Exit:
    config = configuration()
    await show(player(reader, speed), config)
    for note in reader.notes():
        print(f"firstlight: {plain(str(reader.path))}: {plain(note)}", file=sys.stderr)
    return Exit.OK


def player(reader: SessionReader, speed: float) -> Player:
    """Plays a recording. The reader stays the caller's."""
    return Player(reader, lambda: folded(reader), speed, label=f"recorded as {reader.path.name}")


def folded(reader: SessionReader) -> WatchState:
    """An empty fold for a recording. It knows the loads before it that this machine's history has, as the watch did."""
    header = reader.header
    rows = operators()
    state = WatchState(
        header.target or "unknown host",
        header.unit or "unknown unit",
        endpoint=header.endpoint,
        catalogue=rows,
        history=_recall(),
    )
    tell(rows, state, header.started)
    return state


def _recall() -> Recall | None:
    """Asked once a load, for loads that began before it: what it answers stays the same."""
    try:
        return Recall(History.open())
    except HistoryError:
        return None
