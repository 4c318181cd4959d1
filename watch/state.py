"""The fold: all readings of one deployment, in, and a picture of it, out. No clock, no I/O, no await."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from probes.readings import JournalLine, Reading
from watch.view import View


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


class WatchState:
    """Understands one deployment. ``endpoint``: base URL of the server, for showing. ``catalogue``: a
    ``watch.catalogue.Catalogue``; None takes the one that ships. ``history``: earlier loads (``watch.history``)."""

    def __init__(
        self,
        target: str,
        unit: str,
        *,
        endpoint: str = "",
        demo: bool = False,
        catalogue: object | None = None,
        history: object | None = None,
    ) -> None: ...

    def apply(self, reading: Reading) -> Changes:
        """Take in one reading, of any kind, in any order. Never raises."""
        raise NotImplementedError

    def apply_lines(self, lines: Sequence[JournalLine]) -> Changes:
        """Take in many journal lines at once: the same result as ``apply`` on each, faster."""
        raise NotImplementedError

    def view(self, now: float) -> View:
        """The picture at ``now`` (UTC seconds; ages and forecasts are counted from it). Changes nothing."""
        raise NotImplementedError
