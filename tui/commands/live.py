"""A watch of a unit on a host, live: its probes, fold, recording, history and hooks, for whatever is made of it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from probes.command import plain
from probes.host import Host
from probes.supervise import Supervisor
from tui.catalogue import operators, tell
from tui.commands.reach import supervised
from tui.desk import Desk
from tui.exits import Ending, Exit
from watch.config import Config, Deployment, hooks_of
from watch.history import History, HistoryError
from watch.hooking import Hooking
from watch.keeping import Keeper, Recall
from watch.ledger import Ledger
from watch.redact import BadSecretPattern, Redactor
from watch.session import SessionError, SessionReader, SessionWriter, folder, new_header, tidy
from watch.session.shelf import remember, summary_of
from watch.state import WatchState
from watch.unkept import Unkept
from watch.view import View
from watch.watching import Watching

PATIENCE = 10.0
"""Real seconds to wait for the host's first answer before the screen is drawn all the same, and shows the waiting."""


@asynccontextmanager
async def live(
    host: Host,
    deployment: Deployment,
    config: Config,
    *,
    name: str = "",
    record: bool | None = None,
    since: str | None = None,
    read_only: bool = False,
    keep: bool = True,
    gpu_interval: float = 0.0,
    begun: Supervisor | None = None,
    drawn: asyncio.Event | None = None,
) -> AsyncIterator[Desk]:
    """A watch of a unit, recorded and kept in the history. The recording is complete when the context ends. ``record``:
    None: as configured. ``keep``: False: nothing is recorded or can be read back, and no hooks fire: a watch for
    figures alone. ``gpu_interval``: seconds between two samples of the GPUs at least.
    ``begun``: its probes, where they have been begun already. ``drawn``: set when a screen shows lines, which is waited
    for with all that can wait; None: there is none."""
    unit, endpoint = deployment.unit, deployment.endpoint
    supervisor = begun or supervised(host, deployment, config, since=since, gpu_interval=gpu_interval, drawn=drawn)
    record = keep and (config.defaults.record if record is None else record)
    redactor = _redactor(config)
    tape: SessionWriter | Unkept = Unkept(redactor)
    if keep:
        header = new_header(host.name, unit, supervisor.began or time.time(), endpoint=endpoint)
        tape = SessionWriter(header, where=folder() if record else None, redactor=redactor)
    history, reason = _history()
    rows = operators()

    def fresh(recall: Recall | None = None) -> WatchState:
        recall = recall or Recall(history, reason)
        return WatchState(host.name, unit, endpoint=endpoint, catalogue=rows, history=recall)

    recall = Recall(history, reason)
    state = fresh(recall)
    tell(rows, state, supervisor.clock.now())
    ledger = Ledger(state, Keeper(history, reason), redactor)
    watching = Watching(supervisor, state, tape, clock=supervisor.clock, ledger=ledger, recall=recall, fresh=fresh)
    if record:  # compresses what killed runs have left, beside the watch and without being waited for
        threading.Thread(target=tidy, args=(folder(),), daemon=True).start()
    hooking = Hooking(watching, hooks_of(config, deployment) if keep else {}, name or unit, redactor)
    hooking.start()
    try:
        yield Desk(
            host=host,
            watching=watching,
            config=config,
            deployment=deployment,
            clock=supervisor.clock,
            redactor=redactor,
            name=name,
            history=history,
            no_history=reason,
            first_lines=supervisor.first_lines,
            drawn=drawn,
            read_only=read_only or deployment.read_only or config.defaults.read_only,
        )
    except Ending:
        tape.discard()
        raise
    finally:
        try:
            await _see_out(hooking)
        finally:
            await watching.stop()
            await supervisor.close()
            await host.close()
            kept = tape.close()
            if history is not None:
                history.close()
            if record and kept is not None:
                missing = leave(kept, state, supervisor.clock.now(), config.defaults.report)
                if missing:
                    print(f"firstlight: {plain(missing)}", file=sys.stderr)


def leave(recording: Path, state: WatchState, now: float, report: str) -> str:
    """What is left beside a recording that is complete: what became of the watch, for the list of recordings, and its
    report, if a load was seen. Why there is none where there should be one; nothing that goes wrong ends the program.
    """
    from tui.commands.report import at_end

    view = state.view(now)
    with suppress(SessionError, OSError):
        with SessionReader(recording) as reader:
            started = reader.header.started
        remember(recording, summary_of(view, started, now))
    return at_end(recording, report) if view.load is not None else ""


async def _see_out(hooking: Hooking) -> None:
    """What was fired is seen to its end; where that takes long, the operator is told what is waited for."""
    saying = asyncio.get_running_loop().call_later(
        1.0, lambda: print(f"waiting for hooks: {hooking.pending} …", file=sys.stderr)
    )
    try:
        await hooking.close()
    finally:
        saying.cancel()


async def first_answer(watching: Watching) -> None:
    """Wait until the host says whether there is something to watch. Raises Ending where only the operator can help."""
    waiting = asyncio.get_running_loop().call_later(
        0.7, lambda: print(f"reaching {watching.state.target} …", file=sys.stderr)
    )
    try:
        await watching.until(lambda: _known(watching.view(watching.now())), PATIENCE)
    finally:
        waiting.cancel()
    need_unit(watching.view(watching.now()))


def need_unit(view: View) -> None:
    """Raises Ending where the host refuses us, or has no such unit and nothing to tell of it."""
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
