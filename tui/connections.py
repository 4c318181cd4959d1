"""The connections of a server that asyncio listens for: a task each, none of which outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Connections:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def take(self, serving: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(serving)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self, server: asyncio.Server) -> None:
        """Take no more, and end those that there are."""
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await server.wait_closed()
