"""Is the GPUs' memory free for the next start, and if not: who holds it, and is it coming back?

What was measured on two H200 (recorded): all of it back 0.2–0.6 s after a clean end or a kill of every process; 9 s
when one worker was killed (the other holds on until vLLM's own SIGKILL); never when only the API server was killed:
EngineCore and workers live on with parent 1 and every GiB. A dying process is listed with its full memory until the
driver lets go. So "held" and "coming back" are told apart by who lives, and by whether the sum falls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from probes.readings import GpuDevice, GpuProcess

IDLE_MIB = 1024.0
"""A GPU with less in use than this holds no model: driver, persistence daemon, a display."""
FALL_WINDOW = 10.0
"""Seconds over which the fall of the sum is measured."""
PROGRAM = re.compile(r"^(VLLM::|sglang::)")


class Holder(Struct, frozen=True, kw_only=True):
    """One process and what it holds over all GPUs. ``role``: Worker_TP3, EngineCore, or its program's name."""

    pid: int
    role: str
    unit: str
    user: str
    mib: float | None
    gpus: tuple[int, ...]
    since: float
    dying: bool
    ours: bool
    """of the watched unit's present load"""


class MemoryView(Struct, frozen=True, kw_only=True):
    """``state``: free, held (by whoever is not this load), ours, returning, unknown. ``text``: one sentence."""

    state: str
    text: str
    used_mib: float
    holders: tuple[Holder, ...] = ()
    falling_mib_s: float = 0.0
    seconds_left: float | None = None


def role(name: str) -> str:
    """What a process is, from its title: ``VLLM::Worker_TP3`` is Worker_TP3. The kernel cuts comm at 15 characters."""
    return PROGRAM.sub("", name).rpartition("/")[2] or name


def holders(processes: Sequence[GpuProcess], unit: str, started: float) -> tuple[Holder, ...]:
    """One row a process, most memory first. ``unit`` and ``started``: the watched unit and when its present load began
    (0: it does not run); a process of the same unit from before then is a leftover, not ours."""
    rows: dict[int, list[GpuProcess]] = {}
    for process in processes:
        rows.setdefault(process.pid, []).append(process)
    out = []
    for pid, parts in rows.items():
        first = parts[0]
        known = [part.used_mib for part in parts if part.used_mib is not None]
        same = bool(first.unit) and _stem(first.unit) == _stem(unit)
        out.append(
            Holder(
                pid=pid,
                role=role(first.name) or "?",
                unit=first.unit,
                user=first.user,
                mib=sum(known) if known else None,
                gpus=tuple(sorted({part.gpu for part in parts})),
                since=first.started,
                dying=first.state in ("Z", "X") or first.name == "[No data]",
                ours=same and bool(started) and (not first.started or first.started >= started - 2),
            )
        )
    return tuple(sorted(out, key=lambda holder: (-(holder.mib or 0.0), holder.pid)))


def judge_memory(
    now: float,
    devices: Sequence[GpuDevice],
    found: Sequence[Holder],
    history: Sequence[tuple[float, float]],
) -> MemoryView:
    """``history``: (at, MiB in use over all GPUs), oldest first, of the last seconds at least."""
    whole = [device for device in devices if device.parent is None]
    readable = [device.used_mib for device in whole if device.used_mib is not None]
    used = sum(readable)
    if not readable:
        return MemoryView(state="unknown", text="the GPUs do not say how much memory is in use", used_mib=0.0)
    busy = [device for device in whole if (device.used_mib or 0.0) > IDLE_MIB]
    strangers = [holder for holder in found if not holder.ours]
    if not busy:
        text = f"free: {used / 1024:.1f} GiB in use on {len(whole)} GPUs"
        return MemoryView(state="free", text=text, used_mib=used, holders=tuple(found))
    rate = _falling(now, history)
    if found and not strangers:
        text = f"in use by this load: {used / 1024:.1f} GiB"
        return MemoryView(state="ours", text=text, used_mib=used, holders=tuple(found), falling_mib_s=rate)
    left = used / rate if rate > 0 else None
    dying = not strangers or all(holder.dying for holder in strangers)
    if rate > 0 or dying:
        text = f"coming back: {used / 1024:.1f} GiB still in use"
        if rate > 0 and left is not None:
            text += f", {rate / 1024:.1f} GiB/s, all back in about {left:.0f} s"
        elif strangers:
            text += f", {_who(strangers[0], now)} is dying and the driver has not let go yet"
        else:
            text += ", no process is listed any more"
        return MemoryView(
            state="returning", text=text, used_mib=used, holders=tuple(found), falling_mib_s=rate, seconds_left=left
        )
    others = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
    text = f"held: {used / 1024:.1f} GiB by {_who(strangers[0], now)}{others}; nothing is ending it"
    return MemoryView(state="held", text=text, used_mib=used, holders=tuple(found))


def _who(holder: Holder, now: float) -> str:
    words = [f"{holder.role} (pid {holder.pid}"]
    if holder.unit:
        words.append(f"unit {holder.unit}")
    if holder.user:
        words.append(f"user {holder.user}")
    if holder.mib is not None:
        words.append(f"{holder.mib / 1024:.1f} GiB")
    if holder.since:
        words.append(f"for {_span(now - holder.since)}")
    return ", ".join(words) + ")"


def _span(seconds: float) -> str:
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _falling(now: float, history: Sequence[tuple[float, float]]) -> float:
    """MiB a second by which the sum fell over the last seconds; 0 where it stood or rose at the end."""
    recent = [(at, used) for at, used in history if now - FALL_WINDOW <= at <= now]
    if len(recent) < 2:
        return 0.0
    (first_at, first), (last_at, last) = recent[0], recent[-1]
    before = recent[-2][1]
    if last_at <= first_at or last >= first or last > before:
        return 0.0
    return (first - last) / (last_at - first_at)


def _stem(unit: str) -> str:
    return unit.removesuffix(".service")
