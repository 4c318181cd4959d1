"""``nvidia-smi``'s tables to readings, whatever stands between their rows: total over any bytes.

Its first row names the columns, in words of its own (asked for ``clocks.sm`` it says ``clocks.current.sm [MHz]``), so
columns are found by name, and what stands before that row is no figure. Any field may be ``[N/A]``,
``[Not Supported]`` or a complaint in brackets; a complaint may also come as a line of its own instead of a row.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from probes.readings import GpuDevice, GpuProcess, GpuReading

QUERY = (
    "index", "uuid", "name", "pci.bus_id", "driver_version", "memory.used", "memory.total", "memory.reserved",
    "utilization.gpu", "power.draw", "enforced.power.limit", "temperature.gpu", "clocks.sm", "clocks.mem", "pstate",
    "clocks_throttle_reasons.active", "ecc.errors.uncorrected.volatile.total", "pcie.link.gen.current",
    "pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max", "mig.mode.current",
)  # fmt: skip
"""What is asked for. ``clocks_throttle_reasons`` is the older name of two that newer drivers know."""

_COLUMNS = {
    "index": "index", "uuid": "uuid", "gpu_uuid": "uuid", "name": "name", "gpu_name": "name", "pci.bus_id": "bus",
    "gpu_bus_id": "bus", "driver_version": "driver", "memory.used": "used_mib", "memory.total": "total_mib",
    "memory.reserved": "reserved_mib", "utilization.gpu": "utilization", "power.draw": "power",
    "power.draw.average": "power", "power.draw.instant": "power", "gpu.power.draw.average": "power",
    "gpu.power.draw.instant": "power", "power.limit": "power_limit", "enforced.power.limit": "power_limit",
    "gpu.power.current_limit": "power_limit", "gpu.power.requested_limit": "power_limit",
    "temperature.gpu": "temperature", "clocks.current.sm": "sm_mhz", "clocks.sm": "sm_mhz",
    "clocks.current.memory": "mem_mhz", "clocks.mem": "mem_mhz", "pstate": "pstate",
    "clocks_event_reasons.active": "throttle", "clocks_throttle_reasons.active": "throttle",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected", "pcie.link.gen.current": "pcie_gen",
    "pcie.link.gen.gpucurrent": "pcie_gen", "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.width.current": "pcie_width", "pcie.link.width.max": "pcie_width_max", "mig.mode.current": "mig",
}  # fmt: skip
_TEXTS = {"name", "uuid", "bus", "pstate"}
_WHOLE = {"ecc_uncorrected", "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max", "throttle"}
_MEASURED = {"used_mib", "utilization", "power", "temperature"}
_UNIT = re.compile(r" \[[^\]]*\]$")
_NUMBER = re.compile(r"(-?\d{1,15}(?:\.\d{1,6})?)(?: ?(?:MiB|W|MHz|%|C))?")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}")
_ABSENT = re.compile(
    r"\[?(?:N/A|Not Supported|Not Active|Requested functionality has been deprecated)\]?", re.IGNORECASE
)
_BRACKETED = re.compile(r"\[(.+)\]")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_HANDLE = re.compile(r"Unable to determine the device handle for (?:GPU ?)?(?P<bus>[0-9A-Fa-f:.]+?):? (?P<why>.+)")
_FIELD = re.compile(r'Field "(?P<field>[\w.]+)" is not a valid field')
MAX_LINE = 64 << 10
MOST_NOISE = 2000
"""Lines that are no rows, between two that are, after which it is no nvidia-smi that speaks."""
MOST_TROUBLES = 50
"""Complaints kept until they are taken away."""
MOST_GPUS = 256
"""Devices of one host, MIG slices included: sixteen GPUs with seven each are 112."""
LONGEST = 1000
"""Characters of a name."""


class Trouble(Struct, frozen=True):
    """What nvidia-smi complained about. ``missing``: nothing to expect before somebody acts on the host."""

    reason: str
    remedy: str = ""
    missing: bool = False


_TROUBLES: tuple[tuple[str, Trouble], ...] = (
    (
        "Driver/library version mismatch",
        Trouble(
            "The NVIDIA driver was upgraded under the running kernel module: there are no GPU figures until a reboot",
            "Do not restart the unit before: the running server is not hit, a new one would not start. "
            "Plan a reboot, and hold the nvidia packages.",
            missing=True,
        ),
    ),
    (
        "couldn't communicate with the NVIDIA driver",
        Trouble(
            "nvidia-smi cannot reach the NVIDIA driver: its kernel module is not loaded",
            "See modprobe nvidia and dmesg on the host; after a kernel upgrade the module must be built again.",
            missing=True,
        ),
    ),
    (
        "No devices were found",
        Trouble(
            "nvidia-smi finds no GPU on this host",
            "See lspci and dmesg: a GPU that fell off the bus needs a reset or a power cycle.",
            missing=True,
        ),
    ),
    (
        "GPU is lost",
        Trouble(
            "A GPU is lost: it no longer answers on the bus",
            "Stop the unit; reset the GPU or power-cycle the host, and see dmesg for the Xid.",
        ),
    ),
    (
        "Unable to determine the device handle",
        Trouble(
            "A GPU cannot be reached by its driver",
            "Stop the unit; reset the GPU or power-cycle the host, and see dmesg for the Xid.",
        ),
    ),
    (
        "Insufficient Permissions",
        Trouble("This user may not ask the GPUs", "Give the user access to /dev/nvidia* on the host."),
    ),
    (
        "Failed to initialize NVML",
        Trouble("NVML, the NVIDIA driver's library, does not start on this host", "See dmesg and nvidia-smi there."),
    ),
)


def trouble_in(line: str) -> Trouble | None:
    """What a line complains about, with what it says itself; None for what is no complaint that we know."""
    for words, trouble in _TROUBLES:
        if words in line:
            return replace(trouble, reason=f"{trouble.reason} ({line.strip()[:160]})")
    return None


class SmiDecoder:
    """Rows to whole rounds: one GpuReading when every GPU has spoken (they do one after the other, ~14 ms apart).

    A round is complete when all indices of the round before are there, or when one comes again.
    """

    def __init__(self) -> None:
        self.troubles: list[Trouble] = []
        """complaints since they were last taken away"""
        self.unknown_field = ""
        """a field that this driver does not know; it has ended over it"""
        self.noise = 0
        """lines that are nothing we know"""
        self.uuids: dict[str, int] = {}
        self.rows = 0
        self._columns: list[str] = []
        self._rest = b""
        self._round: dict[int, GpuDevice] = {}
        self._all: frozenset[int] = frozenset()
        self._at = 0.0
        self._driver = ""
        self._seen: dict[str, GpuDevice] = {}

    @property
    def lost(self) -> bool:
        """Whether what it says is nothing to wait for a row in."""
        return self.noise > MOST_NOISE

    def feed(self, data: bytes, at: float) -> list[GpuReading]:
        """The rounds that these bytes complete. ``at``: when they arrived."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MAX_LINE:
            self._rest = b""
            self.noise += 1
        out: list[GpuReading] = []
        for raw in lines:
            if self.lost:
                break
            if len(raw) <= MAX_LINE:
                self._line(_ESCAPES.sub("", raw.decode("utf-8", "backslashreplace")).strip(), at, out)
            else:
                self.noise += 1
        return out

    def flush(self) -> list[GpuReading]:
        """The first round, after a silence that shows it to be over: it alone has no round before it to go by."""
        return [] if self._all else self._emit()

    def close(self) -> list[GpuReading]:
        """The end: a last line without a newline, and the round that it leaves unfinished."""
        out = self.feed(b"\n", self._at) if self._rest else []
        return out + self._emit()

    def _line(self, line: str, at: float, out: list[GpuReading]) -> None:
        if not line:
            self.noise += 1
            return
        fields = [field.strip() for field in line.split(", ")]
        columns = [_COLUMNS.get(_UNIT.sub("", field), "") for field in fields]
        if sum(map(bool, columns)) >= 2 or (len(fields) == 1 and columns[0]):
            out += self._emit()
            self._columns = columns
            self.noise += 1
            return
        if self._columns and len(fields) == len(self._columns):
            values = dict(zip(self._columns, fields, strict=True))
            place = values.get("index", "")
            if len(place) < 5 and place.isdecimal() and int(place) >= MOST_GPUS:
                return
            device = self._device(values)
            if device is not None:
                self.noise = 0
                self._take(device, at, out)
                return
        self.noise += 1
        self._complaint(line, at, out)

    def _device(self, values: dict[str, str]) -> GpuDevice | None:
        place = values.pop("index", None)
        if place is not None and not (place.isascii() and place.isdigit() and len(place) < 5):
            return None
        known: dict[str, object] = {}
        complaints: list[str] = []
        for name, text in values.items():
            if name in _TEXTS:
                known[name] = "" if _ABSENT.fullmatch(text) else text[:LONGEST]
                continue
            if name == "driver":
                self._driver = text if re.fullmatch(r"[\d.]{1,40}", text) else self._driver
            elif name == "mig":
                known[name] = {"Enabled": "on", "Disabled": "off"}.get(text, "")
            elif name == "throttle":
                known[name] = int(text, 16) if _HEX.fullmatch(text) else None
            elif name:
                number = _NUMBER.fullmatch(text)
                if number:
                    known[name] = int(float(number[1])) if name in _WHOLE else float(number[1])
                elif (said := _BRACKETED.fullmatch(text)) and not _ABSENT.fullmatch(text):
                    complaints.append(said[1])
        if place is None and not known:
            return None
        error = complaints[0] if complaints and not _MEASURED & known.keys() else ""
        index = int(place) if place is not None else len(self._round)
        return GpuDevice(index=index, error=error, **known)  # type: ignore[arg-type]

    def _take(self, device: GpuDevice, at: float, out: list[GpuReading]) -> None:
        self.rows += 1
        if device.index in self._round:
            self._all = frozenset(self._round)
            out += self._emit()
        if not self._round:
            self._at = at
        if len(self.uuids) > MOST_GPUS or len(self._seen) > MOST_GPUS:
            self.uuids.clear()
            self._seen.clear()
        if device.uuid:
            self.uuids[device.uuid] = device.index
        if device.bus:
            self._seen[_bus(device.bus)] = device
        self._round[device.index] = device
        if self._all and self._all <= self._round.keys():
            out += self._emit()

    def _emit(self) -> list[GpuReading]:
        if not self._round:
            return []
        devices = tuple(self._round[index] for index in sorted(self._round))
        self._round = {}
        return [GpuReading(at=self._at, devices=devices, source="nvidia-smi", driver=self._driver)]

    def _complaint(self, line: str, at: float, out: list[GpuReading]) -> None:
        if field := _FIELD.search(line):
            self.unknown_field = field["field"]
            return
        if (handle := _HANDLE.search(line)) and (seen := self._seen.get(_bus(handle["bus"]))):
            lost = GpuDevice(index=seen.index, name=seen.name, uuid=seen.uuid, bus=seen.bus, error=handle["why"])
            self._take(lost, at, out)
        trouble = trouble_in(line)
        if trouble is not None:
            self.troubles.append(trouble)
        elif self._columns:
            self.troubles.append(Trouble(f"nvidia-smi says: {line[:200]}"))
        del self.troubles[MOST_TROUBLES:]


