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


class Terminal:
    """Runs ``argv`` on a pseudo-terminal; ends it on leaving."""

    def __init__(self, argv: Sequence[str], *, columns: int = 200, rows: int = 50, env: dict[str, str] | None = None):
        self.seen = b""
        self.began = time.monotonic()
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        full = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})}
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, env=full, start_new_session=True
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
        os.close(self._ours)

    def send(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def read(self, seconds: float) -> bytes:
        """What it writes within this time; returns at the first bytes."""
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
