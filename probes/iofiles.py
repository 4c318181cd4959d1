"""The files of ``/proc`` and of control groups that tell of storage, CPU and memory. Total: the unreadable is None."""

from __future__ import annotations

import re
from collections.abc import Mapping

from probes.readings import IoReading, MountIo, ProcessIo

TICKS = 100.0
"""Clock ticks a second in /proc/PID/stat: USER_HZ, which is 100 on every Linux that has GPUs."""
PAGE = 4096
SECTOR = 512
STACKED = re.compile(r"(?:dm-|md|loop|ram|zram|nbd|sr|bcache)\d*")
"""Devices that hand on to others what is read from them: counted once, where it is really read."""
PARTITION = re.compile(r"(?:nvme\d+n\d+p|mmcblk\d+p|[shv]d[a-z]+|xvd[a-z]+)\d+")
UNLIMITED = 1 << 62
MOST = 200
"""Processes of one sample."""

_PAIR = re.compile(r"(\w+)=(\d{1,20})")


def sections(answer: bytes) -> dict[str, str]:
    """Text by name: each begins with the byte 036, its name and a newline."""
    parts = answer.decode("utf-8", "backslashreplace").split("\x1e")
    named = (part.partition("\n") for part in parts[1:])
    return {name: text for name, _, text in named}


def whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 21 else None


def io_stat(text: str) -> dict[str, int]:
    """Bytes read by device number (``259:0``), from a cgroup's io.stat."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        device, _, rest = line.partition(" ")
        read = dict(_PAIR.findall(rest)).get("rbytes")
        if read is not None:
            found[device] = int(read)
    return found


def device_names(diskstats: str) -> dict[str, str]:
    """Names by device number, from /proc/diskstats."""
    rows = (line.split() for line in diskstats.splitlines())
    return {f"{row[0]}:{row[1]}": row[2] for row in rows if len(row) > 5}


def disks(diskstats: str) -> tuple[MountIo, ...]:
    """Bytes read since boot from each disk that was read at all: whole disks, not partitions or what is stacked."""
    out = []
    for line in diskstats.splitlines():
        row = line.split()
        sectors = whole(row[5]) if len(row) > 5 else None
        if sectors and not STACKED.fullmatch(row[2]) and not PARTITION.fullmatch(row[2]):
            out.append(MountIo(device=row[2], read_bytes=sectors * SECTOR))
    return tuple(out)


def meminfo(text: str) -> dict[str, int]:
    """Bytes by name."""
    rows = (line.split() for line in text.splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1 and whole(row[1]) is not None}


def shm_use(df: str) -> tuple[int, int] | None:
    """(used, total) bytes from ``df -Pk /dev/shm``."""
    row = df.splitlines()[-1].split() if df.strip() else []
    if len(row) < 6 or whole(row[1]) is None or whole(row[2]) is None:
        return None
    return int(row[2]) * 1024, int(row[1]) * 1024


def process(pid: int, stat: str, io: str) -> ProcessIo | None:
    """One process from its stat and io; None where stat is not one (it has just ended)."""
    head, closed, rest = stat.strip().rpartition(")")
    fields = rest.split()
    if not closed or len(fields) < 22:
        return None
    numbers = [whole(fields[at]) or 0 for at in (11, 12, 21)]
    counters = dict(re.findall(r"^(\w+): (\d{1,20})$", io, re.MULTILINE))
    return ProcessIo(
        pid=pid,
        name=head.partition("(")[2],
        read_bytes=int(counters.get("read_bytes", 0)),
        rchar=int(counters.get("rchar", 0)),
        cpu_seconds=(numbers[0] + numbers[1]) / TICKS,
        rss_bytes=numbers[2] * PAGE,
        state=fields[0],
    )


class Tally:
    """Samples to readings. What a process had read and burnt when it ended still counts: the sums never fall while the
    control group is the same. ``shm``: (used, total) of /dev/shm, bytes."""

    def __init__(self) -> None:
        self.shm: tuple[int, int] | None = None
        self.blind = False
        """the unit's own reads are not to be had: the disks' counters are the next best"""
        self._group = ""
        self._read: dict[int, int] = {}
        self._burnt: dict[int, float] = {}
        self._gone = (0, 0.0)

    def reading(self, found: Mapping[str, str], *, group: str, names: Mapping[str, str], at: float) -> IoReading:
        """``found``: as ``sections`` gives it. ``names``: of devices, by number."""
        if group != self._group:
            self._group = group
            self._read.clear()
            self._burnt.clear()
            self._gone = (0, 0.0)
        processes = []
        readable = False
        for key, text in found.items():
            kind, _, pid = key.partition(" ")
            if kind == "stat" and pid.isdigit():
                one = process(int(pid), text, found.get(f"io {pid}", ""))
                if one is not None:
                    readable = readable or f"io {pid}" in found
                    processes.append(one)
                    self._read[one.pid] = one.read_bytes
                    self._burnt[one.pid] = one.cpu_seconds
        self._forget({one.pid for one in processes})
        by_device = io_stat(found.get("io.stat", ""))
        devices = tuple(
            MountIo(device=names.get(number, number), read_bytes=read)
            for number, read in by_device.items()
            if read and not STACKED.fullmatch(names.get(number, number))
        )
        by_group = sum(device.read_bytes for device in devices)
        by_processes = self._gone[0] + sum(self._read.values()) if readable else 0
        known = readable or "io.stat" in found
        self.blind = bool(group) and not known
        memory = meminfo(found.get("meminfo", ""))
        limit = whole(found.get("memory.max", "").strip())
        return IoReading(
            at=at,
            # a network mount is no block device: only the processes' own counters know of it
            read_bytes=max(by_group, by_processes) if known else None,
            cpu_seconds=self._cpu(found) if group else None,
            page_cache=memory.get("Cached"),
            mem_available=memory.get("MemAvailable"),
            mem_total=memory.get("MemTotal"),
            unit_memory=whole(found.get("memory.current", "").strip()),
            unit_memory_max=limit if limit is not None and limit < UNLIMITED else None,
            shm_used=self.shm[0] if self.shm else None,
            shm_total=self.shm[1] if self.shm else None,
            processes=tuple(processes),
            devices=devices or disks(found.get("diskstats", "")),
        )

    def _forget(self, living: set[int]) -> None:
        """Adds up the ended ones once there are many: a unit may start a short-lived process every second."""
        if len(self._read) > 4 * MOST:
            for pid in self._read.keys() - living:
                read, burnt = self._gone
                self._gone = (read + self._read.pop(pid), burnt + self._burnt.pop(pid))

    def _cpu(self, found: Mapping[str, str]) -> float | None:
        usage = re.search(r"^usage_usec (\d{1,20})$", found.get("cpu.stat", ""), re.MULTILINE)
        if usage:
            return int(usage[1]) / 1e6
        nanoseconds = whole(found.get("cpuacct.usage", "").strip())
        if nanoseconds is not None:
            return nanoseconds / 1e9
        return self._gone[1] + sum(self._burnt.values()) if self._burnt else None
