"""The last lines of the journal, beneath a screen that is about something else."""

from __future__ import annotations

from tui.units import Zone
from tui.widgets.journal import Journal
from tui.widgets.linerow import line_row
from tui.widgets.rows import Rows

_NAMES = 14


class Tail(Rows):
    """As many lines as it has rows."""

    def __init__(self) -> None:
        super().__init__(id="tail")
        self.border_title = "Journal"

    def show(self, journal: Journal, zone: Zone) -> None:
        width, height = self.inner
        if width <= 0 or height <= 0:
            return
        store = journal.store
        first = max(0, len(store.shown) - height)
        self.fill(
            [
                line_row(
                    store.line(index),
                    store.loudness(index),
                    store.process(index),
                    width=width,
                    names=_NAMES,
                    start=0,
                    zone=zone,
                )
                for index in store.shown[first:]
            ]
        )
