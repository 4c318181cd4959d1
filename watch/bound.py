"""What holds the load up now: the disk, the network mount, one thread's CPU, the GPU, or one rank the others wait for.

Judged over a short window of ``IoReading``s. Recorded on two H200 (b1, checkpoint on a local disk, cold): the disk gave
1.2–1.6 GB/s for the whole of the weights, the workers used a third of a core each and were seen in state D; while
torch.compile ran each used one core and nothing was read. With the page cache warm (b2) nothing was read at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from probes.readings import IoReading, ProcessIo
from watch.words import Phase

READING = 8e6
"""Bytes a second from which storage counts as being read; below lie log files and Python modules."""
FULL_CORE = 0.85
IDLE_CORE = 0.15
AT_CEILING = 0.75
"""Share of the most that this storage has given: at or above it, it is the storage that bounds the load."""
NETWORK = ("nfs", "ceph", "lustre", "fuse", "cifs", "smb", "9p", "glusterfs", "gpfs", "beegfs", "wekafs", "virtiofs")
UNCOUNTED = ("fuse", "9p", "virtiofs")
"""Of these Linux counts no bytes for the process that reads: a load from them shows no reading at all."""
LOADING: frozenset[Phase] = frozenset(("weights", "draft-weights"))


class Bound(Struct, frozen=True, kw_only=True):
    """``by``: disk, network, cpu, gpu, rank, cache, nothing, unknown. ``text``: one clause for the screen."""

    by: str
    text: str
    rate: float | None = None
    """bytes a second read from storage over the window"""
    cores: float | None = None


class Pace(Struct, frozen=True):
    """One process over the window. ``cores``: CPU seconds a second; ``waits``: share of samples in state D; ``read``:
    bytes a second from storage."""

    pid: int
    name: str
    cores: float
    waits: float
    read: float = 0.0


def nameless(pid: int) -> str:
    """For processes of which nobody knows more than the kernel does."""
    return ""


def judge_bound(
    window: Sequence[IoReading],
    phase: Phase,
    *,
    ceiling: float = 0.0,
    gpu: float | None = None,
    names: Callable[[int], str] = nameless,
) -> Bound:
    """``window``: readings of the last seconds, oldest first. ``ceiling``: the most bytes a second this storage has
    given in this load; ``gpu``: mean utilisation of the GPUs in percent, None where unknown; ``names``: as ``pace``."""
    if len(window) < 2 or window[-1].at <= window[0].at:
        return Bound(by="unknown", text="")
    first, last = window[0], window[-1]
    span = last.at - first.at
    rate = _rate(first.read_bytes, last.read_bytes, span)
    paces = pace(window, names)
    cores = sum(p.cores for p in paces) if paces else _rate_float(first.cpu_seconds, last.cpu_seconds, span)
    workers = [p for p in paces if "orker" in p.name] or paces
    busy = [p for p in workers if p.cores >= FULL_CORE]
    if rate is not None and rate >= READING:
        return Bound(
            by=_storage(last, rate, ceiling, workers),
            text=_storage_text(last, rate, ceiling, workers),
            rate=rate,
            cores=cores,
        )
    if len(workers) > 1 and len(busy) == 1 and all(p.cores <= IDLE_CORE for p in workers if p is not busy[0]):
        return Bound(
            by="rank",
            text=f"waiting for one rank: {busy[0].name or busy[0].pid} works, the others wait",
            rate=rate,
            cores=cores,
        )
    if busy:
        first_of = busy[0].name or str(busy[0].pid)
        more = f" and {len(busy) - 1} more" if len(busy) > 1 else ""
        if phase in LOADING and gpu is not None and gpu > 30:
            return Bound(
                by="gpu",
                text=f"copying to the GPUs ({gpu:.0f} % busy), nothing is read from storage",
                rate=rate,
                cores=cores,
            )
        cached = f", {_unread(last)}" if phase in LOADING and rate is not None else ""
        return Bound(
            by="cpu",
            text=f"one thread's CPU{' in each of' if more else ''}: {first_of}{more}{cached}",
            rate=rate,
            cores=cores,
        )
    if phase in LOADING and rate is not None and cores is not None and cores > IDLE_CORE:
        by = "network" if last.model_mount.startswith(UNCOUNTED) else "cache"
        return Bound(by=by, text=f"{_unread(last)}, nothing comes from a disk", rate=rate, cores=cores)
    if gpu is not None and gpu > 30:
        return Bound(by="gpu", text=f"the GPUs ({gpu:.0f} % busy)", rate=rate, cores=cores)
    if rate is None and cores is None:
        return Bound(by="unknown", text="")
    return Bound(by="nothing", text="nothing moves: no reading, no CPU", rate=rate, cores=cores)


def pace(window: Sequence[IoReading], names: Callable[[int], str] = nameless) -> tuple[Pace, ...]:
    """CPU and waiting of each process that lived through the window, the busiest first. ``names``: what a pid is known
    as, "" where it is not: the kernel's own name ends after 15 characters, which cuts the rank off a worker's."""
    first, last = window[0], window[-1]
    before = {process.pid: process for process in first.processes}
    out = []
    for process in last.processes:
        earlier = before.get(process.pid)
        if earlier is None:
            continue
        seen: list[ProcessIo] = [p for reading in window for p in reading.processes if p.pid == process.pid]
        out.append(
            Pace(
                pid=process.pid,
                name=names(process.pid) or process.name.removeprefix("VLLM::"),
                cores=max(0.0, process.cpu_seconds - earlier.cpu_seconds) / (last.at - first.at),
                waits=sum(p.state == "D" for p in seen) / len(seen),
                read=max(0, process.read_bytes - earlier.read_bytes) / (last.at - first.at),
            )
        )
    return tuple(sorted(out, key=lambda p: (-p.cores, p.pid)))


def _unread(last: IoReading) -> str:
    """Where files come from while no storage is seen to be read."""
    mount = last.model_mount
    if mount.startswith(UNCOUNTED):
        return f"the files come from the page cache, or from {mount}, whose bytes the kernel does not count"
    return "the files come from the page cache"


def is_network(mount: str) -> bool:
    """Whether a file system type lives on another machine (or in a process, as FUSE does)."""
    return mount.lower().startswith(NETWORK)


def _storage(last: IoReading, rate: float, ceiling: float, workers: Sequence[Pace]) -> str:
    if is_network(last.model_mount):
        return "network"
    if rate >= AT_CEILING * ceiling or any(p.waits > 0 for p in workers):
        return "disk"
    return "cpu" if any(p.cores >= FULL_CORE for p in workers) else "disk"


def _storage_text(last: IoReading, rate: float, ceiling: float, workers: Sequence[Pace]) -> str:
    by = _storage(last, rate, ceiling, workers)
    speed = f"{rate / 1e6:,.0f} MB/s"
    full = ceiling and rate >= AT_CEILING * ceiling
    if by == "network":
        most = f", the most it has given is {ceiling / 1e6:,.0f}" if ceiling and not full else ""
        return f"the network mount ({last.model_mount}){', at its own ceiling' if full else ''}: {speed}{most}"
    if by == "cpu":
        top = next(p for p in workers if p.cores >= FULL_CORE)
        return f"one thread's CPU: {top.name or top.pid} at {top.cores:.1f} cores, reading {speed}"
    if full:
        return f"the disk, at its own ceiling: {speed} (most so far {ceiling / 1e6:,.0f})"
    return f"the disk: {speed}" + (f" (most so far {ceiling / 1e6:,.0f})" if ceiling else "")


def _rate(before: int | None, after: int | None, span: float) -> float | None:
    if before is None or after is None or after < before:
        return None
    return (after - before) / span


def _rate_float(before: float | None, after: float | None, span: float) -> float | None:
    if before is None or after is None or after < before:
        return None
    return (after - before) / span
