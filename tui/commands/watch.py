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

from probes.host import Host, HostError
from probes.hosts import open_host
from probes.supervise import Supervisor
from tui.commands.screen import configuration, in_loop, need_terminal, show
from tui.exits import Ending, Exit
from watch.config import Config
from watch.redact import BadSecretPattern, Redactor
from watch.session import SessionWriter, folder, new_header, tidy
from watch.state import WatchState
from watch.view import View
from watch.watching import Watching

PATIENCE = 10.0
"""Real seconds to wait for the host's first answer before the screen is drawn all the same, and shows the waiting."""


def run(target: str, unit: str, *, endpoint: str | None, user: bool, record: bool, since: str | None) -> Exit:
    """Show a watch until the operator leaves. Raises Ending."""
    need_terminal("firstlight watch")
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
        await show(watching, config)
        path = watching.status().recording
    if path:
        print(f"recorded in {path}.gz", file=sys.stderr)
    return Exit.OK
