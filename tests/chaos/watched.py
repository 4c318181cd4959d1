"""A watch as ``firstlight watch`` makes it, without its screen, and what must be true of any watch when all is over."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from probes.export import ExportDecoder
from probes.hosts import open_host
from probes.readings import BacklogReading, JournalLine, LinkReading
from tests.chaos.account import Account
from tests.chaos.footprint import Footprint
from tests.host.service import Entry, Service
from tests.host.tape import Tape
from tests.host.terminal import PROGRAM
from tests.host.test_load import quick
from tui.commands.live import live
from tui.desk import Desk
from watch.config import Config, Deployment
from watch.explain import explain, report_json
from watch.session import SessionReader, folder
from watch.session.shelf import listed
from watch.state import WatchState
from watch.view import View

LIMIT = 90.0
"""seconds to wait for what must come; generous, since the machine may be busy"""


@dataclass
class Watched:
    """A watch under way, everything on by default: recording, history, hooks."""

    desk: Desk
    footprint: Footprint
    links: list[str]
    newest: str = ""
    """cursor of the last line of the unit or about it that a screen was given"""
    told: View | None = None
    """the last picture, once the watch is over"""

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

    async def caught_up(self, account: Account) -> None:
        """Wait for the last line that the host holds now. Nothing newer may come before it is there."""
        last = (await account.read())[-1].cursor
        await self.until(lambda: self.newest == last, "the last line of the host's journal")

    async def under_way(self, service: Service) -> None:
        """Linked, the service started, its first lines there: what a fault is measured against."""
        await self.linked()
        await service.start()
        await self.lines_more(5)
        await self.footprint.take()

    async def lines_more(self, count: int) -> None:
        wanted = self.lines + count
        await self.until(lambda: self.lines >= wanted, f"{count} more lines")


@asynccontextmanager
async def watched(target: str, unit: str, *, more_files: int = 0, **how: object) -> AsyncIterator[Watched]:
    """``firstlight watch`` of it; at its end it takes up what it did when ``footprint.take`` was called, and
    ``more_files`` besides; when it is over nothing of it is left in this process."""
    before, tasks = files(), asyncio.all_tasks()
    async with live(open_host(target), Deployment(target=target, unit=unit), Config(), **how) as desk:  # type: ignore[arg-type]
        links: list[str] = []
        see = desk.watching.state.sources.link

        def note(reading: LinkReading) -> None:
            links.append(reading.state)
            see(reading)

        desk.watching.state.sources.link = note  # type: ignore[method-assign]
        seen = Watched(desk, Footprint(), links)
        drawing = asyncio.create_task(_draw(seen))
        try:
            yield seen
            seen.told = seen.view
            await seen.footprint.is_back(more_files=more_files)
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


# ---- what is true when it is over


async def all_is_well(
    account: Account,
    footprint: Footprint | None,
    *,
    told: View | None = None,
    path: Path | None = None,
    whole: bool = True,
) -> None:
    """What holds after each run, whatever has happened in it:

    - each line that the host holds for the unit is in the recording, once and in the host's order;
    - the state is what ``firstlight explain`` says of the host's own journal: see ``recorded_rightly`` for both;
    - no process, unit, lock or file of ours is left on the host, and no socket of ours on this machine;
    - memory and open files are back to where they were before the faults (``footprint``; None: the process itself is
      gone, and so is all that it held).

    ``path``: of several recordings, this one.
    """
    if path is None:
        (path,) = recordings()
    await recorded_rightly(account, path, told=told, whole=whole)
    await account.nothing_left()
    assert not list(Path(tempfile.gettempdir()).glob("firstlight-link-*"))
    assert footprint is None or footprint.after is not None, "measured at the end of the watch"


async def recorded_rightly(account: Account, path: Path, *, told: View | None = None, whole: bool = True) -> None:
    """A recording has each line of the host's journal, once and in order, and the state of it read anew is what a fresh
    ``firstlight explain`` says of that journal; so is what the watch itself showed last (``told``; None: as it left it
    for the list of recordings, where it could). ``whole``: False where the recording ends before the journal does; then
    both are compared as of there, and ``told`` with the whole journal.
    """
    held = await account.read()
    lines = recorded(path)
    assert lines
    last = "" if whole else lines[-1].cursor
    same(lines, account.entries(last) if last else held)

    export = account.export(last)
    host = await explained(export)
    assert gist(json.loads(report_json(explain([path])))) == host
    unit = f"{account.service.name}.service"
    decoder = ExportDecoder(unit)
    assert _folded(unit, lines) == _folded(unit, [*decoder.feed(export), *decoder.close()])
    summary = next(one.summary for one in listed(folder()) if one.path == path)
    if told is not None:
        loads = tuple((load.invocation, load.state, load.phase) for load in told.loads)
        assert (told.state, told.phase, loads) == (host if whole else await explained(account.export()))
    elif summary is not None:
        state, phase, known = host
        assert (summary.outcome, summary.phase, summary.loads) == (state, phase, len(known))
    assert path.stat().st_mode & 0o077 == 0


Gist = tuple[str, str, tuple[tuple[str, str, str], ...]]
"""State, phase, and invocation, state and phase of each load."""


async def explained(export: bytes) -> Gist:
    """What a fresh ``firstlight explain`` says of a journal in the export format."""
    with tempfile.NamedTemporaryFile(suffix=".export") as file:
        file.write(export)
        file.flush()
        process = await asyncio.create_subprocess_exec(
            str(PROGRAM), "explain", "--json", file.name, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
    assert process.returncode is not None
    return gist(json.loads(out))


def gist(report: dict[str, Any]) -> Gist:
    """The same of what ``explain --json`` prints."""
    loads = tuple((load["invocation"], load["state"], load["phase"]) for load in report["loads"])
    return report["state"], report["phase"], loads


def recordings() -> list[Path]:
    return sorted(path for path in folder().glob("*.jsonl*") if path.is_file())


def recorded(path: Path) -> list[JournalLine]:
    """What a recording has of the unit's own words and systemd's about it. It is undamaged, and no line of any source
    is there twice."""
    with SessionReader(path) as reader:
        kept = [reading for _, reading in reader]
        wrong = [note for note in reader.notes() if not note.startswith("it ends in the middle of a line")]
    assert not wrong, wrong
    assert not any(isinstance(one, BacklogReading) for one in kept)
    lines = [one for one in kept if isinstance(one, JournalLine)]
    assert len({line.cursor for line in lines}) == len(lines)
    return [line for line in lines if line.source in ("unit", "systemd")]


def same(lines: Sequence[JournalLine], held: Sequence[Entry]) -> None:
    """The recording has every line of the host's journal once, in its order."""
    ours = [Entry(line.cursor, line.text) for line in lines]
    assert ours == list(held), _first_difference(ours, held)


def _first_difference(lines: Sequence[Entry], held: Sequence[Entry]) -> str:
    for number, (one, other) in enumerate(zip(lines, held, strict=False)):
        if one != other:
            return f"line {number}: recorded {one}, held {other}"
    return f"{len(lines)} recorded, {len(held)} held"


def _folded(unit: str, lines: Sequence[JournalLine]) -> bytes:
    state = WatchState("host", unit)
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
