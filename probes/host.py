"""What a host is, for everything above it: commands, long streams, HTTP.

Three hosts keep this protocol: SSH (``ssh.py``), this machine (``local.py``), and the rehearsal of the demo, which is a
real SSH server and therefore ``ssh.py`` again. ``hosts.open_host`` finds the right one for what the operator wrote.
Commands are argument lists; they are quoted once, in ``quoting.py``, and run by ``sh`` under ``LC_ALL=C`` whatever the
login shell is. Nothing that was started through a host outlives its stream, its ``run`` or the link.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from probes.readings import LinkReading

if TYPE_CHECKING:
    import ssl

    import httpx


class HostError(Exception):
    """Something about the host itself. ``reason``: one clear sentence; ``remedy``: what the operator can do."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class LinkDown(HostError):
    """The way to the host is lost or not there yet; it is being retried. Wait for ``Host.up()`` and try again."""


class LinkRefused(HostError):
    """The host will not be reached without the operator: unknown host key, no accepted login, unknown name."""


class CommandTimeout(HostError):
    """The command did not end within its limit; it was ended and its channel closed."""


class TooManyChannels(HostError):
    """The server refuses another channel on a live connection (MaxSessions). The link itself is fine."""


@dataclass(frozen=True)
class Completed:
    """A command that ended. ``status``: its exit status, negative for a signal.

    ``stderr``: its last 64 KiB. ``truncated``: standard output was longer than the 16 MiB that are kept.
    """

    status: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False


class Stream(Protocol):
    """A running command: read its output, feed its input, learn how it ended."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Chunks of standard output as they arrive, until the command ends or the link is lost (LinkDown)."""
        ...

    async def write(self, data: bytes) -> None:
        """To the command's standard input. LinkDown if the way is gone; nothing happens if the command has ended."""
        ...

    async def wait(self) -> int:
        """Exit status, negative for a signal. LinkDown if the link went first."""
        ...

    @property
    def stderr(self) -> bytes:
        """The last 64 KiB of standard error so far."""
        ...


class Forward(Protocol):
    """An address of this machine that leads to the host. ``host``: of its loopback."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    async def lost(self) -> HostError:
        """Wait until it leads nowhere any more; why."""
        ...


class Host(Protocol):
    @property
    def name(self) -> str:
        """As the operator wrote it: ``user@host``, an alias of ssh_config, ``local``."""
        ...

    @property
    def greeting(self) -> str:
        """What a start-up file of the login shell printed before a command's own output, at most 4 KiB of it.

        Control characters are replaced. Empty when nothing was printed. It has been skipped: whoever reads this tells
        the operator once.
        """
        ...

    def links(self) -> AsyncIterator[LinkReading]:
        """Connects, keeps the connection, reconnects for ever; yields each change of state and the round trip time
        about every five seconds. Ends after a ``refused`` reading. Run exactly once per host, by the supervisor.

        ``LinkReading.never_up`` tells a first failure from a later loss. Closing the iterator closes the link."""
        ...

    async def up(self) -> None:
        """Return once the host can be used. LinkRefused when it never will."""
        ...

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 20.0) -> Completed:
        """Run to the end. LinkDown, LinkRefused, CommandTimeout, TooManyChannels. At most 16 MiB of output are kept.

        A plain HostError: the host runs no commands for us (its login shell is ``nologin``, say). ValueError: ``argv``
        is empty or holds a NUL. A program that is not there gives status 127, one that may not be run 126.
        """
        ...

    def stream(self, argv: Sequence[str], *, stdin: bool = False) -> AbstractAsyncContextManager[Stream]:
        """Start a long-lived command; leaving the context ends it on the host. ``stdin``: it reads from us.

        Entering raises as ``run`` does. It holds one of the link's channels until it is left.
        """
        ...

    def http(
        self, host: str, port: int, *, socket: str = "", tls: ssl.SSLContext | None = None
    ) -> AbstractAsyncContextManager[httpx.AsyncBaseTransport]:
        """A transport whose connections go to ``host:port`` as seen from the host, or to the UNIX socket of this path
        there. It outlives a lost link. ``tls``: whom https trusts; None: those that this machine trusts.

        Requests raise httpx.ConnectError when nothing listens there (normal while a server loads) and LinkDown,
        LinkRefused or HostError when the host, not the server, is why.
        """
        ...

    def forward(self, host: str, port: int, *, socket: str = "") -> AbstractAsyncContextManager[Forward]:
        """For another program's connections to ``host:port`` as seen from the host, or to the UNIX socket of this path
        there: a TCP port of this machine's loopback, which every user of this machine can reach until the context is
        left. What ``http`` can do is done by ``http``, which opens none. It ends with the link, and takes none of its
        channels. Entering raises LinkDown, LinkRefused, HostError.
        """
        ...

    async def close(self) -> None: ...
