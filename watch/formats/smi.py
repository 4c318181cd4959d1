"""What nvidia-smi prints, saved: CSV of any fields, its table, or a sentence instead."""

from __future__ import annotations

import re

from probes.readings import CommandReading, GpuDevice, GpuProcess, GpuProcesses, GpuReading, ProbeReading, Reading

_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_COLUMN = re.compile(r"^[a-z][a-z0-9_.]*$")
_NUMBER = re.compile(r"^-?\d+(?:\.\d+)?")
_ABSENT = re.compile(r"^\[?(?:N/A|Not Supported|Not Available|Insufficient Permissions)\]?$", re.IGNORECASE)
_BROKEN = re.compile(
    r"^(?:ERR!|\[?(?:Unknown Error|GPU is lost|GPU requires reset|Requested operation is not available)\]?)$"
)

_FIELDS = {
    "index": "index",
    "name": "name",
    "gpu_name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "bus",
    "gpu_bus_id": "bus",
    "memory.used": "used_mib",
    "memory.total": "total_mib",
    "memory.reserved": "reserved_mib",
    "utilization.gpu": "utilization",
    "power.draw": "power",
    "power.draw.instant": "power",
    "power.limit": "power_limit",
    "enforced.power.limit": "power_limit",
    "temperature.gpu": "temperature",
    "clocks.sm": "sm_mhz",
    "clocks.current.sm": "sm_mhz",
    "clocks.mem": "mem_mhz",
    "clocks.current.memory": "mem_mhz",
    "pstate": "pstate",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "mig.mode.current": "mig",
    "pcie.link.gen.current": "pcie_gen",
    "pcie.link.gen.gpucurrent": "pcie_gen",
    "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.width.current": "pcie_width",
    "pcie.link.width.max": "pcie_width_max",
    "clocks_event_reasons.active": "throttle",
    "clocks_throttle_reasons.active": "throttle",
}
_REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
"""clocks_event_reasons.NAME → its bit in the mask"""
_TEXTS = frozenset(("name", "uuid", "bus", "pstate", "mig"))
_WHOLE = frozenset(("ecc_uncorrected", "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max"))
_PROCESS = frozenset(
    (
        "pid",
        "process_name",
        "used_memory",
        "used_gpu_memory",
        "gpu_uuid",
        "gpu_name",
        "gpu_bus_id",
        "gpu_serial",
        "timestamp",
    )
)
_TABLE_GPU = re.compile(r"^\|\s+(\d+)\s+(\S.*?)\s+(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f]{8}:[0-9A-Fa-f:.]+)")
_TABLE_MEMORY = re.compile(r"([\d.]+|N/A)(?:MiB)?\s*/\s*([\d.]+|N/A)(?:MiB)?\s*\|\s*(\d+|N/A)%?")
_TABLE_PROCESS = re.compile(r"^\|\s+(\d+)\s+\S+\s+\S+\s+(\d+)\s+\S+\s+(\S.*?)\s+(\d+|N/A)(?:MiB)?\s+\|")
SENTENCES = re.compile(
    r"^(?:Unable to determine the device handle|Failed to initialize NVML|NVIDIA-SMI has failed|No devices were found|"
    r'Field "[^"]*" is not a valid field|NVML library version|GPU access blocked)',
    re.MULTILINE,
)


def header_of(line: str) -> list[str] | None:
    """The names of a CSV header, without units; None where the line is none."""
    names = [_UNIT.sub("", part.strip()) for part in line.split(",")]
    known = [name for name in names if name in _FIELDS or name in _PROCESS]
    return names if len(known) >= 2 and all(map(_COLUMN.match, names)) else None


