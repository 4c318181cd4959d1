"""How the program ends: every exit status, in one place."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """0–5 by meaning; 130 for Ctrl-C, as shells have it."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NO_UNIT = 4
    UNREADABLE = 5
    INTERRUPTED = 130


MEANING: dict[Exit, str] = {
    Exit.OK: "all well",
    Exit.FAILED: "explain: the load failed",
    Exit.USAGE: "the command line or the configuration is wrong",
    Exit.UNREACHABLE: "the host cannot be reached without you: unknown name, host key, no accepted login",
    Exit.NO_UNIT: "there is no such unit on the host",
    Exit.UNREADABLE: "a file cannot be read, or is not what it should be",
    Exit.INTERRUPTED: "ended by Ctrl-C",
}


def table() -> str:
    """For ``--help``: one status a line."""
    return "\n".join(f"{status:>5}  {meaning}" for status, meaning in MEANING.items())


class Ending(Exception):
    """Ends the program: one clear sentence and a remedy for standard error, and the exit status."""

    def __init__(self, status: Exit, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.remedy = remedy
