"""A source for a screen that is drawn at once, while what it will show is still being made ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from probes.readings import JournalLine
from tui.source import Batch, Source, SourceStatus
from watch.view import View


class Opens(Protocol):
    def __call__(self) -> AbstractAsyncContextManager[Source]: ...


class Later:
    """Shows an empty picture until ``opened`` has made the watch; from then on it is that watch.

    ``opened``: imports what is heavy, and gives what opens the watch. It runs in a thread. ``status``: of the
    beginning. Raises out of ``batches`` what they raise. ``close()`` when the screen is gone.
    """

    def __init__(
        self, target: str, unit: str, headline: str, status: SourceStatus, opened: Callable[[], Opens], now: float
    ) -> None:
        self._status = status
        self._opened = opened
        self._now = now
        self._source: Source | None = None
        self._context: AbstractAsyncContextManager[Source] | None = None
        self._empty = View(
            now=now,
            target=target,
            unit=unit,
            endpoint="",
            model="",
            engine="",
            version="",
            state="unknown",
            phase="n/a",
            severity="info",
            headline=headline,
            load=None,
            loads=(),
            forecast=None,
            stall=None,
            findings=(),
            asked=(),
            unit_reading=None,
            gpu=None,
            io=None,
            serving=None,
            link=None,
            sources=(),
            demo=status.mode == "demo",
        )

    async def batches(self) -> AsyncIterator[Batch]:
        opens = await asyncio.to_thread(self._opened)
        self._context = opens()
        self._source = await self._context.__aenter__()
        batches = self._source.batches()
        try:
            async for batch in batches:
                yield batch
        finally:
            await _close(batches)

    def now(self) -> float:
        return self._now if self._source is None else self._source.now()

    def view(self, now: float) -> View:
        return self._empty if self._source is None else self._source.view(now)

    def line(self, offset: int) -> JournalLine:
        if self._source is None:
            raise ValueError(f"no journal line at {offset}")
        return self._source.line(offset)

    def status(self) -> SourceStatus:
        return self._status if self._source is None else self._source.status()

    async def close(self) -> None:
        """End the watch, if it had begun."""
        if self._context is not None:
            context, self._context = self._context, None
            await context.__aexit__(None, None, None)


async def _close(batches: AsyncIterator[Batch]) -> None:
    close: Callable[[], Awaitable[None]] | None = getattr(batches, "aclose", None)
    if close is not None:
        await close()
