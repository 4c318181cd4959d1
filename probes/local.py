"""This machine as a host: the same commands, streams and guarantees without a link."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, cast

from probes.clock import SYSTEM, Clock
from probes.command import RunningCommand, complete, new_token
from probes.host import Completed, Forward, HostError, LinkDown, Stream
from probes.quoting import GRACE, shell
from probes.readings import LinkReading

if TYPE_CHECKING:
    import ssl

    import httpx

NAME = "this machine"


class LocalHost:
    """Keeps the protocol of ``host.Host``. ``links()`` says ``up`` once and then waits to be closed.

    Commands run below the same ``sh`` as over SSH, so that they end with us even if we are killed.
    """

    def __init__(self, *, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._closing = asyncio.Event()

    @property
    def name(self) -> str:
        return "local"

    @property
    def greeting(self) -> str:
        return ""

    async def links(self) -> AsyncGenerator[LinkReading, None]:
        yield LinkReading(at=self._clock.now(), state="up")
        await self._closing.wait()

    async def up(self) -> None:
        self._check()

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 20.0) -> Completed:
        async with self._process(argv, len(stdin) or False) as process:
            return await complete(process, stdin, timeout, lambda _: None)

    @asynccontextmanager
    async def stream(self, argv: Sequence[str], *, stdin: bool = False) -> AsyncIterator[Stream]:
        async with self._process(argv, stdin) as process:
            yield process

    @asynccontextmanager
    async def http(
        self, host: str, port: int, *, socket: str = "", tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[httpx.AsyncBaseTransport]:
        """The URL of each request says where it goes; ``host`` and ``port`` are for hosts with a way in between."""
        import httpx

        from probes.http_common import default_trust

        async with httpx.AsyncHTTPTransport(uds=socket or None, verify=tls or default_trust()) as transport:
            yield transport

    @asynccontextmanager
    async def forward(self, host: str, port: int, *, socket: str = "") -> AsyncIterator[Forward]:
        self._check()
        if socket:
            raise HostError(f"Nothing leads from a port of this machine to the socket {socket}.")
        yield _Direct(host, port, self._closing)

    async def close(self) -> None:
        self._closing.set()

    def _check(self) -> None:
        if self._closing.is_set():
            raise LinkDown("The watch of this machine was closed.")

    @asynccontextmanager
    async def _process(self, argv: Sequence[str], stdin: int | bool) -> AsyncIterator[_Process]:
        self._check()
        token = new_token()
        process = _Process(argv, token)
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: process, *shell(argv, token, stdin=stdin), start_new_session=True
            )
        except OSError as error:
            raise HostError(
                f"This machine cannot start another process: {error.strerror}.", "Look at ulimit -u and at its memory."
            ) from None
        try:
            yield process
        finally:
            await process.end()


class _Direct:
    """``host.Forward`` without anything in between."""

    def __init__(self, host: str, port: int, closing: asyncio.Event) -> None:
        self.host = host
        self.port = port
        self._closing = closing

    async def lost(self) -> HostError:
        await self._closing.wait()
        return LinkDown("The watch of this machine was closed.")


class _Process(RunningCommand, asyncio.SubprocessProtocol):
    def __init__(self, argv: Sequence[str], token: str) -> None:
        super().__init__(argv, token, NAME)
        self._transport: asyncio.SubprocessTransport | None = None
        self._open = {1, 2}
        self._exited = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.feed(data)
        else:
            self.feed_error(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.finish_output()

    def process_exited(self) -> None:
        code = self._transport.get_returncode() if self._transport else None
        if code is not None:
            self.set_status(code) if code >= 0 else self.set_signal(-code)
        self._exited.set()

    async def end(self) -> None:
        """End what still runs: its input ends, which its shell watches; what does not obey is killed."""
        if not self._transport:
            return
        stdin = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        if not stdin.is_closing():
            stdin.abort()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE + 1):
                    await self._exited.wait()
        finally:
            if not self._exited.is_set():
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._transport.get_pid(), signal.SIGKILL)
            self._transport.close()

    def _pause(self) -> None:
        self._stdout().pause_reading()

    def _resume(self) -> None:
        self._stdout().resume_reading()

    def _send(self, data: bytes) -> None:
        if self._transport:
            stdin = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
            if stdin.is_closing():
                raise BrokenPipeError
            stdin.write(data)

    def _stdout(self) -> asyncio.ReadTransport:
        assert self._transport is not None
        return cast(asyncio.ReadTransport, self._transport.get_pipe_transport(1))
