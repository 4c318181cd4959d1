"""Figures over time, out of a recording: what the GPUs, the disks and the server said, by name.

A name is ours (``gpu.memory``, ``serving.generation_tps``) or one of the server's own samples (``vllm:…``, as its
``/metrics`` page has it).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from probes.readings import AnyReading, GpuDevice, GpuReading, HealthReading, IoReading, LinkReading, MetricsReading
from watch.serving import Serving

MOST_POINTS: Final = 5_000_000
"""Points held of all series together: a day of sixteen GPUs at one a second has 1.4 million of each of theirs."""


class Series(Struct, frozen=True, kw_only=True):
    """``labels``: (name, value) pairs that tell it from others of its name. ``points``: (UTC seconds, value)."""

    name: str
    unit: str
    labels: tuple[tuple[str, str], ...]
    points: tuple[tuple[float, float], ...]

    @property
    def title(self) -> str:
        """``gpu.memory{gpu="0"}``"""
        inner = ",".join(f'{name}="{value}"' for name, value in self.labels)
        return f"{self.name}{{{inner}}}" if inner else self.name


_Gpu = Callable[[GpuDevice], float | None]

GPU: Final[dict[str, tuple[str, str, _Gpu]]] = {
    "gpu.memory": ("MiB", "memory used on each GPU", lambda gpu: gpu.used_mib),
    "gpu.utilization": ("%", "how busy each GPU is", lambda gpu: gpu.utilization),
    "gpu.power": ("W", "power of each GPU", lambda gpu: gpu.power),
    "gpu.temperature": ("°C", "temperature of each GPU", lambda gpu: gpu.temperature),
    "gpu.sm_clock": ("MHz", "clock of each GPU's processors", lambda gpu: gpu.sm_mhz),
    "gpu.energy": ("J", "energy of each GPU since its driver was loaded", lambda gpu: gpu.energy_j),
    "gpu.pcie_rx": ("MB/s", "received over PCIe by each GPU", lambda gpu: gpu.pcie_rx_mbs),
}

_Io = Callable[[IoReading], float | None]

IO: Final[dict[str, tuple[str, str, _Io]]] = {
    "io.read": ("bytes", "read from storage by the unit since its start", lambda io: io.read_bytes),
    "io.cpu": ("s", "processor time of the unit since its start", lambda io: io.cpu_seconds),
    "host.available": ("bytes", "memory of the host that is free to be used", lambda io: io.mem_available),
    "host.page_cache": ("bytes", "files of the host that are in memory", lambda io: io.page_cache),
    "unit.memory": ("bytes", "memory of the unit", lambda io: io.unit_memory),
}

RATES: Final = {
    "io.read_rate": ("bytes/s", "read from storage by the unit", "io.read"),
    "io.cores": ("cores", "processors in use by the unit", "io.cpu"),
}

SERVING: Final = {
    "serving.running": ("requests", "requests that run"),
    "serving.waiting": ("requests", "requests that wait"),
    "serving.generation_tps": ("tokens/s", "tokens made"),
    "serving.prompt_tps": ("tokens/s", "tokens of prompts taken in"),
    "serving.kv_cache": ("ratio", "KV cache in use"),
    "serving.prefix_hit": ("ratio", "prompt tokens found in the cache"),
    "serving.acceptance_rate": ("ratio", "drafted tokens that were accepted"),
}

OTHERS: Final = {
    "health.ms": ("ms", "how long /health took to answer"),
    "link.rtt": ("ms", "round trip to the host"),
}

_SAMPLE: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*:[a-zA-Z0-9_:]+")


def names() -> dict[str, tuple[str, str]]:
    """Every name of ours: (unit, what it is)."""
    known = {name: (unit, words) for name, (unit, words, _) in {**GPU, **IO}.items()}
    known |= {name: (unit, words) for name, (unit, words, _) in RATES.items()}
    return {**known, **SERVING, **OTHERS}


def is_name(name: str) -> bool:
    """Whether it is one of ours, or may be one of a server's samples."""
    return name in names() or _SAMPLE.fullmatch(name) is not None


