"""NVML, sampled where the GPUs are. In process for ``local``; over SSH its source is sent to the server's Python.

So this file stands alone: the standard library and ``pynvml`` (nvidia-ml-py, or the copy inside vLLM), Python 3.8 and
later, nothing of ours. It installs nothing, writes no file, and ends when its standard input does.

One line of JSON a sample on standard output:

``{"v": 1, "driver": "580.159.04"}`` first, or ``{"error": "…", "missing": true}`` where there is no NVML at all;
``{"t": 1790000000.1, "g": [[index, …FIELDS…], …], "p": [[gpu, pid, used_mib], …], "who": {pid: [name, unit, user,
started, state]}}`` for a sample; ``{"t": …, "hung": seconds}`` while the driver does not answer. ``who`` names a
process when it is new or has changed (a worker renames itself as it loads; a dying one is in state Z).

Costs, measured on two H200 (driver 580): the calls below 0.1–0.25 ms a GPU; a PCIe throughput read blocks 21 ms and
takes 0.9 ms of CPU, so every fourth sample reads one GPU's, in turn; total energy 4 ms of CPU, every fifteenth sample;
the MIG mode 0.2 ms, with the static facts. A call can block half a second while another process' context is torn down.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any, NoReturn

FIELDS = (
    "name", "uuid", "bus", "used", "total", "reserved", "utilization", "power", "power_limit", "temperature", "sm_mhz",
    "mem_mhz", "pstate", "throttle", "ecc_uncorrected", "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max",
    "pcie_rx_mbs", "pcie_tx_mbs", "energy_j", "mig", "parent", "error",
)  # fmt: skip
"""What stands after the index in a row of ``g``. Memory MiB (NVML v2: ``used`` does not count ``reserved``), power W,
temperature °C, energy J since the driver was loaded. null: not offered, or not read this time (name, uuid, bus and the
link's maxima come with the first sample and every sixtieth)."""

STATIC = 60
ENERGY = 15
PCIE = 4
MIB = 1048576.0


def load_nvml() -> Any:
    """The pynvml module: nvidia-ml-py's, else vLLM's own copy, loaded without importing vLLM (15 s)."""
    try:
        import pynvml  # type: ignore[import-untyped, unused-ignore]

        return pynvml
    except ImportError:
        import importlib.util

        found = importlib.util.find_spec("vllm")
        for folder in (found.submodule_search_locations or ()) if found else ():
            path = os.path.join(folder, "third_party", "pynvml.py")
            if os.path.exists(path):
                spec = importlib.util.spec_from_file_location("firstlight_pynvml", path)
                if spec and spec.loader:
                    module = importlib.util.module_from_spec(spec)
                    spec.loader.exec_module(module)
                    return module
        raise


class Sampler:
    """Asks NVML for everything, one call after the other. Not thread-safe: one thread owns it."""

    def __init__(self, nvml: Any, pcie: bool = True) -> None:
        """Raises the module's NVMLError when the driver cannot be reached (not loaded, library mismatch)."""
        self.nvml = nvml
        self.pcie = pcie
        nvml.nvmlInit()
        self.driver = text(nvml.nvmlSystemGetDriverVersion()) or ""
        self.count: int = nvml.nvmlDeviceGetCount()
        self.turn = 0
        self.known: dict[int, list[Any]] = {}
        self.mig: dict[int, str | None] = {}

    def call(self, name: str, *args: Any) -> Any:
        """The value, or None where this device or driver does not offer it. A lost GPU or a dead driver raises."""
        function = getattr(self.nvml, name, None)
        if function is None:
            return None
        try:
            return function(*args)
        except self.nvml.NVMLError as error:
            if getattr(error, "value", None) in (
                getattr(self.nvml, "NVML_ERROR_GPU_IS_LOST", 15),
                getattr(self.nvml, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", 18),
                getattr(self.nvml, "NVML_ERROR_UNINITIALIZED", 1),
                getattr(self.nvml, "NVML_ERROR_DRIVER_NOT_LOADED", 9),
                getattr(self.nvml, "NVML_ERROR_RESET_REQUIRED", 16),
            ):
                raise
            return None
        except self.nvml.NVMLLibraryMismatchError:
            return None

    def memory(self, handle: Any) -> tuple[float | None, float | None, float | None]:
        """(used, total, reserved) in MiB, in the meaning of NVML v2, or three None on unified memory."""
        version = getattr(self.nvml, "nvmlMemory_v2", None)
        info = None
        if version is not None:
            info = self.call("nvmlDeviceGetMemoryInfo", handle, version)
        if info is not None:
            return info.used / MIB, info.total / MIB, info.reserved / MIB
        info = self.call("nvmlDeviceGetMemoryInfo", handle)
        if info is None:
            return None, None, None
        return info.used / MIB, info.total / MIB, None

    def device(self, index: int, handle: Any, parent: int | None = None) -> list[Any]:
        """One row of ``g``."""
        call, nvml = self.call, self.nvml
        row: dict[str, Any] = dict.fromkeys(FIELDS)
        try:
            if self.turn % STATIC == 0:
                row["name"] = text(call("nvmlDeviceGetName", handle))
                row["uuid"] = text(call("nvmlDeviceGetUUID", handle))
                pci = call("nvmlDeviceGetPciInfo", handle)
                row["bus"] = text(pci.busId) if pci is not None else None
                row["pcie_gen_max"] = call("nvmlDeviceGetMaxPcieLinkGeneration", handle)
                row["pcie_width_max"] = call("nvmlDeviceGetMaxPcieLinkWidth", handle)
            row["used"], row["total"], row["reserved"] = self.memory(handle)
            if parent is not None:
                row["parent"] = parent
                return [index] + [row[name] for name in FIELDS]
            rates = call("nvmlDeviceGetUtilizationRates", handle)
            row["utilization"] = rates.gpu if rates is not None else None
            row["power"] = scaled(call("nvmlDeviceGetPowerUsage", handle), 1000.0)
            row["power_limit"] = scaled(call("nvmlDeviceGetEnforcedPowerLimit", handle), 1000.0)
            row["temperature"] = call("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU)
            row["sm_mhz"] = call("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM)
            row["mem_mhz"] = call("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM)
            pstate = call("nvmlDeviceGetPerformanceState", handle)
            row["pstate"] = f"P{pstate}" if pstate is not None else None
            reasons = call("nvmlDeviceGetCurrentClocksEventReasons", handle)
            if reasons is None:
                reasons = call("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
            row["throttle"] = reasons
            row["ecc_uncorrected"] = call(
                "nvmlDeviceGetTotalEccErrors",
                handle,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            )
            row["pcie_gen"] = call("nvmlDeviceGetCurrPcieLinkGeneration", handle)
            row["pcie_width"] = call("nvmlDeviceGetCurrPcieLinkWidth", handle)
            if self.pcie and self.turn % PCIE == 0 and self.turn // PCIE % self.count == index:
                row["pcie_rx_mbs"] = scaled(
                    call("nvmlDeviceGetPcieThroughput", handle, nvml.NVML_PCIE_UTIL_RX_BYTES), 1000.0
                )
                row["pcie_tx_mbs"] = scaled(
                    call("nvmlDeviceGetPcieThroughput", handle, nvml.NVML_PCIE_UTIL_TX_BYTES), 1000.0
                )
            if self.turn % ENERGY == 0:
                row["energy_j"] = scaled(call("nvmlDeviceGetTotalEnergyConsumption", handle), 1000.0)
            if self.turn % STATIC == 0:
                mode = call("nvmlDeviceGetMigMode", handle)
                self.mig[index] = None if mode is None else ("on" if mode[0] else "off")
            row["mig"] = self.mig.get(index)
        except nvml.NVMLError as error:
            row["error"] = str(error)
        return [index] + [row[name] for name in FIELDS]

    def slices(self, index: int, handle: Any) -> list[tuple[Any, list[Any]]]:
        """(handle, row) of the MIG devices of one GPU; none where MIG is off or its instances may not be read."""
        found = []
        most = self.call("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
        for number in range(most):
            part = self.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
            if part is not None:
                found.append((part, self.device(self.count + index * 16 + number, part, parent=index)))
        return found

    def processes(self, index: int, handle: Any) -> list[list[Any]]:
        """[gpu, pid, used MiB or null] of every process that holds memory there."""
        rows = {}
        for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
            for process in self.call(name, handle) or ():
                used = process.usedGpuMemory
                rows[process.pid] = [index, process.pid, None if used is None else used / MIB]
        return list(rows.values())

    def sample(self) -> dict[str, Any]:
        """One sample, as the dictionary that the module's docstring describes (without its time)."""
        rows, running = [], []
        for index in range(self.count):
            try:
                handle = self.nvml.nvmlDeviceGetHandleByIndex(index)
            except self.nvml.NVMLError as error:
                rows.append([index] + [str(error) if name == "error" else None for name in FIELDS])
                continue
            row = self.device(index, handle)
            rows.append(row)
            if row[1 + FIELDS.index("error")]:
                continue
            if row[1 + FIELDS.index("mig")] == "on":
                for part, part_row in self.slices(index, handle):
                    rows.append(part_row)
                    running.extend(self.processes(part_row[0], part))
            running.extend(self.processes(index, handle))
        self.turn += 1
        out: dict[str, Any] = {"g": rows, "p": running}
        who = self.names({process[1] for process in running})
        if who:
            out["who"] = who
        return out

    def names(self, pids: set[int]) -> dict[int, list[Any]]:
        """What is new or changed about these processes: pid → [name, unit, user, started, state]."""
        fresh = {}
        for pid in pids:
            facts = about(pid)
            if self.known.get(pid) != facts:
                fresh[pid] = facts
                self.known[pid] = facts
        for pid in set(self.known) - pids:
            del self.known[pid]
        return fresh


def text(value: Any) -> str | None:
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def scaled(value: Any, by: float) -> float | None:
    return None if value is None else value / by


def read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(4096).decode("utf-8", "replace")
    except OSError:
        return ""


def about(pid: int) -> list[Any]:
    """[name, systemd unit, user, started (UTC seconds), Z or X while it dies] from /proc; empty where it is gone."""
    stat = read(f"/proc/{pid}/stat")
    head, _, rest = stat.rpartition(")")
    fields = rest.split()
    state = fields[0] if fields and fields[0] in "ZX" else ""  # the others change all the time and say nothing here
    started = 0.0
    if len(fields) > 19:
        started = boot_time() + float(fields[19]) / os.sysconf("SC_CLK_TCK")
    words = [word for word in read(f"/proc/{pid}/cmdline").split("\0") if word]
    name = words[0] if words and words[0].startswith("VLLM::") else head.partition("(")[2]
    unit = ""
    for line in read(f"/proc/{pid}/cgroup").splitlines():
        for part in reversed(line.rpartition(":")[2].split("/")):
            if part.endswith((".service", ".scope")):
                unit = part
                break
        if unit:
            break
    user = ""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        try:
            import pwd

            user = pwd.getpwuid(uid).pw_name
        except (ImportError, KeyError):
            user = str(uid)
    except OSError:
        user = ""
    return [name, unit, user, started, state]


def boot_time() -> float:
    """When this machine booted, UTC seconds (0 where /proc is not to be read): btime stands far down in /proc/stat."""
    try:
        with open("/proc/stat", "rb") as file:
            for line in file:
                if line.startswith(b"btime"):
                    return float(line.split()[1])
    except OSError:
        return 0.0
    return 0.0


def main(interval: float, limit: float = 5.0) -> None:
    """Print a sample every ``interval`` seconds until standard input ends; ``limit``: after how many silent seconds a
    call counts as hung. A hung call is waited for, never repeated: one call at a time."""

    def say(record: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
        sys.stdout.flush()

    results: queue.Queue[dict[str, Any]] = queue.Queue()
    wanted: queue.Queue[bool] = queue.Queue()

    def work() -> None:
        try:
            sampler = Sampler(load_nvml())
        except ImportError:
            results.put({"error": "this Python has no pynvml module (package nvidia-ml-py)", "missing": True})
            return
        except Exception as error:  # noqa: BLE001 (whatever NVML says is the answer, and becomes a line)
            results.put({"error": str(error) or type(error).__name__, "missing": True})
            return
        results.put({"v": 1, "driver": sampler.driver})
        while wanted.get():
            try:
                results.put(sampler.sample())
            except Exception as error:  # noqa: BLE001
                results.put({"error": str(error) or type(error).__name__})

    def lifeline() -> NoReturn:
        while os.read(0, 4096):  # what is sent means nothing, that it ends means everything
            continue
        os._exit(0)

    threading.Thread(target=work, daemon=True).start()
    threading.Thread(target=lifeline, daemon=True).start()
    asked = time.monotonic()
    due = asked
    while True:
        try:
            record = results.get(timeout=limit)
        except queue.Empty:
            say({"t": time.time(), "hung": round(time.monotonic() - asked, 2)})
            continue
        record["t"] = round(time.time(), 3)
        say(record)
        if record.get("missing"):
            os._exit(0)  # the lifeline still reads: an ordinary end would wait for it
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        asked = time.monotonic()
        wanted.put(True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
