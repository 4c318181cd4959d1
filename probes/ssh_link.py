"""One SSH connection from login to loss: its channels, its round trip time, and the reason when it is gone."""

from __future__ import annotations

import asyncio
import logging
import signal as signals
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeVar, cast

import asyncssh
from asyncssh.channel import SSHChannel

from probes.command import RunningCommand, new_token, shown
from probes.host import CommandTimeout, HostError, LinkDown, TooManyChannels
from probes.quoting import command_line
from probes.ssh_config import Hop
from probes.ssh_errors import MUTE, Attempt, Failure, explain
from probes.ssh_guard import guard
from probes.ssh_identities import Login

# asyncssh logs; without a handler of the program's own, Python would print its warnings across the screen
logging.getLogger("asyncssh").addHandler(logging.NullHandler())

CHANNELS = 6
"""at once on one connection; OpenSSH allows 10 (MaxSessions)."""
OPEN_SECONDS = 15.0
ANSWER_SECONDS = 60.0
"""A server that sends something, but neither answers nor gives any output for so long, is of no use; one that is
silent is given up long before. An answer may wait behind megabytes of output on a slow link."""
BEGIN_SECONDS = 60.0
"""for a login shell to come to our command; those that cannot wait so long have limits of their own."""
CLOSE_SECONDS = 2.0
LOOPBACK = "127.0.0.1"

Ends = tuple[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]]
"""What comes from the other side of a connection, and what goes there."""

T = TypeVar("T")
U = TypeVar("U")


