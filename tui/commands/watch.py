"""``firstlight watch``: a unit on a host, live and recorded.

What only the operator can mend ends the program before the screen is drawn: a host that will not let us in, a unit
that does not exist. Everything else (a host that is down, a journal that may not be read, no nvidia-smi) is said on
the screen, tried again, and leaves the other panes alone.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from probes.endpoint import BadEndpoint
from probes.host import Host, HostError
from probes.hosts import open_host
from probes.supervise import Supervisor
from tui.commands.rows import operators, tell
from tui.commands.screen import configuration, in_loop, need_terminal, show
from tui.exits import Ending, Exit
from watch.config import Config
from watch.history import History, HistoryError
from watch.keeping import Keeper, Recall
from watch.ledger import Ledger
from watch.redact import BadSecretPattern, Redactor
from watch.session import SessionWriter, folder, new_header, tidy
from watch.state import WatchState
from watch.view import View
from watch.watching import Watching

PATIENCE = 10.0
"""Real seconds to wait for the host's first answer before the screen is drawn all the same, and shows the waiting."""


def run(target: str, unit: str, *, endpoint: str | None, user: bool, record: bool, since: str | None) -> Exit:
    """Show a watch until the operator leaves. Raises Ending."""
    host = open_target(target)
    return in_loop(_run(host, unit, endpoint=endpoint, user=user, record=record, since=since))


def open_target(target: str) -> Host:
    """Raises Ending for what can be no host."""
    try:
        return open_host(target)
    except HostError as error:
        raise Ending(Exit.UNREACHABLE, error.reason, error.remedy) from None


async def _run(host: Host, unit: str, *, endpoint: str | None, user: bool, record: bool, since: str | None) -> Exit:
    config = configuration()
    async with live(host, unit, config, endpoint=endpoint, user=user, record=record, since=since) as watching:
        await first_answer(watching)
        need_terminal("firstlight watch")
        await show(watching, config)
        path = watching.status().recording
    if path:
        print(f"recorded in {path}.gz", file=sys.stderr)
    return Exit.OK


@asynccontextmanager
async def live(
    host: Host,
    unit: str,
    config: Config,
    *,
    endpoint: str | None = None,
    user: bool = False,
    record: bool = True,
    since: str | None = None,
) -> AsyncIterator[Watching]:
    """A watch of a unit, recorded and kept in the history. The recording is complete when the context ends."""
    every = config.defaults.gpu_interval
    supervisor = _supervisor(host, unit, endpoint=endpoint, user=user, since=since, gpu_interval=every)
    record = record and config.defaults.record
    tape = SessionWriter(
        new_header(host.name, unit, time.time(), endpoint=endpoint or ""),
        where=folder() if record else None,
        redactor=_redactor(config),
    )
    history, reason = _history()
    rows = operators()
    state = WatchState(host.name, unit, endpoint=endpoint or "", catalogue=rows, history=Recall(history, reason))
    tell(rows, state, supervisor.clock.now())
    watching = Watching(supervisor, state, tape, clock=supervisor.clock, ledger=Ledger(state, Keeper(history, reason)))
    if record:  # compresses what killed runs have left, beside the watch and without being waited for
        threading.Thread(target=tidy, args=(folder(),), daemon=True).start()
    try:
        yield watching
    except Ending:
        tape.discard()
        raise
    finally:
        await watching.stop()
        await supervisor.close()
        await host.close()
        tape.close()
        if history is not None:
            history.close()


async def first_answer(watching: Watching) -> None:
    """Wait until the host says whether there is something to watch. Raises Ending where only the operator can help."""
    waiting = asyncio.get_running_loop().call_later(
        0.7, lambda: print(f"reaching {watching.state.target} …", file=sys.stderr)
    )
    try:
        await watching.until(lambda: _known(watching.view(watching.now())), PATIENCE)
    finally:
        waiting.cancel()
    view = watching.view(watching.now())
    if view.link is not None and view.link.state == "refused":
        raise Ending(Exit.UNREACHABLE, view.link.reason, view.link.remedy)
    unit = view.unit_reading
    if unit is not None and unit.load == "not-found" and not view.lines:
        near = f"Did you mean {', '.join(unit.near)}?" if unit.near else "systemctl list-units shows what there is."
        raise Ending(Exit.NO_UNIT, f"{view.target} has no unit {unit.unit}", near)


def _known(view: View) -> bool:
    """Whether the host has said what the way on depends on."""
    if view.link is not None and view.link.state in ("down", "refused"):
        return True
    told = {source.probe: source.state for source in view.sources}
    return view.unit_reading is not None or told.get("unit") in ("failed", "missing")


def _supervisor(
    host: Host, unit: str, *, endpoint: str | None, user: bool, since: str | None, gpu_interval: float
) -> Supervisor:
    try:
        return Supervisor(host, unit, endpoint=endpoint, user=user, since=since, gpu_interval=gpu_interval)
    except BadEndpoint as error:
        raise Ending(Exit.USAGE, str(error), "firstlight watch --help has an example.") from None


def _redactor(config: Config) -> Redactor:
    try:
        return Redactor(config.redact)
    except BadSecretPattern as error:
        raise Ending(Exit.USAGE, f"{config.path}: {error}", "Correct redact = […] there.") from None


def _history() -> tuple[History | None, str]:
    """The history, or why there is none: a watch goes on without it."""
    try:
        return History.open(), ""
    except HistoryError as error:
        return None, str(error)