def _bus(text: str) -> str:
    """A PCI address without its domain's leading zeros: ``00000000:61:00.0`` and ``0000:61:00.0`` are one."""
    return text.strip().rstrip(":").lower().lstrip("0:")


def compute_apps(table: str, gpus: dict[str, int]) -> list[GpuProcess]:
    """``--query-compute-apps=gpu_uuid,pid,process_name,used_memory``. ``gpus``: index by UUID; -1 for an unknown one.
    A dying process is called ``[No data]`` and holds all its memory still."""
    columns: list[str] = []
    out: list[GpuProcess] = []
    for line in table.splitlines():
        # a process may be called anything: the name is what is left between the others
        fields = line.split(", ")
        names = [_UNIT.sub("", field.strip()) for field in fields]
        if "pid" in names:
            columns = names
            continue
        if not columns or len(fields) < len(columns):
            continue
        at = columns.index("process_name") if "process_name" in columns else len(columns) - 1
        extra = len(fields) - len(columns)
        merged = [*fields[:at], ", ".join(fields[at : at + extra + 1]), *fields[at + extra + 1 :]]
        values = dict(zip(columns, (field.strip() for field in merged), strict=True))
        pid, used = values["pid"], _NUMBER.fullmatch(values.get("used_gpu_memory", values.get("used_memory", "")))
        if not re.fullmatch(r"\d{1,10}", pid):
            continue
        name = values.get("process_name", "")
        out.append(
            GpuProcess(
                gpu=gpus.get(values.get("gpu_uuid", ""), -1),
                pid=int(pid),
                name="" if _BRACKETED.fullmatch(name) else name,
                used_mib=float(used[1]) if used else None,
            )
        )
    return out
