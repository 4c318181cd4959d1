"""``firstlight demo``: a recorded load, played by an SSH server in this process and watched as any other."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from probes.rehearsal.host import Rehearsal
from probes.rehearsal.story import load_story
from probes.supervise import Supervisor
from tui.commands.screen import configuration, in_loop, need_terminal, show
from tui.exits import Exit
from watch.session import SessionWriter, new_header
from watch.state import WatchState
from watch.watching import Watching


def run(speed: float) -> Exit:
    """Show the demo until the operator leaves. Raises Ending."""
    need_terminal("firstlight demo")
    return in_loop(_run(speed))


async def _run(speed: float) -> Exit:
    config = configuration()
    async with demo(speed) as watching:
        await show(watching, config)
    return Exit.OK


@asynccontextmanager
async def demo(speed: float) -> AsyncIterator[Watching]:
    """A watch of the demo's load. Nothing is recorded; nothing of it is left when the context ends."""
    story = load_story()
    async with Rehearsal(story, speed, now=time.time()) as rehearsal:
        host = rehearsal.host
        supervisor = Supervisor(host, story.unit, clock=rehearsal.clock, gpu="nvidia-smi")
        tape = SessionWriter(new_header(story.host, story.unit, rehearsal.clock.now()), where=None)
        watching = Watching(
            supervisor,
            WatchState(story.host, story.unit, demo=True),
            tape,
            clock=rehearsal.clock,
            mode="demo",
            label=f"recorded load of {story.title}; {speed:g}× until it is ready",
        )
        try:
            yield watching
        finally:
            await watching.stop()
            await supervisor.close()
            await host.close()
            tape.close()
