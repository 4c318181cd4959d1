"""The journal of one unit, followed: what was said since the load began and what is said now, from one command.

Backlog and follow come from the same ``journalctl`` where that can give both: following, it leaves out earlier boots
(systemd 250 to 257, whatever it is told), and they are then read before, to their end. After a break, and between
those two, it begins again *at* the last record taken, which must come first: that proves that nothing is missing.
``--after-cursor`` cannot prove it, and skips one record more when that one is gone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from probes.ahead import DRAW_WAIT, Ahead, within
from probes.beginning import Beginning, beginning
from probes.clock import SYSTEM, Clock
from probes.entry import FIELDS, SUPPRESSED
from probes.export import ExportDecoder
from probes.host import Host
from probes.probe import ProbeFailed, chunks, words
from probes.readings import JournalLine, ProbeReading, Reading

SILENCE = 1.0
"""Real seconds without a byte after which half of a line is shown as it is, and complaints are read."""

NEVER_STARTED = "-60s"
"""Where to begin with a unit that has said nothing yet: shortly before now, by the host's own clock."""


def matches(unit: str, uid: str = "") -> list[str]:
    """The match arguments for a unit: of the system manager, or of the user ``uid``'s.

    The unit's own processes; the manager and root's tools about it (its children before they drop their rights say
    ``UNIT=`` with a pid of their own, so that ``-u``, which asks for pid 1, misses an unset variable's warning in some
    versions); core dumps; journald's notices of what it dropped; the kernel.
    """
    dropped = [f"MESSAGE_ID={SUPPRESSED}", "_UID=0"]
    kernel = ["_TRANSPORT=kernel"]
    if uid:
        terms = [
            [f"_SYSTEMD_USER_UNIT={unit}", f"_UID={uid}"],
            [f"USER_UNIT={unit}", f"_UID={uid}"],
            [f"COREDUMP_USER_UNIT={unit}", "_UID=0"],
            [f"UNIT=user@{uid}.service", "_UID=0"],
            ["_SYSTEMD_UNIT=systemd-logind.service"],
        ]
    else:
        terms = [
            [f"_SYSTEMD_UNIT={unit}"],
            [f"UNIT={unit}", "_UID=0"],
            [f"OBJECT_SYSTEMD_UNIT={unit}", "_UID=0"],
            [f"COREDUMP_UNIT={unit}", "_UID=0"],
        ]
    out: list[str] = []
    for term in [*terms, dropped, kernel]:
        out += ["+", *term] if out else term
    return out


