"""This machine as a host: the same commands, streams and guarantees without a link."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

import httpx

from probes.clock import SYSTEM, Clock
from probes.host import Completed, Stream
from probes.readings import LinkReading


class LocalHost:
    """Keeps the protocol of ``host.Host``. ``links()`` says ``up`` once and then waits to be closed."""

    def __init__(self, *, clock: Clock = SYSTEM) -> None:
        self._clock = clock

    @property
    def name(self) -> str:
        return "local"

    @property
    def greeting(self) -> str:
        return ""

    def links(self) -> AsyncIterator[LinkReading]:
        raise NotImplementedError

    async def up(self) -> None:
        raise NotImplementedError

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 20.0) -> Completed:
        raise NotImplementedError

    def stream(self, argv: Sequence[str], *, stdin: bool = False) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    def http(self, host: str, port: int) -> AbstractAsyncContextManager[httpx.AsyncBaseTransport]:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError
