"""A program in a terminal of its own, watched byte by byte."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from types import TracebackType


def _own_terminal() -> None:
    """The terminal is the session's: what its keys and its end mean reaches the program as signals."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """Runs ``argv`` on a pseudo-terminal; ends it on leaving."""

    def __init__(self, argv: Sequence[str], *, columns: int = 200, rows: int = 50, env: dict[str, str] | None = None):
        self.seen = b""
        self.began = time.monotonic()
        self._ours, theirs = pty.openpty()
        self.resize(columns, rows)
        full = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})}
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, env=full, start_new_session=True, preexec_fn=_own_terminal
        )
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.hang_up()

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """Close it, as when its window is shut."""
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def send(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def read(self, seconds: float) -> bytes:
        """What it writes within this time; returns at the first bytes."""
        if self._ours < 0:
            return b""
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if not ready:
            return b""
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:  # the other side is closed
            return b""
        self.seen += data
        return data

    def until(self, text: str, limit: float = 30.0) -> float:
        """Seconds from the start until ``text`` was written. Raises TimeoutError."""
        wanted = text.encode()
        end = time.monotonic() + limit
        while wanted not in self.seen:
            if time.monotonic() > end or (self.process.poll() is not None and not self.read(0)):
                raise TimeoutError(f"{text!r} was not written; the last was {self.seen[-300:]!r}")
            self.read(0.05)
        return time.monotonic() - self.began
