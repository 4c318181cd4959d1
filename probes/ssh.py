"""A host over SSH: one connection for everything, found dead within 15 seconds, made again for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager

import httpx

from probes.clock import SYSTEM, Clock
from probes.host import Completed, Stream
from probes.readings import LinkReading
from probes.ssh_config import Access


class SshHost:
    """Keeps the protocol of ``host.Host``.

    ``target``: ``host``, ``user@host``, ``host:port``, ``[v6]:port`` or an alias of ssh_config. ``access``: how to get
    in where it is not the operator's own configuration, keys and known_hosts (the demo's server). ``name``: what the
    screen calls it, by default the target. ``clock``: stamps the readings. Raises HostError for an impossible target.
    """

    def __init__(self, target: str, *, access: Access | None = None, name: str = "", clock: Clock = SYSTEM) -> None:
        self._name = name or target
        self._access = access
        self._clock = clock

    @property
    def name(self) -> str:
        return self._name

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
