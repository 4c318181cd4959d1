"""Numbers as an operator reads them: always with their unit, times always with their zone.

Memory and files are binary (GiB), rates of storage and networks decimal (MB/s), as nvidia-smi and iostat have them.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from math import isfinite


class Zone:
    """The zone that times are shown in. None: this machine's own."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone

    @property
    def zone(self) -> tzinfo | None:
        """None: this machine's own."""
        return self._zone

    def clock(self, at: float, *, seconds: bool = True, millis: bool = False) -> str:
        """``15:32:07``; without the zone, for places that name it once."""
        moment = self._at(at)
        if moment is None:
            return "--:--"
        if millis:
            return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
        return f"{moment:%H:%M:%S}" if seconds else f"{moment:%H:%M}"

    def full(self, at: float) -> str:
        """``2026-05-04 15:32:07.123 CEST``"""
        moment = self._at(at)
        if moment is None:
            return "unknown"
        return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} {self.name(at)}"

    def second(self, at: float) -> str:
        """``2026-05-04 15:32:07 CEST``"""
        return f"{self.day(at)} {self.clock(at)} {self.name(at)}" if self._at(at) is not None else "unknown"

    def day(self, at: float) -> str:
        """``2026-05-04``"""
        moment = self._at(at)
        return f"{moment:%Y-%m-%d}" if moment is not None else "----------"

    def name(self, at: float) -> str:
        """``CEST``, or ``UTC+05:30`` where the zone has no name of its own."""
        moment = self._at(at)
        if moment is None:
            return "UTC"
        name = moment.tzname() or ""
        if name and name[0].isalpha():
            return name
        offset = moment.strftime("%z")
        return f"UTC{offset[:3]}:{offset[3:5]}"

    def _at(self, at: float) -> datetime | None:
        try:
            moment = datetime.fromtimestamp(at, UTC)
            return moment.astimezone(self._zone)
        except (OverflowError, ValueError, OSError):
            return None


def elapsed(seconds: float) -> str:
    """A running clock: ``0:10``, ``41:12``, ``1:02:12``, ``2 d 1:02:12``."""
    if not isfinite(seconds):
        return "∞"
    whole = max(0, int(seconds))
    days, whole = divmod(whole, 86_400)
    hours, whole = divmod(whole, 3600)
    minutes, whole = divmod(whole, 60)
    if days:
        return f"{days} d {hours}:{minutes:02d}:{whole:02d}"
    return f"{hours}:{minutes:02d}:{whole:02d}" if hours else f"{minutes}:{whole:02d}"


def about(seconds: float) -> str:
    """A length of time in one or two words: ``850 ms``, ``45 s``, ``38 min``, ``1 h 10 min``, ``3 d 4 h``."""
    if not isfinite(seconds):
        return "∞"
    seconds = max(0.0, seconds)
    if 0 < seconds < 0.00095:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def between(low: float, high: float) -> str:
    """A range, its unit written once where both have the same: ``35–44 min``, ``50 min – 2 h``."""
    first, last = about(low), about(high)
    if 60 <= low < 99.5 <= high:
        first = f"{low / 60:.1f}".removesuffix(".0") + " min"
    elif low < 1 <= high:
        first = f"{max(0.0, low):.1f}".removesuffix(".0") + " s"
    if first == last:
        return first
    if first.count(" ") == last.count(" ") == 1 and first.split(" ")[1] == last.split(" ")[1]:
        return f"{first.split(' ')[0]}–{last}"
    return f"{first} – {last}"


def number(value: float, digits: int = 0) -> str:
    """``1,284``; with decimals only where they are asked for and mean something."""
    if not isfinite(value):
        return "–"
    return f"{value:,.{digits}f}" if abs(value) < 1000 else f"{value:,.0f}"


def percent(ratio: float) -> str:
    return f"{ratio * 100:.0f} %" if isfinite(ratio) else "–"


def size(count: float) -> str:
    """Bytes: ``640 KiB``, ``71.2 GiB``, ``540 GiB``."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= scale * (10 if unit == "TiB" else 1):
            return f"{_short(count / scale)} {unit}"
    return f"{count:.0f} B"


def size_of(done: float, total: float) -> str:
    """``320 of 540 GiB``: both in the unit of the whole."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if total >= scale * (10 if unit == "TiB" else 1):
            return f"{_short(done / scale)} of {_short(total / scale)} {unit}"
    return f"{done:.0f} of {total:.0f} B"


def rate(count: float) -> str:
    """Bytes a second, decimal: ``148 MB/s``, ``1.2 GB/s``."""
    for unit, scale in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if abs(count) >= scale:
            return f"{_short(count / scale)} {unit}"
    return f"{count:.0f} B/s"


def pace(per_second: float, unit: str) -> str:
    """How fast something counts: ``2.1 shards/s``, or ``35 s a shard`` where that reads better."""
    if per_second <= 0 or not isfinite(per_second):
        return ""
    if unit == "bytes":
        return rate(per_second)
    if per_second >= 1:
        return f"{_short(per_second)} {unit}/s"
    return f"{about(1 / per_second)} a {unit.removesuffix('s')}"


def _short(value: float) -> str:
    return f"{value:,.1f}" if abs(value) < 99.95 else f"{value:,.0f}"
