"""``journalctl -o export`` to journal lines: incremental, total over any bytes, fast.

The format is journald's own (https://systemd.io/JOURNAL_EXPORT_FORMATS): a field is ``NAME=value`` and a newline, or,
where the value holds bytes that need it, ``NAME``, a newline, the length as 8 bytes little-endian, the bytes and a
newline; a blank line ends a record.

What makes it fast: of the fields that we ask for (``entry.FIELDS``) only cursor, time and message differ between two
records of one process. One expression takes those out; everything else of a record is looked up in a dictionary of
those that were parsed before.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from probes.entry import KERNEL, Joiner, bears, line_of, text_of
from probes.readings import JournalLine

MAX_FIELD = 32 << 20
"""A longer field is no journal's (LineMax is 48 KiB, core dumps are kept outside): the length was misread."""

_NAME = re.compile(rb"[A-Z0-9_]{1,64}")
_PLAIN = re.compile(
    r"__CURSOR=([^\n]*+)\n__REALTIME_TIMESTAMP=([0-9]{1,18}+)\n__MONOTONIC_TIMESTAMP=[^\n]*+\n(?:__SEQNUM=[^\n]*+\n)?+"
    r"((?:(?!MESSAGE[=\n])[^\n]++\n)*+)MESSAGE=([^\n]*+)\n((?:[^\n]++\n)*+)\n"
)
"""A record whose message is text: cursor, time, the fields before the message, the message, those after it."""
_CURSOR = b"__CURSOR="
_TIME = b"__REALTIME_TIMESTAMP="
_PLACE = re.compile(r"s=([0-9a-f]{32});i=([0-9a-f]{1,16});")
"""A cursor begins with the journal's sequence and the number in it (``sd_journal_get_cursor``; opaque by contract, and
only used to leave out what was seen before)."""
HEAD = 200
_JUDGED = frozenset({"kernel", "journald", "other"})
"""Sources whose text decides whether a line is kept."""
_KNOWN = 4096


class _Malformed(Exception):
    def __init__(self, at: int) -> None:
        self.at = at


class _Incomplete(Exception):
    def __init__(self, need: int = 0) -> None:
        self.need = need
        """the record ends at this offset at the earliest; 0: not known"""


class Skipped(Struct, frozen=True):
    """Bytes that were no record. ``head``: how the first of them began."""

    bytes: int = 0
    head: str = ""


