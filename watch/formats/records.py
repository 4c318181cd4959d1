"""Journal records as JSON: ``journalctl -o json`` and ``json-pretty``, and what containers and vLLM itself write.

journalctl gives a field as a string, as a list of byte values where it holds carriage returns, escapes or no UTF-8, as
null where it is too long (without --all), or as a list of these where the record holds it several times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from probes.entry import Joiner, bears, line_of
from probes.readings import UNDECODABLE, JournalLine, Reading
from watch.formats.stamps import OTHERS
from watch.formats.textlog import FOLLOW, follows
from watch.sieve import Sieve

_Value = str | list[Any] | int | float | bool | None


class _Record(msgspec.Struct, omit_defaults=True):
    """The fields that a reading is made of, and those of containers and of vLLM's own JSON."""

    MESSAGE: _Value = ""
    MESSAGE_ID: _Value = ""
    PRIORITY: _Value = ""
    SYSLOG_IDENTIFIER: _Value = ""
    SYSLOG_PID: _Value = ""
    PID: _Value = msgspec.field(name="_PID", default="")
    COMM: _Value = msgspec.field(name="_COMM", default="")
    TRANSPORT: _Value = msgspec.field(name="_TRANSPORT", default="")
    STREAM_ID: _Value = msgspec.field(name="_STREAM_ID", default="")
    LINE_BREAK: _Value = msgspec.field(name="_LINE_BREAK", default="")
    BOOT_ID: _Value = msgspec.field(name="_BOOT_ID", default="")
    SYSTEMD_UNIT: _Value = msgspec.field(name="_SYSTEMD_UNIT", default="")
    SYSTEMD_USER_UNIT: _Value = msgspec.field(name="_SYSTEMD_USER_UNIT", default="")
    SYSTEMD_INVOCATION_ID: _Value = msgspec.field(name="_SYSTEMD_INVOCATION_ID", default="")
    UNIT: _Value = ""
    USER_UNIT: _Value = ""
    INVOCATION_ID: _Value = ""
    USER_INVOCATION_ID: _Value = ""
    OBJECT_SYSTEMD_UNIT: _Value = ""
    REALTIME: _Value = msgspec.field(name="__REALTIME_TIMESTAMP", default="")
    CURSOR: _Value = msgspec.field(name="__CURSOR", default="")
    log: _Value = ""
    time: _Value = ""
    asctime: _Value = ""
    levelname: _Value = ""
    processName: _Value = ""
    process: _Value = 0
    message: _Value = ""


_NAMES = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(_Record) if field.encode_name.isupper()
)
_decode = msgspec.json.Decoder(_Record).decode
_TELLING = (b'"MESSAGE":[', b'"MESSAGE" : [', b'"MESSAGE":null', b'"MESSAGE" : null', b'"line-max"')
"""Records that are read whatever the sieve says: byte values, messages that were left out, lines in pieces."""
_FOLLOW = re.compile(rb"Traceback \(most recent call last\)|validation errors? for |usage: ")


