"""Health and metrics of one server, over one connection: often while it loads, rarely in words once it serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from probes.clock import SYSTEM, Clock, sleep_unless
from probes.endpoint import BadEndpoint, Endpoint
from probes.health import ask_health, client
from probes.host import Host
from probes.metrics import PageParser, ask_metrics
from probes.probe import ProbeFailed
from probes.readings import HealthReading, Reading

if TYPE_CHECKING:
    import httpx

LOADING = 1.0
IDLE = 5.0
METRICS = 2.0
HEALTH_EVERY = 5
"""metrics pages to one health check: every request is a line in the operator's own log."""


class ServingProbe:
    """``idle``: nothing is starting, so nothing is expected soon (set by the supervisor from the unit's state)."""

    def __init__(self, host: Host, endpoint: Endpoint, *, clock: Clock = SYSTEM, api_key: str = "") -> None:
        self.endpoint = endpoint
        self.idle = False
        self._host = host
        self._clock = clock
        self._api_key = api_key
        self._parser = PageParser()
        self._wanted = asyncio.Event()

    def poke(self) -> None:
        """Ask /health now."""
        self._wanted.set()

    async def batches(self) -> AsyncIterator[list[Reading]]:
        """While /health is not 200: it alone, each second. Then /metrics each two seconds and /health each ten, until
        one of them is not answered. Raises ProbeFailed for a server that cannot be asked, and what the host raises."""
        to = self.endpoint
        try:
            tls = to.trust()
        except BadEndpoint as error:
            raise ProbeFailed(
                f"The server is not asked. {error}",
                "Correct the deployment's tls_ca: a file in PEM form.",
                state="missing",
            ) from None
        async with (
            self._host.http(to.host, to.port, socket=to.socket, tls=tls) as transport,
            client(transport, to, self._api_key) as asks,
        ):
            while True:
                health = await self._health(asks)
                yield [health]
                if health.status == 200:
                    turn = 0
                    while turn < HEALTH_EVERY and not self._wanted.is_set():
                        metrics = await ask_metrics(asks, self._parser, self._clock)
                        yield [metrics]
                        if metrics.status is None:
                            break
                        await sleep_unless(self._clock, METRICS, self._wanted)
                        turn += 1
                else:
                    await sleep_unless(self._clock, IDLE if self.idle else LOADING, self._wanted)

    async def _health(self, asks: httpx.AsyncClient) -> HealthReading:
        self._wanted.clear()
        return await ask_health(asks, self.endpoint, self._clock)
