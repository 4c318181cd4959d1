"""What can be asked of a host before anything is watched on it: the facts that ``watch.doctor`` judges."""

from __future__ import annotations

from msgspec import Struct

from probes.host import Host
from probes.operate.orders import Rights, UnitFiles
from probes.readings import UnitReading


class Examined(Struct, frozen=True, kw_only=True):
    """Facts; None or empty: not known. ``errors``: question → why it could not be asked (one sentence)."""

    target: str
    unit: str = ""
    errors: dict[str, str] = {}
    remedies: dict[str, str] = {}
    login: str = ""
    greeting: str = ""
    rtt_ms: float | None = None
    systemd: int | None = None
    """its version"""
    clock_offset: float | None = None
    """seconds that the host's clock is ahead of ours"""
    journal: str = ""
    """what journalctl complains about; empty: it may be read"""
    journal_persistent: bool | None = None
    rights: Rights | None = None
    gpus: tuple[str, ...] = ()
    """nvidia-smi's list, one a line"""
    gpu_error: str = ""
    nvml: str = ""
    """libnvidia-ml.so.1's place, or empty"""
    python: str = ""
    disks: dict[str, tuple[int, int]] = {}
    """folder → (free, total) bytes: /, /var/log, /dev/shm, the model's, the caches'"""
    nofile: int | None = None
    memlock: int | None = None
    unit_reading: UnitReading | None = None
    files: UnitFiles | None = None
    endpoint: str = ""
    endpoint_status: int | None = None
    endpoint_error: str = ""


async def examine(host: Host, target: str, unit: str = "", *, user: bool = False, endpoint: str = "") -> Examined:
    """Ask everything; what cannot be asked stands in ``errors``. Never raises but for cancellation. The host's links
    must be run by the caller, as for every use of a host."""
    raise NotImplementedError
