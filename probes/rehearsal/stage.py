"""The story at its present moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from probes.clock import StoryClock
from probes.rehearsal.story import Story

Write = Callable[[bytes], Awaitable[None]]
"""How a command that is played writes."""


class Stage:
    """``begin``: the story's ``systemctl start`` in UTC seconds on ``clock``."""

    def __init__(self, story: Story, begin: float, clock: StoryClock) -> None:
        self.story = story
        self.begin = begin
        self.clock = clock

    def now(self) -> float:
        """UTC seconds."""
        return self.clock.now()

    def at(self) -> float:
        """Seconds since ``systemctl start``; the story stands still at its end."""
        return min(self.now() - self.begin, self.story.length)

    async def until(self, at: float) -> None:
        await self.clock.sleep_until(self.begin + at)

    async def for_ever(self) -> None:
        await asyncio.Event().wait()

    @property
    def running(self) -> bool:
        """Whether the unit has a main process."""
        return self.at() >= self.story.started

    @property
    def open(self) -> bool:
        """Whether the server answers HTTP."""
        return self.at() >= self.story.opened