class JournalProbe:
    """``unit``: its full name. ``invocation``: of the start attempt whose first line is the beginning; empty: the
    current or last one, which is asked of systemd, and of the journal where systemd has forgotten the unit. ``since``:
    begin there instead (UTC seconds, or what ``journalctl --since`` takes). ``drawn``: set by a screen when it shows
    lines; a long back-log is read on then.

    ``batches()`` runs one ``journalctl``; called again after it ended or failed, it goes on after the last record.
    """

    def __init__(
        self,
        host: Host,
        unit: str,
        *,
        user: bool = False,
        invocation: str = "",
        since: float | str | None = None,
        clock: Clock = SYSTEM,
        drawn: asyncio.Event | None = None,
    ) -> None:
        self._host = host
        self._unit = unit
        self._drawn = drawn
        self._user = user
        self._uid = ""
        self._invocation = invocation
        self._since = since
        self._clock = clock
        self._decoder = ExportDecoder(unit)
        self._lost_cursor = False
        self._skipped = 0
        self._ahead: Ahead | None = None
        self.told_newest = asyncio.Event()
        """what is newest has been told ahead of a long back-log, or there is none"""

    async def batches(self) -> AsyncIterator[list[Reading]]:
        """Lines in the journal's order, none lost and none twice; an empty batch says that the journal is being read.
        While a long back-log is read, ``BacklogReading``s tell what is newest.

        Raises ProbeFailed when ``journalctl`` ends (it does, when a file it reads is vacuumed) or may not read, and
        what the host raises.
        """
        decoder = self._decoder
        resuming = decoder.cursor
        place = await beginning(
            self._host,
            self._unit,
            user=self._user,
            invocation=self._invocation,
            known=bool(resuming) or self._since is not None,
        )
        self._uid, self._unit = place.uid, place.unit
        decoder.unit = self._unit
        start = self._start(place)
        before, ahead = self._ahead, Ahead(self._host, self._unit, self._matches(), start[0], self._clock)
        ahead.told = self.told_newest
        self._ahead = ahead
        ahead.shown = before is not None and before.shown
        async with ahead:
            if (self._since is not None and not resuming) or _other_boot(start[0], place.boot):
                async with aclosing(self._read(start, ahead, resuming, follow=False)) as earlier:
                    async for out in earlier:
                        yield out
                if decoder.cursor:
                    start, resuming = [f"--cursor={decoder.cursor}"], decoder.cursor
            async with aclosing(
                self._read(start, ahead, resuming, follow=True, proof=not _other_boot(start[0], place.boot))
            ) as lines:
                async for out in lines:
                    yield out

    async def _read(
        self, start: list[str], ahead: Ahead, resuming: str, *, follow: bool, proof: bool = True
    ) -> AsyncGenerator[list[Reading], None]:
        """One ``journalctl``. ``proof``: its first record must be the one that is resumed after."""
        decoder = self._decoder
        decoder.restart(resuming)
        argv = ["journalctl", "-o", "export", f"--output-fields={','.join(FIELDS)}", "--no-pager"]
        argv += [*(("--follow", "--no-tail") if follow else ()), *start, *self._matches()]
        alive = False
        async with self._host.stream(argv) as stream, aclosing(chunks(stream, SILENCE)) as pieces:
            async for chunk in pieces:
                out: list[Reading] = [*(decoder.flush() if chunk is None else decoder.feed(chunk))]
                if resuming and decoder.resumed is not None:
                    out[:0] = self._gap(decoder.resumed or not proof)
                    resuming = ""
                if decoder.skipped.bytes > self._skipped and (out or chunk is None):
                    out.append(self._noise())
                out += ahead.take(decoder, silent=chunk is None)
                if out or not alive:
                    alive = True
                    yield out
                if newest := await ahead.first(decoder):
                    yield newest
                    if self._drawn is not None:
                        await within(self._drawn, DRAW_WAIT)
            status = await stream.wait()
        rest: list[Reading] = [*decoder.flush()] if follow or status else []
        if rest:
            yield rest
        if follow or status:
            raise self._ended(status, stream.stderr)

    def _matches(self) -> list[str]:
        return matches(self._unit, self._uid if self._user else "")

    def _start(self, place: Beginning) -> list[str]:
        """The arguments that say where to begin."""
        if self._decoder.cursor:
            if self._lost_cursor:
                self._lost_cursor = False
                return [f"--since=@{self._decoder.at:.6f}"]
            return [f"--cursor={self._decoder.cursor}"]
        if self._since is not None:
            return [f"--since=@{self._since:.6f}" if isinstance(self._since, int | float) else f"--since={self._since}"]
        if place.cursor:
            return [f"--cursor={place.cursor}"]
        if place.started:
            return [f"--since=@{place.started:.6f}"]
        return [f"--since={NEVER_STARTED}"]

    def _gap(self, resumed: bool) -> list[Reading]:
        if resumed:
            return []
        return [
            ProbeReading(
                at=self._clock.now(),
                probe="journal",
                state="gap",
                reason="The journal no longer has the last line read: lines between it and the next are lost",
                remedy="The host keeps too little journal: raise SystemMaxUse= in journald.conf.",
            )
        ]

    def _noise(self) -> Reading:
        new = self._decoder.skipped.bytes - self._skipped
        self._skipped = self._decoder.skipped.bytes
        head = self._decoder.skipped.head.encode("unicode_escape").decode("ascii")[:80]
        return ProbeReading(
            at=self._clock.now(),
            probe="journal",
            state="gap",
            reason=f"{new} bytes that are no journal records were left out, the first of them: {head}",
        )

    def _ended(self, status: int, stderr: bytes) -> ProbeFailed:
        text = stderr.decode("utf-8", "backslashreplace")
        if "Failed to parse timestamp" in text:
            return ProbeFailed(
                f"journalctl does not understand --since {self._since}",
                "Give a time such as '2026-11-30 14:00', '-2h' or 'today'.",
                state="missing",
            )
        if "seek to cursor" in text or "parse cursor" in text:
            self._lost_cursor = True
        why = words(stderr) or f"exit status {status}"
        return ProbeFailed(f"journalctl ended: {why}; it is begun again after the last line read", state="ended")


def _other_boot(start: str, boot: str) -> bool:
    """Whether a ``--cursor=`` lies in another boot than this one."""
    place = re.search(r";b=([0-9a-f]{32});", start)
    return place is not None and len(boot) == 32 and place[1] != boot


def has_manager_line(lines: list[Reading]) -> bool:
    """Whether systemd speaks in a batch: the unit's state may be another now."""
    return any(type(line) is JournalLine and line.source == "systemd" for line in lines)
