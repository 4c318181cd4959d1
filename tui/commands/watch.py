"""``firstlight watch``: a unit on a host, live and recorded.

What only the operator can mend ends the program before the screen is drawn: a host that will not let us in, a unit
that does not exist. Everything else (a host that is down, a journal that may not be read, no nvidia-smi) is said on
the screen, tried again, and leaves the other panes alone.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

from probes.command import plain
from probes.host import Host
from probes.supervise import Supervisor
from tui.commands.reach import open_target, supervised
from tui.commands.screen import in_loop, need_terminal, show
from tui.exits import Exit
from watch.config import Config, Deployment

if TYPE_CHECKING:
    from tui.desk import Desk


def run(
    deployment: Deployment,
    config: Config,
    *,
    name: str = "",
    record: bool | None = None,
    since: str | None = None,
    read_only: bool = False,
) -> Exit:
    """Show a watch until the operator leaves. Raises Ending."""
    host = open_target(deployment.target)
    return in_loop(_run(host, deployment, config, name=name, record=record, since=since, read_only=read_only))


async def _run(
    host: Host,
    deployment: Deployment,
    config: Config,
    *,
    name: str,
    record: bool | None,
    since: str | None,
    read_only: bool,
) -> Exit:
    """The host is reached and asked for its lines first; the program is loaded meanwhile."""
    drawn = asyncio.Event()
    begun = supervised(host, deployment, config, since=since, drawn=drawn)
    begun.start()
    try:
        await asyncio.to_thread(importlib.import_module, "tui.commands.live")
        return await _shown(begun, drawn, host, deployment, config, name=name, record=record, read_only=read_only)
    finally:
        await begun.close()
        await host.close()


async def _shown(
    begun: Supervisor,
    drawn: asyncio.Event,
    host: Host,
    deployment: Deployment,
    config: Config,
    *,
    name: str,
    record: bool | None,
    read_only: bool,
) -> Exit:
    from tui.commands.live import first_answer, live
    from tui.commands.moves import Watches
    from watch.session.shelf import beside_of

    def open_one(wanted: Deployment, called: str) -> AbstractAsyncContextManager[Desk]:
        kept = partial(live, name=called, record=record, read_only=read_only)
        if wanted is deployment:
            return kept(host, wanted, config, begun=begun, drawn=drawn)
        return kept(open_target(wanted.target), wanted, config)

    async with Watches(config, open_one) as watches:
        desk = await watches.open(deployment, name)
        drawing = asyncio.create_task(asyncio.to_thread(importlib.import_module, "tui.app"))  # meanwhile
        await first_answer(desk.watching)
        need_terminal("firstlight watch")
        await drawing
        await show(desk.watching, config, desk)
        tapes = [desk.watching.tape for desk in watches.opened]
    for tape in tapes:
        if tape.stopped:
            print(f"firstlight: {plain(tape.stopped)}", file=sys.stderr)
        if tape.path is None:
            continue
        print(f"recorded in {tape.path}", file=sys.stderr)
        for report in beside_of(tape.path):
            if report.exists():
                print(f"reported in {report}", file=sys.stderr)
    return Exit.OK
