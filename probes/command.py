"""A running command, whatever carries it: its output without start-up noise, the tail of its errors, how it ended."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from probes.host import CommandTimeout, Completed, HostError
from probes.quoting import opening

STDERR_TAIL = 64 * 1024
OUTPUT_LIMIT = 16 * 1024 * 1024
GREETING_LIMIT = 4 * 1024
NOISE_LIMIT = 1024 * 1024
"""bytes of start-up noise after which no command is expected any more."""
ENDLESS = 64 * 1024 * 1024
"""bytes of output of a command that is run to its end, and of any command's errors, after which no end is expected."""
STATUS_SECONDS = 30.0
"""A command whose output has ended ends itself within so long, or is given up: its end may never be told."""

HIGH_WATER = 1024 * 1024
LOW_WATER = 256 * 1024
"""bytes of output held for a slow reader before the sender is asked to wait, and before it may go on."""

_SIGNALS = range(129, 193)


def new_token() -> str:
    return secrets.token_hex(8)


def plain(text: str, limit: int = 300) -> str:
    """A server's words inside a sentence of ours: one line, nothing that a terminal would obey, not endless."""
    words = " ".join(text.split())
    shown = "".join(char if char.isprintable() else "�" for char in words)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def shown(argv: Sequence[str], limit: int = 80) -> str:
    """A command as a sentence names it."""
    return plain(shlex.join(argv), limit)


def fresh(error: HostError) -> HostError:
    """The same error to raise once more: one that is raised again and again would keep every frame it passed."""
    return type(error)(error.reason, error.remedy)


class _Start:
    """One output stream up to its opening: what comes before is noise."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._rest = b""
        self.noise = b""
        self.length = 0
        self.found = False

    def feed(self, data: bytes) -> bytes:
        """The part of ``data`` that is the command's own."""
        if self.found:
            return data
        before, mark, after = (self._rest + data).partition(self._mark)
        self.found = bool(mark)
        keep = 0 if self.found else len(self._mark) - 1
        self._rest = before[-keep:] if keep else b""
        noise = before[: len(before) - len(self._rest)]
        self.length += len(noise)
        self.noise += noise[: GREETING_LIMIT - len(self.noise)]
        return after

    def all_noise(self) -> bytes:
        return (self.noise + self._rest)[:GREETING_LIMIT]


