"""The rehearsal's journal: the story's records in journald's export format, as ``journalctl`` gives them."""

from __future__ import annotations

import re
import struct
from collections.abc import AsyncIterator, Sequence

from probes.rehearsal.stage import Stage

_SEQUENCE = "13e3fd48f6674fc7ac0f8c624fda4a42"
_PLAIN = re.compile(r"[\t\x20-\x7e\x80-\uffff\U00010000-\U0010ffff]*\Z")


class Journal:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._records = stage.story.journal

    def cursor(self, number: int) -> str:
        micros = self._micros(number)
        return (
            f"s={_SEQUENCE};i={number + 0x47:x};b={self._stage.story.boot};m={micros - self._micros(0) + 10**10:x};"
            f"t={micros:x};x={number * 2654435761 & 0xFFFFFFFFFFFFFFFF:x}"
        )

    def said(self) -> int:
        """How many records there are by now."""
        now = self._stage.at()
        return sum(record.at <= now for record in self._records)

    async def follow(self, argv: Sequence[str]) -> AsyncIterator[bytes]:
        """Records as ``journalctl -o export --follow`` gives them, from where its arguments say, for ever."""
        wanted = _fields(argv)
        number = self._first(argv)
        while number < len(self._records):
            await self._stage.until(self._records[number].at)
            due = max(self.said(), number + 1)
            yield b"".join(self.entry(each, wanted) for each in range(number, due))
            number = due
        await self._stage.for_ever()

    def entry(self, number: int, wanted: frozenset[str]) -> bytes:
        record = self._records[number]
        micros = self._micros(number)
        fields = {
            "__CURSOR": self.cursor(number),
            "__REALTIME_TIMESTAMP": str(micros),
            "__MONOTONIC_TIMESTAMP": str(micros - self._micros(0) + 10**10),
            "_BOOT_ID": self._stage.story.boot,
            **{name: value for name, value in self._stage.story.fields[record.fields].items() if name in wanted},
            "MESSAGE": record.message,
        }
        return b"".join(_field(name, value) for name, value in fields.items()) + b"\n"

    def _first(self, argv: Sequence[str]) -> int:
        for argument in argv:
            name, _, value = argument.partition("=")
            if name == "--cursor":
                known = {self.cursor(number): number for number in range(len(self._records))}
                return known.get(value, 0)
            if name == "--since" and value.startswith("@"):
                since = float(value[1:]) - self._stage.begin
                return sum(record.at < since for record in self._records)
        return 0

    def _micros(self, number: int) -> int:
        return int((self._stage.begin + self._records[number].at) * 1e6)


def _fields(argv: Sequence[str]) -> frozenset[str]:
    listed = next((a.partition("=")[2] for a in argv if a.startswith("--output-fields=")), "")
    return frozenset(listed.split(","))


def _field(name: str, value: str) -> bytes:
    """As text where journald would write it so; else by length."""
    data = value.encode()
    if _PLAIN.match(value):
        return name.encode() + b"=" + data + b"\n"
    return name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
