"""How fast lines come, so that a pane can say when it draws only some of them."""

from __future__ import annotations

from time import monotonic
from typing import Final

_WINDOW: Final = 1.0
"""Seconds over which it is measured."""

_PAINTING: Final = 0.25
"""Seconds between two paintings in a flood."""


class Gauge:
    """A flood is one that has lasted for two windows: what was there already and comes at once is none."""

    def __init__(self) -> None:
        self.rate = 0.0
        """lines a second, over the last window"""
        self._before = 0.0
        self._came = 0
        self._since = monotonic()

    def add(self, lines: int, now: float | None = None) -> None:
        """``lines`` came since the last call; to be called every second at least, with 0 too."""
        now = monotonic() if now is None else now
        self._came += lines
        if now - self._since >= _WINDOW:
            self._before, self.rate = self.rate, self._came / (now - self._since)
            self._came, self._since = 0, now

    def floods(self, rows: int) -> bool:
        """Whether more lines come between two paintings than a pane of so many rows can show."""
        return min(self._before, self.rate) * _PAINTING > max(1, rows)
