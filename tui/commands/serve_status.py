"""``firstlight serve-status``: deployments watched without a screen, and told to whoever asks over HTTP."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from probes.command import plain
from probes.host import Host
from tui.commands.listening import listening_address, reason
from tui.commands.live import live
from tui.commands.named import Named, named, several
from tui.commands.reach import open_target
from tui.commands.screen import configuration
from tui.desk import Desk
from tui.exits import Ending, Exit
from tui.status.board import PATHS, Board, Entry
from tui.status.metrics import Measured
from tui.status.server import Address, serving
from watch.benchmarks.keep import results_of
from watch.config import Config
from watch.history import History, HistoryError
from watch.watching import Watching

GPU_INTERVAL: Final = 5.0
"""Seconds between two samples of the GPUs at least: nobody looks at a plot."""

AGAIN: Final = 60.0
"""Seconds until a host that has refused us is asked again."""

_HISTORY_FRESH: Final = 30.0
"""Seconds that what was read of the history is good for."""

_LEVELS: Final = 50
"""Results looked at for the latest of each level."""


def run(
    words: Sequence[str],
    listen: str,
    *,
    allow_remote: bool = False,
    endpoint: str | None = None,
    user: bool | None = None,
) -> Exit:
    """Serve until a signal. Raises Ending."""
    config = configuration()
    if endpoint or user is not None:  # of one deployment
        meant = [named(config, words, endpoint=endpoint, user=user)]
    else:
        meant = several(config, words)
    return asyncio.run(
        _run(meant, config, listening_address(listen, allow_remote, "can read the status of everything watched"))
    )


async def _run(meant: Sequence[Named], config: Config, where: Address) -> Exit:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(name, done.set)
    board = Board()
    async with AsyncExitStack() as stack:
        try:  # before any host is asked: a port that is taken is said at once
            listening = await stack.enter_async_context(serving(where, board.answer))
        except OSError as error:
            raise Ending(
                Exit.USAGE,
                f"nothing can be served on {where}: {reason(error)}",
                "Choose another port with --listen HOST:PORT.",
            ) from None
        for one in meant:
            host = open_target(one.deployment.target)  # what can be no host ends the program, and at once
            stack.push_async_callback(_end, asyncio.create_task(watch(one, host, config, board)))
        what = meant[0].title if len(meant) == 1 else f"{len(meant)} deployments"
        print(f"serving the status of {plain(what)} on http://{listening}: {PATHS}", file=sys.stderr, flush=True)
        await done.wait()
    return Exit.OK


async def watch(one: Named, host: Host, config: Config, board: Board) -> None:
    """Watch one deployment for ever. A host that refuses us is asked again: somebody may have put it right."""
    while True:
        async with live(host, one.deployment, config, name=one.name, keep=False, gpu_interval=GPU_INTERVAL) as desk:
            board.add(Entry(one.title, desk.watching, Results(desk, one.title)))
            await drain(desk.watching, one.title)
        await asyncio.sleep(AGAIN)
        host = open_target(one.deployment.target)


async def drain(watching: Watching, name: str) -> None:
    """Take what comes; the picture is asked for when somebody asks us."""
    async for _ in watching.batches():
        pass
    view = watching.view(watching.now())
    why = " ".join((view.link.reason, view.link.remedy)) if view.link is not None else "the host ended it"
    print(f"firstlight: {plain(name)} cannot be watched: {plain(why)}", file=sys.stderr, flush=True)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Results:
    """The latest benchmark of a deployment at each level, as the history has it; read again now and then."""

    def __init__(self, desk: Desk, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._history: History | None = desk.history
        self._target, self._unit, self._name = desk.host.name, desk.deployment.unit, name
        self._clock = clock
        self._at = float("-inf")
        self._known: tuple[Measured, ...] = ()

    def __call__(self) -> Sequence[Measured]:
        if self._history is not None and self._clock() - self._at > _HISTORY_FRESH:
            self._at = self._clock()
            try:
                self._known = latest(self._history, self._target, self._unit, self._name)
            except HistoryError:
                self._known = ()  # the other figures are served all the same
        return self._known


def latest(history: History, target: str, unit: str, name: str) -> tuple[Measured, ...]:
    """The latest result of each preset and concurrency."""
    found: dict[tuple[str, int | None], Measured] = {}
    for benchmark in history.benchmarks(target, unit, limit=_LEVELS):
        for result in results_of(benchmark):
            level = (benchmark.preset, result.concurrency)
            if level not in found:
                found[level] = Measured(deployment=name, preset=benchmark.preset, at=benchmark.at, result=result)
    return tuple(found.values())
