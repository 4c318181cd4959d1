"""When a line of a text log was written, and by whom: what journalctl, containers, vLLM and SGLang put in front."""

from __future__ import annotations

import calendar
import functools
import re
from datetime import UTC, datetime

from msgspec import Struct

from probes.readings import Source

_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
_DAY = 86400.0

_WHO = r"(?P<host>\S{1,255}) (?P<ident>[^\s\[\]:]{1,120}|\([^)]{1,40}\))(?:\[(?P<pid>\d{1,10})\])?: ?"
_ISO = r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
_ZONE = r"(?P<zone>Z|UTC|[+-]\d\d:?\d\d|[A-Z]{3,5})"
_SHORT = re.compile(
    rf"(?P<month>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>\d{{1,2}}) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{{1,9}}))? {_WHO}"
)
_SHORT_ISO = re.compile(rf"{_ISO}{_ZONE}? {_WHO}")
_SHORT_FULL = re.compile(rf"[A-Z][a-z]{{2}} {_ISO} {_ZONE} {_WHO}")
_UNIX = re.compile(rf"(?P<seconds>\d{{9,11}})\.(?P<part>\d{{6}}) {_WHO}")
_MONOTONIC = re.compile(rf"\[ *(?P<seconds>\d{{1,10}})\.(?P<part>\d{{6}})\] (?:{_WHO})?")
_DMESG = re.compile(
    r"\[[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) (?P<year>\d{4})\] "
)
_CONTAINER = re.compile(r"(?:\x1b\[[\d;]*m)*[A-Za-z0-9][\w.-]{0,100}-\d+(?:\x1b\[[\d;]*m)* +\| ?(?:\x1b\[[\d;]*m)*")
_DOCKER = re.compile(rf"{_ISO}{_ZONE} (?:(?:stdout|stderr) (?P<flag>[FP]) )?")
_HEAD = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?:\x1b\[[\d;]*m)? (?:\x1b\[[\d;]*m)?"
    r"(?P<month>\d\d)-(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)(?:\x1b\[[\d;]*m)? (?:\x1b\[[\d;]*m)?\["
)
_SGLANG = re.compile(r"\[(?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,6}))?(?: \w+)*\] ")
_BAR = re.compile(r"(?P<label>[A-Za-z\[][^\r\n|]{0,120}?): +(?P<percent>\d+)%[^\r\n]{0,200}?\[(?P<elapsed>[\d:]{4,9})<")

OTHERS = re.compile(
    r"^(?:systemd-(?!journald)[\w-]+|sshd(?:-session)?|sudo|su|CRON|cron|anacron|dbus-\w+|NetworkManager|dockerd|"
    r"containerd|polkitd|rsyslogd|audit(?:d)?|snapd|kubelet|dhclient|dhcpcd|chronyd|ntpd|ntpdate|multipathd|apt\S*|"
    r"unattended-\S+|packagekitd|irqbalance|smartd|mdadm|postfix\S*|avahi-daemon|ModemManager|wpa_supplicant|"
    r"nvidia-persistenced|nv-fabricmanager|nvidia-fabricmanager|nvidia-dcgm|nv-hostengine|dcgm-exporter|"
    r"node_exporter|gpu-manager|kernel-install|agetty|login|useradd|usermod|groupadd|passwd|rtkit-daemon|udisksd|"
    r"thermald|acpid|lvm|blkdeactivate|mount|umount|cloud-init|ansible\S*|puppet\S*|telegraf|fluent-bit)$"
)


class Stamp(Struct, frozen=True):
    """``at``: UTC seconds, None where the line does not say. ``start``: where the text proper begins. ``who``: the
    line was written by journalctl or dmesg, which name the speaker."""

    at: float | None = None
    start: int = 0
    source: Source = "unit"
    ident: str = ""
    pid: int = 0
    who: bool = False


class Stamps:
    """Reads stamps of one file. ``year_before``: UTC seconds by which the file was last written: a date without a year
    is the last one of that day before it. Times without a zone are taken as UTC."""

    def __init__(self, year_before: float) -> None:
        self._before = year_before
        self._year = datetime.fromtimestamp(year_before, UTC).year
        self._base: float | None = None
        self._label = ""
        self._percent = -1

    def journal(self, text: str) -> Stamp | None:
        """The head that journalctl's short formats, dmesg or a container's runtime put in front; None: none."""
        start = 0
        if "|" in text[:140]:
            container = _CONTAINER.match(text)
            if container is not None:
                start = container.end()
        first = text[start : start + 1]
        found = None
        if first.isdigit():
            found = _SHORT_ISO.match(text, start)
            if found is None:
                docker = _DOCKER.match(text, start)
                if docker is not None:
                    return Stamp(self._iso(docker), docker.end())
                unix = _UNIX.match(text, start)
                if unix is not None:
                    return self._who(unix, int(unix["seconds"]) + int(unix["part"]) / 1e6)
                return None
        elif first == "[":
            dmesg = _DMESG.match(text, start)
            if dmesg is not None:
                at = _epoch(int(dmesg["year"]), _MONTHS.get(dmesg["month"], 1), int(dmesg["day"]), dmesg["clock"])
                return Stamp(at, dmesg.end(), "kernel", "kernel", 0, True)
            monotonic = _MONOTONIC.match(text, start)
            if monotonic is not None:
                at = int(monotonic["seconds"]) + int(monotonic["part"]) / 1e6
                if monotonic["ident"]:
                    return self._who(monotonic, at)
                return Stamp(at, monotonic.end(), "kernel", "kernel", 0, True)
            return None
        elif first.isalpha():
            short = _SHORT.match(text, start)
            if short is not None and short["month"] in _MONTHS:
                at = self._without_year(_MONTHS[short["month"]], int(short["day"]), short["clock"])
                return self._who(short, at + _part(short["part"]))
            found = _SHORT_FULL.match(text, start)
        return None if found is None else self._who(found, self._iso(found))

    def own(self, text: str) -> float | None:
        """The stamp that vLLM or SGLang itself writes."""
        head = _HEAD.search(text)
        if head is not None:
            return self._without_year(int(head["month"]), int(head["day"]), head["clock"])
        sglang = _SGLANG.match(text)
        return None if sglang is None else self._iso(sglang)

    def bar(self, text: str, now: float) -> float | None:
        """When a bar without a stamp was printed, from the seconds it has been running. ``now``: time of the line
        before, which it is not earlier than. None: not a bar."""
        bars = list(_BAR.finditer(text))
        if not bars:
            return None
        last = bars[-1]
        label, percent, elapsed = last["label"].strip(), int(last["percent"]), _clock(last["elapsed"])
        if self._base is None or label != self._label or percent < self._percent:
            self._base = now - elapsed if percent == 0 else now
            if percent and elapsed:
                self._base = now - elapsed
        self._label, self._percent = label, percent
        return max(now, self._base + elapsed)

    def _who(self, found: re.Match[str], at: float | None) -> Stamp:
        ident = found["ident"]
        pid = int(found["pid"] or 0)
        source: Source = "unit"
        if ident == "kernel":
            source = "kernel"
        elif ident == "systemd-journald":
            source = "journald"
        elif ident == "systemd" or ident.startswith("("):
            source = "systemd"
        elif OTHERS.match(ident):
            source = "other"
        return Stamp(at, found.end(), source, ident, pid, True)

    def _iso(self, found: re.Match[str]) -> float | None:
        year, month, day = (int(part) for part in found["date"].split("-"))
        at = _epoch(year, month, day, found["clock"])
        if at is None:
            return None
        zone = found.groupdict().get("zone") or ""
        if zone[:1] in "+-" and zone:
            digits = zone[1:].replace(":", "")
            at -= (-1 if zone[0] == "-" else 1) * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)
        return at + _part(found["part"])

    def _without_year(self, month: int, day: int, clock: str) -> float:
        at = _epoch(self._year, month, day, clock)
        if at is None or at > self._before + 1.5 * _DAY:
            earlier = _epoch(self._year - 1, month, day, clock)
            at = earlier if earlier is not None else at
        return self._before if at is None else at


def _part(digits: str | None) -> float:
    return float(f"0.{digits}") if digits else 0.0


@functools.lru_cache(maxsize=512)
def _midnight(year: int, month: int, day: int) -> float | None:
    try:
        return datetime(year, month, day, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _epoch(year: int, month: int, day: int, clock: str) -> float | None:
    midnight = _midnight(year, month, day)
    return None if midnight is None else midnight + _clock(clock)


def _clock(text: str) -> float:
    seconds = 0.0
    for part in text.split(":"):
        seconds = seconds * 60 + (int(part) if part.isdigit() else 0)
    return seconds
