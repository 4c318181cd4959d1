"""Feeds for the tests of a watch: what a list holds, or what a test puts in; and a load with every kind of reading."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

from probes.export import ExportDecoder
from probes.readings import (
    GpuDevice,
    GpuReading,
    HealthReading,
    IoReading,
    LinkReading,
    ProbeReading,
    Reading,
    UnitFile,
    UnitReading,
)


class ListFeed:
    """Gives what it was made of, then ends."""

    def __init__(self, batches: Iterable[Sequence[Reading]]) -> None:
        self._batches = list(batches)

    async def batches(self) -> AsyncIterator[list[Reading]]:
        for batch in self._batches:
            yield list(batch)


class OpenFeed:
    """Gives what is put in, until it is ended."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[list[Reading] | BaseException | None] = asyncio.Queue()
        self.closed = False

    def put(self, *readings: Reading) -> None:
        self._queue.put_nowait(list(readings))

    def end(self, error: BaseException | None = None) -> None:
        self._queue.put_nowait(error)

    async def batches(self) -> AsyncIterator[list[Reading]]:
        try:
            while (batch := await self._queue.get()) is not None:
                if isinstance(batch, BaseException):
                    raise batch
                yield batch
        finally:
            self.closed = True


def a_load(recordings: Path) -> list[Reading]:
    """A real load's journal, with readings of every other source in between."""
    decoder = ExportDecoder("vllm-tiny-ngram.service")
    lines = decoder.feed(gzip.decompress((recordings / "host-systemd-ngram/journal.export.gz").read_bytes()))
    unit = UnitReading(
        at=lines[0].at,
        unit="vllm-tiny-ngram.service",
        load="loaded",
        active="active",
        sub="running",
        invocation=lines[0].invocation,
        exec_start=("/opt/vllm/bin/vllm", "serve", "/opt/models/small", "--api-key", "a-secret-of-the-unit"),
        environment=("HF_TOKEN=another-secret",),
    )
    out: list[Reading] = [LinkReading(at=lines[0].at, state="up", rtt_ms=1.0), unit]
    out.append(UnitFile(at=lines[0].at, unit=unit.unit, text="[Service]\nEnvironment=HF_TOKEN=another-secret\n"))
    for number, line in enumerate(lines):
        out.append(line)
        if number % 7 == 0:
            gpu = GpuDevice(index=0, name="H200", used_mib=float(number), total_mib=1000.0)
            out.append(GpuReading(at=line.at, devices=(gpu,)))
            out.append(IoReading(at=line.at, read_bytes=number << 20, cpu_seconds=float(number)))
        if number % 11 == 0:
            out.append(HealthReading(at=line.at, status=None, error="refused"))
            out.append(ProbeReading(at=line.at, probe="gpu", state="up"))
    return out
