"""What the screen needs from whoever feeds it: a live watch, the demo, or a replay. The screen cannot tell them apart.

``watch.watching.Watching`` keeps this protocol. A source records and folds what it reads *before* it hands an update
over, so that whatever the screen shows can already be read back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Protocol

from probes.readings import JournalLine
from watch.view import View
from watch.watching import Update


class Source(Protocol):
    @property
    def speed(self) -> float | None:
        """Times real time, for a demo or a replay; None: live."""
        ...

    @property
    def label(self) -> str:
        """What the header must say about the source: "DEMO · …", "REPLAY · …"; empty for a live watch."""
        ...

    @property
    def recording(self) -> str:
        """ "on", "off", or why recording stopped, as one sentence."""
        ...

    async def __aenter__(self) -> Source: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def updates(self) -> AsyncIterator[Update]:
        """Everything from the beginning on; at most every 250 ms in a flood, at once after a pause."""
        ...

    def now(self) -> float:
        """UTC seconds: the wall clock of a live watch, the recording's own clock otherwise."""
        ...

    def view(self) -> View:
        """The picture now."""
        ...

    def read(self, place: int) -> JournalLine | None:
        """A journal line back by its place: one ``pread`` of a local file, never a wait for the host. None if that is
        no longer possible."""
        ...
