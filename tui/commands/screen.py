"""A watch on the screen: the terminal it needs, the configuration it follows, the signals that end it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from tui.exits import Ending, Exit
from tui.settings import configuration
from watch.config import Config

__all__ = ["configuration", "in_loop", "make_app", "need_terminal", "show"]

if TYPE_CHECKING:
    from tui.app import Firstlight
    from tui.desk import Desk
    from tui.source import Source

T = TypeVar("T")

SWITCH = 0.001
"""Seconds after which Python lets another thread run. Keys are read and the screen is written in threads of their own,
each several times for one key; the usual 0.005 would add up to what a hand feels."""


def need_terminal(command: str) -> None:
    """Raises Ending where there is none: a screen cannot be drawn into a pipe."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):  # Textual draws on standard error
        raise Ending(
            Exit.USAGE,
            f"{command} draws on a terminal, and this is none",
            "Run it in a terminal (over SSH: ssh -t); firstlight explain writes plain text.",
        )


def in_loop(work: Coroutine[Any, Any, Exit]) -> Exit:
    """Run a command's work to its end."""
    sys.setswitchinterval(SWITCH)
    return asyncio.run(work)


async def show(source: Source, config: Config, desk: Desk | None = None) -> None:
    """Show a watch until the operator leaves, or the terminal or a signal ends it. ``desk``: of a live watch."""
    app = make_app(source, config, desk)
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()

    def interrupt() -> None:
        """Never in the midst of giving the terminal back, as Python's own would be."""
        interrupted.set()
        app.exit()

    usual = signal.getsignal(signal.SIGINT)
    for name in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(name, app.exit)
    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        await app.run_async()
    finally:
        for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.remove_signal_handler(name)
        signal.signal(signal.SIGINT, usual)
    if interrupted.is_set():
        raise KeyboardInterrupt
    if app.return_code:
        raise Ending(Exit.FAILED, "the screen broke off, by a fault of firstlight", "What it says above tells where.")


def make_app(source: Source, config: Config, desk: Desk | None = None) -> Firstlight:
    """The app for a watch, as the configuration has it."""
    import themes
    from tui.alerts import Alerts
    from tui.app import Firstlight

    defaults = config.defaults
    alerts = Alerts(bell=defaults.bell, desktop="osc9" if defaults.notify else "off", tmux="TMUX" in os.environ)
    return Firstlight(source, desk=desk, theme=defaults.theme or themes.DARK, alerts=alerts, keys=config.keys)
