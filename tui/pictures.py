"""A watch without a screen: its picture again and again, whenever something may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from tui.source import Batch
from watch.view import View
from watch.watching import Watching

TICK: Final = 1.0
"""Seconds between two pictures while nothing comes: forecasts and stalls depend on the time, too."""

QUIET: Final = 1.5
"""Seconds without a line after which the journal that was there already has been read."""

RECENT: Final = 5.0
"""Seconds: a line no older than that is of now, not of a back-log."""


class Pictures:
    """``async for view in pictures``: at once, with each batch, and each ``tick``; ends when the host refuses us.

    ``settled``: whether the picture is of now. While the journal that was there already is being read, the picture is
    of some time past, and neither a failure nor a stall in it means anything yet.
    """

    def __init__(self, watching: Watching, *, tick: float = TICK) -> None:
        self._watching = watching
        self._tick = tick
        self._loop = asyncio.get_running_loop()
        self._came = self._loop.time()
        self._newest = 0.0
        self._told = False
        self.settled = False

    def __aiter__(self) -> AsyncGenerator[View, None]:
        return self._views()

    async def _views(self) -> AsyncGenerator[View, None]:
        source = self._watching
        batches = source.batches()
        following: asyncio.Future[Batch] | None = None
        try:
            while True:
                yield self._picture()
                if following is None:
                    following = asyncio.ensure_future(anext(batches))
                await asyncio.wait({following}, timeout=self._tick)
                if not following.done():
                    continue
                try:
                    batch = following.result()
                except StopAsyncIteration:
                    self.settled = True
                    yield source.view(source.now())
                    return
                following = None
                if batch.lines:
                    self._came = self._loop.time()
                    self._newest = batch.lines[-1].at
        finally:
            if following is not None:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
            if isinstance(batches, AsyncGenerator):
                await batches.aclose()

    def _picture(self) -> View:
        now = self._watching.now()
        view = self._watching.view(now)
        if not self.settled:
            told = any(source.probe == "journal" for source in view.sources)
            if told and not self._told:
                self._told, self._came = True, self._loop.time()
            quiet = self._loop.time() - self._came > QUIET or now - self._newest < RECENT
            self.settled = view.unit_reading is not None and told and quiet
        return view