class Collector:
    """Takes in readings in their order, and keeps the series that are wanted."""

    def __init__(self, wanted: Iterable[str], *, since: float = 0.0, until: float = float("inf")) -> None:
        self._wanted = frozenset(wanted)
        self._since, self._until = since, until
        self._points: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[float, float]]] = {}
        self._held = 0
        self._before: dict[str, tuple[float, float]] = {}
        self._serving = Serving() if any(name.startswith("serving.") for name in self._wanted) else None
        self._samples = frozenset(name for name in self._wanted if ":" in name)
        self.full = False
        """more was there than is held"""

    def take(self, reading: AnyReading) -> None:
        for name, labels, value in self._values(reading):
            if self._since <= reading.at <= self._until:
                if self._held >= MOST_POINTS:
                    self.full = True
                    return
                self._held += 1
                self._points.setdefault((name, labels), []).append((reading.at, float(value)))

    def series(self) -> list[Series]:
        """By name, in the order in which labels were first seen."""
        known = names()
        return [
            Series(name=name, unit=known.get(name, ("", ""))[0], labels=labels, points=tuple(points))
            for (name, labels), points in sorted(self._points.items(), key=lambda item: item[0][0])
        ]

    def _values(self, reading: AnyReading) -> Iterator[tuple[str, tuple[tuple[str, str], ...], float]]:
        wanted = self._wanted
        match reading:
            case GpuReading():
                for name in wanted & GPU.keys():
                    for gpu in reading.devices:
                        value = GPU[name][2](gpu)
                        if value is not None:
                            yield name, (("gpu", str(gpu.index)),), value
            case IoReading():
                for name in wanted & IO.keys():
                    value = IO[name][2](reading)
                    if value is not None:
                        yield name, (), value
                for name in wanted & RATES.keys():
                    yield from self._rate(name, IO[RATES[name][2]][2](reading), reading.at)
            case MetricsReading():
                if self._serving is not None:
                    self._serving.apply(reading)
                    view = self._serving.view()
                    for name in wanted & SERVING.keys() if view is not None and not reading.error else ():
                        value = getattr(view, name.removeprefix("serving."))
                        if value is not None:
                            yield name, (), value
                for sample in reading.samples if self._samples else ():
                    if sample.name in self._samples:
                        yield sample.name, tuple(sorted(sample.labels.items())), sample.value
            case HealthReading() if reading.status is not None and "health.ms" in wanted:
                yield "health.ms", (), reading.ms
            case LinkReading() if reading.rtt_ms is not None and "link.rtt" in wanted:
                yield "link.rtt", (), reading.rtt_ms
            case _:
                return

    def _rate(
        self, name: str, count: float | None, at: float
    ) -> Iterator[tuple[str, tuple[tuple[str, str], ...], float]]:
        """A counter's growth since the reading before; one that was set back has none."""
        if count is None:
            return
        before = self._before.get(name)
        self._before[name] = (at, count)
        if before is not None and at > before[0] and count >= before[1]:
            yield name, (), (count - before[1]) / (at - before[0])


def thinned(points: tuple[tuple[float, float], ...], most: int) -> tuple[tuple[float, float], ...]:
    """At most about ``most`` points that draw the same line: of each stretch its lowest and its highest."""
    if len(points) <= most or most < 4:
        return points
    step = len(points) * 2 / most
    out: list[tuple[float, float]] = [points[0]]
    at = 0.0
    while at < len(points):
        piece = points[int(at) : max(int(at) + 1, int(at + step))]
        low, high = min(piece, key=lambda point: point[1]), max(piece, key=lambda point: point[1])
        out.extend(sorted({low, high}))
        at += step
    out.append(points[-1])
    return tuple(dict.fromkeys(out))
