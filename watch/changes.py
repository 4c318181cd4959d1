"""What a reading changes."""

from __future__ import annotations

import enum


class Changes(enum.Flag):
    """What a reading changed, so that only the panes concerned are drawn again."""

    NONE = 0
    LOAD = enum.auto()
    FINDINGS = enum.auto()
    JOURNAL = enum.auto()
    GPU = enum.auto()
    IO = enum.auto()
    SERVING = enum.auto()
    LINK = enum.auto()
    UNIT = enum.auto()
    SOURCES = enum.auto()
    BENCH = enum.auto()
    ACTION = enum.auto()
