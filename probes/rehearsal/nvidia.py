"""The rehearsal's ``nvidia-smi``: tables of GPUs and of their processes, once or again and again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from probes.rehearsal.stage import Stage, Write

_UNITS = (("memory.", "MiB"), ("utilization.", "%"), ("power.", "W"), ("enforced.power.", "W"), ("clocks.", "MHz"))
_SHOWN_AS = {
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
    "used_memory": "used_gpu_memory",
}
"""What newer drivers call a field that they were asked for by an older name."""


async def nvidia_smi(stage: Stage, argv: Sequence[str], write: Write, complain: Write) -> int:
    """``--query-gpu`` and ``--query-compute-apps`` as csv; anything else is not played."""
    options = dict(argument.partition("=")[::2] for argument in argv)
    layout = options.get("--format", "").split(",")
    for name, rows in (("--query-gpu", _gpus), ("--query-compute-apps", _processes)):
        if name not in options:
            continue
        fields = [field.strip() for field in options[name].split(",")]
        if "noheader" not in layout:
            await write((", ".join(_header(field) for field in fields) + "\n").encode())
        while True:
            for row in rows(stage):
                values = [_value(field, row.get(field), units="nounits" not in layout) for field in fields]
                await write((", ".join(values) + "\n").encode())
            period = _period(argv)
            if not period:
                return 0
            await stage.clock.sleep(period)
    await complain(b"nvidia-smi: only --query-gpu and --query-compute-apps are played in the demo\n")
    return 2


def processes_table(stage: Stage) -> str:
    """``--query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv``."""
    fields = ("gpu_uuid", "pid", "process_name", "used_memory")
    rows = [", ".join(_value(field, row.get(field), units=True) for field in fields) for row in _processes(stage)]
    return "\n".join([", ".join(_header(field) for field in fields), *rows, ""])


def _header(field: str) -> str:
    name = _SHOWN_AS.get(field, field)
    unit = "MiB" if name == "used_gpu_memory" else _unit(name)
    return f"{name} [{unit}]" if unit else name


def _unit(field: str) -> str:
    return next((unit for start, unit in _UNITS if field.startswith(start)), "")


def _value(field: str, value: str | None, *, units: bool) -> str:
    if value is None:
        return "[N/A]"
    unit = "MiB" if field in ("used_memory", "used_gpu_memory") else _unit(field)
    return f"{value} {unit}" if units and unit else value


def _period(argv: Sequence[str]) -> float:
    """Seconds between two rounds; 0: once."""
    text = " ".join(argv)
    found = re.search(r"(?:-lms|--loop-ms|-l|--loop)[= ](\d+)", text)
    if not found:
        return 0.0
    return int(found[1]) / (1000.0 if "ms" in found[0] else 1.0)


def _gpus(stage: Stage) -> list[dict[str, str]]:
    story = stage.story
    local = datetime.fromtimestamp(stage.now(), UTC).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
    rows = []
    for index, (facts, gpu) in enumerate(zip(story.gpu_facts, story.gpus_at(stage.at()).gpus, strict=True)):
        row = {
            "timestamp": local,
            "driver_version": story.driver,
            "count": str(len(story.gpu_facts)),
            "index": str(index),
            "name": facts.name,
            "uuid": facts.uuid,
            "pci.bus_id": facts.bus,
            "memory.total": f"{facts.total:.0f}",
            "memory.used": f"{gpu.used:.0f}",
            "memory.free": f"{gpu.free:.0f}",
            "memory.reserved": f"{gpu.reserved:.0f}",
            "utilization.gpu": f"{gpu.utilization:.0f}",
            "utilization.memory": f"{gpu.memory_utilization:.0f}",
            "power.draw": f"{gpu.power:.2f}",
            "power.limit": f"{facts.power_limit:.2f}",
            "enforced.power.limit": f"{facts.power_limit:.2f}",
            "temperature.gpu": f"{gpu.temperature:.0f}",
            "clocks.sm": f"{gpu.sm:.0f}",
            "clocks.mem": f"{gpu.mem:.0f}",
            "pstate": "P0",
            "clocks_event_reasons.active": f"0x{gpu.reasons:016x}",
            "ecc.errors.uncorrected.volatile.total": "0",
            "pcie.link.gen.current": str(facts.pcie_gen),
            "pcie.link.gen.max": str(facts.pcie_gen),
            "pcie.link.width.current": str(facts.pcie_width),
            "pcie.link.width.max": str(facts.pcie_width),
            "persistence_mode": "Enabled",
            "compute_mode": "Default",
            "mig.mode.current": "Disabled",
        }
        row["clocks_throttle_reasons.active"] = row["clocks_event_reasons.active"]
        row |= {_SHOWN_AS[field]: row[field] for field in ("clocks.sm", "clocks.mem")}
        row |= {"gpu_uuid": row["uuid"], "gpu_name": row["name"]}
        rows.append(row)
    return rows


def _processes(stage: Stage) -> list[dict[str, str]]:
    story = stage.story
    names = {process.pid: process.name for process in story.host_at(stage.at()).processes}
    return [
        {
            "gpu_uuid": facts.uuid,
            "gpu_name": facts.name,
            "gpu_bus_id": facts.bus,
            "pid": str(gpu.pid),
            "process_name": names.get(gpu.pid, "python3"),
            "name": names.get(gpu.pid, "python3"),
            "used_memory": f"{gpu.pid_used:.0f}",
            "used_gpu_memory": f"{gpu.pid_used:.0f}",
        }
        for facts, gpu in zip(story.gpu_facts, story.gpus_at(stage.at()).gpus, strict=True)
        if gpu.pid
    ]
