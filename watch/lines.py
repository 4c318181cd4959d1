"""What a list of journal lines needs to know about each of them: how loud it is, who speaks, whether it is our own.

Severity comes from the text; the journal's PRIORITY counts only for systemd, journald and the kernel, which set it
(whatever a service prints has 6). A traceback printed without heads is as loud as an error from its first line to its
exception, so that a filter for errors shows it whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from probes.readings import JournalLine
from watch.heads import Head, parse_head
from watch.words import Severity

PLAIN: Final = 0
INFO: Final = 1
WARNING: Final = 2
ERROR: Final = 3
FATAL: Final = 4
"""Loudness of a line, ascending. PLAIN: it does not say."""

WORDS: Final[tuple[Severity | None, ...]] = (None, "info", "warning", "error", "fatal")

_LEVELS: Final = {"": PLAIN, "DEBUG": INFO, "INFO": INFO, "WARNING": WARNING, "ERROR": ERROR, "CRITICAL": FATAL}
_OWN: Final = re.compile(r'"[A-Z]+ /[^ "]*\?firstlight[^ "]* HTTP/')
_EXCEPTION: Final = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Timeout)\b")
_PIDS: Final = 4096
"""Processes remembered by pid: far more than one load has; a bound for a unit that is restarted for days."""


class LineMark(NamedTuple):
    """``loudness``: PLAIN to FATAL. ``process``: the name to show, "" if nobody says. ``own``: an access line that our
    own requests left in the server's log."""

    loudness: int
    process: str
    own: bool


class LineMarker:
    """Marks lines in their order. It remembers, per pid, the last name borne and whether a traceback is open: from 0.31
    on vLLM's bars and bare tracebacks carry no name."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._tracebacks: set[int] = set()

    def mark(self, line: JournalLine) -> LineMark:
        if line.source != "unit":
            return LineMark(_by_priority(line.priority), line.source if line.source != "other" else line.ident, False)
        head = parse_head(line.text)
        process = head.process
        if process:
            self._remember(line.pid, process)
        else:
            process = self._names.get(line.pid, "") or line.comm.removeprefix("VLLM::")
        own = head.level == "INFO" and "?firstlight" in line.text and _OWN.search(head.message) is not None
        return LineMark(max(_LEVELS.get(head.level, PLAIN), self._traceback(line.pid, head)), process, own)

    def mark_all(self, lines: Sequence[JournalLine]) -> tuple[list[int], list[bool], list[str]]:
        """``mark`` of each, column by column: loudness, whether it is our own, process."""
        loud: list[int] = []
        own: list[bool] = []
        processes: list[str] = []
        names, tracebacks = self._names, self._tracebacks
        for line in lines:
            text = line.text
            if line.source != "unit" or line.pid in tracebacks or "?firstlight" in text or "Traceback" in text:
                one = self.mark(line)
                loud.append(one.loudness)
                own.append(one.own)
                processes.append(one.process)
                continue
            head = parse_head(text)
            process = head.process
            if not process:
                process = names.get(line.pid, "") or line.comm.removeprefix("VLLM::")
            elif names.get(line.pid) != process or len(names) >= _PIDS:
                self._remember(line.pid, process)
            loud.append(_LEVELS.get(head.level, PLAIN))
            own.append(False)
            processes.append(process)
        return loud, own, processes

    def _remember(self, pid: int, process: str) -> None:
        if len(self._names) >= _PIDS:
            self._names.clear()
        self._names[pid] = process

    def _traceback(self, pid: int, head: Head) -> int:
        message = head.message
        if message.startswith("Traceback (most recent call last)"):
            if len(self._tracebacks) >= _PIDS:
                self._tracebacks.clear()
            self._tracebacks.add(pid)
            return ERROR
        if pid not in self._tracebacks:
            return PLAIN
        if head.level and head.level not in ("ERROR", "CRITICAL"):
            self._tracebacks.discard(pid)
            return PLAIN
        if message and not message[0].isspace() and not head.level:
            self._tracebacks.discard(pid)
            return ERROR if _EXCEPTION.match(message) else PLAIN
        return ERROR


def _by_priority(priority: int) -> int:
    if priority <= 2:
        return FATAL
    if priority == 3:
        return ERROR
    return WARNING if priority == 4 else INFO
