"""Running the app for a test: a source of its own, a size, and waiting for what must come instead of sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import pytest
from textual.pilot import Pilot

from probes.readings import JournalLine
from tests.tui import views
from tui.alerts import Alerts
from tui.app import Firstlight
from tui.source import SourceStatus
from tui.widgets.journal import Journal
from watch.view import View

QUIET = Alerts(bell=False, desktop="off")


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys one after the other, each once everything before it has been done."""
    for key in keys:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("textual.app.wait_for_idle", _no_wait)  # 40 ms a key; the pilot waits for messages itself
            await pilot.press(key)
    await pilot.pause()


async def _no_wait(*_: float) -> None:
    await asyncio.sleep(0)


@dataclass
class Showing:
    app: Firstlight
    pilot: Pilot[int]
    source: views.Fixed

    @property
    def journal(self) -> Journal:
        return self.app.watching.journal

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)

    async def until(self, true: Callable[[], bool], limit: float = 30.0) -> None:
        """Wait until it holds; fail if it does not within ``limit`` seconds."""
        async with asyncio.timeout(limit):
            while not true():
                await self.pilot.pause(0.005)
        await self.pilot.pause()

    async def feed(self, rows: Sequence[JournalLine]) -> None:
        wanted = len(self.app.store) + len(rows)
        self.source.feed(rows)
        await self.until(lambda: self.journal.shown_lines == wanted)

    async def look(self, picture: View) -> None:
        """Change the picture and wait until it is shown."""
        self.source.look(picture)
        await self.until(lambda: self.app.watching.picture is picture)

    def screen(self) -> list[str]:
        """What stands on the screen, row by row."""
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    def text(self) -> str:
        return "\n".join(self.screen())

    def footer(self) -> str:
        return self.screen()[-1]


def make_app(
    picture: View, rows: Sequence[JournalLine] = (), status: SourceStatus = views.LIVE, **options: Any
) -> Firstlight:
    source = views.Fixed(picture, status)
    if rows:
        source.feed(rows)
    options.setdefault("alerts", QUIET)
    return Firstlight(source, zone=UTC, **options)


@asynccontextmanager
async def showing(
    picture: View | None = None,
    rows: Sequence[JournalLine] | None = None,
    size: tuple[int, int] = (120, 35),
    status: SourceStatus = views.LIVE,
    **options: Any,
) -> AsyncIterator[Showing]:
    """The app with this picture and these lines (the usual ones by default), all shown."""
    rows = views.lines() if rows is None else rows
    app = make_app(picture or views.loading(), rows, status, **options)
    async with app.run_test(size=size) as pilot:
        shown = Showing(app, pilot, app.source)  # type: ignore[arg-type]
        await shown.until(lambda: shown.journal.shown_lines == len(rows) and app.watching.picture is not None)
        yield shown
