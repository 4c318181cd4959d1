"""A way to a port that can be made worse: cut, refused, frozen, slowed, ended in one direction only."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

PIECE = 1 << 14


class Proxy:
    """Listens on 127.0.0.1:``port`` and carries every connection to ``127.0.0.1:target``.

    What is set on it holds for connections that exist and for those to come.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.accepted = 0
        """connections so far, refused ones not counted"""
        self.delay = 0.0
        """seconds that each piece waits, in each direction"""
        self.rate = 0.0
        """bytes a second that a direction of a connection carries at most; 0: as many as come"""
        self.refusing = False
        """new connections are closed at once, as when nothing listens"""
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Every connection that exists ends at once, with a reset, as when a router forgets it."""
        for writer in list(self._writers):
            if sock := writer.get_extra_info("socket"):
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def half_close(self) -> None:
        """Every connection ends in one direction: we hear that the other side has nothing more to say."""
        for writer in list(self._writers):
            with contextlib.suppress(OSError, RuntimeError):
                writer.write_eof()

    def freeze(self) -> None:
        """Nothing passes any more, in either direction, and nobody is told."""
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        self.accepted += 1
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, there_writer}
        self._writers |= pair
        ways = [
            asyncio.create_task(self._carry(reader, there_writer)),
            asyncio.create_task(self._carry(there_reader, writer)),
        ]
        self._tasks.update(ways)
        try:
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._tasks.difference_update(ways)
            self._writers -= pair
            for one in pair:
                one.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE):
            if self.delay:
                await asyncio.sleep(self.delay)
            if self.rate:
                await asyncio.sleep(len(data) / self.rate)
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
