"""Work that comes in a flood gives way to whoever is at the keys: it rests for a moment, so that a key is answered.

A key passes through a dozen turns of the event loop until its answer is on the screen; in a flood each of them takes as
long as everybody's slice of work together.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, Protocol, runtime_checkable

REST: Final = 0.15
"""Seconds: enough for an answer, also on a busy machine."""

BETWEEN: Final = 0.12
"""Seconds of work between two rests at least, whoever leans on a key."""


class Courtesy:
    """Shared by those who work in slices, in one event loop, and by whoever hears of keys, in any thread."""

    def __init__(self) -> None:
        self._until = 0.0

    def ask(self) -> None:
        """Somebody is at the keys."""
        now = time.monotonic()
        if now > self._until + BETWEEN:
            self._until = now + REST

    @property
    def asked(self) -> bool:
        """Whether now is a time to rest."""
        return time.monotonic() < self._until

    async def turn(self) -> None:
        """After a slice of work: let the others have their turn, and rest while that is asked."""
        await asyncio.sleep(max(0.0, self._until - time.monotonic()))


@runtime_checkable
class Courteous(Protocol):
    """What can be asked to give way."""

    @property
    def courtesy(self) -> Courtesy: ...
