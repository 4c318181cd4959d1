"""What is served: the statuses of all deployments, and the answer to each path."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import unquote

import msgspec

from tui.status.metrics import Measured, exposition
from tui.status.server import Answer, Request
from watch.status import Status, status
from watch.view import View

FRESH: Final = 0.5
"""Seconds that a picture is good for: probers that ask at the same time share it."""

SLICE: Final = 0.05
"""Seconds of work after which what comes from the hosts gets its turn."""

PATHS: Final = "/livez /readyz /startupz (all, or /NAME for one) and /metrics"


class Watched(Protocol):
    """What is needed of a watch: ``watch.watching.Watching``."""

    def now(self) -> float: ...

    def view(self, now: float) -> View: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A deployment by its name. ``measured``: its latest benchmark results."""

    name: str
    watched: Watched
    measured: Callable[[], Sequence[Measured]] = tuple


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Body of ``/startupz`` and its siblings. ``ok``: what the status code says, for all of them together."""

    ok: bool
    deployments: tuple[Status, ...]


class Board:
    """Answers requests. The order of the entries is that of the answers; their names differ."""

    def __init__(self, *entries: Entry) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._known: tuple[Status, ...] = ()
        self._at = float("-inf")
        self._looking = asyncio.Lock()

    def add(self, entry: Entry) -> None:
        """One more deployment from now on."""
        self._entries[entry.name] = entry

    async def statuses(self) -> tuple[Status, ...]:
        """Of all deployments, as of now. Other work gets its turn in between."""
        async with self._looking:
            if time.monotonic() - self._at > FRESH:
                known = []
                turn = time.monotonic()
                for entry in tuple(self._entries.values()):
                    known.append(_status(entry))
                    if time.monotonic() - turn > SLICE:
                        await asyncio.sleep(0)
                        turn = time.monotonic()
                self._known, self._at = tuple(known), time.monotonic()
            return self._known

    async def answer(self, request: Request) -> Answer:
        head, _, name = request.path.removeprefix("/").partition("/")
        if head == "metrics" and not name:
            measured = [result for entry in self._entries.values() for result in entry.measured()]
            page, kind = exposition(await self.statuses(), measured, request.accept)
            return Answer(HTTPStatus.OK, page, kind)
        test = _TESTS.get(head)
        if test is None:
            return _error(HTTPStatus.NOT_FOUND, f"there is {PATHS}")
        name = unquote(name)
        if not name:
            seen = await self.statuses()
        elif name in self._entries:
            seen = (_status(self._entries[name]),)
        else:
            return _error(HTTPStatus.NOT_FOUND, f"no deployment of that name; there are: {', '.join(self._entries)}")
        ok = bool(seen) and all(map(test, seen))
        code = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer(code, msgspec.json.encode(Told(ok=ok, deployments=seen)) + b"\n")


_TESTS: Final[dict[str, Callable[[Status], bool]]] = {
    "livez": lambda one: one.alive,
    "readyz": lambda one: one.ready,
    "startupz": lambda one: one.started,
}


def _status(entry: Entry) -> Status:
    return status(entry.watched.view(entry.watched.now()), entry.name)


def _error(code: HTTPStatus, text: str) -> Answer:
    return Answer(code, msgspec.json.encode({"error": text}) + b"\n")
