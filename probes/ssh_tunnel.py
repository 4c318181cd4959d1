"""HTTP to a port of the host: through an SSH channel to a UNIX socket in a folder that is ours alone.

No TCP port is opened on the operator's machine, so that nobody else on it can reach the host's server. For programs
that can ask nothing else there is ``Host.forward``.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import asyncssh
import httpx

from probes.command import fresh
from probes.host import HostError
from probes.http_common import default_trust
from probes.ssh_link import Ends, Link

CHUNK = 64 * 1024
LIMITS = httpx.Limits(max_connections=2, max_keepalive_connections=1, keepalive_expiry=4.0)
"""Each connection is a channel. vLLM's server closes a silent one after five seconds: we do so first."""


Way = Callable[[Link], AbstractAsyncContextManager[Ends]]


class TunnelTransport(httpx.AsyncBaseTransport):
    """Requests over the UNIX socket. What went wrong behind the socket is raised as what it is.

    While a server loads, nobody listens for an hour and is asked each second. Where the last request found nobody, the
    next one knocks first: a channel that is refused costs a quarter of an HTTP request that is.
    """

    def __init__(
        self, path: Path, failures: list[Exception], link: Callable[[], Link], way: Way, tls: ssl.SSLContext | None
    ) -> None:
        self._inner = httpx.AsyncHTTPTransport(uds=str(path), limits=LIMITS, verify=tls or default_trust())
        self._failures = failures
        self._link = link
        self._way = way
        self._nobody = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        link = self._link()  # raises at once where there is no link
        if self._nobody:
            await self._knock(link, request)
        self._failures.clear()
        try:
            return await self._inner.handle_async_request(request)
        except (httpx.NetworkError, httpx.ProtocolError):
            if not self._failures:
                raise
            failure = self._failures[-1]
            if isinstance(failure, HostError):
                raise fresh(failure) from None
            self._nobody = True
            raise _refused(failure, request) from None

    async def _knock(self, link: Link, request: httpx.Request) -> None:
        try:
            async with self._way(link):
                self._nobody = False
        except OSError as failure:
            raise _refused(failure, request) from None

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def tunnel(
    link: Callable[[], Link],
    path: Path,
    way: Way,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[TunnelTransport]:
    """Listen on ``path`` and carry each connection on by ``way``. ``link``: that of the moment."""
    failures: list[Exception] = []
    running: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with way(link()) as (far_reader, far_writer):
                await _pump(reader, writer, far_reader, far_writer)
        except (HostError, OSError) as failure:
            failures.append(failure)
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(carry(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await asyncio.start_unix_server(accept, path)
    transport = TunnelTransport(path, failures, link, way, tls)
    try:
        yield transport
    finally:
        await transport.aclose()
        server.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        _forget(path)


def _refused(failure: Exception, request: httpx.Request) -> httpx.ConnectError:
    return httpx.ConnectError(f"refused: {failure}", request=request)


def _forget(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncssh.SSHReader[bytes],
    far_writer: asyncssh.SSHWriter[bytes],
) -> None:
    """Both ways until either side ends: HTTP does not go on with one way alone."""

    async def forth() -> None:
        while data := await reader.read(CHUNK):
            far_writer.write(data)
            await far_writer.drain()

    async def back() -> None:
        while data := await far_reader.read(CHUNK):
            writer.write(data)
            await writer.drain()

    ways = [asyncio.ensure_future(forth()), asyncio.ensure_future(back())]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