def from_csv(text: str, name: str, at: float, names: list[str] | None = None) -> list[Reading]:
    """Readings of a CSV; what stands before its header (a login shell's greeting) is skipped, and said so. ``names``:
    of the columns, where they were asked for without a header."""
    out: list[Reading] = []
    devices: list[GpuDevice] = []
    processes: list[GpuProcess] = []
    first = 1
    shell = names is not None
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip("\r ")
        if not line:
            continue
        found = header_of(line)
        if found is not None:
            if names is None and number > 1:
                out.append(
                    ProbeReading(at=at, probe="shell", state="up", reason=str(number - 1), ref=f"{name}:{number}")
                )
            names, shell = found, True
            continue
        if not shell or names is None:
            continue
        row = [part.strip() for part in line.split(",")]
        ref = f"{name}:{number}"
        if len(row) != len(names):
            out.append(CommandReading(at=at, command="nvidia-smi", stdout=line, ref=f"{name}:{number}"))
        elif "pid" in names:
            process = _process(dict(zip(names, row, strict=True)))
            if process is not None:
                first = first if processes else number
                processes.append(process)
        else:
            device = _device(dict(zip(names, row, strict=True)), len(devices), ref)
            if device.index in {known.index for known in devices}:  # the next round of -l
                out.append(GpuReading(at=at, devices=tuple(devices), ref=devices[0].ref))
                devices = []
            devices.append(device)
    if devices:
        out.append(GpuReading(at=at, devices=tuple(devices), ref=devices[0].ref))
    if processes:
        out.append(GpuProcesses(at=at, processes=tuple(processes), ref=f"{name}:{first}"))
    return out


def from_table(text: str, name: str, at: float) -> list[Reading]:
    """The table that plain ``nvidia-smi`` prints."""
    devices: list[GpuDevice] = []
    processes: list[GpuProcess] = []
    waiting: tuple[int, str, str, int] | None = None
    for number, line in enumerate(text.split("\n"), 1):
        gpu = _TABLE_GPU.match(line)
        if gpu is not None:
            waiting = (int(gpu[1]), gpu[2], gpu[3], number)
            continue
        memory = _TABLE_MEMORY.search(line)
        if memory is not None and waiting is not None:
            index, model, bus, first = waiting
            devices.append(
                GpuDevice(
                    index=index,
                    name=model,
                    bus=bus,
                    used_mib=_number(memory[1]),
                    total_mib=_number(memory[2]),
                    utilization=_number(memory[3]),
                    ref=f"{name}:{first}",
                )
            )
            waiting = None
            continue
        process = _TABLE_PROCESS.match(line)
        if process is not None:
            used = _number(process[4])
            processes.append(GpuProcess(gpu=int(process[1]), pid=int(process[2]), name=process[3], used_mib=used))
    out: list[Reading] = []
    driver = re.search(r"Driver Version: ([\d.]+)", text)
    if devices:
        version = driver[1] if driver is not None else ""
        out.append(GpuReading(at=at, devices=tuple(devices), driver=version, ref=devices[0].ref))
    if processes:
        out.append(GpuProcesses(at=at, processes=tuple(processes), ref=name))
    return out


def columns(command: str) -> list[str] | None:
    """The columns that a command asked for without a header."""
    asked = re.search(r"--query-(?:gpu|compute-apps)=(\S+)", command)
    if asked is None or "noheader" not in command:
        return None
    return asked[1].split(",")


def _device(row: dict[str, str], position: int, ref: str) -> GpuDevice:
    values: dict[str, object] = {}
    errors: list[str] = []
    for column, raw in row.items():
        text = raw.strip()
        field = _FIELDS.get(column)
        if _BROKEN.match(text):
            errors.append(text)
            continue
        if field is None or field == "index" or _ABSENT.match(text):
            continue
        if field in _TEXTS:
            values[field] = text
        elif field == "throttle":
            values[field] = int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text) else None
        else:
            number = _number(text)
            values[field] = int(number) if number is not None and field in _WHOLE else number
    index = row.get("index", "").strip()
    values["index"] = int(index) if index.isdigit() and len(index) < 6 else position
    errors.sort(key=lambda text: "reset" not in text and "lost" not in text)  # the field that says why
    asked = any(_FIELDS.get(column) in ("used_mib", "total_mib") for column in row)
    mask = 0
    for column, raw in row.items():
        if raw.strip() == "Active":
            mask |= _REASONS.get(column.rpartition(".")[2], 0)
    if mask and "throttle" not in values:
        values["throttle"] = mask
    return GpuDevice(**values, error=errors[0] if errors else "", memory_asked=asked, ref=ref)  # type: ignore[arg-type]


def _process(row: dict[str, str]) -> GpuProcess | None:
    pid = row["pid"].strip()
    if not pid.isdigit() or len(pid) > 10:
        return None
    used = row.get("used_gpu_memory", row.get("used_memory", ""))
    return GpuProcess(gpu=-1, pid=int(pid), name=row.get("process_name", "").strip(), used_mib=_number(used.strip()))


def _number(text: str) -> float | None:
    found = _NUMBER.match(text)
    return float(found[0]) if found is not None else None
