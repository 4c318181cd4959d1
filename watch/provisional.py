"""What a screen shows while a long back-log is read: the newest lines, and a picture made from its two ends.

The fold takes the lines in order and is the truth in the end. Until it has come to the newest line, a second fold
that knows the beginning of the load and what is newest says more of the present than the first, which is in the past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from probes.readings import BacklogReading, JournalLine, Reading
from watch.state import WatchState

EARLY = 6000
"""Readings kept from the beginning of a watch, in case its back-log is long."""

EARLY_TEXT = 4 << 20
"""Characters of lines among them: a line may be as long as two million."""

AT_ONCE = 100
"""Lines folded before the event loop gets its turn."""


class Provisional:
    """``make``: a fold like the watch's own, empty; None: the newest lines are shown without a picture."""

    def __init__(self, make: Callable[[], WatchState] | None) -> None:
        self._make = make
        self._early: list[Reading] | None = [] if make is not None else None
        self._room = EARLY_TEXT
        self._lines: list[JournalLine] = []
        self.share: float | None = None
        """how much of the back-log has been read; None: no long one is being read"""
        self.state: WatchState | None = None

    def see(self, reading: Reading) -> None:
        """A reading that was recorded and folded."""
        if self.state is None:
            self._keep((reading,))
        elif not isinstance(reading, JournalLine):
            self.state.apply(reading)

    def see_lines(self, lines: Sequence[JournalLine]) -> None:
        """``see`` of each."""
        if self.state is None:
            self._keep(lines)

    def _keep(self, readings: Sequence[Reading]) -> None:
        if self._early is None:
            return
        self._early += readings
        self._room -= sum([len(one.text) for one in readings if isinstance(one, JournalLine)])
        if len(self._early) > EARLY or self._room < 0:
            self._early = None

    async def take(self, reading: BacklogReading, lines: Sequence[JournalLine]) -> None:
        """``lines``: those of the reading, without their secrets."""
        if reading.share is None:
            self.share, self.state, self._lines = None, None, []
            return
        if self._early is not None and self._make is not None:
            state, early = self._make(), self._early
            for number, one in enumerate(early):
                state.apply(one)
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
            self.state, self._early = state, None
        self.share = reading.share
        self._lines += lines
        for at in range(0, len(lines), AT_ONCE):
            if self.state is not None:
                self.state.apply_lines(lines[at : at + AT_ONCE])
            await asyncio.sleep(0)

    def newest(self) -> list[JournalLine]:
        """The newest lines that nobody was given yet."""
        lines, self._lines = self._lines, []
        return lines
