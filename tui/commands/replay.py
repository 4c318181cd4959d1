"""``firstlight replay``: a recorded watch again, through the same fold and on the same screen."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from probes.clock import StoryClock
from probes.command import plain
from tui.commands.rows import operators, tell
from tui.commands.screen import configuration, in_loop, need_terminal, show
from tui.exits import Ending, Exit
from watch.replay import Replay, opening
from watch.session import SessionError, SessionReader
from watch.state import WatchState
from watch.watching import Watching


def run(file: Path, speed: float) -> Exit:
    """Show a recording until the operator leaves. Raises Ending where it is none."""
    reader = open_recording(file)
    try:
        need_terminal("firstlight replay")
        return in_loop(_run(reader, speed))
    finally:
        reader.close()


def open_recording(file: Path) -> SessionReader:
    """Raises Ending with what is wrong with the file."""
    try:
        return SessionReader(file)
    except SessionError as error:
        raise Ending(Exit.UNREADABLE, error.reason, error.remedy) from None


async def _run(reader: SessionReader, speed: float) -> Exit:
    config = configuration()
    async with replay(reader, speed) as watching:
        await show(watching, config)
    for note in reader.notes():
        print(f"firstlight: {plain(str(reader.path))}: {plain(note)}", file=sys.stderr)
    return Exit.OK


@asynccontextmanager
async def replay(reader: SessionReader, speed: float) -> AsyncIterator[Watching]:
    """A watch of what a recording holds. The reader stays the caller's."""
    clock = StoryClock(opening(reader), speed)
    header = reader.header
    feed = Replay(reader, clock)
    rows = operators()
    state = WatchState(
        header.target or "unknown host", header.unit or "unknown unit", endpoint=header.endpoint, catalogue=rows
    )
    tell(rows, state, clock.now())
    watching = Watching(
        feed,
        state,
        feed,
        clock=clock,
        mode="replay",
        label=lambda: "; ".join([f"recorded as {reader.path.name}", *reader.notes()]),
    )
    try:
        yield watching
    finally:
        await watching.stop()
