"""Where many probes lay down what they read and one reader takes all of it: bounded, so that a flood waits its turn."""

from __future__ import annotations

import asyncio

from probes.readings import JournalLine, Reading

MOST = 2048
"""Readings that may lie there, a long line counting for many. A batch larger than that is laid down alone."""

_LONG = 10
"""A line counts once more for each 2 to this characters."""


class Outbox:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._readings: list[Reading] = []
        self._weight = 0
        self._have = asyncio.Event()
        self._space = asyncio.Event()
        self._over = False

    async def put(self, batch: list[Reading]) -> None:
        """Lay a batch down, in order; waits while there is no room. Nothing is taken any more after the end."""
        weight = sum(1 + (len(one.text) >> _LONG) if type(one) is JournalLine else 1 for one in batch)
        while self._readings and self._weight + weight > self._most and not self._over:
            self._space.clear()
            await self._space.wait()
        if not self._over:
            self._readings += batch
            self._weight += weight
            self._have.set()

    async def take(self) -> list[Reading]:
        """All that lies there, at least one; empty at the end only."""
        while not self._readings and not self._over:
            self._have.clear()
            await self._have.wait()
        taken, self._readings, self._weight = self._readings, [], 0
        self._space.set()
        return taken

    def finish(self) -> None:
        """Nothing more will come: what lies there is still taken."""
        self._over = True
        self._have.set()
        self._space.set()

    def close(self) -> None:
        """End at once."""
        self._readings = []
        self.finish()
