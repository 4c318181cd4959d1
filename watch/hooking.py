"""Fires the hooks of a deployment beside its watch, with or without a screen.

Each event fires once. A hook that fails is a reading like any other: it is recorded, shown, and stops nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from probes import hook as doing
from probes.readings import ProbeReading, Reading
from watch.events import Event, events
from watch.hooks import Hook, facts, filled, variables
from watch.redact import Redactor
from watch.view import View

EVERY = 1.0
"""Seconds between two looks."""

PROBE = "hooks"


class Watched(Protocol):
    """What is needed of a watch: ``watch.watching.Watching``."""

    def now(self) -> float: ...

    def view(self, now: float) -> View: ...

    async def put(self, reading: Reading) -> None: ...


class Hooking:
    """``hooks``: by event, as ``watch.config.hooks_of`` gives them; with none it does nothing. ``deployment``: how it
    is called. ``limit``: seconds for one hook."""

    def __init__(
        self,
        watched: Watched,
        hooks: Mapping[str, Sequence[Hook]],
        deployment: str,
        redactor: Redactor,
        *,
        limit: float = doing.LIMIT,
    ) -> None:
        self._watched = watched
        self._hooks = hooks
        self._deployment = deployment
        self._redactor = redactor
        self._limit = limit
        self._before: View | None = None
        self._told: set[tuple[str, str]] = set()
        self._under_way: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None

    @property
    def pending(self) -> int:
        """How many hooks are under way."""
        return len(self._under_way)

    def start(self) -> None:
        """Begin to look. How things are found is no news."""
        if self._hooks and self._looking is None:
            self._looking = asyncio.create_task(self._look_on())

    async def close(self) -> None:
        """Look once more, and see to the end what was fired: at most as long as one hook may take."""
        if self._looking is None:
            return
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking
        self._looking = None
        self.look()
        try:
            await asyncio.gather(*self._under_way)
        finally:
            for task in self._under_way:
                task.cancel()

    async def _look_on(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(EVERY)

    def look(self) -> None:
        """Fire what became so since the last look."""
        view = self._watched.view(self._watched.now())
        for event in events(self._before, view):
            if (event.kind, event.about) not in self._told:
                self._told.add((event.kind, event.about))
                for hook in self._hooks.get(event.kind, ()):
                    task = asyncio.create_task(self._fire(hook, event))
                    self._under_way.add(task)
                    task.add_done_callback(self._under_way.discard)
        self._before = view

    async def _fire(self, hook: Hook, event: Event) -> None:
        told = facts(event, self._deployment, self._redactor)
        if hook.kind == "command":
            failed = await doing.run(filled(hook.words, told), variables(told), self._limit)
        elif hook.kind == "webhook":
            failed = await doing.post(hook.url, msgspec.json.encode(told), self._limit)
        else:
            failed = await doing.notify(f"firstlight: {told['deployment']}", told["message"], self._limit)
        reading = ProbeReading(at=self._watched.now(), probe=PROBE, state="up")
        if failed:
            what = failed if hook.kind == "command" else f"{hook.title}: {failed}"
            reading = ProbeReading(
                at=self._watched.now(),
                probe=PROBE,
                state="failed",
                reason=f"The hook on {event.kind} failed: {what}",
                remedy="See [hooks] in the configuration; the watch goes on.",
            )
        await self._watched.put(reading)
