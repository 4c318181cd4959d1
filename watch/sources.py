"""How the watch itself is doing: the link to the host, and each probe."""

from __future__ import annotations

from msgspec import Struct

from probes.readings import LinkReading, ProbeReading
from watch.view import LinkView, SourceView


class _Since(Struct):
    reading: ProbeReading
    since: float
    last: float


class Sources:
    """The fold of LinkReading and ProbeReading."""

    def __init__(self) -> None:
        self._link: LinkReading | None = None
        self._since = 0.0
        self._rtt: float | None = None
        self._probes: dict[str, _Since] = {}

    @property
    def up(self) -> bool:
        """False while the link is known to be down; without a link (a saved log, this machine) nothing is down."""
        return self._link is None or self._link.state == "up"

    def link(self, reading: LinkReading) -> bool:
        """Whether the link is another; a round trip that took another time is none."""
        before = self._link
        if before is None or reading.state != before.state:
            self._since = reading.at
        if reading.rtt_ms is not None or reading.state != "up":
            self._rtt = reading.rtt_ms
        self._link = reading
        told = (reading.state, reading.reason, reading.remedy, reading.retry_in)
        return before is None or told != (before.state, before.reason, before.remedy, before.retry_in)

    def probe(self, reading: ProbeReading) -> None:
        known = self._probes.get(reading.probe)
        if known is not None and known.reading.state == reading.state and known.reading.reason == reading.reason:
            known.last = max(known.last, reading.at)
            return
        self._probes[reading.probe] = _Since(reading, reading.at, reading.at)

    def link_view(self) -> LinkView | None:
        link = self._link
        if link is None:
            return None
        return LinkView(
            state=link.state,
            reason=link.reason,
            remedy=link.remedy,
            rtt_ms=self._rtt,
            since=self._since,
            retry_in=link.retry_in,
        )

    def views(self) -> tuple[SourceView, ...]:
        return tuple(
            SourceView(
                probe=name,
                state=known.reading.state,
                reason=known.reading.reason,
                remedy=known.reading.remedy,
                since=known.since,
                last=known.last,
            )
            for name, known in sorted(self._probes.items())
        )
