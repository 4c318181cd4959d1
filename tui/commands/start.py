"""``firstlight`` alone, in a terminal: choose what to watch, then watch it. What cannot be watched is said in the same
place, and another can be chosen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from probes.hosts import open_host
from probes.reaching import reached
from probes.servers import Server, find_servers
from probes.ssh_aliases import aliases
from tui import settings
from tui.commands.named import named
from tui.commands.screen import need_terminal
from tui.exits import Ending, Exit
from watch.config import Config
from watch.history import History, HistoryError, LoadRecord
from watch.offers import Offers, offers

if TYPE_CHECKING:
    from tui.screens.start import Chosen

AGAIN = frozenset({Exit.UNREACHABLE, Exit.NO_UNIT, Exit.USAGE})
"""What another choice may mend."""


def run() -> Exit:
    """Until the operator leaves. Raises Ending."""
    need_terminal("firstlight")
    config = settings.configuration()
    trouble: Ending | None = None
    while True:
        chosen = asyncio.run(_chosen(config, trouble))
        if chosen is None:
            return Exit.OK
        if chosen.deployment is None:
            from tui.commands.demo import run as demo

            return demo(30.0)
        from tui.commands.watch import run as watch

        one = chosen.deployment
        words = [chosen.name] if chosen.name else [one.target, one.unit]
        try:
            found = named(config, words, user=one.user or None)
            return watch(found.deployment, config, name=found.name)
        except Ending as ending:
            if ending.status not in AGAIN:
                raise
            trouble = ending


async def _chosen(config: Config, trouble: Ending | None) -> Chosen | None:
    import themes
    from tui.start import Start, Trouble

    app = Start(
        what_there_is(config),
        servers_of,
        now=time.time(),
        trouble=Trouble(trouble.reason, trouble.remedy) if trouble is not None else None,
        theme=config.defaults.theme or themes.DARK,
        keys=config.keys,
    )
    return await app.run_async()


def what_there_is(config: Config) -> Offers:
    """From the configuration, the history and ssh_config."""
    found: Sequence[LoadRecord] = ()
    problem = ""
    try:
        with History.open() as history:
            found = history.latest()
    except HistoryError as error:
        problem = str(error)
    return offers(
        config.deployments,
        found,
        aliases(),
        local=Path("/run/systemd/system").is_dir(),
        config=config.path,
        problem=problem,
    )


async def servers_of(target: str) -> Sequence[Server]:
    """Raises HostError where the host cannot be asked."""
    async with reached(open_host(target)) as host:
        return await find_servers(host)
