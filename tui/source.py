"""What the screen needs from whoever feeds it: a live watch, the demo, or a replay. The screen cannot tell them apart.

``watch.watching.Watching`` keeps this protocol. A source records and folds what it reads *before* it hands a batch
over, so that whatever the screen shows can already be read back from the session file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol, runtime_checkable

from probes.readings import JournalLine
from watch.batch import Batch, Mode, SourceStatus
from watch.timeline import Kind, Moment, Timeline
from watch.view import View

__all__ = ["Batch", "Mode", "Played", "Source", "SourceStatus"]


class Source(Protocol):
    def batches(self) -> AsyncIterator[Batch]:
        """Everything from the beginning on, as it arrives; ends at the end of a replay. Run once, by the app.

        Whatever goes wrong with the host is a reading in the fold, not an exception. Closing the iterator (``aclose``)
        ends the probes and closes the session file.
        """
        ...

    def now(self) -> float:
        """UTC seconds: the wall clock of a live watch, the recording's own clock in a replay and in the demo."""
        ...

    def view(self, now: float) -> View:
        """The picture at ``now``."""
        ...

    def line(self, offset: int) -> JournalLine:
        """The journal line recorded at ``offset``; one ``pread`` of a local file, no waiting for the host.

        OSError if the file cannot be read, ValueError if no journal line stands there.
        """
        ...

    def status(self) -> SourceStatus: ...


@runtime_checkable
class Played(Source, Protocol):
    """A recording that can be moved about in: ``watch.player.Player``, which says what each of these does."""

    @property
    def recording(self) -> Path: ...

    def timeline(self) -> Timeline: ...

    def toggle(self) -> None: ...

    def faster(self, way: int) -> float: ...

    def seek(self, at: float) -> None: ...

    def step(self, kinds: tuple[Kind, ...], way: int) -> Moment | None: ...

    def step_line(self, way: int) -> bool: ...

    def mark(self) -> tuple[float, ...]: ...
