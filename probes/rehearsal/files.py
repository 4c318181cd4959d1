"""The rehearsal's ``/proc``, control groups and checkpoint, as the probes' scripts print them."""

from __future__ import annotations

from probes.iofiles import PAGE, SECTOR, TICKS
from probes.rehearsal.nvidia import processes_table
from probes.rehearsal.stage import Stage
from probes.rehearsal.story import Process

_DEVICE, _DISK = "254:0", "vda"


def sample(stage: Stage, ask: str) -> bytes:
    """An answer of ``probes.io.SCRIPT``."""
    kind, _, group = ask.partition(" ")
    moment = stage.story.host_at(stage.at())
    parts: dict[str, str] = {}
    if group == stage.story.control_group and stage.running:
        parts["io.stat"] = f"{_DEVICE} rbytes={moment.read} wbytes=0 rios=0 wios=0 dbytes=0 dios=0"
        parts["cpu.stat"] = f"usage_usec {sum(process.cpu for process in moment.processes) * 1e6:.0f}"
        parts |= {f"stat {process.pid}": _stat(process) for process in moment.processes}
    if kind.startswith("sample"):
        free = max(moment.available - moment.cached, 0)
        sizes = (stage.story.memory, free, moment.available, 0, moment.cached)
        names = ("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached")
        parts["meminfo"] = "\n".join(f"{name}: {size // 1024} kB" for name, size in zip(names, sizes, strict=True))
    if "disks" in kind:
        major, minor = _DEVICE.split(":")
        parts["diskstats"] = f"{major} {minor} {_DISK} 1 0 {moment.read // SECTOR} 0 0 0 0 0 0 0 0"
    return "".join(f"\x1e{name}\n{text}\n" for name, text in parts.items()).encode()


def holders(stage: Stage) -> bytes:
    """What ``probes.gpu.APPS`` prints."""
    table = processes_table(stage)
    about = "".join(
        f"\x1epid {process.pid}\n{_stat(process)}\ncgroup 0::{stage.story.control_group}\nuser root\n"
        for process in stage.story.host_at(stage.at()).processes
        if f" {process.pid}," in table
    )
    return f"{table}\x1ebtime {stage.begin:.0f}\n{about}".encode()


def checkpoint(stage: Stage) -> bytes:
    """What ``probes.model.SCRIPT`` prints."""
    story = stage.story
    size = story.model_bytes // story.model_files
    names = (f"model-{n:05d}-of-{story.model_files:05d}.safetensors" for n in range(1, story.model_files + 1))
    files = "".join(f"-rw-r--r-- 1 0 0 {size} Nov 30 00:00 {story.model}/{name}\n" for name in names)
    return f"{story.model}\n{files}\x1e\n/dev/{_DISK} / {story.model_mount} rw,relatime 0 0\n".encode()


def _stat(process: Process) -> str:
    """A line of /proc/PID/stat: what the probes read of it; the rest is nought."""
    fields = ["0"] * 50
    fields[0] = process.state
    fields[11] = f"{process.cpu * TICKS:.0f}"
    fields[21] = f"{process.rss // PAGE}"
    return f"{process.pid} ({process.name}) {' '.join(fields)}"
