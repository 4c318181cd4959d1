"""What all probes share: how they say that they cannot go on, and how they read a stream that may fall silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from probes.host import HostError, Stream
from probes.readings import ProbeState


class ProbeFailed(HostError):
    """A probe cannot go on. ``state``: ``failed`` or ``ended`` (tried again soon), ``missing`` (the host does not
    offer it: tried again each minute, since hosts change). ``retry``: seconds until then, where it is another time."""

    def __init__(
        self, reason: str, remedy: str = "", *, state: ProbeState = "failed", retry: float | None = None
    ) -> None:
        super().__init__(reason, remedy)
        self.state = state
        self.retry = retry


PIECE = 256 << 10
"""Bytes given at once: to read them takes a few milliseconds, and others have their turn in between."""


async def chunks(stream: Stream, idle: float) -> AsyncGenerator[bytes | None, None]:
    """What the stream gives, in pieces of bounded size, and None whenever it has given nothing for ``idle`` (real)
    seconds."""
    source = aiter(stream)
    waiting: asyncio.Future[bytes] | None = None
    try:
        while True:
            if waiting is None:
                waiting = asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait({waiting}, timeout=idle)
            if not done:
                yield None
                continue
            ready, waiting = waiting, None
            try:
                chunk = ready.result()
            except StopAsyncIteration:
                return
            for at in range(0, len(chunk), PIECE):
                if at:
                    await asyncio.sleep(0)
                yield chunk[at : at + PIECE]
    finally:
        if waiting is not None:
            waiting.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, HostError):
                await waiting


def words(stderr: bytes, limit: int = 300) -> str:
    """The last line of what a command complained about, for a sentence."""
    lines = [line.strip() for line in stderr.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    return lines[-1][:limit] if lines else ""
