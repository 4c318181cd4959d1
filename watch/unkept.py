"""The tape of a watch that nobody reads back: it takes secrets out as a recording does, and keeps nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from probes.readings import (
    AnyReading,
    GpuProcesses,
    GpuReading,
    HealthReading,
    IoReading,
    MetricsReading,
    Reading,
)
from watch.redact import Redactor

_FIGURES = (GpuReading, GpuProcesses, HealthReading, IoReading, MetricsReading)
"""Of these nothing but figures is told on, and they are most of what comes."""

R = TypeVar("R", bound=Reading)


class Unkept:
    """Stands where ``session.SessionWriter`` does. A watch that goes on for weeks without a screen fills no disk."""

    path: Path | None = None
    stopped = ""
    recording = False

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def keep(self, reading: R) -> tuple[int, R]:
        if isinstance(reading, _FIGURES):
            return 0, reading
        return 0, self._redactor.encode(reading)[1]

    def keep_all(self, readings: Sequence[R]) -> tuple[list[int], Sequence[R]]:
        return [0] * len(readings), self._redactor.encode_all(readings)[1]

    def clean(self, reading: R) -> R:
        return self._redactor.clean(reading)

    def read(self, place: int) -> AnyReading:
        raise ValueError("no lines are kept here")

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""

    def discard(self) -> None:
        """Nothing was kept."""
