"""A small HTTP server for answers that are at hand: GET and HEAD, no bodies taken, everything bounded.

asyncio gives the sockets and h11 the protocol: h11 is what httpx already stands on, parses strictly, and refuses what
is malformed or too long. A framework (starlette and uvicorn, aiohttp) would be larger than the four pages served.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import h11

from tui.connections import Connections

IDLE: Final = 75.0
"""Seconds that a connection may wait for its next request: more than a minute, the usual interval of a scrape."""

SLOW: Final = 10.0
"""Seconds for a request once it has begun, and for its answer to be taken."""

MOST: Final = 100
"""Connections at a time; more are closed at once."""

LONGEST: Final = 16 << 10
"""Bytes of a request's head."""


@dataclass(frozen=True, slots=True)
class Request:
    """``path`` without the query, as it stands on the line; ``accept``: the header, empty for none."""

    method: str
    path: str
    accept: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    status: HTTPStatus
    body: bytes
    type: str = "application/json"


Answers = Callable[[Request], Awaitable[Answer]]


class BadAddress(ValueError):
    """No address to listen on. The text is one sentence."""


@dataclass(frozen=True, slots=True)
class Address:
    """``host``: an IP address."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """``127.0.0.1:9110``, ``[::1]:9110``, ``localhost:9110``. Raises BadAddress."""
    host, colon, number = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not number.isascii() or not number.isdigit() or int(number) > 65535:
        raise BadAddress(f"{text!r} is no address to listen on: write HOST:PORT, such as 127.0.0.1:9110")
    if not bare:
        raise BadAddress(f"{text!r} names no host: write 127.0.0.1:{number}, or 0.0.0.0:{number} for all addresses")
    if ":" in bare and bare == host:
        raise BadAddress(f"{text!r} is no address to listen on: an IPv6 address stands in brackets, [{bare}]:{number}")
    try:
        return Address(str(ipaddress.ip_address(bare)), int(number))
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(bare, int(number), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise BadAddress(f"{bare!r} is no address of this machine, and no name for one") from None
    return Address(str(found[0][4][0]), int(number))


@asynccontextmanager
async def serving(where: Address, answers: Answers) -> AsyncIterator[Address]:
    """Serve until the context ends; gives where it listens. OSError where that is not possible (port taken)."""
    connections = Connections()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(connections) >= MOST:
            writer.transport.abort()
            return
        connections.take(_Connection(reader, writer, answers).serve())

    server = await asyncio.start_server(connected, where.host, where.port, limit=LONGEST)
    try:
        port = server.sockets[0].getsockname()[1]
        yield Address(where.host, port)
    finally:
        await connections.end(server)


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: Answers) -> None:
        self._reader = reader
        self._writer = writer
        self._answers = answers
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST)

    async def serve(self) -> None:
        try:
            while await self._one():
                self._http.start_next_cycle()
        except (OSError, TimeoutError):
            return
        finally:
            with suppress(OSError):
                self._writer.close()

    async def _one(self) -> bool:
        """One request and its answer; whether another may follow on this connection."""
        try:
            request = await self._request()
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                status = HTTPStatus(error.error_status_hint)
                await self._send(Answer(status, b'{"error":"no request that is understood"}'), close=True)
            return False
        if request is None:
            return False
        if request.method not in ("GET", "HEAD"):
            await self._send(Answer(HTTPStatus.METHOD_NOT_ALLOWED, b'{"error":"only GET and HEAD"}'), close=True)
            return False
        await self._send(await self._answers(request), head=request.method == "HEAD")
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _request(self) -> Request | None:
        """None: the other side is done."""
        request: Request | None = None
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                begun = request is not None or bool(self._http.trailing_data[0])
                async with asyncio.timeout(SLOW if begun else IDLE):
                    self._http.receive_data(await self._reader.read(LONGEST))
            elif isinstance(event, h11.Request):
                headers = dict(event.headers)
                path = event.target.decode("ascii", "replace").partition("?")[0]
                request = Request(event.method.decode("ascii"), path, headers.get(b"accept", b"").decode("latin-1"))
                if request.method not in ("GET", "HEAD"):
                    return request
            elif isinstance(event, h11.Data):
                continue  # a body is none of ours; how much of it may come is bounded by the time
            elif isinstance(event, h11.EndOfMessage):
                return request
            else:  # ConnectionClosed, PAUSED
                return None

    async def _send(self, answer: Answer, *, head: bool = False, close: bool = False) -> None:
        headers = [
            ("Content-Type", answer.type),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        if close:
            headers.append(("Connection", "close"))
        if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        pieces = [self._http.send(h11.Response(status_code=answer.status, headers=headers))]
        if not head:
            pieces.append(self._http.send(h11.Data(data=answer.body)))
        pieces.append(self._http.send(h11.EndOfMessage()))
        self._writer.write(b"".join(piece for piece in pieces if piece))
        async with asyncio.timeout(SLOW):
            await self._writer.drain()
