"""The newest lines of a long journal, read ahead of their turn, so that a screen need not wait for the back-log.

The stream that ``journal`` follows gives every line once and in order; with a million of them the newest comes after
half a minute. Meanwhile a short command, asked again each second, says what is newest.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress

from probes.clock import Clock
from probes.entry import FIELDS
from probes.export import ExportDecoder, later
from probes.host import Host, HostError
from probes.readings import BacklogReading, JournalLine, Reading

NEWEST = 500
"""Records asked for; a journal that has no more since the load began is read before they could be shown."""

HEAD = 400
"""Records of the stream that go first: what a load says of itself, it says at its beginning."""

PATIENCE = 2.0
"""Seconds that the rest of the stream waits for the newest lines, when its head is there."""

DRAW_WAIT = 2.0
"""Seconds that it waits once more for them to be drawn, where there is a screen, before a million others are read."""

HEAD_WAIT = 0.2
"""Seconds after which the newest are shown with less of the head, where the link is slow."""

EVERY = 1.0
"""Seconds between two questions for what is newest, and between two words on how far the reading is."""

QUIET = 10.0
"""Seconds of silence after which the stream has said everything, whatever its cursors look like."""

TAIL = """n=$1 s=$2 f=$3; shift 3
c=$(journalctl -q --no-pager -r -n "$n" ${s:+"--since=$s"} -o export --output-fields=_BOOT_ID "$@" |
sed -n 's/^__CURSOR=//p' | tail -n 1)
[ -z "$c" ] || exec journalctl -q --no-pager -o export --output-fields="$f" --cursor="$c" -n "$n" "$@"
"""
"""Backwards to find where they begin, forwards to read them: a line that journald split must be joined in order."""

_PLACE = re.compile(r"s=([0-9a-f]{32});i=([0-9a-f]{1,16});.*;t=([0-9a-f]{1,16})(?:;|$)")


class Ahead:
    """Entered beside the stream; ``take`` from it whenever the stream gave something or fell silent."""

    def __init__(self, host: Host, unit: str, matches: Sequence[str], start: str, clock: Clock) -> None:
        """``start``: journalctl's own argument that says where the stream begins."""
        self._host, self._unit, self._matches, self._clock = host, unit, matches, clock
        self._first = start.removeprefix("--cursor=") if start.startswith("--cursor=") else ""
        self._since = start.removeprefix("--since=") if start.startswith("--since=") else ""
        if place := _PLACE.search(self._first):
            self._since = f"@{int(place[3], 16) / 1e6:.6f}"
        self._decoder = ExportDecoder(unit)
        self._asked = self._told = self._answered = 0.0
        self._began = self._heard = time.monotonic()
        self._records = 0
        self._waiting: list[JournalLine] = []
        self._oldest: tuple[str, float] | None = None
        self._newest = ("", 0.0)
        self._task: asyncio.Task[list[JournalLine] | None] | None = None
        self._waited = False
        self.shown = False
        """whether something was given out, so that its end must be told"""
        self.over = False
        self.told = asyncio.Event()
        """set when the newest lines have been given out, or there are none to be given out ahead"""

    async def __aenter__(self) -> Ahead:
        self._began = self._heard = time.monotonic()
        if not self.over:
            self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        """The stream broke off; it may be entered again."""
        task, self._task = self._task, None
        cancelled = False
        while task is not None and not task.done():  # it takes its command with it, however often we are told
            task.cancel()
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    async def first(self, decoder: ExportDecoder) -> list[Reading]:
        """Before the stream is read on: where its head is there and the newest lines are not, wait for them a little.
        What is to be shown then."""
        if self.over or self.shown or self._waited or decoder.records < HEAD or self._task is None:
            return []
        self._waited = True
        await asyncio.wait({self._task}, timeout=PATIENCE)
        return self.take(decoder)

    def take(self, decoder: ExportDecoder, *, silent: bool = False) -> list[Reading]:
        """What is to be shown now. ``decoder``: of the stream, which tells how far that is; ``silent``: it gave
        nothing for a while."""
        if self.over:
            return self._end()
        now = time.monotonic()
        if not silent:
            self._heard = now
        if not self._first and decoder.cursor:
            self._first = decoder.cursor
        self._collect(now)
        if self._oldest is None:
            return self._end() if self.over else []
        if self._reached(decoder, self._newest if self.shown else self._oldest) or (
            # its cursors cannot be compared; but the host answers, and the stream has nothing more to say
            silent and self._answered > self._heard + QUIET
        ):
            self.over = True
            return self._end()
        if self._task is None and now - self._asked >= EVERY:
            self._begin()
        if not self.shown and decoder.records < HEAD and now - self._began < HEAD_WAIT:
            return []
        if not self._waiting and now - self._told < EVERY:
            return []
        lines, self._waiting, self._told, self.shown = tuple(self._waiting), [], now, True
        self.told.set()
        return [BacklogReading(at=self._clock.now(), lines=lines, share=self._share(decoder))]

    def _end(self) -> list[Reading]:
        told, self.shown = self.shown, False
        return [BacklogReading(at=self._clock.now())] if told else []

    def _begin(self) -> None:
        self._asked = time.monotonic()
        self._task = asyncio.create_task(self._ask())

    def _collect(self, now: float) -> None:
        if self._task is None or not self._task.done():
            return
        answer = self._task.result()
        self._task = None
        if answer is None:
            self.over = self._oldest is None
            return
        self._answered = now
        if self._oldest is None:
            if self._records < NEWEST or not answer:
                self.over = True
                return
            self._oldest = (answer[0].cursor, answer[0].at)
        self._newest = (self._decoder.cursor, self._decoder.at)
        self._waiting += answer

    async def _ask(self) -> list[JournalLine] | None:
        """The newest lines that were not seen before; None where the host does not say."""
        decoder = self._decoder
        argv = ["sh", "-c", TAIL, "sh", str(NEWEST), self._since, ",".join(FIELDS), *self._matches]
        try:
            done = await self._host.run(argv)
        except HostError:
            self.told.set()
            return None
        if done.status:
            self.told.set()
            return None
        before = decoder.records
        decoder.restart(decoder.cursor)
        lines = decoder.feed(done.stdout) + decoder.close()
        self._records = decoder.records - before
        if self._records < NEWEST:
            self.told.set()
        return lines

    def _reached(self, decoder: ExportDecoder, place: tuple[str, float]) -> bool:
        return bool(decoder.cursor) and (
            not later(place[0], decoder.cursor) or (decoder.at >= place[1] and later(decoder.cursor, place[0]))
        )

    def _share(self, decoder: ExportDecoder) -> float:
        """By the journal's own count where it is one sequence, else by time."""
        places = [_PLACE.search(cursor) for cursor in (self._first, decoder.cursor, self._newest[0])]
        first, here, newest = places
        if first is None or here is None or newest is None:
            return 0.0
        number = 2 if first[1] == here[1] == newest[1] else 3
        start, now, end = (int(place[number], 16) for place in (first, here, newest))
        return min(max((now - start) / (end - start), 0.0), 1.0) if end > start else 0.0


async def within(event: asyncio.Event, limit: float) -> None:
    """Wait for it, at most ``limit`` real seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(limit):
            await event.wait()
