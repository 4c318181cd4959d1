"""The rehearsal's model server: /health and /metrics over one connection, closed until the load is ready."""

from __future__ import annotations

import asyncio
from typing import Protocol

from probes.rehearsal.stage import Stage

_LONGEST = 64 << 10


class Reader(Protocol):
    async def readuntil(self, separator: bytes) -> bytes: ...


class Writer(Protocol):
    def write(self, data: bytes) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


async def serve(stage: Stage, reader: Reader, writer: Writer) -> None:
    """Answer HTTP/1.1 requests without bodies until the other side goes."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, _, rest = head.decode("latin-1").partition(" ")
            path = rest.partition(" ")[0].partition("?")[0]
            status, kind, body = _page(stage, path) if method == "GET" else ("405 Method Not Allowed", "", b"")
            lines = [f"HTTP/1.1 {status}", "server: uvicorn", f"content-length: {len(body)}"]
            if kind:
                lines.append(f"content-type: {kind}")
            writer.write("\r\n".join([*lines, "", ""]).encode() + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
        return
    finally:
        writer.close()


def _page(stage: Stage, path: str) -> tuple[str, str, bytes]:
    if path == "/health":
        return "200 OK", "", b""
    if path == "/metrics":
        return "200 OK", "text/plain; version=0.0.4; charset=utf-8", stage.story.page_at(stage.at()).encode()
    return "404 Not Found", "application/json", b'{"detail":"Not Found"}'
