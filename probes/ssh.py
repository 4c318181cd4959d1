"""A host over SSH: one connection for everything, found dead within 15 seconds, made again for ever."""

from __future__ import annotations

import asyncio
import random
import tempfile
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from probes.clock import SYSTEM, Clock
from probes.command import complete, fresh
from probes.host import Completed, Forward, HostError, LinkDown, LinkRefused, Stream
from probes.own_folder import OwnFolder
from probes.readings import LinkReading, LinkState
from probes.ssh_config import Access, parse_target, route
from probes.ssh_errors import Failure
from probes.ssh_link import ConnectFailed, Ends, Link, connect

if TYPE_CHECKING:
    import ssl

    import httpx

PING_SECONDS = 5.0
LONGEST_DELAY = 30.0
STEADY_SECONDS = 30.0
"""A link that lasted so long begins again with short delays when it is lost."""
LOGIN_TRIES = 4
"""Refused logins in a row, after a link has been up, before we give up: a host that boots lets nobody in at first,
and more tries would have us barred (fail2ban: 5)."""


class SshHost:
    """Keeps the protocol of ``host.Host``.

    ``target``: ``host``, ``user@host``, ``host:port``, ``[v6]:port`` or an alias of ssh_config. ``access``: how to get
    in where it is not the operator's own configuration, keys and known_hosts (the demo's server). ``name``: what the
    screen calls it, by default the target. ``clock``: stamps the readings. Raises LinkRefused for an impossible target.
    """

    def __init__(self, target: str, *, access: Access | None = None, name: str = "", clock: Clock = SYSTEM) -> None:
        self._target = parse_target(target)
        self._name = name or target
        self._access = access or Access()
        self._clock = clock
        self._link: Link | None = None
        self._why: HostError = LinkDown(f"{self._name} is not connected yet.")
        self._settled = asyncio.Event()
        self._closing = asyncio.Event()
        self._never_up = True
        self._greeting = ""
        self._folder: Path | None = None
        self._sockets = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def greeting(self) -> str:
        return self._greeting

    # --- the link

    async def links(self) -> AsyncGenerator[LinkReading, None]:
        delays = _delays()
        refusals = 0
        try:
            while not self._closing.is_set():
                yield self._reading("connecting")
                try:
                    hops = await asyncio.to_thread(route, self._target, self._access)
                    link = await self._unless_closing(connect(self._name, hops, self._settled.clear))
                except LinkRefused as refused:
                    failure = Failure(refused.reason, refused.remedy, "refused")
                except ConnectFailed as failed:
                    failure = failed.failure
                else:
                    refusals = 0
                    begun = asyncio.get_running_loop().time()
                    async with aclosing(self._watch(link)) as readings:
                        async for reading in readings:
                            yield reading
                    if asyncio.get_running_loop().time() - begun > STEADY_SECONDS:
                        delays = _delays()
                    failure = link.failure or self._closed()
                if self._closing.is_set():
                    return
                refusals += failure.finality == "login"
                slip = failure.finality in ("login", "first") and self._never_up
                if failure.finality == "refused" or slip or refusals >= LOGIN_TRIES:
                    self._why = LinkRefused(failure.reason, failure.remedy)
                    self._settled.set()
                    yield self._reading("refused", failure)
                    return
                delay = next(delays) if failure.finality != "login" else random.uniform(0.5, 1.0) * LONGEST_DELAY
                self._why = LinkDown(failure.reason, failure.remedy)
                yield self._reading("down", failure, retry_in=delay)
                await self._pause(delay)
        finally:
            self._closing.set()
            self._settled.set()

    async def _watch(self, link: Link) -> AsyncGenerator[LinkReading, None]:
        """One link from its first round trip to its loss."""
        self._link, self._never_up = link, False
        self._settled.set()
        try:
            while not link.lost:
                try:
                    rtt = await link.ping()
                except LinkDown:
                    break
                yield self._reading("up", rtt_ms=rtt)
                await link.wait_lost(PING_SECONDS)
        finally:
            self._link = None
            self._why = link.lost or LinkDown(self._closed().reason)
            self._settled.clear()
            await link.close()

    async def up(self) -> None:
        while not self._link or self._link.lost:
            if isinstance(self._why, LinkRefused) or self._closing.is_set():
                raise fresh(self._why)
            await self._settled.wait()

    async def close(self) -> None:
        self._closing.set()
        self._settled.set()
        if not isinstance(self._why, LinkRefused):
            self._why = LinkDown(self._closed().reason)
        if self._link:
            await self._link.close()
        if self._folder:
            self._forget()
            self._folder = None

    # --- what it carries

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 20.0) -> Completed:
        async with self._current().command(argv, len(stdin) or False, patience=timeout) as command:
            return await complete(command, stdin, timeout, self._greet)

    @asynccontextmanager
    async def stream(self, argv: Sequence[str], *, stdin: bool = False) -> AsyncIterator[Stream]:
        async with self._current().command(argv, stdin) as command:
            try:
                yield command
            finally:
                self._greet(command.greeting)

    @asynccontextmanager
    async def http(
        self, host: str, port: int, *, socket: str = "", tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[httpx.AsyncBaseTransport]:
        from probes.ssh_tunnel import tunnel  # brings httpx, which a connection has no need of

        def way(link: Link) -> AbstractAsyncContextManager[Ends]:
            return link.unix(socket) if socket else link.tcp(host, port)

        async with tunnel(self._current, self._socket(), way, tls) as transport:
            yield transport

    @asynccontextmanager
    async def forward(self, host: str, port: int, *, socket: str = "") -> AsyncIterator[Forward]:
        async with self._current().forward(host, port, socket) as way:
            yield way

    # --- helpers

    def _current(self) -> Link:
        if not self._link:
            raise fresh(self._why)
        if self._link.lost:
            raise self._link.lost
        return self._link

    def _closed(self) -> Failure:
        return Failure(f"The connection to {self._name} was closed.", "")

    def _greet(self, greeting: str) -> None:
        self._greeting = self._greeting or greeting

    def _socket(self) -> Path:
        """A name for a UNIX socket in a folder that only we may enter; it goes with us."""
        if not self._folder:
            usual = tempfile.gettempdir()
            # the name of a socket has 104 bytes at most (108 on Linux)
            own = OwnFolder(usual if len(usual) < 70 else "/tmp")
            self._folder, self._forget = own.path, weakref.finalize(self, own.remove)
        self._sockets += 1
        return self._folder / f"http-{self._sockets}"

    def _reading(
        self,
        state: LinkState,
        failure: Failure | None = None,
        *,
        rtt_ms: float | None = None,
        retry_in: float | None = None,
    ) -> LinkReading:
        return LinkReading(
            at=self._clock.now(),
            state=state,
            reason=failure.reason if failure else "",
            remedy=failure.remedy if failure else "",
            rtt_ms=rtt_ms,
            retry_in=retry_in,
            never_up=self._never_up,
        )

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()

    async def _unless_closing(self, work: Coroutine[None, None, Link]) -> Link:
        """``work``, broken off when we are closed meanwhile."""
        task, closing = asyncio.ensure_future(work), asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait((task, closing), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ConnectFailed(self._closed())
            return task.result()
        finally:
            closing.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))


def _delays() -> Iterator[float]:
    """Seconds between attempts: doubling, and never the same for two who lost the same host at once."""
    longest = 1.0
    while True:
        yield random.uniform(longest / 2, longest)
        longest = min(longest * 2, LONGEST_DELAY)
