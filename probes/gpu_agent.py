"""The GPUs of a host through NVML, by an agent of ours that lives as long as its channel.

``nvml_agent.py`` is sent as text over standard input to a Python that is already there; nothing is installed and
nothing stays. One channel, one line of JSON a sample. Where no Python or no NVML is there, the caller falls back to
``nvidia-smi`` (``nvidia_smi.py``).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from importlib import resources
from typing import Any

import msgspec

from probes.host import Host, HostError
from probes.nvidia_smi import LONGEST, MOST_GPUS
from probes.nvml_agent import FIELDS
from probes.readings import UNDECODABLE, GpuDevice, GpuProcess, GpuProcesses, GpuReading, ProbeReading, Reading

BOOT = """\
import os, sys
n = int(sys.argv[2])
b = b""
while len(b) < n:
    c = os.read(0, n - len(b))
    if not c:
        sys.exit(1)
    b += c
exec(compile(b, "firstlight", "exec"))
"""
"""Reads the agent from standard input, by length since the input stays open: its end is what ends the agent."""

MAX_LINE = 4 << 20
MOST_NOISE = 1000
"""Lines that are none of the agent's after which it is no agent that speaks."""
MOST_KNOWN = 4096
"""Processes whose names are kept."""
KEEP = {
    "name", "uuid", "bus", "total", "power_limit", "pcie_gen_max", "pcie_width_max", "pcie_rx_mbs", "pcie_tx_mbs",
    "energy_j", "mig",
}  # fmt: skip
"""Fields that the agent reads only now and then: the last figure stands until the next."""
RENAMED = {"used": "used_mib", "total": "total_mib", "reserved": "reserved_mib"}


class NoAgent(HostError):
    """This host has no Python with NVML, or no driver to ask: ask ``nvidia-smi`` instead."""


class AgentDecoder:
    """Lines of the agent to readings. Total over any bytes: what is no line of the agent is counted in ``noise``."""

    def __init__(self) -> None:
        self.driver = ""
        self.noise = 0
        self.failed = ""
        """why there is no NVML here, once the agent has said so"""
        self._rest = b""
        self._kept: dict[int, dict[str, Any]] = {}
        self._who: dict[int, tuple[str, str, str, float, str]] = {}
        self._last: tuple[GpuDevice, ...] = ()
        self._processes: tuple[GpuProcess, ...] | None = None

    @property
    def lost(self) -> bool:
        """Whether it says nothing that could be the agent's."""
        return self.noise > MOST_NOISE

    def feed(self, data: bytes) -> list[Reading]:
        """The readings that these bytes complete, in order."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MAX_LINE:
            self._rest = b""
            self.noise += 1
        out: list[Reading] = []
        for line in lines:
            if not line.strip():
                continue
            if self.lost:
                break
            try:
                record = msgspec.json.decode(line, type=dict[str, Any])
                out += self._record(record)
            except (*UNDECODABLE, ValueError, TypeError, IndexError, KeyError):
                self.noise += 1
        return out

    def _record(self, record: dict[str, Any]) -> list[Reading]:
        at = float(record["t"])
        if "driver" in record:
            self.driver = str(record["driver"])
            return [ProbeReading(at=at, probe="gpu", state="up", reason=f"NVML, driver {self.driver}")]
        if "error" in record:
            reason = str(record["error"])
            if record.get("missing"):
                self.failed = reason
                return []
            return [ProbeReading(at=at, probe="gpu", state="failed", reason=f"NVML: {reason}")]
        if "hung" in record:
            hung = float(record["hung"])
            return [GpuReading(at=at, devices=self._last, source="nvml", driver=self.driver, hung=hung)]
        devices = tuple(self._device(row) for row in record["g"][:MOST_GPUS])
        for pid, facts in (record.get("who") or {}).items():
            name, unit, user, started, state = facts
            self._who[int(pid)] = (_name(name), _name(unit), _name(user), float(started), _name(state))
        processes = tuple(self._process(*row) for row in record["p"][:MOST_KNOWN])
        if len(self._who) > MOST_KNOWN:
            self._who = {one.pid: self._who[one.pid] for one in processes if one.pid in self._who}
        self._last = devices
        out: list[Reading] = [GpuReading(at=at, devices=devices, source="nvml", driver=self.driver)]
        if processes != self._processes:
            self._processes = processes
            out.append(GpuProcesses(at=at, processes=processes))
        return out

    def _device(self, row: list[Any]) -> GpuDevice:
        index = int(row[0])
        if not 0 <= index < MOST_GPUS:
            raise ValueError(f"no host has a GPU {index}")
        values = dict(zip(FIELDS, row[1:], strict=True))
        kept = self._kept.setdefault(index, {})
        for name in KEEP:
            if values[name] is None:
                values[name] = kept.get(name)
            else:
                kept[name] = values[name]
        named = {RENAMED.get(name, name): value for name, value in values.items()}
        for name in ("name", "uuid", "bus", "pstate", "mig", "error"):
            named[name] = named[name] or ""
        return msgspec.convert({"index": index, **named}, GpuDevice)

    def _process(self, gpu: int, pid: int, used: float | None) -> GpuProcess:
        name, unit, user, started, state = self._who.get(pid, ("", "", "", 0.0, ""))
        return GpuProcess(
            gpu=gpu, pid=pid, name=name, used_mib=used, unit=unit, user=user, started=started, state=state
        )


def _name(said: object) -> str:
    return str(said)[:LONGEST]


async def gpu_agent(host: Host, pythons: Sequence[str], interval: float = 1.0) -> AsyncIterator[list[Reading]]:
    """Samples of all GPUs every ``interval`` seconds, until the link is lost (LinkDown) or the agent ends.

    Raises NoAgent when none of the interpreters can reach NVML here; the reason names what each of them said.
    """
    source = resources.files("probes").joinpath("nvml_agent.py").read_bytes()
    said: list[str] = []
    for python in pythons:
        decoder = AgentDecoder()
        argv = [python, "-c", BOOT, str(interval), str(len(source))]
        async with host.stream(argv, stdin=True) as stream:
            await stream.write(source)
            async for chunk in stream:
                batch = decoder.feed(chunk)
                if batch:
                    yield batch
                if decoder.lost:
                    raise NoAgent(f"No NVML here ({python} answers what nobody asked)", "nvidia-smi is asked instead.")
            if decoder.driver:
                status = await stream.wait()
                why = _last_line(stream.stderr) or f"exit status {status}"
                yield [ProbeReading(at=time.time(), probe="gpu", state="ended", reason=f"The NVML agent ended: {why}")]
                return
            said.append(f"{python}: {decoder.failed or _last_line(stream.stderr) or 'no answer'}")
    raise NoAgent(f"No NVML here ({'; '.join(said)})", "nvidia-smi is asked instead.")


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
