"""What the screen needs from whoever feeds it: a live watch, the demo, or a replay. The screen cannot tell them apart.

A source records and folds what it reads *before* it hands a batch over, so that whatever the screen shows can already
be read back from the session file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from probes.readings import JournalLine
from watch.state import Changes
from watch.view import View

Mode = Literal["live", "demo", "replay"]


@dataclass(frozen=True, slots=True)
class Batch:
    """What arrived together. ``offsets[i]`` is where ``lines[i]`` stands in the session file: ``Source.line`` takes it.

    A batch may be empty of lines (samples, link state) and may come with ``Changes.NONE`` (time went on in a replay).
    """

    changes: Changes
    lines: Sequence[JournalLine] = ()
    offsets: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How the source itself is doing, for the header. ``speed``: times real time. ``recording``: path of the session
    file, empty when nothing is recorded; ``recording_error``: why recording stopped, one sentence."""

    mode: Mode = "live"
    speed: float = 1.0
    recording: str = ""
    recording_error: str = ""
    ended: bool = False


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
