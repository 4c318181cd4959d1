"""The GPUs of the host over one load: figures, processes, history of memory, and where in the healthy picture it is.

The healthy picture, as recorded: all weight memory is taken within half a second, then memory stays flat while shards
are read for minutes, then it jumps to the size of the KV cache. GPU memory is therefore no progress of a load.
"""

from __future__ import annotations

import itertools
from collections import deque

from probes.readings import GpuDevice, GpuProcesses, GpuReading
from watch.load import ORDER
from watch.memory import holders, judge_memory
from watch.view import GpuView
from watch.words import Phase

KEEP = 240
NOISE_MIB = 256.0
"""Changes smaller than this are no step: contexts, allocator caches."""
STEP_MIB = 1024.0


class History:
    """(at, value) pairs of one figure, at most ``KEEP``, the newest always among them. When it is full, every second
    point goes and new ones are kept half as often: old and new stand equally dense, so nothing jumps."""

    def __init__(self) -> None:
        self._kept: list[tuple[float, float]] = []
        self._last: tuple[float, float] | None = None
        self._every = 0.0

    @property
    def points(self) -> list[tuple[float, float]]:
        if self._last is None or self._last == self._kept[-1]:
            return list(self._kept)
        return [*self._kept, self._last]

    def add(self, at: float, value: float) -> None:
        if self._last is not None and at <= self._last[0]:
            return
        self._last = (at, value)
        if self._kept and at - self._kept[-1][0] < 0.75 * self._every:
            return
        self._kept.append(self._last)
        if len(self._kept) >= KEEP:
            gaps = sorted(after[0] - before[0] for before, after in itertools.pairwise(self._kept))
            self._every = 2 * (self._every or gaps[len(gaps) // 2])
            self._kept = self._kept[::2]

    def begin_again(self) -> None:
        """Only the present value stays."""
        self._kept = [self._last] if self._last is not None else []
        self._every = 0.0


class Gpus:
    """The fold of GpuReading and GpuProcesses."""

    def __init__(self) -> None:
        self.last: GpuReading | None = None
        self.processes: GpuProcesses | None = None
        self.since: float | None = None
        self.moved_at: float | None = None
        self._history: dict[int, History] = {}
        self._level: dict[int, float] = {}
        self._base: float | None = None
        """MiB used by the average GPU when the load began"""
        self._sums: deque[tuple[float, float]] = deque(maxlen=64)
        """(at, MiB in use over all GPUs) of the last samples"""

    def new_load(self) -> None:
        """History and steps are of one load; the figures go on."""
        for history in self._history.values():
            history.begin_again()
        self.since = self.moved_at = None
        self._base = self._mean()

    def apply(self, reading: GpuReading) -> None:
        if self.last is not None and reading.at < self.last.at:
            return
        first = self.last is None
        self.last = reading
        if self.since is None:
            self.since = reading.at
        for device in reading.devices:
            if device.used_mib is None:
                continue
            self._history.setdefault(device.index, History()).add(reading.at, device.used_mib)
            level = self._level.get(device.index)
            if level is None or abs(device.used_mib - level) >= NOISE_MIB:
                self._level[device.index] = device.used_mib
                if level is not None:
                    self.moved_at = reading.at
        if first or self._base is None:
            self._base = self._mean()
        used = [device.used_mib for device in self._devices() if device.used_mib is not None]
        if used and (not self._sums or reading.at - self._sums[-1][0] >= 0.2):
            self._sums.append((reading.at, sum(used)))

    def apply_processes(self, reading: GpuProcesses) -> None:
        if self.processes is None or reading.at >= self.processes.at:
            self.processes = reading

    def used_most(self) -> float | None:
        """MiB used on the fullest GPU."""
        values = [device.used_mib for device in self._devices() if device.used_mib is not None]
        return max(values, default=None)

    def busy(self) -> float | None:
        """Mean utilisation, 0–100."""
        values = [device.utilization for device in self._devices() if device.utilization is not None]
        return sum(values) / len(values) if values else None

    def _devices(self) -> tuple[GpuDevice, ...]:
        if self.last is None:
            return ()
        return tuple(device for device in self.last.devices if device.parent is None)

    def _mean(self) -> float | None:
        values = [device.used_mib for device in self._devices() if device.used_mib is not None]
        return sum(values) / len(values) if values else None

    def view(
        self, now: float, phase: Phase, *, alive: bool, unit: str, started: float, expected_mib: float | None
    ) -> GpuView | None:
        """``phase`` of the load; ``alive``: it goes on or serves; ``started``: when it began; ``expected_mib``: weights
        on each GPU."""
        if self.last is None:
            return None
        return GpuView(
            at=self.last.at,
            source=self.last.source,
            devices=self.last.devices,
            processes=self.processes.processes if self.processes is not None else (),
            history=tuple(
                tuple(self._history[device.index].points) if device.index in self._history else ()
                for device in self.last.devices
            ),
            step=self._step(now, phase, alive, unit, started, expected_mib),
            expected_mib=expected_mib,
        )

    def _step(
        self, now: float, phase: Phase, alive: bool, unit: str, started: float, expected_mib: float | None
    ) -> str:
        used = self._mean()
        if used is None:
            return ""
        if not alive or ORDER[phase] < ORDER["dist-init"]:
            listed = self.processes.processes if self.processes is not None else ()
            found = holders(listed, unit, started if alive else 0.0)
            return judge_memory(now, self._devices(), found, tuple(self._sums)).text
        taken = used - (self._base or 0.0)
        gib = f"{used / 1024:.1f} GiB a GPU"
        if phase == "dist-init":
            return f"CUDA contexts only: {gib}"
        if phase in ("weights", "draft-weights"):
            if taken < STEP_MIB:
                return f"weights not allocated yet: {gib}"
            of = f" of about {expected_mib / 1024:.1f} expected" if expected_mib else ""
            return f"weights allocated in one step: {gib}{of}; flat while shards are read"
        if ORDER[phase] < ORDER["kv-cache"]:
            return f"weights in place: {gib}; rises and falls while memory is profiled"
        if expected_mib and taken < expected_mib + STEP_MIB:
            return f"weights in place: {gib}; the jump to the KV cache is to come"
        return f"weights and KV cache allocated: {gib}"
