"""What stands out about single GPUs, in words: clocks held back, memory errors, a poor link, one behind the others."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from statistics import median
from typing import Literal

import msgspec
from msgspec import Struct

from probes.readings import GpuDevice
from watch.memory import Holder
from watch.words import Severity

Level = Literal["none", "info", "warning"]

BEHIND = 0.7
"""A GPU with less than this share of what the middle one of the others holds is behind. Under pipeline parallelism the
stages hold different layers, so this is asked within a stage only."""
EMPTY = 0.1
"""Under this share of the middle one of all stages it has not begun, however the layers are divided."""
BEHIND_MIB = 2048.0
"""… and with at least so much less: contexts and libraries differ by some hundred MiB."""


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of throttle.toml."""

    bit: int
    name: str
    level: Level
    words: str


class GpuNote(Struct, frozen=True, kw_only=True):
    """One sentence about one GPU. ``kind``: throttle, ecc, link, behind, mig."""

    gpu: int
    kind: str
    severity: Severity
    text: str


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    reason: tuple[Reason, ...]


@cache
def table() -> tuple[Reason, ...]:
    text = resources.files("watch").joinpath("throttle.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Table).reason


def reasons(mask: int | None, *levels: Level) -> tuple[Reason, ...]:
    """What a mask says, of these levels (none given: of all but ``none``); bits that nobody knows are one reason with
    their number."""
    if not mask:
        return ()
    wanted = levels or ("info", "warning")
    found = tuple(reason for reason in table() if mask & reason.bit and reason.level in wanted)
    unknown = mask & ~sum(reason.bit for reason in table())
    if unknown > 0 and "info" in wanted:
        found += (Reason(unknown, f"{unknown:#x}", "info", f"a reason that only the driver knows ({unknown:#x})"),)
    return found


def notes(devices: Sequence[GpuDevice]) -> tuple[GpuNote, ...]:
    """What each GPU says about itself. MIG devices have no clocks and no link of their own."""
    out: list[GpuNote] = []
    for device in devices:
        if device.error or device.parent is not None:
            continue
        out += [*_throttle(device), *_ecc(device), *_link(device)]
    return tuple(out)


def unseen(devices: Sequence[GpuDevice], source: str) -> tuple[GpuNote, ...]:
    """GPUs that are divided into MIG devices of which none is shown, and why. ``devices``: whole and MIG ones."""
    divided = {device.parent for device in devices}
    why = (
        "this login may not see them: root or the rights of nvidia-cap devices are needed"
        if source == "nvml"
        else "nvidia-smi's table has the whole GPU only; NVML would list them"
    )
    return tuple(
        GpuNote(gpu=device.index, kind="mig", severity="info", text=f"divided (MIG), its parts are not shown: {why}")
        for device in devices
        if device.mig == "on" and device.parent is None and device.index not in divided and not device.error
    )


def _throttle(device: GpuDevice) -> list[GpuNote]:
    out = []
    for reason in reasons(device.throttle):
        slowed = reason.level == "warning"
        severity: Severity = "warning" if slowed else "info"
        text = f"slowed down: {reason.words}" if slowed else reason.words
        out.append(GpuNote(gpu=device.index, kind="throttle", severity=severity, text=text))
    return out


def _ecc(device: GpuDevice) -> list[GpuNote]:
    count = device.ecc_uncorrected
    if not count:
        return []
    words = "error" if count == 1 else "errors"
    text = f"{count:,} uncorrectable memory {words} since the driver was loaded"
    return [GpuNote(gpu=device.index, kind="ecc", severity="error", text=text)]


def _link(device: GpuDevice) -> list[GpuNote]:
    width, most = device.pcie_width, device.pcie_width_max
    if width and most and width < most:
        text = f"PCIe link has x{width} of x{most} lanes: reseat the card, see riser and slot"
        return [GpuNote(gpu=device.index, kind="link", severity="warning", text=text)]
    slow, best = device.pcie_gen, device.pcie_gen_max
    # an idle link is slowed down on purpose, to save power
    if slow and best and slow < best and device.pstate in ("P0", "P1") and (device.utilization or 0) >= 20:
        text = f"PCIe link runs at generation {slow} of {best} under load"
        return [GpuNote(gpu=device.index, kind="link", severity="warning", text=text)]
    return []


_STAGE = re.compile(r"PP(\d+)")


def stage(role: str) -> str:
    """The pipeline stage of a worker: ``Worker_PP1_TP3`` is of 1; "" where there are no stages."""
    found = _STAGE.search(role)
    return found[1] if found else ""


def low(used: float, level: float, share: float = BEHIND) -> bool:
    """Whether one that holds ``used`` MiB is behind others that hold ``level``."""
    return used < share * level and level - used >= BEHIND_MIB


def behind(devices: Sequence[GpuDevice], found: Sequence[Holder], ranks: int, stages: int = 1) -> tuple[GpuNote, ...]:
    """GPUs of the load that hold much less than its others. ``found``: who holds memory; ``ranks``: how many GPUs the
    load asked for, which tells whose they are where no process is named; 0: not known. ``stages``: of its pipeline."""
    whole = [device for device in devices if device.parent is None and device.used_mib is not None]
    # most memory first, so that of two processes on a GPU the one that holds it counts
    mine: Mapping[int, str] = {gpu: holder.role for holder in reversed(found) if holder.ours for gpu in holder.gpus}
    if len(mine) < 2:
        mine = dict.fromkeys((device.index for device in whole), "") if ranks == len(whole) else {}
    held = {device.index: device.used_mib or 0.0 for device in whole if device.index in mine}
    if len(held) < 2:
        return ()
    named = any(map(stage, mine.values()))
    out = []
    for index, used in held.items():
        role = mine[index]
        rest = {other: mib for other, mib in held.items() if other != index}
        level, share, others = median(rest.values()), EMPTY if named or stages > 1 else BEHIND, "the others"
        peers = [mib for other, mib in rest.items() if stage(mine[other]) == stage(role)]
        if named and peers and low(used, median(peers)):
            level, share, others = median(peers), BEHIND, "the others of its stage"
        if low(used, level, share):
            who = f" ({role})" if role else ""
            text = f"behind {others}{who}: {used / 1024:.1f} GiB where they hold {level / 1024:.1f}"
            out.append(GpuNote(gpu=index, kind="behind", severity="warning", text=text))
    return tuple(out)
