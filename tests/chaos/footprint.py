"""What a process takes up: memory and open files before the faults, and after them."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Awaitable, Callable

from bench.watched import resident

MORE = 15e6
"""Bytes that a watch may hold more of after the faults than before them: what it has read meanwhile is among it."""

SETTLE = 20.0
"""Seconds in which it has to come back to that."""

SEEN: list[str] = []
"""What was measured in this run, a line each."""


async def _rest() -> None:
    await asyncio.sleep(0.2)


class Footprint:
    """``take`` before the faults, ``is_back`` after them.

    ``pid``: whose; 0: of this process, in which a watch without a screen runs. ``rest``: lets a little time pass, for
    a program in a terminal by reading what it draws.
    """

    def __init__(self, pid: int = 0, rest: Callable[[], Awaitable[object]] = _rest) -> None:
        self.pid = pid or os.getpid()
        self.before: tuple[int, int] | None = None
        self.after: tuple[int, int] | None = None
        self._rest = rest

    def _now(self) -> tuple[int, int]:
        if self.pid == os.getpid():
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)  # what is free is no use of it
        return resident(self.pid), len(os.listdir(f"/proc/{self.pid}/fd"))

    async def take(self) -> None:
        """Remember what it takes up once that no longer grows from one moment to the next."""
        now, same = self._now(), 0
        for _ in range(30):
            await self._rest()
            last, now = now, self._now()
            same = same + 1 if now[0] - last[0] < 1 << 20 and now[1] <= last[1] else 0
            if same == 3:
                break
        self.before = now

    async def is_back(self, *, more_files: int = 0, limit: float = SETTLE) -> None:
        """Wait until it takes up what it did, give or take; AssertionError when it does not within the limit."""
        assert self.before is not None, "what it takes up is measured before the faults"
        end = asyncio.get_running_loop().time() + limit
        while True:
            memory, files = self.after = self._now()
            grown = memory - self.before[0]
            if (grown <= MORE and files <= self.before[1] + more_files) or asyncio.get_running_loop().time() > end:
                break
            await self._rest()
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0].rpartition("::")[2]
        SEEN.append(
            f"{test}: {self.before[0] / 1e6:.0f} MB {grown / 1e6:+.1f} MB,"
            f" {self.before[1]} files {files - self.before[1]:+d}"
        )
        assert grown <= MORE, f"{grown / 1e6:.1f} MB more than before the faults"
        assert files <= self.before[1] + more_files, f"{files} open files, {self.before[1]} before the faults"
