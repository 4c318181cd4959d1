"""``firstlight web``: the screen of one watch in browsers, to look at."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from probes.command import plain
from tui.commands.listening import listening_address, reason
from tui.commands.live import first_answer, live
from tui.commands.named import Named, named
from tui.commands.reach import open_target
from tui.commands.screen import configuration
from tui.exits import Ending, Exit
from tui.handover.daemon import claim, handed_over, tell
from tui.handover.place import Daemon, PlaceError, daemons
from tui.status.server import Address
from watch.config import Config

TOKEN = "FIRSTLIGHT_WEB_TOKEN"


def run(
    words: Sequence[str],
    listen: str,
    *,
    allow_remote: bool = False,
    endpoint: str | None = None,
    user: bool | None = None,
    record: bool | None = None,
) -> Exit:
    """Serve until a signal, or until the watch ends. Raises Ending."""
    try:
        import textual_serve  # noqa: F401
    except ModuleNotFoundError:
        raise Ending(
            Exit.USAGE,
            "firstlight web needs textual-serve, which is not installed",
            "pip install 'firstlight[web]', or in a checkout: pip install --require-hashes -r requirements-web.lock.",
        ) from None
    config = configuration()
    one = named(config, words, endpoint=endpoint, user=user)
    where = listening_address(
        listen, allow_remote, "looks at the screen of everything shown, if the token is overheard"
    )
    return asyncio.run(_run(one, config, where, record=record))


async def _run(one: Named, config: Config, where: Address, *, record: bool | None) -> Exit:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with _watch(one, config, stop, record=record) as socket:
        token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
        async with served(socket, where, token) as address:
            what = f"{plain(one.deployment.unit)} on {plain(one.deployment.target)}"
            print(f"showing {what} on", file=sys.stderr)
            print(f"http://{address}/?token={token}", flush=True)
            await stop.wait()
    return Exit.OK


@asynccontextmanager
async def served(socket: Path, where: Address, token: str) -> AsyncIterator[Address]:
    """Serve the watch behind a socket to browsers that have the token, until the context ends. Raises Ending."""
    from aiohttp import web

    from tui.web.server import application

    runner = web.AppRunner(application(socket, token), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, where.host, where.port)
        try:
            await site.start()
        except OSError as error:
            raise Ending(
                Exit.USAGE,
                f"nothing can be served on {where}: {reason(error)}",
                "Choose another port with --listen HOST:PORT.",
            ) from None
        yield Address(where.host, runner.addresses[0][1])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _watch(one: Named, config: Config, stop: asyncio.Event, *, record: bool | None) -> AsyncIterator[Path]:
    """The socket of the watch: of one that goes on in the background, else of one begun here."""
    if (there := _daemon(one)) is not None:
        yield Path(there.socket)
        return
    with claim(one.deployment, one.name, what="web") as claimed:
        host = open_target(one.deployment.target)
        async with live(host, one.deployment, config, name=one.name, record=record) as desk:
            await first_answer(desk.watching)
            async with handed_over(desk, claimed, stop) as hub:
                telling = asyncio.create_task(tell(desk.watching, hub, stop))
                telling.add_done_callback(lambda _: stop.set())  # a host that refuses us ends it, too
                try:
                    yield Path(claimed.daemon.socket)
                finally:
                    stop.set()
                    await telling


def _daemon(one: Named) -> Daemon | None:
    try:
        found = daemons()
    except PlaceError as error:
        raise Ending(Exit.USAGE, str(error)) from None
    deployment = one.deployment
    return next(
        (it for it in found if it.meant([deployment.target, deployment.unit]) and it.user == deployment.user), None
    )
