"""The first line of a session file, where such files lie, and what is said of one that cannot be read."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from platformdirs import user_state_path

from probes.version import __version__

FORMAT = 1
"""Raised when a file can no longer be read by what read the number before it. New kinds and fields do not raise it."""


class Header(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of a session file. ``started``: UTC seconds. ``host``: facts about it, in words."""

    firstlight: int
    target: str = ""
    unit: str = ""
    endpoint: str = ""
    started: float = 0.0
    version: str = ""
    host: dict[str, str] = {}


class SessionError(Exception):
    """A file that cannot be read as a recording. ``reason``: one sentence; ``remedy``: what to do about it."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


def folder() -> Path:
    """Where recordings are kept; it need not exist."""
    return user_state_path("firstlight") / "sessions"


def new_header(
    target: str, unit: str, started: float, *, endpoint: str = "", host: dict[str, str] | None = None
) -> Header:
    """The header of a session that begins now, by this version."""
    return Header(
        firstlight=FORMAT,
        target=target,
        unit=unit,
        endpoint=endpoint,
        started=started,
        version=__version__,
        host=host or {},
    )


def words_of(error: OSError) -> str:
    """What the system says, to be put into a sentence."""
    return (error.strerror or str(error)).lower()