class ExportDecoder:
    """Feed it bytes however they are cut; the lines are the same. It never raises.

    ``unit``: the unit that is watched (decides ``source``); "" for a saved journal of any unit. ``kernel``: True
    keeps every line of the kernel, False only those that bear on a model server (Xid, NVRM, the OOM killer, hung
    tasks, failing disks).
    """

    def __init__(self, unit: str = "", *, kernel: bool = False) -> None:
        self.unit = unit
        self.kernel = kernel
        self.cursor = ""
        """of the last record taken, whether it became a line or not: where to go on from"""
        self.at = 0.0
        """its time"""
        self.records = 0
        self.resumed: bool | None = None
        """after ``restart(after)``: whether the first record was that one, and so nothing is missing; None: none yet"""
        self._after = ""
        self._lost = 0
        self._lost_head = b""
        self._joiner = Joiner()
        self._same: dict[str, JournalLine] = {}
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[JournalLine]:
        """The lines that these bytes complete, in order."""
        if not data:
            return []
        last = self._chunks[-1] if self._chunks else b""
        self._chunks.append(data)
        self._have += len(data)
        if last and not self._skipping:
            # A long record arrives in many pieces: join them once, when its end can be there.
            if self._need:
                if self._have < self._need:
                    return []
            elif b"\n\n" not in data and not (data[0] == 10 and last[-1] == 10) and self._have < MAX_FIELD:
                return []
        return self._take(b"".join(self._chunks))

    def flush(self) -> list[JournalLine]:
        """Lines that wait for their rest (LineMax), given out as they are: after a second of silence, say."""
        return self._joiner.flush()

    @property
    def skipped(self) -> Skipped:
        """What was no record. The decoder went on at the next blank line or cursor."""
        return Skipped(self._lost, text_of(self._lost_head))

    def restart(self, after: str = "") -> None:
        """The byte stream broke off and will begin anew: forget the half record, keep what waits for its rest.

        ``after``: the cursor the new stream is asked to begin with. That record was taken before and is left out, and
        so is whatever the same journal counted before it; ``resumed`` then tells whether it was still there.
        """
        self._chunks, self._have, self._need, self._skipping = [], 0, 0, False
        self._after, self.resumed = after, None

    def close(self) -> list[JournalLine]:
        """The end: a last record that has no blank line after it or is cut short, and whatever waits."""
        out = self._take(b"".join(self._chunks))
        rest = b"".join(self._chunks)
        if rest.strip(b"\n") and not self._skipping:
            fields: dict[str, bytes] = {}
            try:
                self._fields(rest + (b"\n\n" if not rest.endswith(b"\n") else b"\n"), 0, fields, cut=True)
            except _Malformed as malformed:
                self._skip(rest[malformed.at :])
                rest = rest[: malformed.at]
            self._salvage(fields, rest, out)
        elif self._skipping:
            self._skip(rest)
        self.restart()
        return out + self.flush()

    def _take(self, buf: bytes) -> list[JournalLine]:
        out: list[JournalLine] = []
        pos = need = 0
        text: str | None = None
        while True:
            if self._skipping:
                pos = self._resync(buf, pos)
                if self._skipping:
                    break
            if not self._after and buf.find(b"\n\n", pos) >= 0:
                if text is None:  # a character a byte, so that places are the same
                    text = buf.decode("latin-1")
                pos = self._alike(buf, text, pos, out)
            if buf.find(b"\n", pos) < 0 and len(buf) - pos < MAX_FIELD:
                break
            fields: dict[str, bytes] = {}
            try:
                pos = self._fields(buf, pos, fields)
            except _Incomplete as incomplete:
                if len(buf) - pos < 2 * MAX_FIELD:
                    need = incomplete.need - pos if incomplete.need else 0
                    break
                self._skipping = True
            except _Malformed as malformed:
                self._salvage(fields, buf[pos : malformed.at], out)
                pos = malformed.at
                self._skipping = True
            else:
                if fields:
                    self._keep(fields, out)
        rest = buf[pos:]
        self._chunks = [rest] if rest else []
        self._have = len(rest)
        self._need = need
        return out

    def _alike(self, buf: bytes, text: str, pos: int, out: list[JournalLine]) -> int:
        """Takes complete records from ``pos`` on as long as they hold what is expected; where the first is that does
        not. ``text``: the bytes, each as the character of its number."""
        while True:
            pos = self._plain(text, pos, out)
            after = self._binary(buf, pos, out)
            if after == pos:
                return pos
            pos = after

    def _plain(self, text: str, pos: int, out: list[JournalLine]) -> int:
        """Those whose message is text. One loop with few calls: this is where all the time goes."""
        known, joiner, match = self._same, self._joiner, _PLAIN.scanner(text, pos).match  # type: ignore[attr-defined]
        while (found := match()) is not None:
            cursor, time, before, message, after = found.groups()
            key = before + after
            base = known.get(key) or self._common(key)
            if base is None or not cursor.isascii():
                break
            pos = found.end()
            self.records += 1
            self.cursor = cursor
            self.at = at = int(time) / 1e6
            said = message if message.isascii() else text_of(message.encode("latin-1"))
            line = JournalLine(
                at=at,
                text=said,
                cursor=cursor,
                source=base.source,
                pid=base.pid,
                comm=base.comm,
                ident=base.ident,
                unit=base.unit,
                invocation=base.invocation,
                boot=base.boot,
                priority=base.priority,
                message_id=base.message_id,
                line_break=base.line_break,
                stream=base.stream,
            )
            if base.source in _JUDGED and not self._wanted(line):
                continue
            if base.line_break or joiner.waiting:
                out += joiner.add(line, message.encode("latin-1"))
            else:
                out.append(line)
        return pos

    def _binary(self, buf: bytes, pos: int, out: list[JournalLine]) -> int:
        """One record whose message is given by its length, as bars are; where the next begins, or ``pos``."""
        find = buf.find
        mark = find(b"\nMESSAGE\n", pos, find(b"\n\n", pos))
        start = mark + 17
        stop = start + int.from_bytes(buf[mark + 9 : start], "little")
        if mark < 0 or stop >= len(buf) or buf[stop] != 10:
            return pos
        end = find(b"\n\n", stop)
        head = buf[pos:mark].split(b"\n", 3)
        if end < 0 or len(head) < 4:
            return pos
        cursor, time, monotonic, rest = head
        if rest.startswith(b"__SEQNUM="):
            rest = rest.partition(b"\n")[2]
        key = (rest + buf[stop : end + 1]).decode("latin-1")
        base = self._same.get(key) or self._common(key)
        digits = time[21:]
        if (
            base is None
            or not cursor.startswith(_CURSOR)
            or not time.startswith(_TIME)
            or not monotonic.startswith(b"__MONOTONIC_TIMESTAMP=")
            or not digits.isdigit()
            or len(digits) > 18
        ):
            return pos
        self.records += 1
        self.cursor = cursor[9:].decode("ascii", "backslashreplace")
        self.at = int(digits) / 1e6
        message = buf[start:stop]
        line = replace(base, at=self.at, text=text_of(message), cursor=self.cursor)
        if base.source not in _JUDGED or self._wanted(line):
            out += self._joiner.add(line, message)
        return end + 2

    def _fields(self, buf: bytes, pos: int, fields: dict[str, bytes], *, cut: bool = False) -> int:
        """Fills in the fields of the record at ``pos`` and returns where the next begins. ``cut``: there is no more
        to come, a value that breaks off is taken as far as it goes."""
        while True:
            stop = buf.find(b"\n", pos)
            if stop < 0:
                raise _Incomplete
            if stop == pos:
                return pos + 1
            equals = buf.find(b"=", pos, stop)
            name = buf[pos : stop if equals < 0 else equals]
            if not _NAME.fullmatch(name):
                raise _Malformed(pos)
            if equals >= 0:
                value = buf[equals + 1 : stop]
                pos = stop + 1
            else:
                start = stop + 9
                if start > len(buf):
                    if cut:
                        return len(buf)
                    raise _Incomplete(start)
                size = int.from_bytes(buf[stop + 1 : start], "little")
                if size > MAX_FIELD:
                    raise _Malformed(pos)
                after = start + size
                if after >= len(buf):
                    if not cut:
                        raise _Incomplete(after + 1)
                    value, pos = buf[start:].removesuffix(b"\n").removesuffix(b"\n"), len(buf)
                elif buf[after] != 10:
                    raise _Malformed(pos)
                else:
                    value, pos = buf[start:after], after + 1
            key = name.decode("ascii")
            if key == "MESSAGE" and key in fields:
                value = fields[key] + b"\n" + value
            fields[key] = value
            if cut and pos >= len(buf):
                return pos

    def _salvage(self, fields: dict[str, bytes], raw: bytes, out: list[JournalLine]) -> None:
        """A record that does not end as one should: its message is kept where it has one."""
        if "MESSAGE" in fields:
            self._keep(fields, out)
        else:
            self._skip(raw)

    def _keep(self, fields: dict[str, bytes], out: list[JournalLine]) -> None:
        line = line_of(fields, self.unit)
        if self._after:
            if self.resumed is None:
                self.resumed = line.cursor == self._after
            if not later(line.cursor, self._after):
                return
            self._after = ""
        self.records += 1
        self.cursor, self.at = line.cursor, line.at
        if self._wanted(line):
            out += self._joiner.add(line, fields.get("MESSAGE", b""))

    def _wanted(self, line: JournalLine) -> bool:
        if line.source == "kernel":
            return self.kernel or KERNEL.search(line.text) is not None
        return bears(line, self.unit)

    def _common(self, key: str) -> JournalLine | None:
        """What records with these lines beside cursor, time and message have in common; None where it is not plain
        ``NAME=value`` lines throughout."""
        fields: dict[str, bytes] = {}
        for part in key.removesuffix("\n").encode("latin-1").split(b"\n"):
            name, equals, value = part.partition(b"=")
            if not equals or not _NAME.fullmatch(name) or name in (b"MESSAGE", b"__CURSOR", b"__REALTIME_TIMESTAMP"):
                return None
            fields[name.decode("ascii")] = value
        if len(self._same) >= _KNOWN:
            self._same.clear()
        line = self._same[key] = line_of(fields, self.unit)
        return line

    def _resync(self, buf: bytes, pos: int) -> int:
        blank = buf.find(b"\n\n", pos)
        cursor = buf.find(b"\n" + _CURSOR, pos)
        if blank >= 0 and (cursor < 0 or blank < cursor):
            to = blank + 2
        elif cursor >= 0:
            to = cursor + 1
        else:
            to = max(pos, len(buf) - len(_CURSOR))
            self._skip(buf[pos:to])
            return to
        self._skip(buf[pos:to])
        self._skipping = False
        return to

    def _skip(self, lost: bytes) -> None:
        self._lost += len(lost)
        self._lost_head += lost[: HEAD - len(self._lost_head)]


def later(cursor: str, than: str) -> bool:
    """Whether one cursor lies behind another. Cursors of different journals cannot be compared: True, and what looks
    like the same record twice is better than one that nobody sees."""
    if cursor == than:
        return False
    mine, other = _PLACE.match(cursor), _PLACE.match(than)
    if not mine or not other or mine[1] != other[1]:
        return True
    return int(mine[2], 16) > int(other[2], 16)
