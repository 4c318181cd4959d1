"""What the GPUs have used while a benchmark ran: from their energy counters, else from their power over time."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import pairwise

from msgspec import Struct

from probes.readings import GpuReading

MOST = 7200
"""Samples kept: two hours, one a second."""
REACH = 5.0
"""Seconds by which the samples may fall short of a run at either end."""


class _At(Struct, frozen=True):
    at: float
    joules: dict[int, float]
    watts: dict[int, float]


class Energy:
    """``used`` over any stretch of time that was sampled."""

    def __init__(self) -> None:
        self._samples: deque[_At] = deque(maxlen=MOST)

    def take(self, reading: GpuReading) -> None:
        if reading.hung or (self._samples and reading.at <= self._samples[-1].at):
            return
        whole = [device for device in reading.devices if device.parent is None]
        self._samples.append(
            _At(
                reading.at,
                {device.index: device.energy_j for device in whole if device.energy_j is not None},
                {device.index: device.power for device in whole if device.power is not None},
            )
        )

    def forget(self) -> None:
        """All but the last sample: nothing runs."""
        while len(self._samples) > 1:
            self._samples.popleft()

    def used(self, began: float, ended: float, gpus: frozenset[int] = frozenset()) -> float | None:
        """Joules of these GPUs (none named: of all); None where they were not sampled over it."""
        samples = list(self._samples)
        if ended <= began or len(samples) < 2:
            return None
        if samples[0].at > began + REACH or samples[-1].at < ended - REACH:
            return None
        counted = self._counted(samples, began, ended, gpus)
        return counted if counted is not None else self._integrated(samples, began, ended, gpus)

    def _counted(self, samples: list[_At], began: float, ended: float, gpus: frozenset[int]) -> float | None:
        ours = gpus or frozenset(samples[-1].joules)
        if not ours or any(not ours <= sample.joules.keys() for sample in samples):
            return None
        total = 0.0
        for gpu in ours:
            track = [(sample.at, sample.joules[gpu]) for sample in samples]
            start, end = _between(track, began), _between(track, ended)
            if end < start:
                return None  # the driver was loaded anew
            total += end - start
        return total

    def _integrated(self, samples: list[_At], began: float, ended: float, gpus: frozenset[int]) -> float | None:
        ours = gpus or frozenset(samples[-1].watts)
        known = [sample for sample in samples if ours <= sample.watts.keys()]
        if not ours or len(known) < 2:
            return None
        total = 0.0
        for gpu in ours:
            track = [(sample.at, sample.watts[gpu]) for sample in known]
            inner = [(at, value) for at, value in track if began < at < ended]
            ends = [(began, _between(track, began)), *inner, (ended, _between(track, ended))]
            total += sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(ends))
        return total


def _between(track: list[tuple[float, float]], at: float) -> float:
    """The value at a time, by the straight line between two samples; beyond them the nearest one's."""
    place = bisect_left(track, (at, float("-inf")))
    if place == 0:
        return track[0][1]
    if place == len(track):
        return track[-1][1]
    (before, low), (after, high) = track[place - 1], track[place]
    return low + (high - low) * (at - before) / (after - before) if after > before else high
