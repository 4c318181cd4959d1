"""One watch without its screen: a feed of readings, recorded and folded, and what changed, a few times a second."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from probes.clock import SYSTEM, Clock
from probes.readings import JournalLine, Reading
from watch.session import SessionReader, SessionWriter
from watch.state import Changes, WatchState
from watch.view import View

Mode = Literal["live", "demo", "replay"]


@dataclass(frozen=True, slots=True)
class Batch:
    """What arrived together. ``offsets[i]`` is where ``lines[i]`` stands in the session file: ``Watching.line`` takes it.

    A batch may be empty of lines (samples, link state) and may come with ``Changes.NONE`` (time went on in a replay).
    """

    changes: Changes
    lines: Sequence[JournalLine] = ()
    offsets: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How the watch itself is doing, for the header. ``speed``: times real time. ``recording``: path of the session
    file, empty when nothing is recorded; ``recording_error``: why recording stopped, one sentence. ``label``: what is
    played and how, for a demo or replay ("recorded load of demo-30b-a3b on 2 × NVIDIA H200, played at 30×")."""

    mode: Mode = "live"
    speed: float = 1.0
    recording: str = ""
    recording_error: str = ""
    ended: bool = False
    label: str = ""


class Feed(Protocol):
    """Where readings come from: a live host (``probes.supervise.Supervisor``) or a recording (``replay.Replay``)."""

    def batches(self) -> AsyncIterator[list[Reading]]: ...


class Watching:
    """Keeps ``tui.source.Source``. ``tape``: what lines are read back from: the recorder, or in a replay its file."""

    def __init__(
        self,
        feed: Feed,
        state: WatchState,
        tape: SessionWriter | SessionReader,
        *,
        clock: Clock = SYSTEM,
        mode: Mode = "live",
        label: str = "",
    ) -> None: ...

    def batches(self) -> AsyncIterator[Batch]:
        raise NotImplementedError

    def now(self) -> float:
        raise NotImplementedError

    def view(self, now: float) -> View:
        raise NotImplementedError

    def line(self, offset: int) -> JournalLine:
        raise NotImplementedError

    def status(self) -> SourceStatus:
        raise NotImplementedError
