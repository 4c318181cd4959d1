"""What daemon and attached screens say to each other, beside the lines of the recording."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from msgspec import Struct

from tui.desk import whoami


class Said(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="daemon", tag_field="kind"):
    """By the daemon: at once, when something of it changes, and each ``BEAT``. ``now``: its host's time, UTC seconds.
    ``others``: who else looks, each as he named himself."""

    now: float
    pid: int = 0
    title: str = ""
    target: str = ""
    unit: str = ""
    endpoint: str = ""
    recording: str = ""
    recording_error: str = ""
    others: tuple[str, ...] = ()


class Asked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """By an attached screen. ``who``: comes first, and begins what is told. ``note``: a line for the recording.
    ``stop``: end the watch."""

    who: str = ""
    note: str = ""
    stop: bool = False


BEAT = 2.0
"""Seconds between two words of the daemon."""

DEAF = 15.0
"""Seconds without a word after which the daemon has gone, or hangs."""


def myself() -> str:
    """Who looks, and from where: ``ana@desk (pts/3)``. Where many log in as root, sudo knows who it is."""
    who = whoami()
    if (name := os.environ.get("SUDO_USER", "")).isprintable() and name:
        who = f"{name}@{who.rpartition('@')[2]}"
    where = ""
    for stream in (sys.stdin, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            where = os.ttyname(stream.fileno()).removeprefix("/dev/")
            break
    if os.environ.get("FIRSTLIGHT_WEB"):
        where = "browser"
    return f"{who} ({where})" if where else who
