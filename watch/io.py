"""Storage and CPU of the unit over one load: rates from counters, and what holds the load up now, in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from probes.readings import IoReading
from watch.bound import Pace, is_network, judge_bound, nameless, pace
from watch.gpu import History
from watch.view import IoView
from watch.words import Phase

WINDOW = 10.0
"""Seconds over which rates are taken."""
IDLE = 0.02
"""Cores below which a process does nothing."""
KEEP = 64
"""Readings kept for that."""


class Io:
    """The fold of IoReading. Counters that fall (the unit's control group is new) start again."""

    def __init__(self) -> None:
        self.last: IoReading | None = None
        self.first_at: float | None = None
        self.moved_at: float | None = None
        self.model_bytes: int | None = None
        self.network: bool | None = None
        self._recent: deque[IoReading] = deque()
        self._base = 0
        self._ceiling = 0.0
        self._history = History()

    def new_load(self) -> None:
        self._base = self.last.read_bytes or 0 if self.last is not None else 0
        self._ceiling = 0.0
        self._history.begin_again()
        self._recent.clear()
        self.first_at = self.moved_at = None

    def apply(self, reading: IoReading) -> None:
        last = self.last
        if last is not None and reading.at < last.at:
            return
        self.last = reading
        if reading.model_bytes:
            self.model_bytes = reading.model_bytes
        if reading.model_mount:
            self.network = is_network(reading.model_mount)
        if self.first_at is None:
            self.first_at = reading.at
        if reading.read_bytes is None and reading.cpu_seconds is None:
            return
        if last is not None and (reading.read_bytes or 0) < (last.read_bytes or 0):
            self._base = 0
            self._recent.clear()
        elif last is not None and (reading.read_bytes or 0) > (last.read_bytes or 0):
            self.moved_at = reading.at
        self._recent.append(reading)
        while len(self._recent) > 2 and (reading.at - self._recent[1].at >= WINDOW or len(self._recent) > KEEP):
            self._recent.popleft()
        rate = self.read_rate()
        if rate is not None:
            self._ceiling = max(self._ceiling, rate)
            self._history.add(reading.at, rate)

    def read_rate(self) -> float | None:
        """bytes a second over the last seconds."""
        old, new, seconds = self._span()
        if old is None or new is None or old.read_bytes is None or new.read_bytes is None:
            return None
        return max(0.0, (new.read_bytes - old.read_bytes) / seconds)

    def cpu_rate(self) -> float | None:
        """cores in use over the last seconds."""
        old, new, seconds = self._span()
        if old is None or new is None or old.cpu_seconds is None or new.cpu_seconds is None:
            return None
        return max(0.0, (new.cpu_seconds - old.cpu_seconds) / seconds)

    def read_since_start(self) -> int | None:
        if self.last is None or self.last.read_bytes is None:
            return None
        return max(0, self.last.read_bytes - self._base)

    def system_mib(self) -> tuple[float, float] | None:
        """(in use, total) of the host's memory, MiB."""
        if self.last is None or not self.last.mem_total or self.last.mem_available is None:
            return None
        return (self.last.mem_total - self.last.mem_available) / 2**20, self.last.mem_total / 2**20

    def compilers(self) -> bool:
        """Whether a compiler runs among the unit's processes."""
        if self.last is None:
            return False
        return any(process.name in ("nvcc", "cicc", "ptxas", "cc1plus", "ninja") for process in self.last.processes)

    def _span(self) -> tuple[IoReading | None, IoReading | None, float]:
        if len(self._recent) < 2:
            return None, None, 0.0
        old, new = self._recent[0], self._recent[-1]
        seconds = new.at - old.at
        return (old, new, seconds) if seconds > 0 else (None, None, 0.0)

    def _paces(self, names: Callable[[int], str]) -> tuple[Pace, ...]:
        return pace(tuple(self._recent), names) if self._span()[2] > 0 else ()

    def _devices(self) -> tuple[tuple[str, float], ...]:
        """Bytes a second from each device over the last seconds."""
        old, new, seconds = self._span()
        if old is None or new is None:
            return ()
        before = {device.device: device.read_bytes for device in old.devices}
        rates = [
            (device.device, (device.read_bytes - before[device.device]) / seconds)
            for device in new.devices
            if device.read_bytes > before.get(device.device, device.read_bytes)
        ]
        return tuple(sorted(rates, key=lambda one: -one[1]))

    def view(self, phase: Phase, gpu: float | None, names: Callable[[int], str] = nameless) -> IoView | None:
        """``gpu``: mean utilisation of the GPUs in percent; ``names``: what a pid is known as."""
        if self.last is None:
            return None
        return IoView(
            last=self.last,
            read_rate=self.read_rate(),
            read_since_start=self.read_since_start(),
            cpu_rate=self.cpu_rate(),
            bound=judge_bound(tuple(self._recent), phase, ceiling=self._ceiling, gpu=gpu, names=names).text,
            workers=tuple(one for one in self._paces(names) if one.cores >= IDLE or one.waits or one.read),
            devices=self._devices(),
            history=tuple(self._history.points),
        )
