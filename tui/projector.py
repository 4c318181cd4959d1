"""Shows one source on one screen: takes what it gives, keeps it in the journal's store, paints a few times a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from probes.readings import JournalLine
from tui import collecting
from tui.base import BaseApp
from tui.lines import LineStore
from tui.scene import Scene
from tui.screens.watch import WatchScreen
from tui.source import Source, SourceStatus
from tui.units import Zone
from watch.changes import Changes
from watch.courtesy import Courteous
from watch.view import View
from watch.watching import URGENT

_TICK: Final = 1.0
"""Seconds between two paintings while nothing urgent comes: clocks and ages go on, samples are shown."""

_CALM: Final = 2.0
"""The same in a live watch of a server that is ready, as often as its metrics are asked, or of one that says nothing.
Most of a watch's hours are these, and a painting is most of what it costs."""

_QUIET: Final = 15.0
"""Seconds without anything urgent after which a load is one that says nothing."""

_MANY: Final = 50_000
"""Lines, a back-log or a flood, after which memory is given back once it is quiet again."""

_SLICE: Final = 1000
"""Lines taken in at a time: about 2 ms."""

_URGENT: Final = URGENT | Changes.LINK


class Projector:
    """``make``: the screen, given the store of its lines. ``shown``: told of each picture that was painted. ``feed``
    and ``paint`` are to be run side by side for as long as the screen is there."""

    def __init__(
        self,
        source: Source,
        zone: Zone,
        make: Callable[[LineStore, Zone], WatchScreen] = WatchScreen,
        shown: Callable[[View, SourceStatus], None] = lambda view, status: None,
    ) -> None:
        self.source = source
        self._courtesy = source.courtesy if isinstance(source, Courteous) else None
        self._flooded = False
        self._lines = 0
        self.store = LineStore(source.line)
        self.screen = make(self.store, zone)
        self._zone = zone
        self._shown = shown
        self._newest: list[JournalLine] = []
        self._ahead: LineStore | None = None
        self._backlog: float | None = None
        self._urgent = asyncio.Event()
        self._fault = ""
        self._tick = _TICK
        self._heard = time.monotonic()

    async def feed(self) -> None:
        """Take in all that comes, until the source ends or breaks off."""
        batches = self.source.batches()
        try:
            async for batch in batches:
                if batch.instead is not None:
                    self.store.replace(batch.instead)
                    self.screen.journal.begin_again()
                self._flooded = len(batch.lines) > _SLICE
                self._lines += len(batch.lines)
                for at in range(0, len(batch.lines), _SLICE):
                    self.store.add(batch.lines[at : at + _SLICE], batch.offsets[at : at + _SLICE])
                    if self._flooded:
                        await self._turn()
                self._go_ahead(batch.newest, batch.backlog)
                if batch.lines or batch.instead is not None or batch.changes & _URGENT:
                    self._urgent.set()
        except (OSError, ValueError, RuntimeError) as error:
            self._fault = f"The watch broke off: {error}. What is shown stays as it was."
        finally:
            if isinstance(batches, AsyncGenerator):
                await batches.aclose()
        self._urgent.set()

    def attended(self) -> None:
        """Somebody is at the keys: a flood gives way. In any thread."""
        if self._courtesy is not None:
            self._courtesy.ask()

    async def _turn(self) -> None:
        if self._courtesy is not None:
            await self._courtesy.turn()
        else:
            await asyncio.sleep(0)

    def _go_ahead(self, newest: Sequence[JournalLine], backlog: float | None) -> None:
        """While a long back-log is read the journal shows its newest lines, from a store of their own."""
        self._backlog = backlog
        if backlog is None:
            self._ahead, self._newest = None, []
            return
        if self._ahead is None:
            self._ahead = LineStore(self._newest.__getitem__)
        places = range(len(self._newest), len(self._newest) + len(newest))
        self._newest += newest
        self._ahead.add(newest, places)

    async def paint(self) -> None:
        """Show at once what is urgent, the rest and the clock every ``_TICK`` or ``_CALM``. A flood is paced by the
        source."""
        await self.screen.laid_out.wait()
        while True:
            if self._flooded:
                await self._turn()
            self.flush()
            try:
                async with asyncio.timeout(self._tick):
                    await self._urgent.wait()
            except TimeoutError:
                continue

    def flush(self) -> None:
        """Show everything that came, while there is a screen for it."""
        urgent = self._urgent.is_set()
        self._urgent.clear()  # also where nothing can be shown: else painting would never wait again
        app = self.screen.app if self.screen.is_attached else None
        if app is None or not app.is_running or (isinstance(app, BaseApp) and app.leaving):
            return
        now = time.monotonic()
        if urgent:
            self._heard = now
        elif self._lines > _MANY:
            self._lines = 0
            collecting.give_back()
        view = self.source.view(self.source.now())
        self.screen.journal.look_at(self._ahead or self.store, self._backlog)
        self.screen.journal.catch_up(view.now)
        status = self.source.status()
        quiet = _calm(view) or now - self._heard > _QUIET
        self._tick = _CALM if status.mode == "live" and quiet else _TICK
        self.screen.show(Scene(view, status, self._zone, self._fault))
        self._shown(view, status)


def _calm(view: View) -> bool:
    """Whether nothing is going on but serving."""
    running = view.benchmark is not None and view.benchmark.state == "running"
    return view.state == "ready" and view.stall is None and not running
