"""A terminal that goes away, and a program that is stopped and goes on, at any moment."""

from __future__ import annotations

import errno
import io
import os
import signal
import time
from collections.abc import Iterator

import pytest
from textual.drivers._writer_thread import WriterThread

from bench.terminal import Terminal
from tests.host.terminal import PROGRAM
from tui.terminal import Outlet


class Gone(io.StringIO):
    """Takes a few pieces, then no more. ``late``: says so only when it is to hand them over."""

    def __init__(self, few: int, *, late: bool) -> None:
        super().__init__()
        self._few = few
        self._late = late

    def write(self, text: str) -> int:
        if not self._few and not self._late:
            raise OSError(errno.EIO, "gone")
        self._few = max(0, self._few - 1)
        return super().write(text)

    def flush(self) -> None:
        if not self._few and self._late:
            raise OSError(errno.EIO, "gone")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("few", [0, 1, 7])
def test_who_draws_never_waits_for_a_terminal_that_is_gone(few: int, late: bool) -> None:
    told: list[str] = []
    file = Gone(few, late=late)
    writer = WriterThread(Outlet(file, lambda: told.append("gone")))  # type: ignore[arg-type]
    writer.start()
    for _ in range(500):  # far more than may wait
        writer.write("x")
    writer.stop()
    assert told == ["gone"]
    if not late:
        assert file.getvalue() == "x" * few


@pytest.fixture
def demo() -> Iterator[Terminal]:
    with Terminal([str(PROGRAM), "demo", "--speed", "100"]) as terminal:
        terminal.until("Journal")
        yield terminal


def _ended(terminal: Terminal) -> int:
    """Its exit status; what it still draws is read meanwhile."""
    for _ in range(600):
        if (status := terminal.process.poll()) is not None:
            return status
        if not terminal.read(0.05):
            time.sleep(0.05)  # nobody is told when there is no terminal to be read
    raise AssertionError("it goes on")


def test_its_window_is_shut(demo: Terminal) -> None:
    """It ends in good order: it was no fault of the program."""
    demo.hang_up()
    assert _ended(demo) == 0


def test_stopped_and_continued_it_reads_keys_once_and_leaves(demo: Terminal) -> None:
    """Not by Ctrl-Z, of which it hears before it is stopped."""
    for _ in range(3):
        os.kill(demo.process.pid, signal.SIGSTOP)
        demo.read(0.1)
        demo.seen = b""
        os.kill(demo.process.pid, signal.SIGCONT)
        demo.until("\x1b[?1049h")
        demo.until("Journal")
    demo.send("q")
    assert _ended(demo) == 0