class ConnectFailed(Exception):
    """A connection was not made. ``failure``: the sentence, the remedy, and whether trying again can help."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Client(asyncssh.SSHClient):
    """What one connection tells us while it is made, and when it is lost. It never says yes to a host key."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.offered: asyncssh.SSHKey | None = None
        self.authority: asyncssh.SSHKey | None = None
        self.methods: list[str] = []
        self.lost = False
        self.on_loss: Callable[[Exception | None], None] | None = None
        self._asked = False
        self.guard = guard()

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.guard.watch(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self.on_loss:
            self.on_loss(exc)

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.offered = key
        return False

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.authority = key
        return False

    async def public_key_auth_requested(self) -> list[asyncssh.SSHKeyPair] | None:
        if self._asked:
            return None
        self._asked = True
        return await self.login.pairs() or None

    def password_auth_requested(self) -> None:
        self.methods.append("password")

    def kbdint_auth_requested(self) -> None:
        self.methods.append("keyboard-interactive")


class SshCommand(RunningCommand, asyncssh.SSHClientSession[bytes]):
    """A command on a session channel. ``ended``: why its channel was closed without an exit status."""

    def __init__(
        self, argv: Sequence[str], token: str, where: str, ended: Callable[[Exception | None], HostError]
    ) -> None:
        super().__init__(argv, token, where)
        self._why = ended
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._beginning: asyncio.TimerHandle | None = None

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._channel = chan
        self._beginning = asyncio.get_running_loop().call_later(BEGIN_SECONDS, self._not_begun)

    def _not_begun(self) -> None:
        if not self.begun:
            self.fail(
                CommandTimeout(
                    f"The login shell on {self.where} did not come to `{shown(self.argv)}` within {BEGIN_SECONDS:g} s.",
                    "The host is overloaded, or a start-up file of the shell waits for something.",
                )
            )

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            self.feed_error(data)
        else:
            self.feed(data)

    def eof_received(self) -> bool:
        self.finish_output()
        return True  # our side stays open: its end would end the command

    def exit_status_received(self, status: int) -> None:
        self.set_status(status)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self.set_signal(getattr(signals, f"SIG{signal}", signals.SIGHUP))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._beginning:
            self._beginning.cancel()
        if exc is None and self.has_status:
            self.finish_output()
        self.fail(self._why(exc))

    def _pause(self) -> None:
        if self._channel:
            self._channel.pause_reading()

    def _resume(self) -> None:
        if self._channel:
            self._channel.resume_reading()

    def _send(self, data: bytes) -> None:
        if self._channel:
            self._channel.write(data)


class Link:
    """A connection that is up, until ``lost`` says why it is not. ``close()`` ends it and the hops that carry it.

    ``on_loss`` is called once, at the loss.
    """

    def __init__(
        self,
        where: str,
        hops: Sequence[tuple[Hop, Client, asyncssh.SSHClientConnection]],
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        self.where = where
        self.failure: Failure | None = None
        self._hop, client, self._connection = hops[-1]
        self._connections = [connection for _, _, connection in reversed(hops)]
        self._slots = asyncio.Semaphore(CHANNELS)
        self._gone = asyncio.Event()
        self._on_loss = on_loss
        self._guard = client.guard
        client.on_loss = lambda error: self._lose(self._explain(error))
        if client.lost:
            self._lose(self._explain(None))

    # --- loss

    def _lose(self, failure: Failure) -> None:
        if not self._gone.is_set():
            self.failure = failure
            self._gone.set()
            self._slots.release()  # wakes one that waits for a channel, which wakes the next
            self._on_loss()

    def _explain(self, error: Exception | None) -> Failure:
        return explain(error or asyncssh.ConnectionLost("closed"), Attempt(self._hop, connected=True))

    def _ended(self, error: Exception | None) -> HostError:
        """Why a channel was closed: with its connection, or alone."""
        if error or self.failure or self._connection.is_closed():
            failure = self.failure or self._explain(error)
            return LinkDown(failure.reason, failure.remedy)
        return HostError(f"{self.where} ended the command without saying how.", "Run it again.")

    @property
    def lost(self) -> LinkDown | None:
        """Why there is no link any more; None while there is."""
        return LinkDown(self.failure.reason, self.failure.remedy) if self.failure else None

    async def wait_lost(self, limit: float) -> bool:
        """Wait for the loss, at most ``limit`` seconds; True: it is lost."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._gone.wait()
        return self._gone.is_set()

    async def close(self) -> None:
        """End the connection and those it went through, and wait a little for them. May be called twice."""
        self._lose(Failure(f"The connection to {self.where} was closed.", ""))
        for connection in self._connections:
            connection.close()
        for connection in self._connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await connection.wait_closed()

    # --- use

    async def ping(self) -> float:
        """Round trip time through the server itself, in milliseconds; at least so many, where the answer still waits
        behind other output. LinkDown if the link is lost meanwhile."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                # asyncssh has no public way to send a request and await its reply; ssh(1) sends this as its keepalive
                await self._connection._make_global_request(b"keepalive@openssh.com")
        except TimeoutError:
            if self._guard.heard < begun:
                self._lose(self._explain(asyncssh.ConnectionLost(MUTE)))
        if self.lost:
            raise self.lost
        return (loop.time() - begun) * 1000

    @asynccontextmanager
    async def command(
        self, argv: Sequence[str], stdin: int | bool = False, *, patience: float | None = None
    ) -> AsyncIterator[SshCommand]:
        """A command on a channel of its own, ended with the context. ``stdin`` as in ``quoting.command_line``.

        Waits while all channels are in use: at most ``patience`` seconds, then TooManyChannels.
        """
        token = new_token()
        line = command_line(argv, token, stdin=stdin)
        command = SshCommand(argv, token, self.where, self._ended)
        async with self._slot(patience):
            channel, _ = await self._open(
                self._connection.create_session(lambda: command, line, encoding=None), f"`{shown(argv)}`"
            )
            try:
                yield command
            finally:
                await _close(channel)

    def tcp(self, address: str, port: int) -> AbstractAsyncContextManager[Ends]:
        """A connection from the host to ``address:port``. ConnectionRefusedError where nothing listens there."""
        remedy = "Set AllowTcpForwarding yes (and PermitOpen, where it is set) in its sshd_config."
        return self._way(self._connection.open_connection, (address, port), f"{address}:{port}", remedy)

    def unix(self, path: str) -> AbstractAsyncContextManager[Ends]:
        """A connection from the host to its UNIX socket ``path``. ConnectionRefusedError where nothing listens there,
        or where this login may not write to it."""
        remedy = "Set AllowStreamLocalForwarding yes in its sshd_config."
        return self._way(self._connection.open_unix_connection, (path,), path, remedy)

    @asynccontextmanager
    async def forward(self, address: str, port: int, path: str = "") -> AsyncIterator[Forwarded]:
        """As ``Host.forward``. Connections are no sessions: MaxSessions does not count them."""
        try:
            if path:
                listener = await self._connection.forward_local_port_to_path(LOOPBACK, 0, path)
            else:
                listener = await self._connection.forward_local_port(LOOPBACK, 0, address, port)
        except OSError as error:
            raise HostError(f"This machine opens no port on its loopback: {error.strerror}") from None
        try:
            yield Forwarded(listener.get_port(), self)
        finally:
            listener.close()
            with suppress(TimeoutError):  # connections may still be open
                async with asyncio.timeout(CLOSE_SECONDS):
                    await listener.wait_closed()

    @asynccontextmanager
    async def _way(
        self, opens: Callable[..., Awaitable[Ends]], to: tuple[object, ...], name: str, remedy: str
    ) -> AsyncIterator[Ends]:
        async with self._slot():
            try:
                reader, writer = await self._open(opens(*to), f"a connection to {name}")
            except TooManyChannels as error:
                cause = cast(asyncssh.ChannelOpenError, error.__cause__)
                if cause.code == asyncssh.OPEN_CONNECT_FAILED:
                    raise ConnectionRefusedError(f"{name} on {self.where}: {cause.reason}") from None
                if cause.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
                    raise HostError(f"{self.where} forbids connections to its {name} through SSH.", remedy) from None
                raise
            try:
                yield reader, writer
            finally:
                await _close(writer.channel)

    # --- channels

    @asynccontextmanager
    async def _slot(self, patience: float | None = None) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(patience):  # not wait_for, which loses a cancellation in Python 3.11
                await self._slots.acquire()
        except TimeoutError:
            raise TooManyChannels(
                f"All {CHANNELS} channels of the connection to {self.where} are in use.", "It is tried again later."
            ) from None
        try:
            if self.lost:
                raise self.lost
            yield
        finally:
            self._slots.release()

    async def _open(self, opening: Awaitable[tuple[T, U]], what: str) -> tuple[T, U]:
        """Open a channel; one that opens after we gave up is closed, or it would stay open for ever."""
        task = asyncio.ensure_future(opening)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_abandon)
            raise
        except TimeoutError:
            task.add_done_callback(_abandon)
            raise CommandTimeout(
                f"{self.where} did not begin {what} within {OPEN_SECONDS:g} s.", "The host is overloaded."
            ) from None
        except asyncssh.ChannelOpenError as error:
            if self.lost or self._connection.is_closed():
                raise self._ended(None) from None
            if error.code == asyncssh.OPEN_REQUEST_SESSION_FAILED:
                raise HostError(
                    f"{self.where} refuses to run commands for this login.",
                    "Look at ForceCommand in sshd_config, and at the key's own limits in authorized_keys.",
                ) from None
            raise TooManyChannels(
                f"{self.where} refuses another channel on this connection (MaxSessions); the link is fine.",
                "It is tried again when one is free. Fewer sources, or a higher MaxSessions in sshd_config, help.",
            ) from error
        except Exception as error:  # noqa: BLE001 a server's bytes, or a close in its midst, make asyncssh raise anything
            raise self._ended(error) from None


class Forwarded:
    """``host.Forward`` of a link."""

    host = LOOPBACK

    def __init__(self, port: int, link: Link) -> None:
        self.port = port
        self._link = link

    async def lost(self) -> HostError:
        while not await self._link.wait_lost(3600.0):
            continue
        return self._link.lost or LinkDown("The connection was closed.")


def _abandon(task: asyncio.Future[tuple[T, U]]) -> None:
    if not task.cancelled() and task.exception() is None:
        for end in task.result():
            if isinstance(end, asyncssh.SSHWriter):
                end.channel.abort()
            elif isinstance(end, asyncssh.SSHClientChannel):
                end.abort()


async def _close(channel: SSHChannel[bytes]) -> None:
    """Close at once, dropping what is on its way either way, and wait a little for the server to agree."""
    channel.abort()
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await channel.wait_closed()


# --- making one


async def connect(where: str, hops: Sequence[Hop], on_loss: Callable[[], None] = lambda: None) -> Link:
    """Log in to each hop through the one before. Raises ConnectFailed; nothing is left open then."""
    made: list[tuple[Hop, Client, asyncssh.SSHClientConnection]] = []
    try:
        for hop in hops:
            via, _, through = made[-1] if made else (None, None, None)
            client, connection = await _login(hop, via, through)
            made.append((hop, client, connection))
    except BaseException:
        for _, _, connection in reversed(made):
            connection.abort()
        raise
    return Link(where, made, on_loss)


async def _login(
    hop: Hop, via: Hop | None, through: asyncssh.SSHClientConnection | None
) -> tuple[Client, asyncssh.SSHClientConnection]:
    client = Client(Login(hop.identities))
    options: dict[str, object] = {**hop.options, "tunnel": through, "client_factory": lambda: client}
    with NamedTemporaryFile(prefix="firstlight-proxy-") as errors:
        if hop.proxy_command:
            options["proxy_command"] = _proxy(hop.proxy_command, errors.name)
        try:
            if hop.socket:
                options["sock"] = await _unix(hop.socket)
            return client, await asyncssh.connect(**options)
        except Exception as error:  # a server's bytes can make asyncssh raise anything
            attempt = Attempt(
                hop,
                via,
                login=client.login,
                offered=client.offered,
                authority=client.authority,
                methods=tuple(dict.fromkeys(client.methods)),
                timeout=cast(float, hop.options["connect_timeout"]),
            )
            errors.seek(0)
            said = errors.read(4096).decode("utf-8", "replace")
            raise ConnectFailed(explain(error, replace(attempt, proxy_said=said))) from error
        finally:
            await client.login.close()


async def _unix(path: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(link, str(path))
    except BaseException:
        link.close()
        raise
    return link


def _proxy(command: str, errors: str) -> list[str]:
    """ProxyCommand as OpenSSH runs it, by a shell; ``errors``: file for what it says.

    asyncssh takes the command's stderr for words of the server, and its end for that of the connection: so the errors
    go to a file, and another descriptor keeps the pipe open.
    """
    return ["/bin/sh", "-c", 'exec 9>&2 2>"$1";eval "exec $2"', "sh", errors, command]
