"""A host of which one short command runs at a time: servers allow ten channels to a connection, and we take six."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from probes.host import Completed, Forward, Host, Stream
from probes.readings import LinkReading

if TYPE_CHECKING:
    import ssl

    import httpx


class OneAtATime:
    """Keeps the protocol of ``host.Host`` for another host; its ``run`` waits until the one before has ended."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._turn = asyncio.Lock()
        self.greeted = False
        """whether somebody has told of the greeting"""

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def greeting(self) -> str:
        return self._host.greeting

    def links(self) -> AsyncIterator[LinkReading]:
        return self._host.links()

    async def up(self) -> None:
        await self._host.up()

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 20.0) -> Completed:
        async with self._turn:
            return await self._host.run(argv, stdin=stdin, timeout=timeout)

    def stream(self, argv: Sequence[str], *, stdin: bool = False) -> AbstractAsyncContextManager[Stream]:
        return self._host.stream(argv, stdin=stdin)

    def http(
        self, host: str, port: int, *, socket: str = "", tls: ssl.SSLContext | None = None
    ) -> AbstractAsyncContextManager[httpx.AsyncBaseTransport]:
        return self._host.http(host, port, socket=socket, tls=tls)

    def forward(self, host: str, port: int, *, socket: str = "") -> AbstractAsyncContextManager[Forward]:
        return self._host.forward(host, port, socket=socket)

    async def close(self) -> None:
        await self._host.close()
