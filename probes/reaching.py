"""A host for a short while: reached, asked, left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

from probes.host import Host, HostError, LinkDown, LinkRefused

PATIENCE = 25.0
"""Seconds; a connection attempt has 20 of its own."""


@asynccontextmanager
async def reached(host: Host, limit: float = PATIENCE) -> AsyncIterator[Host]:
    """The host, up; closed when the context ends. Raises HostError with the reason at the first failure: whoever asks
    once wants to know at once, and is not served by trying for ever."""
    known: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def keep() -> None:
        links = host.links()
        try:
            async for link in links:
                if known.done():
                    continue
                if link.state == "up":
                    known.set_result(None)
                elif link.state in ("down", "refused"):
                    kind = LinkRefused if link.state == "refused" else LinkDown
                    known.set_exception(kind(link.reason, link.remedy))
        finally:
            if isinstance(links, AsyncGenerator):
                await links.aclose()

    keeping = asyncio.create_task(keep())
    try:
        try:
            async with asyncio.timeout(limit):
                await known
        except TimeoutError:
            raise LinkDown(
                f"{host.name} did not answer within {limit:g} s", "Is it up, and is its name right?"
            ) from None
        yield host
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError, HostError):
            await keeping
        await host.close()
