"""One record of the journal as its fields, whatever format they came in: what it becomes as a reading.

Fields are systemd's (``systemd.journal-fields(7)``); values are bytes, as journald keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from probes.readings import JournalLine, Source

FIELDS = (
    "MESSAGE", "MESSAGE_ID", "PRIORITY", "SYSLOG_IDENTIFIER", "_PID", "_COMM", "_TRANSPORT", "_STREAM_ID",
    "_LINE_BREAK", "_SYSTEMD_UNIT", "_SYSTEMD_USER_UNIT", "_SYSTEMD_INVOCATION_ID", "UNIT", "USER_UNIT",
    "INVOCATION_ID", "USER_INVOCATION_ID", "OBJECT_SYSTEMD_UNIT",
)  # fmt: skip
"""What ``line_of`` reads, for ``journalctl --output-fields``. None of them differs from record to record of one
process but the message: the decoder lives on that."""

SUPPRESSED = "a596d6fe7bfa4994828e72309e95d61e"
"""MESSAGE_ID of journald's "Suppressed N messages from UNIT" (``sd-messages.h``)."""

KERNEL = re.compile(
    r"NVRM|\bXid\b|nvidia|NVLink|nvswitch"
    r"|[Oo]ut of memory|oom-kill|oom_reaper|oom-killer|page allocation failure"
    r"|blocked for more than|hung_task|soft lockup|hard LOCKUP|rcu_\w+ (?:self-)?detected stall"
    r"|I/O error|(?:EXT4|XFS|BTRFS)[ -].*(?:error|warning|corrupt)|nvme.*(?:timeout|reset|abort)"
    r"|nfs: server|Stale file handle|fuse: "
    r"|[Hh]ardware [Ee]rror|Machine check|\bAER\b|PCIe Bus Error|pcieport|DMAR|IO_PAGE_FAULT|AMD-Vi"
    r"|segfault at|general protection|traps: |mlx5_core|infiniband|thermal|throttl"
)
"""What of the kernel's own log bears on a model server: GPU faults, memory, hung tasks, disks, network mounts, PCIe."""

_SESSION = re.compile(r"logged out|Removed session|User Manager|user@\d+|linger")
_NUMBER = re.compile(rb"\d{1,18}")


def text_of(value: bytes) -> str:
    """UTF-8; bytes that are not stand as ``\\xNN``."""
    return value.decode("utf-8", "backslashreplace")


def source_of(fields: Mapping[str, bytes], unit: str = "") -> Source:
    """Who speaks. ``unit``: the unit that is watched, "" for whichever the record is about."""
    if fields.get("_TRANSPORT") == b"kernel":
        return "kernel"
    identifier = fields.get("SYSLOG_IDENTIFIER", b"")
    if (
        fields.get("MESSAGE_ID") == SUPPRESSED.encode()
        or fields.get("_SYSTEMD_UNIT") == b"systemd-journald.service"
        or fields.get("_TRANSPORT") == b"driver"
        or identifier == b"systemd-journald"
    ):
        return "journald"
    subject = fields.get("UNIT") or fields.get("USER_UNIT")
    own = (fields.get("_SYSTEMD_USER_UNIT"), fields.get("_SYSTEMD_UNIT"))
    watched = unit.encode()
    if subject:
        return "systemd" if not watched or subject == watched else "unit" if watched in own else "other"
    if watched:
        return "unit" if watched in own else "systemd" if identifier == b"systemd" and not any(own) else "other"
    if identifier == b"systemd":
        return "systemd"
    return "other" if identifier.startswith(b"systemd-") else "unit"


