"""One GPU, whole: every figure with its unit, what stands out about it, and who holds its memory."""

from __future__ import annotations

from probes.readings import GpuDevice
from tui.scene import GPU_INTERVAL
from tui.screens.whole import WholeScreen, fields
from tui.text import safe
from tui.units import about, rate
from tui.widgets.gpu import Gpu, label, on_gpu, stranger
from tui.widgets.rows import Row, paragraph
from watch.gpu_notes import reasons
from watch.view import GpuView


class GpuScreen(WholeScreen):
    """Follows the pane that it was opened from."""

    def __init__(self, pane: Gpu) -> None:
        super().__init__()
        self._pane = pane
        self._at = 0

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(1.0, self.fill)

    @property
    def _found(self) -> tuple[GpuView, GpuDevice] | None:
        scene = self._pane.scene
        gpu = scene.view.gpu if scene is not None else None
        if gpu is None or not gpu.devices:
            return None
        self._at = min(self._at, len(gpu.devices) - 1)
        return gpu, gpu.devices[self._at]

    def rows(self, width: int) -> list[Row]:
        scene, found = self._pane.scene, self._found
        if scene is None or found is None:
            return [Row()(" There are no figures from the GPUs.", "muted")]
        gpu, device = found
        age = scene.age(gpu.at, GPU_INTERVAL)
        self.whole.title(
            f"GPU {label(device, gpu)} ── {self._at + 1} of {len(gpu.devices)}" + (f" ── {age}" if age else "")
        )
        rows = [Row(), Row()(f" {safe(device.name) or 'GPU'}", "strong"), Row()]
        if device.error:
            rows.extend([*paragraph(f"✖ {device.error}", width - 2, "error", indent=1, hang=2), Row()])
        for note in gpu.notes:
            if note.gpu == device.index:
                sign, style = ("i", "muted") if note.severity == "info" else ("⚠", "warn")
                rows.extend(paragraph(f"{sign} {note.text}", width - 2, style, indent=1, hang=2))
        rows.extend(fields(_figures(device, gpu)))
        rows.append(Row())
        holders = on_gpu(gpu, device.index)
        rows.append(Row()(" Who holds its memory" if holders else " No process holds memory here", "title"))
        for holder in holders:
            if holder.ours:
                since = f", running for {about(scene.view.now - holder.since)}" if holder.since else ""
                share = _held(gpu, device.index, holder.pid)
                rows.extend(paragraph(f"{share}  {holder.role} (pid {holder.pid}){since}", width - 2, indent=1, hang=2))
            else:
                rows.extend(paragraph(stranger(holder, scene.view.now), width - 2, "warn", indent=1, hang=2))
        return rows

    def text(self) -> str:
        found = self._found
        if found is None:
            return ""
        gpu, device = found
        lines = [
            f"GPU {label(device, gpu)} {device.name}",
            *(f"{name}: {value}" for name, value in _figures(device, gpu)),
        ]
        return "\n".join(safe(line) for line in lines if not line.endswith(": "))

    def step(self, way: int) -> bool:
        before = self._at
        found = self._found
        if found is not None:
            self._at = min(max(0, self._at + way), len(found[0].devices) - 1)
        return self._at != before

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "step":
            found = self._found
            last = len(found[0].devices) - 1 if found is not None else 0
            return self._at < last if parameters and parameters[0] == 1 else self._at > 0
        return super().check_action(action, parameters)


def _held(gpu: GpuView, index: int, pid: int) -> str:
    mib = next((one.used_mib for one in gpu.processes if one.gpu == index and one.pid == pid), None)
    return f"{mib / 1024:.1f} GiB" if mib is not None else "?"


def _figures(device: GpuDevice, gpu: GpuView) -> list[tuple[str, str]]:
    """Names and values; a figure that the device does not offer has no value."""
    used, total, reserved = device.used_mib, device.total_mib, device.reserved_mib
    memory = f"{_gib(used)} of {_gib(total)}" if used is not None and total else ""
    if gpu.shared is not None and not memory:
        memory = f"shared with the CPU: {_gib(gpu.shared[0])} of {_gib(gpu.shared[1])} of the system's in use"
    most = f"{device.pcie_gen_max or '?'}, x{device.pcie_width or '?'} of x{device.pcie_width_max or '?'}"
    link = f"generation {device.pcie_gen} of {most}"
    clocks = [
        f"{value:,.0f} MHz {name}" for name, value in (("SM", device.sm_mhz), ("memory", device.mem_mhz)) if value
    ]
    limit = f" of {device.power_limit:,.0f} W" if device.power_limit else ""
    held = ", ".join(reason.words for reason in reasons(device.throttle))
    known = device.throttle is not None
    traffic = [
        f"{rate(value * 1e6)} {way}"
        for way, value in (("in", device.pcie_rx_mbs), ("out", device.pcie_tx_mbs))
        if value is not None
    ]
    return [
        ("memory", memory),
        ("reserved", f"{reserved:,.0f} MiB by the driver, not counted above" if reserved else ""),
        ("expected", f"{_gib(gpu.expected_mib)} of weights" if gpu.expected_mib else ""),
        ("utilisation", f"{device.utilization:.0f} %" if device.utilization is not None else ""),
        ("power", f"{device.power:,.0f} W{limit}" if device.power is not None else ""),
        ("temperature", f"{device.temperature:.0f} °C" if device.temperature is not None else ""),
        ("clocks", ", ".join(clocks) + (f" ({device.pstate})" if device.pstate else "")),
        ("held back", held or ("by nothing" if known else "")),
        ("ECC", f"{device.ecc_uncorrected} uncorrectable" if device.ecc_uncorrected is not None else ""),
        ("PCIe link", link if device.pcie_gen else ""),
        ("PCIe traffic", ", ".join(traffic)),
        ("energy", f"{device.energy_j / 3.6e6:,.1f} kWh since the driver was loaded" if device.energy_j else ""),
        ("MIG", device.mig),
        ("bus", device.bus),
        ("UUID", device.uuid),
        ("source", gpu.source),
    ]


def _gib(mib: float | None) -> str:
    return f"{mib / 1024:.1f} GiB" if mib is not None else "?"
