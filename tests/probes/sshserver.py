"""A real SSH server on loopback that stands in for a host, and a way to it that can fall silent or break.

Commands are run by a real shell on this machine, in a session of their own and with pipes that are closed with the
channel, as sshd does. Connections to ports are made for real.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from probes.readings import LinkReading
from probes.ssh import SshHost
from probes.ssh_config import Access

USER = "ops"


def new_key(kind: str = "ssh-ed25519") -> asyncssh.SSHKey:
    return asyncssh.generate_private_key(kind)


@dataclass
class SshServer:
    """``shell``: the login shell, run as ``SHELL -c COMMAND``. ``noise``: printed before the shell looks at its
    command, as a start-up file does. ``sessions``: MaxSessions. ``answer``: what a session does instead of running its
    command. ``most``: how many sessions were open at once. ``new_session``: each command is its own process group."""

    shell: Sequence[str] = ("/bin/sh",)
    noise: bytes = b""
    noise_on_stderr: bytes = b""
    sessions: int = 10
    forwarding: bool = True
    user: str = USER
    host_key: asyncssh.SSHKey = field(default_factory=new_key)
    client_key: asyncssh.SSHKey = field(default_factory=new_key)
    methods: Sequence[str] = ("publickey",)
    environment: dict[str, str] = field(default_factory=dict)
    new_session: bool = True
    answer: Callable[[asyncssh.SSHServerProcess[bytes]], None] | None = None

    port: int = 0
    connections: list[asyncssh.SSHServerConnection] = field(default_factory=list)
    running: list[asyncio.subprocess.Process] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    most: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    acceptor: asyncssh.SSHAcceptor | None = None

    async def start(self, path: Path | None = None) -> None:
        """Listen: on the same port as before, if there was one; or on a UNIX socket."""
        keys = asyncssh.import_authorized_keys(self.client_key.export_public_key().decode())
        options: dict[str, object] = {
            "server_factory": lambda: _Server(self),
            "server_host_keys": [self.host_key],
            "authorized_client_keys": keys,
            "login_timeout": 10,
        }
        if path:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            self.acceptor = await asyncssh.listen(sock=listener, **options)  # type: ignore[arg-type]
        else:
            self.acceptor = await asyncssh.listen("127.0.0.1", self.port, reuse_address=True, **options)  # type: ignore[arg-type]
            self.port = self.acceptor.get_port()

    async def stop(self) -> None:
        """Go away with all connections, as a host that is switched off."""
        if self.acceptor:
            self.acceptor.close()
            await self.acceptor.wait_closed()
            self.acceptor = None
        self.drop()
        for process in self.running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def drop(self) -> None:
        """Break every connection without a word."""
        for connection in self.connections:
            connection.abort()
        self.connections.clear()

    def known_hosts(self, port: int = 0) -> bytes:
        """The line that makes an operator trust this server, at its own port or at that of a way to it."""
        return f"[127.0.0.1]:{port or self.port} {self.host_key.export_public_key().decode()}".encode()

    def access(self, port: int = 0, *, known_hosts: bytes | None = None) -> Access:
        trusted = self.known_hosts(port) if known_hosts is None else known_hosts
        return Access(config=(), known_hosts=trusted, keys=(self.client_key,))

    def host(self, port: int = 0, **access: object) -> SshHost:
        return SshHost(f"{self.user}@127.0.0.1:{port or self.port}", access=self.access(port, **access))  # type: ignore[arg-type]

    # --- sessions

    def serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        task = asyncio.ensure_future(self._session(process))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _session(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        owner = process.channel.get_connection().get_owner()
        try:
            await self._serve(process)
        finally:
            await process.channel.wait_closed()
            owner.open -= 1

    async def _serve(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        command = process.command or ""
        self.commands.append(command)
        if self.answer:
            self.answer(process)
            return
        process.stdout.write(self.noise)
        process.stderr.write(self.noise_on_stderr)
        child = await asyncio.create_subprocess_exec(
            *self.shell,
            "-c",
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=self.new_session,
            env={**os.environ, **self.environment},
        )
        self.running.append(child)
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        feeding = asyncio.ensure_future(_feed(process, child.stdin))
        output = [
            asyncio.ensure_future(_carry(child.stdout, process.stdout)),
            asyncio.ensure_future(_carry(child.stderr, process.stderr)),
        ]
        closed = asyncio.ensure_future(process.channel.wait_closed())
        done = asyncio.ensure_future(_all(child.wait(), *output))
        try:
            await asyncio.wait((closed, done), return_when=asyncio.FIRST_COMPLETED)
            if not closed.done():
                code = child.returncode or 0
                if code < 0:
                    process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
                else:
                    process.exit(code)
        finally:
            child.stdin.close()
            for task in (feeding, done, closed, *output):
                task.cancel()
            child._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
            child._transport.get_pipe_transport(2).close()  # type: ignore[attr-defined]


async def _feed(process: asyncssh.SSHServerProcess[bytes], stdin: asyncio.StreamWriter) -> None:
    with suppress(asyncssh.Error, ConnectionError):
        while data := await process.stdin.read(65536):
            stdin.write(data)
            await stdin.drain()
    stdin.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncssh.SSHWriter[bytes]) -> None:
    with suppress(asyncssh.Error, ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


async def _all(*awaitables: object) -> None:
    await asyncio.gather(*awaitables)  # type: ignore[call-overload]


class _Server(asyncssh.SSHServer):
    def __init__(self, server: SshServer) -> None:
        self._server = server
        self._connection: asyncssh.SSHServerConnection | None = None
        self.open = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._server.connections.append(conn)
        self._connection = conn

    def public_key_auth_supported(self) -> bool:
        return "publickey" in self._server.methods

    def password_auth_supported(self) -> bool:
        return "password" in self._server.methods

    def kbdint_auth_supported(self) -> bool:
        return "keyboard-interactive" in self._server.methods

    def session_requested(self) -> tuple[asyncssh.SSHServerChannel[bytes], asyncssh.SSHServerProcess[bytes]]:  # type: ignore[override]
        if self.open >= self._server.sessions:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed")
        self.open += 1
        self._server.most = max(self._server.most, self.open)
        assert self._connection is not None
        process = asyncssh.SSHServerProcess(self._server.serve, None, 3, False)
        return self._connection.create_server_channel(encoding=None), process

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        if not self._server.forwarding:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "open failed")
        return True

    def unix_connection_requested(self, dest_path: str) -> bool:
        return self.connection_requested("", 0, "", 0)


class Way:
    """A TCP proxy between: ``freeze`` lets nothing through either way, ``cut`` resets, as a network does."""

    def __init__(self, port: int) -> None:
        self._far = port
        self.port = 0
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.accepted = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server:
            self._server.close()
            self._server = None
        self.cut()

    def freeze(self) -> None:
        self._open.clear()

    def thaw(self) -> None:
        self._open.set()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._far)
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer), return_exceptions=True)
        writer.close()
        far_writer.close()
        self._writers -= {writer, far_writer}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            data = await reader.read(65536)
            await self._open.wait()
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()


class Links:
    """A host's ``links()`` in the background, every reading kept."""

    def __init__(self, host: SshHost) -> None:
        self.host = host
        self.readings: list[LinkReading] = []
        self._news = asyncio.Condition()
        self._task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        try:
            async for reading in self.host.links():
                async with self._news:
                    self.readings.append(reading)
                    self._news.notify_all()
        finally:
            async with self._news:
                self._news.notify_all()

    async def reach(self, state: str, times: int = 1, limit: float = 20.0) -> LinkReading:
        """The ``times``-th reading of this state, once it is there."""

        def there() -> bool:
            return len(self.of(state)) >= times or self._task.done()

        try:
            async with asyncio.timeout(limit), self._news:
                await self._news.wait_for(there)
            return self.of(state)[times - 1]
        except (TimeoutError, IndexError):
            if self._task.done():
                self._task.result()
            raise AssertionError(f"no {state} ({times}) among {self.readings}") from None

    def of(self, state: str) -> list[LinkReading]:
        return [reading for reading in self.readings if reading.state == state]

    async def ended(self, limit: float = 10.0) -> None:
        await asyncio.wait_for(asyncio.shield(self._task), limit)

    async def stop(self) -> None:
        await self.host.close()
        try:
            await asyncio.wait_for(self._task, 10)
        finally:
            self._task.cancel()


