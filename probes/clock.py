"""Time as a source of its own: the real one, and that of a story told faster or slower than it happened.

Whoever waits or stamps a reading asks a ``Clock`` (probes by their ``clock`` argument, ``SYSTEM`` by default). The
demo and the replay hand in a ``StoryClock``, so that intervals, time stamps, rates and forecasts all agree with each
other whatever the speed.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """UTC seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once ``now()`` is that much later."""
        ...


class SystemClock:
    """The real time."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))


SYSTEM = SystemClock()


async def sleep_unless(clock: Clock, seconds: float, wanted: asyncio.Event) -> bool:
    """Until the time is over, or sooner where it is ``wanted``: whether that was so."""
    turn = asyncio.ensure_future(clock.sleep(seconds))
    poke = asyncio.ensure_future(wanted.wait())
    try:
        await asyncio.wait({turn, poke}, return_when=asyncio.FIRST_COMPLETED)
        return poke.done()
    finally:
        turn.cancel()
        poke.cancel()


LEAST = 0.1
"""Real seconds that a ``sleep`` in a story takes at least: told fast, it is sampled more coarsely, not more often."""


class StoryClock:
    """A time that starts at ``start`` and runs at ``speed`` seconds a real second; speed and pause may change.

    ``until``: from this time on it runs at ``then`` instead (the demo is fast until the server is ready, then real).
    """

    def __init__(
        self,
        start: float,
        speed: float = 1.0,
        *,
        until: float | None = None,
        then: float = 1.0,
        paused: bool = False,
    ) -> None:
        if speed <= 0 or then <= 0:
            raise ValueError("a speed is a number above 0")
        self._real = time.monotonic()
        self._story = start
        self._speed = speed
        self._until = until
        self._then = then
        self._paused = paused
        self._changed = asyncio.Event()

    def now(self) -> float:
        if self._paused:
            return self._story
        passed = time.monotonic() - self._real
        now = self._story + passed * self._speed
        if self._until is not None and now > self._until:
            late = passed - max(self._until - self._story, 0.0) / self._speed
            self._set(self._until + late * self._then, self._then)
            self._until = None
            return self._story
        return now

    async def sleep(self, seconds: float) -> None:
        """Return once ``now()`` is that much later, and never before ``LEAST``."""
        began = time.monotonic()
        await self.sleep_until(self.now() + seconds)
        await asyncio.sleep(max(began + LEAST - time.monotonic(), 0.0))

    async def sleep_until(self, at: float) -> None:
        """Return once ``now()`` is ``at`` or later, also when the speed changes or the time is moved meanwhile."""
        while (now := self.now()) < at:
            changed = self._changed
            limit = None if self._paused else self._real_seconds(now, at)
            try:
                async with asyncio.timeout(limit):
                    await changed.wait()
            except TimeoutError:
                continue

    @property
    def speed(self) -> float:
        self.now()
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        if speed <= 0:
            raise ValueError("a speed is a number above 0")
        self._until = None
        self._set(self.now(), speed)

    @property
    def paused(self) -> bool:
        return self._paused

    def pause(self) -> None:
        if not self._paused:
            self._set(self.now(), self._speed)
            self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._set(self._story, self._speed)

    def move(self, to: float) -> None:
        """Be at ``to`` now."""
        self._set(to, self._speed)

    def _real_seconds(self, now: float, at: float) -> float:
        """How long it takes from ``now`` to ``at``."""
        if self._until is None:
            return (at - now) / self._speed
        fast = max(min(self._until, at) - now, 0.0)
        return fast / self._speed + (at - now - fast) / self._then

    def _set(self, story: float, speed: float) -> None:
        self._story, self._real, self._speed = story, time.monotonic(), speed
        self._changed.set()
        self._changed = asyncio.Event()
