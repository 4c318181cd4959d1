"""What other readings than journal lines say about what is wrong: looked at one by one, with little memory.

The words are the catalogue's (rows with ``source = ["judged"]``); here is only when they apply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from probes.readings import (
    BenchReading,
    CommandReading,
    GpuProcesses,
    GpuReading,
    HealthReading,
    IoReading,
    LinkReading,
    MetricsReading,
    ProbeReading,
    Reading,
    UnitFile,
    UnitReading,
)
from probes.unitfile import commands, environment, settings, stray
from watch.gpu_notes import reasons
from watch.manager import same_unit
from watch.serving import barred
from watch.texts import duration, sentence
from watch.view import GpuView, StallView
from watch.words import Phase, State


@dataclass(frozen=True)
class Observation:
    """``row``: id of the catalogue's row that it is; empty: ``text`` is to be looked up, as said by ``speaker``.
    ``over``: what is past (ids of rows, or speakers). ``adds_to``: it only adds to that finding where it is there.
    ``host``: it concerns the host, whatever the load. ``again``: each time counts."""

    row: str = ""
    text: str = ""
    speaker: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    ref: str = ""
    refs: tuple[str, ...] = ()
    adds_to: str = ""
    over: frozenset[str] = frozenset()
    host: bool = True
    again: bool = False


_GIB = 1 << 30
_LINES = 400
_EXEC = ("ExecStartPre", "ExecStart", "ExecStartPost", "ExecCondition", "ExecReload", "ExecStop", "ExecStopPost")
_VARIABLE = re.compile(r"(?<!\$)(?:\$\$)*\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_GIVEN = re.compile(
    r"^(?:MAINPID|MANAGERPID|HOME|USER|LOGNAME|SHELL|PATH|LANG|LC_\w+|TERM|INVOCATION_ID|SYSTEMD_EXEC_PID|"
    r"(?:RUNTIME|STATE|CACHE|LOGS|CONFIGURATION|CREDENTIALS)_DIRECTORY|JOURNAL_STREAM|NOTIFY_SOCKET|LISTEN_\w+|"
    r"WATCHDOG_\w+|SERVICE_RESULT|EXIT_CODE|EXIT_STATUS|MONITOR_\w+|MEMORY_PRESSURE_\w+|XDG_RUNTIME_DIR|PIDFILE)$"
)
_VLLM = re.compile(r"(?:^|/)(?:vllm|python[\d.]*|uv|sglang)$")
_SERVER = re.compile(r"^VLLM::|^sglang::|\bvllm serve\b|sglang\.launch_server")
"""Names under which a server's processes stand on a GPU"""
_ENDING = 10.0
"""Seconds that the last processes of a unit may take to leave the GPUs"""
_SSH = frozenset(("ssh", "scp", "sftp", "autossh", "mosh"))
_SSH_SAYS = re.compile(r"REMOTE HOST IDENTIFICATION|Host key verification failed|ssh: connect to host|kex_exchange")
_FROM_RESULT = {
    "start-limit-hit": "start-limit",
    "oom-kill": "unit-oom-kill",
    "watchdog": "watchdog",
}


