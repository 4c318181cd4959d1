"""One watch without its screen: a feed of readings, recorded and folded, and what changed, a few times a second.

    async with Watching(feed, state, recorder) as watching:
        async for update in watching.updates():
            ...  # update.changes says which panes; watching.view() is the picture
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Protocol

from msgspec import Struct

from probes.readings import JournalLine, Reading
from watch.session import SessionReader, SessionWriter
from watch.state import Changes, WatchState
from watch.view import View


class Feed(Protocol):
    """Where readings come from: a live host (``probes.supervise.Supervisor``) or a recording (``replay.Replay``)."""

    def batches(self) -> AsyncIterator[Sequence[Reading]]: ...


class Update(Struct, frozen=True):
    """What came in since the last update: at most every 250 ms in a flood, at once after a pause."""

    changes: Changes
    lines: tuple[JournalLine, ...]
    """new journal lines, in order"""
    places: tuple[int, ...]
    """of each line: its place for ``Watching.read``"""
    ended: bool = False
    """nothing more will come: the recording is over"""


class Watching:
    """``places``: who reads a line back by its place (the recorder live, the SessionReader in a replay)."""

    state: WatchState
    speed: float | None
    """of a replay or demo; None: live"""
    label: str
    """what the header says about it: "DEMO · …", "REPLAY · …", "" live"""

    def __init__(self, feed: Feed, state: WatchState, recorder: SessionWriter | SessionReader) -> None: ...

    async def __aenter__(self) -> Watching: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def updates(self) -> AsyncIterator[Update]:
        raise NotImplementedError

    def now(self) -> float:
        """The time of this watch: real, or that of the recording."""
        raise NotImplementedError

    def view(self) -> View:
        raise NotImplementedError

    def read(self, place: int) -> JournalLine | None:
        """A line back from the recording; None if that is no longer possible."""
        raise NotImplementedError

    @property
    def recording(self) -> str:
        """"on", "off" (``--no-record``, demo, replay), or why it stopped."""
        raise NotImplementedError
