"""The operator's terminal, which may go away at any moment: its window is shut, the login it belongs to is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import IO, Any, Protocol, cast, runtime_checkable

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import InputEvent, MouseMove
from textual.message import Message


class Outlet:
    """Takes what is drawn to the terminal. Once that takes nothing more, ``gone`` is called, and the rest is dropped:
    whoever writes must not wait for a terminal that is not there."""

    def __init__(self, file: IO[str], gone: Callable[[], None]) -> None:
        self._file = file
        self._gone = gone
        self._open = True

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, text: str) -> None:
        if self._open:
            try:
                self._file.write(text)
            except OSError:
                self._lose()

    def flush(self) -> None:
        if self._open:
            try:
                self._file.flush()
            except OSError:
                self._lose()

    def _lose(self) -> None:
        self._open = False
        self._gone()


@runtime_checkable
class Attended(Protocol):
    """An app that wants to hear of keys and buttons at once, in the thread that reads them."""

    def attended(self) -> None: ...


class TerminalDriver(LinuxDriver):
    """Textual's own, whose app ends in good order when the terminal is gone. Textual would stop writing, and wait for
    ever for room to write once thirty pieces wait; and it would take the end of the input for a fault of the program.
    """

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None):
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._drawing = False
        self._once = threading.Lock()
        self._file = cast("Any", Outlet(cast("IO[str]", self._file), self._gone))

    def run_input_thread(self) -> None:
        try:
            super().run_input_thread()
        except OSError:
            self._gone()

    def process_message(self, message: Message) -> None:
        if isinstance(message, InputEvent) and not isinstance(message, MouseMove) and isinstance(self._app, Attended):
            self._app.attended()
        super().process_message(message)

    def _gone(self) -> None:
        """Called in threads of the driver, by whichever finds it out."""
        if self._once.acquire(blocking=False):
            self._app.call_later(self._app.exit)

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._drawing = True

    def stop_application_mode(self) -> None:
        self._drawing = False
        super().stop_application_mode()

    def _sigtstp_application(self, *_: object) -> None:
        if self._drawing:
            super()._sigtstp_application()
        else:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _sigcont_application(self, *_: object) -> None:
        """After Ctrl-Z the screen was left. After SIGSTOP it could not be, and what reads the keys still does: both
        begin anew. A terminal that is lost sends SIGCONT too, at any time, and what draws no more must not begin."""
        if self._drawing and self._auto_restart:
            self.suspend_application_mode()
            self._must_signal_resume = True
        if self._must_signal_resume:
            super()._sigcont_application()
