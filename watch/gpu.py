"""The GPUs of the host over one load: figures, processes, history of memory, and where in the healthy picture it is.

The healthy picture, as recorded: all weight memory is taken within half a second, then memory stays flat while shards
are read for minutes, then it jumps to the size of the KV cache. GPU memory is therefore no progress of a load.
"""

from __future__ import annotations

import itertools
from collections import deque

from probes.readings import GpuDevice, GpuProcesses, GpuReading
from watch.gpu_notes import EMPTY, GpuNote, behind, low, notes, stage, unseen
from watch.load import ORDER
from watch.memory import PROGRAM, Holder, MemoryView, holders, judge_memory, role
from watch.view import GpuView
from watch.words import Phase

KEEP = 240
NOISE_MIB = 256.0
"""Changes smaller than this are no step: contexts, allocator caches."""
STEP_MIB = 1024.0
LAG = 10.0
"""Seconds that a GPU must be behind the others before it is named: ranks allocate up to some seconds apart."""


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
        self.hung = 0.0
        self._history: dict[int, History] = {}
        self._level: dict[int, float] = {}
        self._base: dict[int, float] = {}
        """MiB used on each GPU when the load began"""
        self._sums: deque[tuple[float, float]] = deque(maxlen=64)
        """(at, MiB in use over all GPUs) of the last samples"""
        self._low_since: dict[int, float] = {}
        """since when a GPU has held much less than the fullest of its stage, or next to nothing"""
        self._stages: dict[int, str] = {}

    def new_load(self) -> None:
        """History and steps are of one load; the figures go on."""
        for history in self._history.values():
            history.begin_again()
        self.since = self.moved_at = None
        self._base = self._used()
        self._low_since.clear()

    def apply(self, reading: GpuReading) -> None:
        if self.last is not None and reading.at < self.last.at:
            return
        if reading.hung:  # the figures are those of before: no new point, no new age
            self.hung = reading.hung
            return
        self.hung = 0.0
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
        if first or not self._base:
            self._base = self._used()
        used = list(self._used().values())
        self._who_is_low(reading.at)
        if used and (not self._sums or reading.at - self._sums[-1][0] >= 0.2):
            self._sums.append((reading.at, sum(used)))

    def apply_processes(self, reading: GpuProcesses) -> None:
        if self.processes is None or reading.at >= self.processes.at:
            self.processes = reading
            self._stages = {one.gpu: found for one in reading.processes if (found := stage(role(one.name)))}

    def role(self, pid: int) -> str:
        """``Worker_TP3``, ``EngineCore``; "" for what holds no memory here, or is no engine's process."""
        listed = self.processes.processes if self.processes is not None else ()
        return next((role(one.name) for one in listed if one.pid == pid and PROGRAM.match(one.name)), "")

    def _who_is_low(self, at: float) -> None:
        used = self._used()
        most = max(used.values(), default=0.0)
        fullest: dict[str, float] = {}
        for index, mib in used.items():
            of = self._stages.get(index, "")
            fullest[of] = max(mib, fullest.get(of, mib))
        for index, mib in used.items():
            if low(mib, fullest[self._stages.get(index, "")]) or low(mib, most, EMPTY):
                self._low_since.setdefault(index, at)
            else:
                self._low_since.pop(index, None)

    def used_most(self) -> float | None:
        """MiB used on the fullest GPU."""
        return max(self._used().values(), default=None)

    def busy(self) -> float | None:
        """Mean utilisation, 0–100."""
        values = [device.utilization for device in self._devices() if device.utilization is not None]
        return sum(values) / len(values) if values else None

    def _devices(self) -> tuple[GpuDevice, ...]:
        if self.last is None:
            return ()
        return tuple(device for device in self.last.devices if device.parent is None)

    def _used(self) -> dict[int, float]:
        """MiB in use on each GPU that says."""
        return {device.index: device.used_mib for device in self._devices() if device.used_mib is not None}

    def view(
        self,
        now: float,
        phase: Phase,
        *,
        alive: bool,
        unit: str,
        started: float,
        expected_mib: float | None,
        ranks: int = 0,
        stages: int = 1,
        system: tuple[float, float] | None = None,
    ) -> GpuView | None:
        """``phase`` of the load; ``alive``: it goes on or serves; ``started``: when it began; ``expected_mib``: weights
        on each GPU; ``ranks``: GPUs that it asked for, 0: not known; ``stages``: of its pipeline; ``system``: (in use,
        total) MiB of the host."""
        if self.last is None:
            return None
        devices = self._devices()
        listed = self.processes.processes if self.processes is not None else ()
        found = holders(listed, unit, started if alive else 0.0)
        memory: MemoryView | None = None
        if not alive or ORDER[phase] < ORDER["dist-init"]:
            memory = judge_memory(now, devices, found, tuple(self._sums))
        shared = system if devices and all(d.total_mib is None and not d.error for d in devices) else None
        step = self._step(phase, expected_mib, memory, shared, found)
        if self.hung:
            step = f"the driver has not answered for {self.hung:.0f} s: these are the figures from before"
        return GpuView(
            at=self.last.at,
            source=self.last.source,
            devices=self.last.devices,
            processes=listed,
            history=tuple(
                tuple(self._history[device.index].points) if device.index in self._history else ()
                for device in self.last.devices
            ),
            step=step,
            expected_mib=expected_mib,
            holders=found,
            memory=memory,
            notes=(
                *notes(devices),
                *unseen(self.last.devices, self.last.source),
                *(self._behind(found, ranks, stages) if memory is None else ()),
            ),
            shared=shared,
            hung=self.hung,
        )

    def _behind(self, found: tuple[Holder, ...], ranks: int, stages: int) -> list[GpuNote]:
        """GPUs that have been behind the others of their load for a while."""
        late = [index for index, since in self._low_since.items() if self.last and self.last.at - since >= LAG]
        return [note for note in behind(self._devices(), found, ranks, stages) if note.gpu in late]

    def _step(
        self,
        phase: Phase,
        expected_mib: float | None,
        memory: MemoryView | None,
        shared: tuple[float, float] | None,
        found: tuple[Holder, ...],
    ) -> str:
        if shared is not None:
            taken, total = (value / 1024 for value in shared)
            return f"memory is the system's, shared with the CPU: {taken:.1f} of {total:.1f} GiB in use"
        if memory is not None:
            return memory.text if memory.state != "unknown" or self._devices() else ""
        used = self._used()
        mine = {gpu for holder in found if holder.ours for gpu in holder.gpus} & used.keys() or used.keys()
        if not mine:
            return ""
        mean = sum(used[index] for index in mine) / len(mine)
        taken = mean - sum(self._base.get(index, 0.0) for index in mine) / len(mine)
        gib = f"{mean / 1024:.1f} GiB a GPU"
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
