"""The demo's watch: a recorded load, played by an SSH server in this process and watched as any other."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from probes.rehearsal.host import Rehearsal
from probes.rehearsal.story import Story, load_story
from probes.supervise import Supervisor
from tui.commands.later import Opens
from watch.session import SessionWriter, new_header
from watch.state import WatchState
from watch.watching import Watching


def prepared(speed: float) -> Opens:
    """Does what takes time (reads the story, builds the fold's tables), and gives what opens the watch."""
    story = load_story()
    state = WatchState(story.host, story.unit, demo=True)
    return lambda: rehearsed(story, state, speed)


@asynccontextmanager
async def rehearsed(story: Story, state: WatchState, speed: float) -> AsyncIterator[Watching]:
    """A watch of the story. Nothing is recorded; nothing of it is left when the context ends."""
    async with Rehearsal(story, speed, now=time.time()) as rehearsal:
        host = rehearsal.host
        supervisor = Supervisor(host, story.unit, clock=rehearsal.clock, gpu="nvidia-smi")
        tape = SessionWriter(new_header(story.host, story.unit, rehearsal.clock.now()), where=None)
        watching = Watching(
            supervisor,
            state,
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
