"""What a watch screen does with recordings: a note into the present one, the list of all, a replay over the watch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from probes.readings import Note
from tui.desk import whoami
from tui.playing import player
from tui.projector import Projector
from tui.screens.ask import AskLine
from tui.screens.recordings import RecordingsScreen
from tui.screens.replay import screen_for
from tui.stage import Stage
from tui.text import safe
from watch.session import SessionError, SessionReader

LONGEST = 500
"""Characters of a note as it is typed."""


def can_note(app: Stage) -> bool:
    """Whether there is a session to write into: a live watch has one, here or in a daemon. A browser only looks."""
    return not app.is_web and _taker(app) is not None


def _taker(app: Stage) -> Callable[[str], Awaitable[None]] | None:
    """What takes a note."""
    desk = app.desk
    if desk is None:
        return getattr(app.source, "note", None)

    async def put(text: str) -> None:
        await desk.watching.put(Note(at=desk.clock.now(), text=text, who=whoami()))

    return put


def write_note(app: Stage) -> None:
    """Ask for one line, and put it into the session."""
    taker = _taker(app)

    async def put(text: str) -> None:
        if taker is None:
            return
        try:
            await taker(text)
        except OSError as error:  # a daemon that is gone
            app.notify(safe(f"The note is not kept: {error}"), severity="error", markup=False)
            return
        if app.source.status().recording:
            app.notify("The note is in the recording.", timeout=2, markup=False)
        else:
            app.notify("The note is shown here only: this watch is not recorded.", severity="warning", markup=False)

    def typed(text: str | None) -> None:
        if text:
            app.run_worker(put(text), group="note")

    app.push_screen(AskLine("Note", "one line, kept in the recording and shown in its report", LONGEST), typed)


def show_recordings(app: Stage) -> None:
    """The list of recordings; the one that is chosen is replayed over the watch, which goes on."""
    app.run_worker(_recordings(app), group="recordings", exclusive=True)


async def _recordings(app: Stage) -> None:
    zone = app.zone
    current: Path | None = None
    while (chosen := await app.push_screen_wait(RecordingsScreen(zone, current))) is not None:
        current = chosen
        await _replay(app, chosen)


async def _replay(app: Stage, path: Path) -> None:
    try:
        reader = SessionReader(path)
    except SessionError as error:
        why = " ".join(part.rstrip(".") + "." for part in (error.reason, error.remedy) if part)
        app.notify(safe(why), severity="error", markup=False)
        return
    source = player(reader, 1.0)
    projector = Projector(source, app.zone, screen_for(source, covers=True))
    work = [asyncio.create_task(one) for one in (projector.feed(), projector.paint())]
    try:
        await app.push_screen_wait(projector.screen)
    finally:
        for task in work:
            task.cancel()
        for ended in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended  # what should never have happened is not kept from whoever watches
        reader.close()


__all__ = ["can_note", "show_recordings", "write_note"]
