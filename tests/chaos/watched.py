"""A watch as ``firstlight watch`` makes it, without its screen, and what must be true of it when all is over."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from probes.export import ExportDecoder
from probes.hosts import open_host
from probes.readings import BacklogReading, JournalLine, LinkReading
from tests.host.machine import Machine
from tests.host.service import Entry, Service
from tests.host.tape import Tape
from tests.host.test_load import quick
from tests.host.watcher import nothing_left
from tui.commands.live import live
from tui.desk import Desk
from watch.config import Config, Deployment
from watch.explain import explain
from watch.session import SessionReader, folder
from watch.state import WatchState
from watch.view import View

LIMIT = 90.0
"""seconds to wait for what must come; generous, since the machine may be busy"""


@dataclass
class Watched:
    """A watch under way, everything on by default: recording, history, hooks."""

    desk: Desk
    links: list[str]
    newest: str = ""
    """cursor of the last line of the unit or about it that a screen was given"""

    @property
    def view(self) -> View:
        watching = self.desk.watching
        return watching.view(watching.now())

    @property
    def lines(self) -> int:
        return self.desk.watching.state.lines

    async def until(self, true: Callable[[], object], what: str, limit: float = LIMIT) -> None:
        ready = await self.desk.watching.until(lambda: bool(true()), limit)
        view = self.view
        assert ready, (
            f"{what} did not come in {limit:.0f} s; {self.lines} lines, state {view.state}, phase {view.phase}, "
            f"link {self.links[-3:]}, sources {[(one.probe, one.state, one.reason) for one in view.sources]}"
        )

    async def linked(self) -> None:
        await self.until(lambda: self.view.link is not None and self.view.link.state == "up", "the link")

    async def reading(self) -> None:
        """Wait until the journal is followed: what is said from now on is not of the time before the watch."""
        await self.until(
            lambda: any(source.probe == "journal" and source.state == "up" for source in self.view.sources),
            "the journal",
        )

    def unit_is(self, state: str) -> bool:
        """Whether systemd's ActiveState of the unit was that when it was last read."""
        unit = self.view.unit_reading
        return unit is not None and unit.active == state

    async def caught_up(self, service: Service) -> None:
        """Wait for the last line that the host holds now. No more may come."""
        last = (await service.journal())[-1].cursor
        await self.until(lambda: self.newest == last, "the last line of the host's journal")

    async def lines_more(self, count: int) -> None:
        wanted = self.lines + count
        await self.until(lambda: self.lines >= wanted, f"{count} more lines")


@asynccontextmanager
async def watched(target: str, unit: str, **how: object) -> AsyncIterator[Watched]:
    """``firstlight watch`` of it; when it is over nothing of it is left in this process."""
    before, tasks = files(), asyncio.all_tasks()
    async with live(open_host(target), Deployment(target=target, unit=unit), Config(), **how) as desk:  # type: ignore[arg-type]
        links: list[str] = []
        see = desk.watching.state.sources.link

        def note(reading: LinkReading) -> None:
            links.append(reading.state)
            see(reading)

        desk.watching.state.sources.link = note  # type: ignore[method-assign]
        seen = Watched(desk, links)
        drawing = asyncio.create_task(_draw(seen))
        try:
            yield seen
        finally:
            drawing.cancel()
            with suppress(asyncio.CancelledError):
                await drawing
    del desk, seen
    gc.collect()
    await asyncio.sleep(0)
    await _gone(lambda: files() <= before and not _ours(asyncio.all_tasks() - tasks))
    assert not _ours(asyncio.all_tasks() - tasks)
    assert files() <= before, "files or sockets stay open"


def _ours(tasks: set[asyncio.Task[Any]]) -> list[str]:
    """Those of the program, not those of the proxy that stands in its way."""
    return [repr(task) for task in tasks if "Proxy." not in repr(task)]


async def _gone(true: Callable[[], object], limit: float = 5.0) -> None:
    end = asyncio.get_running_loop().time() + limit
    while not true() and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110 nobody tells
        await asyncio.sleep(0.02)


async def _draw(seen: Watched) -> None:
    """Takes what the screen would take, and looks as often."""
    watching = seen.desk.watching
    async for batch in watching.batches():
        watching.view(watching.now())
        for line in batch.lines:
            if line.source in ("unit", "systemd"):
                seen.newest = line.cursor


def files() -> int:
    """Open files of this process."""
    return len(os.listdir("/proc/self/fd"))


def recordings() -> list[Path]:
    return sorted(path for path in folder().glob("*.jsonl*") if path.is_file())


def recorded(path: Path) -> list[JournalLine]:
    """What a recording has of the unit's own words and systemd's about it."""
    reader = SessionReader(path)
    try:
        kept = [reading for _, reading in reader]
    finally:
        reader.close()
    assert not any(isinstance(one, BacklogReading) for one in kept)
    return [one for one in kept if isinstance(one, JournalLine) and one.source in ("unit", "systemd")]


def same(path: Path, held: Sequence[Entry], *, begin: bool = False) -> None:
    """The recording has every line of the host's journal once, in its order. ``begin``: it ends before the last."""
    lines = [Entry(line.cursor, line.text) for line in recorded(path)]
    if begin:
        assert lines
        assert len(lines) <= len(held)
        held = held[: len(lines)]
    assert len(lines) == len(held), _first_difference(lines, held)
    assert lines == list(held), _first_difference(lines, held)


def _first_difference(lines: Sequence[Entry], held: Sequence[Entry]) -> str:
    for number, (one, other) in enumerate(zip(lines, held, strict=False)):
        if one != other:
            return f"line {number}: recorded {one}, held {other}"
    return f"{len(lines)} recorded, {len(held)} held"


async def all_is_well(machine: Machine, service: Service, folder_for_export: Path) -> None:
    """After a watch: the recording is the host's own journal, both say the same of the load, nothing is left there."""
    (path,) = recordings()
    same(path, await service.journal())
    said = await machine.do("journalctl", "-o", "export", "--no-pager", "-u", service.name)
    decoder = ExportDecoder(f"{service.name}.service")
    host = [*decoder.feed(said.out), *decoder.close()]
    lines = recorded(path)
    assert _folded(service, lines) == _folded(service, host)
    export = folder_for_export / "host.export"
    export.write_bytes(said.out)
    told, again = explain([export]), explain([path])
    assert (told.state, told.phase) == (again.state, again.phase)
    await nothing_left(machine)
    assert path.stat().st_mode & 0o077 == 0


def _folded(service: Service, lines: Sequence[JournalLine]) -> bytes:
    state = WatchState("host", f"{service.name}.service")
    state.apply_lines(lines)
    return msgspec.json.encode(state.view(lines[-1].at))


def chatty(seconds: float, a_second: int) -> Tape:
    """A recorded load to ready in this time, with numbered lines in between."""
    load = quick()
    scale = seconds / load.seconds
    pieces = [(at * scale, data) for at, data in load.pieces]
    pieces += [(n / a_second, b"(Worker_TP0 pid=77) INFO 11-30 01:55:00 [x.py:1] line %d\n" % n)
               for n in range(int(seconds * a_second))]  # fmt: skip
    whole: list[tuple[float, bytes]] = []
    for at, data in sorted(pieces, key=lambda piece: piece[0]):
        if whole and not whole[-1][1].endswith(b"\n") and data.endswith(b"\n") and b"] line " in data:
            whole.insert(len(whole) - 1, (whole[-1][0], data))  # not into the middle of a bar
        else:
            whole.append((at, data))
    return Tape(tuple(whole))