@asynccontextmanager
async def serving(server: SshServer | None = None) -> AsyncIterator[SshServer]:
    server = server or SshServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def linked(host: SshHost) -> AsyncIterator[Links]:
    """The host with its link running; the caller waits for what it needs."""
    links = Links(host)
    try:
        yield links
    finally:
        await links.stop()


@asynccontextmanager
async def connected(server: SshServer, port: int = 0) -> AsyncIterator[SshHost]:
    host = server.host(port)
    async with linked(host) as links:
        await links.reach("up")
        yield host


async def until(condition: Callable[[], object], limit: float = 10.0) -> None:
    """Return once something holds that tells nobody when it begins to (another process, a server's own state)."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def until_gone(mark: str, limit: float = 10.0) -> None:
    """Return once no process has ``mark`` in its arguments."""
    async with asyncio.timeout(limit):
        while found := processes(mark):
            for pid in found:
                await _end_of(pid)


async def _end_of(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)


def processes(mark: str) -> list[int]:
    """Living processes that have ``mark`` in their arguments."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if mark.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return found


_marks = itertools.count(1)


def sleeper() -> tuple[list[str], str]:
    """A command that sleeps for ever, and what marks it among all processes."""
    mark = f"86400.{os.getpid()}{next(_marks)}"
    return ["sleep", mark], mark