class RunningCommand(ABC):
    """Keeps ``host.Stream``. A carrier (an SSH channel, a process) feeds it by the methods without ``await``.

    ``argv`` is for sentences only. ``where``: the host's name.
    """

    def __init__(self, argv: Sequence[str], token: str, where: str) -> None:
        self.argv = tuple(argv)
        self.where = where
        self._out = _Start(opening(token))
        self._err = _Start(opening(token))
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._paused = False
        self._tail = bytearray()
        self._errors = 0
        self._status: int | None = None
        self._over = False
        self._failure: HostError | None = None
        self._news = asyncio.Event()
        self._ended = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    # --- for the carrier

    def feed(self, data: bytes) -> None:
        """Standard output has arrived."""
        own = self._out.feed(data)
        if self._out.length > NOISE_LIMIT:
            self.fail(self._no_command())
        elif own:
            self._chunks.append(own)
            self._held += len(own)
            self._news.set()
            if self._held > HIGH_WATER and not self._paused:
                self._paused = True
                self._pause()

    def feed_error(self, data: bytes) -> None:
        """Standard error has arrived."""
        self._tail += self._err.feed(data)
        del self._tail[:-STDERR_TAIL]
        self._errors += len(data)
        if self._errors > ENDLESS:
            self.fail(endless(self.argv, self.where, "errors"))

    def set_status(self, status: int) -> None:
        """The exit status has arrived, as ``sh`` gives it: 128 and more for a signal."""
        self._status = 128 - status if status in _SIGNALS else status
        self._settle()

    def set_signal(self, number: int) -> None:
        """The shell itself was ended by a signal."""
        self._status = -number
        self._settle()

    def finish_output(self) -> None:
        """No more output comes."""
        if not self._over:
            self._over = True
            if not self._out.found and self._failure is None:
                self._failure = self._no_command()
            self._news.set()
            self._settle()
            if not self._ended.is_set():
                asyncio.get_running_loop().call_later(STATUS_SECONDS, self._unsettled)

    def fail(self, failure: HostError) -> None:
        """The command is out of reach. What arrived before can still be read."""
        if not self._ended.is_set():
            self._failure = self._failure or failure
            self._over = True
            self._news.set()
            self._ended.set()
            self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    @property
    def begun(self) -> bool:
        """Whether it has come to the command itself."""
        return self._out.found

    @property
    def has_status(self) -> bool:
        return self._status is not None

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def greeting(self) -> str:
        """What was printed before the command's own output, without anything that a terminal would obey."""
        noise = self._out.noise.decode("utf-8", "replace") if self._out.found else ""
        return "".join(char if char.isprintable() or char == "\n" else "�" for char in noise)

    # --- what the carrier brings

    @abstractmethod
    def _pause(self) -> None:
        """Ask the sender of the output to wait."""

    @abstractmethod
    def _resume(self) -> None:
        """It may go on."""

    @abstractmethod
    def _send(self, data: bytes) -> None:
        """Put ``data`` on its way to standard input; OSError if that is closed."""

    # --- host.Stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if chunk := await self.read():
            return chunk
        raise StopAsyncIteration

    async def read(self) -> bytes:
        """All output that is there, or the next that comes; empty at its end. HostError as the way is lost."""
        while not self._chunks and not self._over:
            self._news.clear()
            await self._news.wait()
        if not self._chunks:
            if self._failure:
                raise fresh(self._failure)
            return b""
        data = self._chunks.popleft() if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._held = 0
        if self._paused:
            self._paused = False
            self._resume()
        return data

    async def write(self, data: bytes) -> None:
        if self._failure:
            raise fresh(self._failure)
        if self._ended.is_set():
            return
        try:
            self._send(data)
        except OSError:
            return  # its input is closed: it ends, or the link does; reading and waiting say which
        await self._writable.wait()
        if self._failure:
            raise fresh(self._failure)

    async def wait(self) -> int:
        await self._ended.wait()
        if self._failure:
            raise fresh(self._failure)
        assert self._status is not None
        return self._status

    @property
    def stderr(self) -> bytes:
        return bytes(self._tail) if self._err.found else self._err.all_noise()

    # --- helpers

    def _settle(self) -> None:
        if self._over and self._status is not None:
            self._ended.set()
            self._writable.set()

    def _unsettled(self) -> None:
        self.fail(
            HostError(
                f"`{shown(self.argv)}` on {self.where} ended its output, but not itself within {STATUS_SECONDS:g} s.",
                "It is tried again; if it stays so, look at the SSH server there.",
            )
        )

    def _no_command(self) -> HostError:
        said = plain((self._out.all_noise() + b" " + self.stderr).decode("utf-8", "replace"))
        words = f": it said “{said}”" if said else " and said nothing"
        return HostError(
            f"{self.where} ran no command for us{words}.",
            "The login shell there must run commands given to it: try `ssh HOST true`, and look at the account's shell "
            "and at ForceCommand in sshd_config.",
        )


def endless(argv: Sequence[str], where: str, what: str) -> HostError:
    """Why a command was ended that says and says."""
    return HostError(
        f"`{shown(argv)}` on {where} wrote more than {ENDLESS >> 20} MiB of {what}; it was ended.",
        "Run it there yourself to see what it says; something else may stand in its place.",
    )


async def complete(command: RunningCommand, stdin: bytes, limit: float, seen: Callable[[str], None]) -> Completed:
    """Feed and read a command to its end: what ``Host.run`` returns. CommandTimeout after ``limit`` seconds, HostError
    for output without an end.

    ``seen`` is told what a start-up file printed.
    """
    kept: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limit):
            feeding = asyncio.ensure_future(command.write(stdin)) if stdin else None
            try:
                while chunk := await command.read():
                    if size < OUTPUT_LIMIT:
                        kept.append(chunk[: OUTPUT_LIMIT - size])
                    size += len(chunk)
                    if size > ENDLESS:
                        raise endless(command.argv, command.where, "output")
                status = await command.wait()
            finally:
                if feeding:
                    feeding.cancel()
                    await asyncio.gather(feeding, return_exceptions=True)
    except TimeoutError:
        raise CommandTimeout(
            f"`{shown(command.argv)}` did not end within {limit:g} s on {command.where}; it was ended.",
            "The host is overloaded, or what the command asks (a driver, a disk, a network mount) does not answer.",
        ) from None
    finally:
        seen(command.greeting)
    return Completed(status, b"".join(kept), command.stderr, truncated=size > OUTPUT_LIMIT)