class JsonRecords:
    """Feed it blocks of whole lines, one record a line. With a sieve, records in whose JSON it finds nothing are
    only counted."""

    def __init__(self, name: str, *, sieve: Sieve | None = None, before: int = 0) -> None:
        self.name = name
        self.lines = before
        self.broken = 0
        """lines that were no JSON object"""
        self._sieve = sieve
        self._joiner = Joiner()
        self._follow = 0
        self._now = 0.0

    def block(self, block: bytes) -> list[Reading]:
        first = self.lines + 1
        self.lines += block.count(b"\n") + (bool(block) and not block.endswith(b"\n"))
        out: list[Reading] = []
        for number, raw in self._picked(block, first):
            out.extend(self.record(raw, f"{self.name}:{number}"))
        return out

    def close(self) -> list[Reading]:
        return list(self._joiner.flush())

    def _picked(self, block: bytes, first: int) -> Iterator[tuple[int, bytes]]:
        if self._sieve is None:
            lines = block.split(b"\n")
            if lines and not lines[-1]:
                lines.pop()
            yield from enumerate(lines, first)
            return
        starts = {start for start, _ in self._sieve.lines(block)}
        for literal in _TELLING:
            at = block.find(literal)
            while at >= 0:
                starts.add(block.rfind(b"\n", 0, at) + 1)
                end = block.find(b"\n", at)
                at = block.find(literal, end) if end >= 0 else -1
        starts.add(block.rfind(b"\n", 0, max(0, len(block) - 1)) + 1)
        number, at = first, 0
        waiting = sorted(starts, reverse=True)
        while waiting or (self._follow and at < len(block)):
            start = at if self._follow else waiting[-1]
            if start >= len(block):
                break
            number += block.count(b"\n", at, start)
            end = block.find(b"\n", start)
            end = len(block) if end < 0 else end
            line = block[start:end]
            yield number, line
            begins = self._follow > 0 or _FOLLOW.search(line) is not None
            self._follow = FOLLOW if begins and follows(line) else max(0, self._follow - 1)
            number, at = number + 1, end + 1
            while waiting and waiting[-1] < at:
                waiting.pop()

    def record(self, raw: bytes, ref: str) -> list[JournalLine]:
        """The lines that one record completes; none where it is no JSON object."""
        raw = raw.strip(b"\x00\x1e \t\r")  # json-seq and json-sse set marks between records
        if raw.startswith(b"data: "):
            raw = raw[6:]
        if not raw:
            return []
        try:
            record = _decode(raw)
        except UNDECODABLE:
            self.broken += 1
            return []
        return self.take(record, ref)

    def take(self, record: _Record, ref: str) -> list[JournalLine]:
        if record.REALTIME == "" and record.MESSAGE == "":
            line = self._foreign(record, ref)
            return [] if line is None else [line]
        fields: dict[str, bytes] = {}
        truncated = False
        for name, field in _NAMES:
            value = getattr(record, name)
            if value == "" or value is None:
                truncated = truncated or (value is None and field == "MESSAGE")
                continue
            fields[field] = _bytes(value)
        line = line_of(fields)
        if line.source == "unit" and (OTHERS.match(line.ident) or fields.get("_SYSTEMD_UNIT") == b"init.scope"):
            line = replace(line, source="other")
        if line.source != "kernel" and not bears(line):
            return []
        self._now = line.at or self._now
        line = replace(line, ref=ref, truncated=truncated, at=self._now)
        if truncated:
            return [line]
        if line.line_break == "line-max" or self._joiner.waiting:
            return self._joined(line, fields.get("MESSAGE", b""))
        return [line]

    def _joined(self, line: JournalLine, message: bytes) -> list[JournalLine]:
        """A line in pieces comes as one, and still says that it was split."""
        split = line.line_break == "line-max"
        out = self._joiner.add(line, message)
        return [replace(one, line_break="line-max") if not split and one.ref != line.ref else one for one in out]

    def _foreign(self, record: _Record, ref: str) -> JournalLine | None:
        """docker's json-file, and vLLM's own JSON formatter (0.32+)."""
        at = _time(record.time) or _time(record.asctime) or self._now
        self._now = at
        if record.log != "":
            return JournalLine(at=at, text=_text(record.log).rstrip("\r\n"), ref=ref)
        if record.message != "":
            pid = record.process if isinstance(record.process, int) else 0
            name = _text(record.processName) or "MainProcess"
            stamp = _text(record.asctime)[5:19].replace(",", ".")
            if not re.fullmatch(r"\d\d-\d\d \d\d:\d\d:\d\d", stamp):
                stamp = "01-01 00:00:00"
            text = f"({name} pid={pid}) {_text(record.levelname) or 'INFO'} {stamp} [json:1] {_text(record.message)}"
            return JournalLine(at=at, text=text, pid=pid, ref=ref)
        return None


def pretty(data: bytes, name: str) -> list[Reading] | None:
    """``journalctl -o json-pretty``: records over several lines. None where it is none."""
    records = JsonRecords(name)
    decoder = msgspec.json.Decoder(_Record)
    out: list[Reading] = []
    at = 0
    for found in re.finditer(rb"^\}\s*$", data, re.MULTILINE):
        piece = data[at : found.end()]
        start = data.count(b"\n", 0, at + len(piece) - len(piece.lstrip())) + 1
        at = found.end()
        try:
            record = decoder.decode(piece)
        except UNDECODABLE:
            return None
        out.extend(records.take(record, f"{name}:{start}"))
    return [*out, *records.close()] or None


def _bytes(value: _Value) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list):
        if all(isinstance(part, int) and not isinstance(part, bool) and 0 <= part < 256 for part in value):
            return bytes(value)
        return b"\n".join(_bytes(part) for part in value)
    return b"" if value is None else str(value).encode()


def _text(value: _Value) -> str:
    return _bytes(value).decode("utf-8", "backslashreplace")


def _time(value: _Value) -> float:
    if not isinstance(value, str) or not value:
        return 0.0
    text = re.sub(r"(\.\d{6})\d+", r"\1", value.replace(",", ".").replace("Z", "+00:00"))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    if when.tzinfo is None:
        when = datetime.fromisoformat(text + "+00:00")
    return when.timestamp()
