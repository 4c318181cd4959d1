"""``firstlight demo``: the screen at once, the load as soon as its host stands."""

from __future__ import annotations

import time
from functools import partial

from probes.rehearsal import HOST, UNIT
from tui.commands.later import Later, Opens
from tui.commands.screen import configuration, in_loop, need_terminal, show
from tui.exits import Exit
from tui.source import SourceStatus


def run(speed: float) -> Exit:
    """Show the demo until the operator leaves. Raises Ending."""
    need_terminal("firstlight demo")
    return in_loop(_run(speed))


async def _run(speed: float) -> Exit:
    config = configuration()
    status = SourceStatus(mode="demo", speed=speed)
    source = Later(HOST, UNIT, "starting the host of the demo", status, partial(_opened, speed), time.time())
    try:
        await show(source, config)
    finally:
        await source.close()
    return Exit.OK


def _opened(speed: float) -> Opens:
    from tui.commands.rehearse import prepared

    return prepared(speed)
