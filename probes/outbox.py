"""Where many probes lay down what they read and one reader takes all of it: bounded, so that a flood waits its turn."""

from __future__ import annotations

import asyncio

from probes.readings import Reading

MOST = 8192
"""Readings that may lie there. A batch larger than that is laid down alone."""


class Outbox:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._readings: list[Reading] = []
        self._have = asyncio.Event()
        self._space = asyncio.Event()
        self._over = False

    async def put(self, batch: list[Reading]) -> None:
        """Lay a batch down, in order; waits while there is no room. Nothing is taken any more after the end."""
        while self._readings and len(self._readings) + len(batch) > self._most and not self._over:
            self._space.clear()
            await self._space.wait()
        if not self._over:
            self._readings += batch
            self._have.set()

    async def take(self) -> list[Reading]:
        """All that lies there, at least one; empty at the end only."""
        while not self._readings and not self._over:
            self._have.clear()
            await self._have.wait()
        taken, self._readings = self._readings, []
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
