"""The head of a log line: who speaks, how loud, from where, and the message itself.

vLLM has written its heads in four ways since 0.6 (coloured or not, with the process before or after the level, with a
space in the process name, behind a container's prefix). One expression finds them all, because the level, the date and
``file:line]`` have stayed together; nothing else is relied upon. Lines without a head (bars, uvicorn, bare tracebacks,
systemd's own) are all message.
"""

from __future__ import annotations

import re

from msgspec import Struct


class Head(Struct, frozen=True):
    """``process``: "Worker_TP0", "APIServer", "" where the line does not say. ``pid``: 0 where it does not say.
    ``level``: DEBUG, INFO, WARNING, ERROR, CRITICAL or "". ``place``: ``file.py:123`` or "". ``message``: the rest,
    without escape sequences, container prefix and whatever a carriage return overwrites."""

    process: str = ""
    pid: int = 0
    level: str = ""
    place: str = ""
    message: str = ""


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTAINER = re.compile(r"^[A-Za-z0-9][\w.-]*-\d+\s+\| ?")
_PROCESS = re.compile(r"\((\w[\w .=-]{0,60}) pid=(\d{1,10})(?:, ip=[\w.:]{1,60})?\) ?")
_RECORD = re.compile(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d-\d\d \d\d:\d\d:\d\d) \[?([^\]\[\s:]{1,200}:\d{1,7})\] ?"
)
_USUAL = re.compile(
    r"\((\w[\w .=-]{0,60}) pid=(\d{1,10})\) "
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-\d\d \d\d:\d\d:\d\d) \[([^\]\[\s:]{1,200}:\d{1,7})\]"
)
"""The way of 0.10 and later, at the beginning of the line: most lines. It ends with the first closing bracket."""
_HEADS: dict[str, tuple[str, int, str, str]] = {}
"""What the beginnings of lines up to their first closing bracket say, where that is the usual way: within a second many
lines begin alike."""
_REMEMBERED = 4096
_LONGEST_HEAD = 400
_UVICORN = re.compile(r"^(DEBUG|INFO|WARNING|ERROR|CRITICAL): {2,6}")
_SGLANG = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)((?: (?:DP|PP|TP|EP)\d+)*)\] ")


def plain(text: str) -> str:
    """The text without escape sequences and without a container's prefix; carriage returns stay."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "|" in text[:80]:
        text = _CONTAINER.sub("", text, count=1)
    return text


def sglang_style(text: str) -> bool:
    """Whether a line (without escapes) has the time in brackets that SGLang begins its lines with."""
    return _SGLANG.match(text) is not None


def parse_head(text: str) -> Head:
    """Take a line apart. Any text at all is accepted; what is not recognised is message."""
    end = text.find("]", 0, _LONGEST_HEAD) + 1
    if end and text[0] == "(":
        start = text[:end]
        usual = _HEADS.get(start) or _usual(start)
        if usual is not None and "\x1b" not in text and "\r" not in text:
            return Head(*usual, text[end + 1 :] if text[end : end + 1] == " " else text[end:])
    text = plain(text)
    record = _RECORD.search(text) if _has_level(text) else None
    if record is not None:
        before, message = text[: record.start()], text[record.end() :]
        process, pid = _process(before)
        if not process:
            process, pid = _process(message[:80]) if message.startswith("(") else ("", 0)
        return Head(process, pid, record[1], record[3], _last_piece(message))
    process, pid = "", 0
    rest = text
    found = _PROCESS.match(text, len(text) - len(text.lstrip()), 120)
    if found is not None:
        process, pid = found[1], int(found[2])
        rest = text[found.end() :]
    rest = _last_piece(rest)
    sglang = _SGLANG.match(rest) if rest.startswith("[") else None
    if sglang is not None:
        return Head(process or sglang[2].strip().replace(" ", "_"), pid, "", "", rest[sglang.end() :])
    uvicorn = _UVICORN.match(rest)
    if uvicorn is not None:
        return Head(process, pid, uvicorn[1], "", rest[uvicorn.end() :])
    return Head(process, pid, "", "", rest)


def _usual(start: str) -> tuple[str, int, str, str] | None:
    """Process, pid, level and place, where a line that begins so has the usual head; remembered."""
    found = _USUAL.fullmatch(start)
    if found is None:
        return None
    if len(_HEADS) >= _REMEMBERED:
        _HEADS.clear()
    known = _HEADS[start] = (found[1], int(found[2]), found[3], found[4])
    return known


def _has_level(text: str) -> bool:
    """Whether a record may begin somewhere in the text: a search for it costs ten times as much."""
    return "INFO " in text or "WARNING " in text or "ERROR " in text or "DEBUG " in text or "CRITICAL " in text


def _process(before: str) -> tuple[str, int]:
    """The last process named in what stands before the level: an open bar may be glued in front of it."""
    named = list(_PROCESS.finditer(before))
    return (named[-1][1], int(named[-1][2])) if named else ("", 0)


def _last_piece(text: str) -> str:
    """What a terminal would show after the carriage returns: the last piece that is not empty."""
    if "\r" not in text:
        return text
    for piece in reversed(text.split("\r")):
        if piece.strip():
            return piece
    return ""
