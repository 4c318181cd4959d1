"""How the program ends: every exit status, in one place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
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
    Exit.FAILED: "explain: the load failed; doctor: something is bad; sessions prune: a file stayed",
    Exit.USAGE: "the command line or the configuration is wrong",
    Exit.UNREACHABLE: "the host cannot be reached without you: unknown name, host key, no accepted login",
    Exit.NO_UNIT: "there is no such unit on the host",
    Exit.UNREADABLE: "a file cannot be read, or is not what it should be",
    Exit.INTERRUPTED: "ended by Ctrl-C",
}


class Waited(IntEnum):
    """How ``firstlight wait`` ends: its own statuses, for scripts."""

    READY = 0
    FAILED = 1
    STALLED = 2
    TIMED_OUT = 3
    UNREACHABLE = 4
    USAGE = 64
    INTERRUPTED = 130


WAITED: dict[Waited, str] = {
    Waited.READY: "it is ready",
    Waited.FAILED: "the load failed",
    Waited.STALLED: "the load has stalled (see --stall-grace)",
    Waited.TIMED_OUT: "the time given was over first",
    Waited.UNREACHABLE: "the host cannot be reached (see --patience), or has no such unit",
    Waited.USAGE: "the command line or the configuration is wrong",
    Waited.INTERRUPTED: "ended by Ctrl-C",
}


class Benched(IntEnum):
    """How ``firstlight bench run`` and ``bench compare`` end. What ends them before there is anything to say about a
    result has the statuses of ``Exit``."""

    OK = 0
    WORSE = 1
    USAGE = 2
    UNREACHABLE = 3
    NO_UNIT = 4
    UNREADABLE = 5
    NO_VERDICT = 6
    NO_RESULT = 7
    INTERRUPTED = 130


BENCHED: dict[Benched, str] = {
    Benched.OK: "not worse: at every load at most --worse-by percent less output tokens per second",
    Benched.WORSE: "worse than that at some load",
    Benched.USAGE: "the command line or the configuration is wrong",
    Benched.UNREACHABLE: "the host cannot be reached without you",
    Benched.NO_UNIT: "there is no such unit on the host",
    Benched.UNREADABLE: "a file cannot be read, or is no result of vllm bench serve",
    Benched.NO_VERDICT: "no verdict: failed requests, or measured in different ways",
    Benched.NO_RESULT: "bench run: nothing was measured (refused, failed, cancelled, or the load failed)",
    Benched.INTERRUPTED: "ended by Ctrl-C; what runs on the host goes on",
}


def table(meaning: Mapping[Exit, str] | Mapping[Waited, str] | Mapping[Benched, str] = MEANING) -> str:
    """For ``--help``: one status a line."""
    return "\n".join(f"{int(status):>5}  {words}" for status, words in meaning.items())


class Ending(Exception):
    """Ends the program: one clear sentence and a remedy for standard error, and the exit status."""

    def __init__(self, status: Exit, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.remedy = remedy

    def tell(self) -> None:
        """Say it on standard error."""
        from probes.command import plain

        print(f"firstlight: {plain(self.reason, 1000)}", file=sys.stderr)
        if self.remedy:
            print(plain(self.remedy, 1000), file=sys.stderr)
