"""A live watch without a terminal, for those who attach: how it is begun, the right to be it, what it gives them.

``launch`` begins the process (``tui.commands.background``) with its order on standard input; it says once on standard
output how it began.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct
from platformdirs import user_state_path

from probes.command import plain
from probes.readings import UNDECODABLE, Note
from tui.desk import Desk
from tui.exits import Ending, Exit
from tui.handover.hub import Hub
from tui.handover.place import Claim, Daemon, PlaceError, Taken, bare
from tui.handover.words import Said
from tui.pictures import Pictures
from tui.units import Zone
from watch.config import Deployment
from watch.session import SessionWriter
from watch.view import View
from watch.watching import Watching

NOTE: Final = 500
"""Characters of a note."""

MODULE: Final = "tui.commands.background"


class Order(Struct, frozen=True, kw_only=True):
    """What to watch. ``config``: the file of ``--config``; empty: the operator's own."""

    deployment: Deployment
    name: str = ""
    record: bool | None = None
    since: str | None = None
    config: str = ""
    log: str = ""


class Began(Struct, frozen=True, kw_only=True):
    """How it began: ``daemon``, or why not, as an ``Ending``."""

    daemon: Daemon | None = None
    status: int = 0
    reason: str = ""
    remedy: str = ""


def launch(order: Order, env: Mapping[str, str] | None = None) -> Daemon:
    """Begin a daemon, and return when it watches. Raises Ending with what it says otherwise."""
    log = _log_of(order)
    order = msgspec.structs.replace(order, log=str(log))
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd="/",
            env=env,
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(order))
        process.stdin.close()
        line = process.stdout.readline()
    except BaseException:  # Ctrl-C while it begins: nothing is left behind
        process.terminate()
        process.wait()
        raise
    finally:
        process.stdout.close()
    try:
        began = msgspec.json.decode(line, type=Began)
    except UNDECODABLE:
        raise Ending(Exit.FAILED, "the watch in the background did not come about", f"Why: {log}") from None
    if began.daemon is None:
        process.wait()
        raise Ending(Exit(began.status), began.reason, began.remedy)
    return began.daemon


def taken(by: Daemon | None) -> Ending:
    """Somebody watches that unit already."""
    if by is None:
        return Ending(Exit.USAGE, "it is being watched in the background already", "firstlight attach shows it.")
    since = Zone().second(by.since)
    return Ending(
        Exit.USAGE,
        f"{by.unit} on {by.target} is watched already: by process {by.pid} ({by.what}), since {since}",
        f"firstlight attach {by.title} shows it, firstlight attach {by.title} --stop ends it.",
    )


def claim(deployment: Deployment, name: str, *, what: str = "watch --daemon", log: str = "") -> Claim:
    """The right to be a unit's daemon. Raises Ending where somebody has it, or the runtime folder cannot be used."""
    daemon = Daemon(
        pid=os.getpid(),
        target=deployment.target,
        unit=deployment.unit,
        user=deployment.user,
        name=name,
        since=time.time(),
        log=log,
        what=what,
    )
    try:
        return Claim(daemon)
    except Taken as error:
        raise taken(error.by) from None
    except PlaceError as error:
        raise Ending(Exit.USAGE, str(error)) from None


@asynccontextmanager
async def handed_over(desk: Desk, claimed: Claim, stop: asyncio.Event) -> AsyncIterator[Hub]:
    """Let screens attach to a live watch, until the context ends."""
    tape = desk.watching.tape
    assert isinstance(tape, SessionWriter)

    def said() -> Said:
        status = desk.watching.status()
        return Said(
            now=desk.watching.now(),
            pid=os.getpid(),
            title=claimed.daemon.title,
            target=desk.host.name,
            unit=desk.deployment.unit,
            endpoint=desk.deployment.endpoint,
            recording=status.recording,
            recording_error=status.recording_error,
        )

    putting: set[asyncio.Task[None]] = set()

    def note(who: str, text: str) -> None:
        reading = Note(at=desk.watching.now(), text=plain(text, NOTE), who=who)
        task = asyncio.ensure_future(desk.watching.put(reading))
        putting.add(task)
        task.add_done_callback(putting.discard)

    hub = Hub(tape, said, note=note, stop=stop.set)
    async with hub.listening(Path(claimed.daemon.socket)):
        yield hub


class Teller(Protocol):
    """Says what a picture shows that was not said before; ``settled``: it is of now, no back-log is being read."""

    def show(self, view: View, *, settled: bool) -> None: ...


async def tell(watching: Watching, hub: Hub, stop: asyncio.Event, teller: Teller | None = None) -> None:
    """Take what comes, and let the screens know; until ``stop`` is set, or the host refuses us, which sets it not."""
    pictures = Pictures(watching)
    views = aiter(pictures)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while True:
            following = asyncio.ensure_future(anext(views, None))
            await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                return
            if (view := following.result()) is None:
                return
            hub.grown()
            if teller is not None:
                teller.show(view, settled=pictures.settled)
    finally:
        stopping.cancel()
        await views.aclose()


def _log_of(order: Order) -> Path:
    """The log of a unit's daemons: what they say, one after the other. Mode 0600."""
    where = user_state_path("firstlight") / "daemons"
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = where / f"{_plain(order.deployment.target)}-{_plain(order.deployment.unit)}.log"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise Ending(Exit.USAGE, f"{where} cannot be written: {(error.strerror or str(error)).lower()}") from None
    return path


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._@-]+", "_", bare(name)).strip("._")[:64] or "unknown"
