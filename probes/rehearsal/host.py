"""The rehearsal's SSH server: keys of its own, a UNIX socket in a folder of its own, no network."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import asyncssh

from probes.clock import StoryClock
from probes.own_folder import OwnFolder
from probes.quoting import opening, unwrap
from probes.rehearsal.commands import play
from probes.rehearsal.server import serve
from probes.rehearsal.stage import Stage
from probes.rehearsal.story import Story
from probes.ssh import SshHost
from probes.ssh_config import Access

LEAD = 3.0
"""Seconds of the story before ``systemctl start``: whoever watches is there when it begins."""

PATIENCE = 3.0
"""Real seconds after which the story begins though nobody reads the journal yet."""


class Rehearsal:
    """Plays ``story`` at ``speed`` seconds a second until the server is ready, then in real time.

    ``clock`` is the story's; its time of ready is the real time of that moment, so that a forecast comes true on the
    operator's own clock. The story waits until somebody reads the journal. Used as a context: the server is there
    within it, and ``host`` is the way to it.
    """

    def __init__(self, story: Story, speed: float, *, now: float) -> None:
        self.story = story
        real = (story.opened + LEAD) / speed
        begin = now + real - story.opened
        self.clock = StoryClock(begin - LEAD, speed, until=begin + story.opened, then=min(speed, 1.0), paused=True)
        self._stage = Stage(story, begin, self.clock)
        self._folder: OwnFolder | None = None
        self._server: asyncssh.SSHAcceptor | None = None
        self._impatience: asyncio.TimerHandle | None = None
        self._access = Access()

    @property
    def host(self) -> SshHost:
        """A new way to the server."""
        return SshHost(self.story.host, access=self._access, name=self.story.host, clock=self.clock)

    async def __aenter__(self) -> Self:
        self._folder = OwnFolder(tempfile.gettempdir())
        path = self._folder.path / "ssh"
        server, client = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        self._access = Access(
            config=(),
            known_hosts=b"* " + server.export_public_key(),
            keys=(client,),
            socket=path,
        )
        self._server = await asyncssh.listen(
            sock=_listening(path),
            server_factory=lambda: _Server(self._stage),
            server_host_keys=[server],
            authorized_client_keys=asyncssh.import_authorized_keys(client.export_public_key().decode()),
            process_factory=self._run,
            encoding=None,
            agent_forwarding=False,
            server_version="OpenSSH_rehearsal",
        )
        self._impatience = asyncio.get_running_loop().call_later(PATIENCE, self.clock.resume)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        if self._folder is not None:
            self._folder.remove()

    async def _run(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """One command line, as sshd and a shell would run it; ended when its channel or its input is closed."""
        try:
            wanted = unwrap(process.command or "")
        except ValueError:
            process.stderr.write(b"only the commands of firstlight are played in the demo\n")
            process.exit(127)
            return
        process.stdout.write(opening(wanted.token))
        process.stderr.write(opening(wanted.token))
        given = _input(process)
        playing = asyncio.ensure_future(
            play(
                self._stage,
                wanted.argv,
                given if wanted.stdin is not False else _nothing(),
                _writer(process.stdout),
                _writer(process.stderr),
            )
        )
        waiting = {playing, asyncio.ensure_future(process.wait_closed())}
        if wanted.stdin is False:
            waiting.add(asyncio.ensure_future(_end_of(given)))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        error = None if playing.cancelled() else playing.exception()
        if error is not None and not isinstance(error, OSError | asyncssh.Error):
            raise error
        process.exit(143 if error is not None or playing.cancelled() else playing.result())


class _Server(asyncssh.SSHServer):
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Callable[[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]], Awaitable[None]]:
        if dest_port != self._stage.story.port or not self._stage.open:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "Connection refused")
        return lambda reader, writer: serve(self._stage, reader, writer)


def _listening(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.setblocking(False)
    listening.bind(str(path))
    return listening


async def _input(process: asyncssh.SSHServerProcess[bytes]) -> AsyncIterator[bytes]:
    """What comes on a command's standard input, until its end or a signal."""
    try:
        while data := await process.stdin.read(65536):
            yield data
    except (asyncssh.SignalReceived, asyncssh.BreakReceived, OSError):
        return


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def _end_of(given: AsyncIterator[bytes]) -> None:
    async for _ in given:
        pass


def _writer(out: asyncssh.SSHWriter[bytes]) -> Callable[[bytes], Awaitable[None]]:
    async def write(data: bytes) -> None:
        out.write(data)
        await out.drain()

    return write
