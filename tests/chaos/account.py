"""What a host says of itself, asked from beside it: the journal of a unit, and whatever of ours lies on it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

from tests.host.machine import Machine
from tests.host.service import Entry, Service
from tests.host.watcher import nothing_left

TRACES = r"""
find / -xdev -iname '*firstlight*' ! -path '/opt/*' ! -path '/etc/ssh/*' ! -path '/proc/*' ! -path '/sys/*' 2>/dev/null
find /tmp /var/tmp /dev/shm /root /home /run -xdev ! -type d \
  ! -path '/run/systemd/*' ! -path '/run/log/*' ! -path '/run/user/*' ! -path '/run/host/*' ! -path '/run/udev/*' \
  ! -path '/run/utmp' ! -path '/run/motd*' ! -path '/run/agetty.reload' ! -path '*/systemd-private-*' 2>/dev/null
systemctl --no-pager --no-legend --plain --all list-units 'firstlight*' | sed 's/^/unit /'
while read -r _ kind _ mode pid _; do
  [ -e "/proc/$pid" ] && echo "lock $kind $mode of $(cat "/proc/$pid/comm")"
done </proc/locks
true
"""
"""Files that bear our name, all that lies where passing things lie, units of ours, and who holds which kind of lock."""


class Account:
    """``begin`` before the watch; ``read`` before the host lets go of lines, and at the end; then ``nothing_left``."""

    def __init__(self, machine: Machine, service: Service) -> None:
        self.machine = machine
        self.service = service
        self._records: dict[str, tuple[Entry, bytes]] = {}
        self._before: set[str] = set()

    async def begin(self) -> Account:
        self._before = await self._traces()
        return self

    async def read(self) -> list[Entry]:
        """What the host's journal holds about the unit, oldest first, and before it what it has held."""
        argv = ["journalctl", f"--unit={self.service.name}", "--all", "--output=export", "--no-pager", "--quiet"]
        for entry, record in records((await self.machine.do(*argv)).out):
            self._records.setdefault(entry.cursor, (entry, record))
        return self.entries()

    def entries(self, last: str = "") -> list[Entry]:
        """As it was last read. ``last``: up to the line with this cursor."""
        return [entry for entry, _ in self._until(last)]

    def export(self, last: str = "") -> bytes:
        """The same as ``journalctl -o export`` gives it."""
        return b"".join(record for _, record in self._until(last))

    def _until(self, last: str) -> list[tuple[Entry, bytes]]:
        held = list(self._records.values())
        if not last:
            return held
        return held[: next(number for number, (entry, _) in enumerate(held, 1) if entry.cursor == last)]

    async def nothing_left(self, limit: float = 15.0) -> None:
        """Wait until no process, unit, lock or file of ours is on the host; AssertionError where one stays."""
        await nothing_left(self.machine, limit)
        end = asyncio.get_running_loop().time() + limit
        while left := await self._traces() - self._before:
            # nobody tells when a daemon of the host has let go of a lock of its own
            if asyncio.get_running_loop().time() > end:
                raise AssertionError("left on the host: " + "; ".join(sorted(left)))
            await asyncio.sleep(0.1)

    async def _traces(self) -> set[str]:
        return set((await self.machine.do("sh", "-c", TRACES)).text.splitlines())


_FIELD = re.compile(rb"([A-Z0-9_]+)(=|\n)")


def records(export: bytes) -> Iterator[tuple[Entry, bytes]]:
    """Each record of a journal in the export format with its bytes, as systemd describes it: ``NAME=value`` lines, or
    a name, eight bytes of length and the value; an empty line ends a record."""
    at = begin = 0
    fields: dict[bytes, bytes] = {}
    while at < len(export):
        if export[at : at + 1] == b"\n":
            at += 1
            text = fields.get(b"MESSAGE", b"").decode("utf-8", "backslashreplace")
            yield Entry(fields[b"__CURSOR"].decode(), text), export[begin:at]
            begin, fields = at, {}
            continue
        field = _FIELD.match(export, at)
        assert field is not None, export[at : at + 80]
        at = field.end()
        if field[2] == b"=":
            size = export.index(b"\n", at) - at
        else:
            size, at = int.from_bytes(export[at : at + 8], "little"), at + 8
        fields[field[1]] = export[at : at + size]
        at += size + 1
    assert not fields
