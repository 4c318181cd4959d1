"""Rehearsal hosts for ``bench.status``: N of them in one process, told to whoever started it, until its input ends."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack

import msgspec
from msgspec import Struct

from probes.rehearsal.host import Rehearsal
from probes.rehearsal.story import load_story


class Way(Struct, frozen=True):
    """How one of them is reached: its socket, its known_hosts line, the key that it lets in."""

    socket: str
    known_hosts: bytes
    key: bytes


async def _run(count: int) -> None:
    story = load_story()
    async with AsyncExitStack() as stack:
        ways = []
        for _ in range(count):
            rehearsal = await stack.enter_async_context(Rehearsal(story, 1.0, now=time.time()))
            access = rehearsal._access
            (key,) = access.keys
            ways.append(Way(str(access.socket), access.known_hosts, key.export_private_key()))
        sys.stdout.buffer.write(msgspec.json.encode(ways) + b"\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1])))