def line_of(fields: Mapping[str, bytes], unit: str = "") -> JournalLine:
    """The reading of one record. Total: what is missing or malformed takes the reading's default, and ``at`` 0.

    Several MESSAGE fields come joined by newlines by whoever made the mapping. The invocation is that of the unit
    that the record is about: none for the kernel, journald and others, who have invocations of their own.
    """

    def get(*names: str) -> str:
        for name in names:
            value = fields.get(name)
            if value:
                return text_of(value)
        return ""

    source = source_of(fields, unit)
    invocation = about = ""
    if source == "systemd":
        about = get("UNIT", "USER_UNIT")
        invocation = get("INVOCATION_ID", "USER_INVOCATION_ID")
    elif source == "unit":
        about = get("_SYSTEMD_USER_UNIT", "_SYSTEMD_UNIT")
        invocation = get("_SYSTEMD_INVOCATION_ID")
        if unit and about != unit:
            about = get("_SYSTEMD_UNIT")
    elif source == "journald":
        about = get("OBJECT_SYSTEMD_UNIT")
    else:
        about = get("UNIT", "USER_UNIT", "_SYSTEMD_UNIT")
    return JournalLine(
        at=number(fields.get("__REALTIME_TIMESTAMP", b"")) / 1e6,
        text=text_of(fields.get("MESSAGE", b"")),
        cursor=get("__CURSOR"),
        source=source,
        pid=number(fields.get("_PID") or fields.get("SYSLOG_PID", b"")),
        comm=get("_COMM"),
        ident=get("SYSLOG_IDENTIFIER"),
        unit=about,
        invocation=invocation,
        boot=get("_BOOT_ID"),
        priority=number(fields.get("PRIORITY", b""), 6),
        message_id=get("MESSAGE_ID"),
        line_break=get("_LINE_BREAK"),
        stream=get("_STREAM_ID"),
    )


def bears(line: JournalLine, unit: str = "") -> bool:
    """Whether a line that is not the unit's own says something about it: kernel, journald and logind talk of much."""
    if line.source == "kernel":
        return KERNEL.search(line.text) is not None
    if line.source == "journald":
        return not unit or line.unit == unit or unit in line.text or "user@" in line.text
    if line.source == "other" and line.ident == "systemd-logind":
        return _SESSION.search(line.text) is not None
    return True


def number(value: bytes, default: int = 0) -> int:
    """Decimal digits and nothing else, at most 18 of them (larger are no pids, priorities or times)."""
    return int(value) if _NUMBER.fullmatch(value) else default


class Joiner:
    """Joins what journald split at LineMax: such a record goes on in the next of the same stream and pid.

    A joined line has the time, cursor and fields of its first record and the ``line_break`` of its last. Above
    ``limit`` bytes of text a line is given out in pieces, each but the last with ``line_break`` ``line-max``.
    journald strips blanks at the end of each record, so one at the seam is lost before it ever reaches us.
    """

    MAX_WAITING = 256
    """Lines that may wait at once; above, the oldest is given out as it is."""

    def __init__(self, limit: int = 2 << 20) -> None:
        self.limit = limit
        self.waiting: dict[tuple[str, int], tuple[JournalLine, list[bytes], int]] = {}

    def add(self, line: JournalLine, message: bytes) -> list[JournalLine]:
        """The lines that this one completes: none while its line goes on. ``message``: the bytes of its text, since a
        split falls between bytes, not between characters."""
        key = (line.stream, line.pid)
        held = self.waiting.pop(key, None)
        goes_on = line.line_break == "line-max"
        if held is None and not goes_on:
            return [line]
        first, parts, size = held or (line, [], 0)
        parts.append(message)
        size += len(message)
        if goes_on and size < self.limit:
            self.waiting[key] = (first, parts, size)
            return self._oldest() if len(self.waiting) > self.MAX_WAITING else []
        return [replace(first, text=text_of(b"".join(parts)), line_break=line.line_break)]

    def flush(self) -> list[JournalLine]:
        """What is still waiting for its rest, as it is (``line_break`` ``line-max``)."""
        out: list[JournalLine] = []
        while self.waiting:
            out += self._oldest()
        return out

    def _oldest(self) -> list[JournalLine]:
        key = next(iter(self.waiting))
        first, parts, _ = self.waiting.pop(key)
        return [replace(first, text=text_of(b"".join(parts)))]
