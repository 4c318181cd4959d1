"""``firstlight attach``: the screen of a watch that goes on in the background, on this terminal, beside others."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from probes.command import plain
from tui.catalogue import operators
from tui.commands.screen import configuration, need_terminal, show
from tui.exits import Ending, Exit
from tui.handover.feed import Attached, AttachedWatching, CannotAttach, Lines
from tui.handover.place import Daemon, PlaceError, daemons
from tui.handover.words import Asked
from tui.units import Zone, elapsed
from watch.history import History, HistoryError
from watch.keeping import Recall
from watch.state import WatchState

_STOP = 30.0
"""Seconds that a daemon may take to end: hooks are seen out, and its recording is compressed."""


def run(words: Sequence[str], *, stop: bool = False, listing: bool = False) -> Exit:
    """Show it until the operator leaves; or end it; or say which there are. Raises Ending."""
    if listing:
        return _list()
    daemon = find(words)
    if stop:
        return asyncio.run(_stop(daemon))
    need_terminal("firstlight attach")
    return asyncio.run(attach(Path(daemon.socket)))


def find(words: Sequence[str]) -> Daemon:
    """The one that is meant. Raises Ending."""
    living = _daemons()
    meant = [daemon for daemon in living if daemon.meant(words)]
    if len(meant) == 1:
        return meant[0]
    names = ", ".join(plain(f"{daemon.title} (on {daemon.target})", 120) for daemon in living)
    if meant:
        raise Ending(Exit.USAGE, f"there are several: {names}", "Say which: firstlight attach NAME, or TARGET UNIT.")
    if living:
        raise Ending(Exit.USAGE, f"no watch in the background is named {' '.join(words)}", f"There are: {names}.")
    raise Ending(
        Exit.USAGE, "no watch goes on in the background", "firstlight watch --daemon NAME, or TARGET UNIT, begins one."
    )


def _daemons() -> list[Daemon]:
    try:
        return daemons()
    except PlaceError as error:
        raise Ending(Exit.USAGE, str(error)) from None


def _list() -> Exit:
    living = _daemons()
    zone = Zone()
    rows = [("NAME", "UNIT", "TARGET", "PROCESS", "SINCE", "LOG")]
    for one in living:
        rows.append((one.title, one.unit, one.target, str(one.pid), zone.second(one.since), one.log))
    cells = [[plain(cell, 300) for cell in row] for row in rows]
    wide = [max(len(row[column]) for row in cells) for column in range(len(rows[0]))]
    if living:
        for row in cells:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip())
    else:
        print("no watch goes on in the background", file=sys.stderr)
    return Exit.OK


async def attach(socket: Path) -> Exit:
    """The screen, until the operator leaves or the watch ends. Raises Ending."""
    config = configuration()
    async with attached(socket) as watching:
        await show(watching, config)
    return Exit.OK


@asynccontextmanager
async def attached(socket: Path) -> AsyncIterator[AttachedWatching]:
    """A daemon's watch, folded here. Raises Ending where it does not answer."""
    try:
        feed = await Attached.to(socket)
    except CannotAttach as error:
        raise Ending(Exit.UNREADABLE, str(error)) from None
    said = feed.said
    history: History | None = None
    why = ""
    try:
        history = History.open()
    except HistoryError as error:
        why = str(error)
    state = WatchState(
        said.target, said.unit, endpoint=said.endpoint, catalogue=operators(), history=Recall(history, why)
    )
    tape = Lines(said)
    watching = AttachedWatching(feed, state, tape)
    try:
        async with feed:
            yield watching
    finally:
        await watching.stop()
        tape.close()
        if history is not None:
            history.close()


async def _stop(daemon: Daemon) -> Exit:
    try:
        async with await Attached.to(Path(daemon.socket)) as feed:
            await feed.ask(Asked(stop=True))
            async with asyncio.timeout(_STOP):
                await feed.gone()
                # until its recording is complete; another process tells nobody that it ends
                while any(living.pid == daemon.pid for living in _daemons()):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
    except CannotAttach as error:
        raise Ending(Exit.UNREADABLE, str(error), f"kill {daemon.pid} ends it.") from None
    except TimeoutError:
        raise Ending(Exit.FAILED, f"it did not end within {_STOP:.0f} s", f"kill {daemon.pid} ends it.") from None
    except OSError:
        pass  # it is gone: that was meant
    lasted = elapsed(max(0.0, feed.now() - daemon.since))
    print(f"the watch of {plain(daemon.unit)} on {plain(daemon.target)} has ended after {lasted}", file=sys.stderr)
    return Exit.OK