class Judge:
    """Remembers only what two readings of different kinds must be seen together for."""

    def __init__(self) -> None:
        self._unit: UnitReading | None = None
        self._healthy: HealthReading | None = None
        self._memory: IoReading | None = None
        self._devices: GpuReading | None = None
        self._on_gpus: GpuProcesses | None = None
        self._orphaned = False
        self._variables: dict[str, tuple[str, str]] = {}
        self._gpu_errors = False
        self._link_down = False

    def look(self, reading: Reading, *, phase: Phase, state: State, present: frozenset[str]) -> Iterator[Observation]:
        """``present``: ids of the findings that are there."""
        match reading:
            case UnitReading():
                yield from self._look_unit(reading, present)
            case HealthReading():
                yield from self._look_health(reading, state, present)
            case UnitFile():
                yield from self._look_unit_file(reading, present)
            case GpuReading():
                yield from self._look_gpus(reading)
            case GpuProcesses():
                yield from self._look_processes(reading, present)
            case IoReading():
                yield from self._look_io(reading, present)
            case LinkReading():
                yield from self._look_link(reading)
            case ProbeReading():
                yield from self._look_probe(reading)
            case CommandReading():
                yield from self._look_command(reading)
            case BenchReading():
                yield from self._look_bench(reading)
            case MetricsReading():
                if reading.truncated:
                    yield Observation("page-cut", ref=reading.ref, values={"error": reading.error}, host=False)
                elif "page-cut" in present and reading.samples:
                    yield Observation(over=frozenset(("page-cut",)))
            case _:
                return

    # ---------------------------------------------------------------------------------------------------- the unit

    def _look_unit(self, reading: UnitReading, present: frozenset[str]) -> Iterator[Observation]:
        self._unit = reading
        if reading.load == "not-found":
            near = ", ".join(reading.near)
            yield Observation("unit-not-found", values={"unit": reading.unit, "near": near}, ref=reading.ref)
            return
        if "unit-not-found" in present and reading.load == "loaded":
            yield Observation(over=frozenset(("unit-not-found",)))
        if reading.needs_reload:
            yield Observation("needs-reload", ref=reading.ref, values={"unit": reading.unit})
        elif "needs-reload" in present:
            yield Observation(over=frozenset(("needs-reload",)))
        yield from self._notify(reading.at, present)
        yield from self._orphans()
        if reading.active == "failed":
            row = _FROM_RESULT.get(reading.result, "")
            if row and row not in present:
                yield Observation(row, ref=reading.ref, values={"unit": reading.unit}, host=False)

    def _notify(self, at: float, present: frozenset[str]) -> Iterator[Observation]:
        unit, healthy = self._unit, self._healthy
        if unit is None:
            return
        waiting = unit.type in ("notify", "notify-reload") and unit.active == "activating"
        if waiting and healthy is not None and healthy.at >= unit.started:
            values = {"unit": unit.unit}
            if 0 < unit.timeout_start < float("inf"):
                values["timeout"] = duration(unit.timeout_start)
                if unit.started:
                    values["left"] = duration(unit.started + unit.timeout_start - at)
            yield Observation("notify-healthy", values=values, ref=unit.ref or healthy.ref, host=False)
        elif "notify-healthy" in present and unit.active != "activating":
            yield Observation(over=frozenset(("notify-healthy",)))

    def _look_health(self, reading: HealthReading, state: State, present: frozenset[str]) -> Iterator[Observation]:
        if reading.status == 200:
            self._healthy = reading
            if "endpoint-barred" in present:
                yield Observation(over=frozenset(("endpoint-barred",)))
            yield from self._notify(reading.at, frozenset())
        elif why := barred(reading):
            yield Observation("endpoint-barred", values={"why": why}, ref=reading.ref, host=False)
        elif reading.status is not None and reading.status >= 500 and state in ("ready", "failed", "unknown"):
            yield Observation("health-dead", values={"status": str(reading.status)}, ref=reading.ref, host=False)

    def _look_unit_file(self, reading: UnitFile, present: frozenset[str]) -> Iterator[Observation]:
        found = settings(reading.text)
        name = reading.ref.rpartition(":")[0] if re.search(r":\d+$", reading.ref) else reading.ref
        elsewhere = any(setting.key in ("EnvironmentFile", "PassEnvironment") for setting in found)
        given = environment(found)
        self._variables.clear()
        for setting in found:
            if setting.section != "Service":
                continue
            ref = f"{name}:{setting.line}" if name else ""
            if setting.key in _EXEC:
                for variable in _VARIABLE.finditer(setting.value):
                    word = variable[1] or variable[2]
                    if word not in given and not _GIVEN.match(word):
                        self._variables.setdefault(word, (setting.key, ref))
        for word, (key, ref) in self._variables.items():
            if {"unset-variable", "invalid-variable-name"} & present:
                yield Observation(adds_to="unset-variable", values={"key": key}, ref=ref)
            elif not elsewhere:
                yield Observation("unit-variable", values={"name": word, "key": key, "unit": reading.unit}, ref=ref)
        for number, text in stray(reading.text):
            ref = f"{name}:{number}" if name else ""
            yield Observation("unit-stray", text=text, values={"text": text[:120]}, ref=ref)
        yield from self._look_commands(reading, name, present)

    def _look_commands(self, reading: UnitFile, name: str, present: frozenset[str]) -> Iterator[Observation]:
        found = settings(reading.text)
        notify = [s for s in found if s.section == "Service" and s.key == "Type"]
        for command in commands(found):
            ref = f"{name}:{command.line}" if name else ""
            if command.problem:
                yield Observation("unit-quoting", values={"what": command.problem, "key": "ExecStart"}, ref=ref)
                continue
            for option, value in zip(command.argv, command.argv[1:], strict=False):
                option, _, glued = option.partition("=")
                value = glued or value
                if option.startswith("-") and value.startswith("{") and not _is_json(value):
                    values = {"option": option, "value": value[:80]}
                    if "json-argument" in present:
                        yield Observation(adds_to="json-argument", values=values, ref=ref)
                    else:
                        yield Observation("unit-json", values=values, ref=ref, text=command.raw[:400])
            if notify and notify[-1].value.startswith("notify") and command.argv and _VLLM.search(command.argv[0]):
                ref = f"{name}:{notify[-1].line}" if name else ""
                yield Observation("unit-notify", values={"type": notify[-1].value}, ref=ref)

    def variable(self, name: str) -> tuple[str, str]:
        """(key of the Exec line, where it stands) in which a variable is used; empty where the text is not known."""
        return self._variables.get(name, ("", ""))

    # -------------------------------------------------------------------------------------------------------- the host

    def _look_gpus(self, reading: GpuReading) -> Iterator[Observation]:
        self._devices = reading
        errors = False
        for device in reading.devices:
            ref = device.ref or reading.ref
            values = {"index": str(device.index), "bdf": device.bus, "name": device.name}
            if device.error:
                errors = True
                yield Observation(text=device.error, speaker="gpu", values=values, ref=ref)
            elif device.memory_asked and device.total_mib is None and device.used_mib is None and device.name:
                known = {} if self._memory is None else _memory(self._memory)
                yield Observation("unified-memory", values={**values, **known}, ref=ref)
                if self._memory is not None and self._memory.ref:
                    yield Observation(adds_to="unified-memory", values=known, ref=self._memory.ref)
            slow = [reason.words for reason in reasons(device.throttle, "warning")]
            if slow:
                temperature = "" if device.temperature is None else f"{device.temperature:.0f}"
                values = {**values, "why": ", ".join(slow), "temperature": temperature}
                yield Observation("gpu-throttled", values=values, ref=ref)
        if self._gpu_errors and not errors and reading.devices:
            yield Observation(over=frozenset(("gpu", "judged")))
        self._gpu_errors = errors

    def _orphans(self) -> Iterator[Observation]:
        """Servers on the GPUs although the unit does not run."""
        unit, on_gpus = self._unit, self._on_gpus
        if unit is None or on_gpus is None:
            return
        # what was on the GPUs just before the unit ended is no news, nor is what another unit runs
        ended = unit.active in ("inactive", "failed")
        since = max(unit.state_changed, unit.main_exited)
        late = not since or on_gpus.at >= since + _ENDING
        mine = [p for p in on_gpus.processes if _SERVER.search(p.name) and same_unit(p.unit, unit.unit)]
        if not (ended and late and mine):
            if self._orphaned and (not mine or not ended):
                self._orphaned = False
                yield Observation(over=frozenset(("leftover-orphans",)))
            return
        self._orphaned = True
        held = sum(process.used_mib or 0.0 for process in mine) / 1024
        size = f" hold {held:.1f} GiB of GPU memory" if held else " are on the GPUs"
        name = unit.unit or "The unit"
        who = f"{name} is {unit.active}, and {len(mine)} of a server's processes{size}: they outlived an earlier run."
        for process in mine:
            values = {"pid": str(process.pid), "who": who}
            yield Observation("leftover-orphans", values=values, ref=on_gpus.ref, host=True)

    def _look_processes(self, reading: GpuProcesses, present: frozenset[str]) -> Iterator[Observation]:
        self._on_gpus = reading
        yield from self._orphans()
        for name in {"memory-taken", "sglang-unbalanced"} & present:
            held: dict[int, list[str]] = {}
            for process in reading.processes:
                size = "" if process.used_mib is None else f" with {process.used_mib / 1024:.1f} GiB"
                held.setdefault(process.pid, [f"pid {process.pid} ({process.name or '?'}){size}"])
            if held:
                who = "Now on the GPUs: " + "; ".join(words[0] for words in list(held.values())[:8]) + "."
                yield Observation(adds_to=name, values={"holders": who}, ref=reading.ref)

    def _look_io(self, reading: IoReading, present: frozenset[str]) -> Iterator[Observation]:
        if reading.mem_total:
            self._memory = reading
            yield Observation(adds_to="unified-memory", values=_memory(reading), ref=reading.ref)
        if reading.shm_total and reading.shm_used is not None:
            full = reading.shm_used >= 0.95 * reading.shm_total
            if full:
                values = {"used": f"{reading.shm_used / _GIB:.1f}", "total": f"{reading.shm_total / _GIB:.1f}"}
                yield Observation("shm-nearly-full", values=values, ref=reading.ref)
            elif "shm-nearly-full" in present:
                yield Observation(over=frozenset(("shm-nearly-full",)))

    # ------------------------------------------------------------------------------------------------- link and probes

    def _look_link(self, reading: LinkReading) -> Iterator[Observation]:
        if reading.state == "up":
            if self._link_down:
                self._link_down = False
                yield Observation(over=frozenset(("ssh",)))
            return
        if reading.state in ("down", "refused") and reading.reason:
            self._link_down = True
            yield Observation(text=reading.reason, speaker="ssh", ref=reading.ref, again=False)

    def _look_probe(self, reading: ProbeReading) -> Iterator[Observation]:
        if reading.probe == "shell":
            yield Observation("shell-greeting", values={"lines": reading.reason}, ref=reading.ref)
        elif reading.probe == "ssh" and reading.state != "up":
            yield Observation(text=reading.reason, speaker="ssh", values={"open": reading.remedy}, ref=reading.ref)
        elif reading.probe == "hooks":
            return  # what the operator's own commands print says nothing about the load
        elif reading.state == "up":
            yield Observation(over=frozenset((f"probe {reading.probe}",)))
        elif reading.reason:
            yield Observation(text=reading.reason, speaker="command", ref=reading.ref)

    def _look_command(self, reading: CommandReading) -> Iterator[Observation]:
        program = reading.command.split(maxsplit=1)[0].rpartition("/")[2] if reading.command.strip() else ""
        smi = program == "nvidia-smi" or (not program and "nvidia-smi" in reading.ref)
        name = re.sub(r":\d+$", "", reading.ref)
        ssh = program in _SSH or (not program and _SSH_SAYS.search(reading.stderr) is not None)
        speaker = "gpu" if smi else "ssh" if ssh else "command"
        for text in (reading.stdout, reading.stderr):
            for number, words in enumerate(text.split("\n")[:_LINES], 1):
                if words.strip():
                    ref = f"{name}:{number}" if name else ""
                    yield Observation(text=words, speaker=speaker, ref=ref)
        if reading.timed_out and smi:
            limit = "its limit of" if reading.seconds is None else f"{reading.seconds:g}"
            yield Observation("smi-timeout", values={"limit": limit}, ref=reading.ref, text=reading.command)

    def _look_bench(self, reading: BenchReading) -> Iterator[Observation]:
        failed = reading.failed
        if failed is None and reading.result is not None:
            count = reading.result.get("failed")
            failed = count if isinstance(count, int) else None
        if failed and reading.stage in ("done", "failed", "finished", "result"):
            yield Observation("bench-failed-requests", values={"failed": str(failed)}, ref=reading.ref)

    # ----------------------------------------------------------------------------------------------------------- stall

    def stall(self, stall: StallView, phase: Phase, gpu: GpuView | None) -> Observation:
        """The finding of a stall; in the first collective with GPUs that spin it is known why."""
        if phase in ("ready", "serving"):
            return Observation(
                "no-tokens", values={"what": stall.what, "usual": stall.usual}, refs=stall.refs, host=False
            )
        devices = gpu.devices if gpu is not None else ()
        busy = [device for device in devices if device.utilization is not None and device.utilization >= 90]
        small = [device for device in busy if device.used_mib is not None and device.used_mib < 3000]
        nccl = "nccl" in stall.what.lower()
        values = {
            "what": stall.what.rstrip("."),
            "usual": sentence(stall.usual),
            "phase": phase,
            "_kind": _STALL_KIND.get(phase, ""),
        }
        refs = (devices[0].ref,) if devices and devices[0].ref else ()
        if phase == "dist-init" and (nccl or (busy and len(small) == len(devices))):
            if busy:
                values["busy"] = f"{min(device.utilization or 0 for device in busy):.0f}"
                values["used"] = f"{max(device.used_mib or 0 for device in busy):.0f}"
            return Observation("nccl-hang", values={**values, "_kind": "comm"}, refs=refs, host=False)
        return Observation("stalled", values=values, refs=refs, host=False)


_STALL_KIND: dict[Phase, str] = {
    "pre-start": "unit",
    "process-start": "unit",
    "config": "unit",
    "dist-init": "comm",
    "weights": "weights",
    "draft-weights": "weights",
    "compile": "compile",
    "profile": "compile",
    "kv-cache": "memory",
    "warmup": "compile",
    "graph-capture": "compile",
    "api-start": "unit",
    "stopping": "leftover",
}


def _memory(reading: IoReading) -> dict[str, str]:
    values = {}
    if reading.mem_total:
        values["total"] = f"{reading.mem_total / _GIB:.1f}"
    if reading.mem_available is not None:
        values["available"] = f"{reading.mem_available / _GIB:.1f}"
    return values


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
