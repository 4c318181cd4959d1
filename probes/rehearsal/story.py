"""What a rehearsal plays: one real load, as its sources gave it, second by second.

Made by ``bench/make_demo.py`` from the recordings that the tests use. Times count in seconds from the moment of
``systemctl start``.
"""

from __future__ import annotations

import bisect
import gzip
from collections.abc import Sequence
from importlib import resources
from typing import TypeVar

import msgspec
from msgspec import Struct


class JournalRecord(Struct, frozen=True, array_like=True):
    """One record of the journal. ``fields``: an index into ``Story.fields``."""

    at: float
    fields: int
    message: str


class Gpu(Struct, frozen=True, array_like=True):
    """One GPU at one moment, in nvidia-smi's units: MiB, percent, W, °C, MHz, NVML's reason bits, KB/s."""

    used: float
    reserved: float
    free: float
    utilization: float
    memory_utilization: float
    power: float
    temperature: float
    sm: float
    mem: float
    reasons: int
    pid: int
    pid_used: float


class GpuMoment(Struct, frozen=True, array_like=True):
    at: float
    gpus: tuple[Gpu, ...]


class Process(Struct, frozen=True, array_like=True):
    pid: int
    name: str
    state: str
    rss: int
    """bytes"""
    cpu: float
    """seconds since its start"""


class HostMoment(Struct, frozen=True, array_like=True):
    """Memory in bytes; ``read``: bytes read from the model's disk since the load began."""

    at: float
    available: int
    cached: int
    read: int
    processes: tuple[Process, ...]


class MetricsPage(Struct, frozen=True, array_like=True):
    at: float
    text: str


class GpuFacts(Struct, frozen=True):
    name: str
    uuid: str
    bus: str
    total: float
    power_limit: float
    pcie_gen: int
    pcie_width: int


class Story(Struct, frozen=True, kw_only=True):
    title: str
    """what is played, in a few words for the screen"""
    host: str
    unit: str
    unit_file: str
    fragment: str
    properties: dict[str, str]
    """of ``systemctl show``, those that do not change during the load"""
    argv: tuple[str, ...]
    """of the server's process"""
    invocation: str
    boot: str
    main_pid: int
    started: float
    """when systemd said Started"""
    opened: float
    """when the server began to answer HTTP"""
    length: float
    """when the recording ends; then everything stays as it is"""
    port: int
    driver: str
    memory: int
    """bytes"""
    control_group: str
    model: str
    model_bytes: int
    model_files: int
    model_mount: str
    gpu_facts: tuple[GpuFacts, ...]
    fields: tuple[dict[str, str], ...]
    journal: tuple[JournalRecord, ...]
    gpus: tuple[GpuMoment, ...]
    hosts: tuple[HostMoment, ...]
    pages: tuple[MetricsPage, ...]

    def gpus_at(self, at: float) -> GpuMoment:
        return self.gpus[max(_before(self.gpus, at), 0)]

    def host_at(self, at: float) -> HostMoment:
        return self.hosts[max(_before(self.hosts, at), 0)]

    def page_at(self, at: float) -> str:
        """The metrics page at a moment: between two recorded ones their figures, in proportion to the time."""
        index = max(_before(self.pages, at), 0)
        if index + 1 >= len(self.pages) or at <= self.pages[index].at:
            return self.pages[index].text
        one, other = self.pages[index], self.pages[index + 1]
        return _between(one.text, other.text, (at - one.at) / (other.at - one.at))


def load_story(name: str = "h200x2") -> Story:
    """The recording of that name from the package's data."""
    packed = resources.files("probes.rehearsal").joinpath("data", f"{name}.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=Story)


M = TypeVar("M", GpuMoment, HostMoment, MetricsPage)


def _before(moments: Sequence[M], at: float) -> int:
    """Index of the last moment that is not later; -1: none."""
    return bisect.bisect_right(moments, at, key=lambda moment: moment.at) - 1


def _between(one: str, other: str, part: float) -> str:
    then = dict(_samples(other))
    lines = []
    for line in one.splitlines(keepends=True):
        name, value = _sample(line)
        if name and name in then and value != then[name]:
            figure = value + (then[name] - value) * part
            whole = value.is_integer() and then[name].is_integer()
            line = f"{name} {float(round(figure)) if whole else figure!r}\n"
        lines.append(line)
    return "".join(lines)


def _samples(page: str) -> list[tuple[str, float]]:
    return [(name, value) for line in page.splitlines() for name, value in [_sample(line)] if name]


def _sample(line: str) -> tuple[str, float]:
    """Name with labels, and value; an empty name for a line that is no sample of the engine's."""
    if not line.startswith("vllm:"):
        return "", 0.0
    name, _, value = line.rstrip().rpartition(" ")
    try:
        return name, float(value)
    except ValueError:
        return "", 0.0
