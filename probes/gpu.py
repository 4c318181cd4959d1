"""The GPUs of a host: NVML where it can be asked, else ``nvidia-smi``. A driver that hangs greys the pane, no more."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Literal

from msgspec.structs import replace

from probes.clock import SYSTEM, Clock
from probes.gpu_agent import NoAgent, gpu_agent
from probes.host import CommandTimeout, Host
from probes.interpreter import interpreters
from probes.iofiles import TICKS, whole
from probes.nvidia_smi import QUERY, SmiDecoder, Trouble, compute_apps, trouble_in
from probes.nvml import nvml
from probes.probe import ProbeFailed, chunks, words
from probes.readings import GpuProcess, GpuProcesses, ProbeReading, Reading

Way = Literal["auto", "nvidia-smi", "none"]

INTERVAL = 1.0
FASTEST = 0.1
"""Seconds between two samples, as a rule and at most often: NVML's own figures are no fresher than that."""
SETTLED = 0.25
"""Real seconds without a row after which the first round counts as whole: rows of one round come 14 ms apart."""
HUNG = 15.0
"""Real seconds without a row after which the driver counts as stuck."""
REST = 120.0
"""Seconds until a stuck driver is asked again: what hangs in the kernel cannot be ended, and must not pile up."""
PROCESSES = 10.0
MOST_SAID = 20
"""Complaints of one nvidia-smi that are told; a broken driver has three or four."""

APPS = r"""
out=$(nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv 2>&1); status=$?
printf '%s\n' "$out"
while read -r key value; do [ "$key" = btime ] && printf '\036btime %s\n' "$value"; done </proc/stat
printf '%s\n' "$out" | while IFS=', ' read -r uuid pid rest; do
case $pid in ''|*[!0-9]*) continue ;; esac
printf '\036pid %s\n' "$pid"
{ IFS= read -r line <"/proc/$pid/stat" && printf '%s\n' "$line"
while IFS= read -r line; do printf 'cgroup %s\n' "$line"; done <"/proc/$pid/cgroup"
printf 'user %s\n' "$(stat -c %U "/proc/$pid")"; } 2>/dev/null
done
exit $status
"""
"""Who holds memory: nvidia-smi's table, then for each process a record that begins with the byte 036: its pid, the line
of /proc/PID/stat, its cgroups, its user. One nvidia-smi (33 ms of the host) every ten seconds."""


class GpuProbe:
    """``argv``: the server's arguments, which name the Python to ask first; set it when they are known. ``interval``:
    seconds between two samples, not below ``FASTEST``."""

    def __init__(self, host: Host, *, clock: Clock = SYSTEM, way: Way = "auto", interval: float = INTERVAL) -> None:
        self.argv: Sequence[str] = ()
        self.by_smi = False
        """whether the figures come from nvidia-smi, which does not name the processes"""
        self._host = host
        self._clock = clock
        self._way = way
        self._interval = max(FASTEST, interval)
        self._dropped: set[str] = set()
        self._gpus: dict[str, int] = {}

    async def batches(self) -> AsyncIterator[list[Reading]]:
        """A GpuReading each interval; where nvidia-smi must be asked, a ProbeReading first that says why. Raises
        ProbeFailed, and what the host raises."""
        if self._way == "auto":
            local = self._host.name == "local"
            every = self._interval
            source = nvml(every) if local else gpu_agent(self._host, interpreters(self.argv), every)
            try:
                async with aclosing(source) as batches:  # type: ignore[type-var]
                    async for batch in batches:
                        yield batch
                return
            except NoAgent as why:
                reason = f"nvidia-smi is asked for the GPUs' figures. {why.reason}"
                yield [ProbeReading(at=self._clock.now(), probe="gpu", state="up", reason=reason)]
        while True:
            unknown = ""
            async with aclosing(self._smi()) as readings:  # type: ignore[type-var]
                async for reading in readings:
                    if isinstance(reading, str):
                        unknown = reading
                    else:
                        yield [reading]
            self._dropped.add(unknown)

    async def _smi(self) -> AsyncIterator[Reading | str]:
        """One nvidia-smi until it ends; at last the name of a field that it does not know, where that is why."""
        query = [field for field in QUERY if field not in self._dropped]
        argv = ["nvidia-smi", f"--query-gpu={','.join(query)}", "--format=csv", "-lms", f"{self._interval * 1000:.0f}"]
        decoder = SmiDecoder()
        said: set[Trouble] = set()
        last = time.monotonic()
        async with self._host.stream(argv) as stream, aclosing(chunks(stream, SETTLED)) as pieces:
            async for chunk in pieces:
                found = decoder.flush() if chunk is None else decoder.feed(chunk, self._clock.now())
                for reading in found:
                    last = time.monotonic()
                    self.by_smi = True
                    self._gpus.update(decoder.uuids)
                    yield reading
                for trouble in decoder.troubles:
                    if decoder.rows and trouble not in said and len(said) < MOST_SAID:
                        said.add(trouble)
                        yield ProbeReading(
                            at=self._clock.now(),
                            probe="gpu",
                            state="failed",
                            reason=trouble.reason,
                            remedy=trouble.remedy,
                        )
                if decoder.rows:
                    decoder.troubles.clear()
                if decoder.lost:
                    raise ProbeFailed(
                        "What nvidia-smi says here are no figures, however long one reads",
                        "Run it there yourself: another program may stand in its place (`command -v nvidia-smi`).",
                        state="missing",
                    )
                if time.monotonic() - last > HUNG:
                    raise hung("nvidia-smi")
            status = await stream.wait()
        for reading in decoder.close():
            yield reading
        decoder.feed(stream.stderr + b"\n", self._clock.now())
        if decoder.unknown_field in query:
            yield decoder.unknown_field
            return
        if decoder.unknown_field:
            decoder.troubles.append(Trouble(f"nvidia-smi does not know its own field {decoder.unknown_field}"))
        raise ended(status, decoder.troubles, stream.stderr)

    async def processes(self) -> AsyncIterator[list[Reading]]:
        """GpuProcesses every ten seconds, as long as the figures come from nvidia-smi; NVML names them itself."""
        while True:
            if self.by_smi:
                yield [await self._processes()]
            await self._clock.sleep(PROCESSES)

    async def _processes(self) -> GpuProcesses:
        try:
            done = await self._host.run(["sh", "-c", APPS], timeout=10.0)
        except CommandTimeout:
            raise hung("nvidia-smi --query-compute-apps") from None
        table, *records = done.stdout.decode("utf-8", "backslashreplace").split("\x1e")
        if done.status:
            trouble = next((found for line in table.splitlines() if (found := trouble_in(line))), None)
            raise ended(done.status, [trouble] if trouble else [], done.stderr or table.encode())
        return GpuProcesses(at=self._clock.now(), processes=named(compute_apps(table, self._gpus), records))


def named(processes: Sequence[GpuProcess], records: Sequence[str]) -> tuple[GpuProcess, ...]:
    """The processes with what /proc says of them (see ``APPS``)."""
    boot = 0.0
    about: dict[int, dict[str, object]] = {}
    for record in records:
        head, _, rest = record.partition("\n")
        kind, _, value = head.partition(" ")
        number = whole(value)
        if number is None:
            continue
        if kind == "btime":
            boot = float(number)
        elif kind == "pid":
            about[number] = _about(rest, boot)
    return tuple(replace(process, **about.get(process.pid, {})) for process in processes)


def _about(lines: str, boot: float) -> dict[str, object]:
    found: dict[str, object] = {}
    for line in lines.splitlines():
        key, _, value = line.partition(" ")
        if key == "cgroup":
            parts = value.rpartition(":")[2].split("/")
            unit = next((part for part in reversed(parts) if part.endswith((".service", ".scope"))), "")
            if unit:
                found["unit"] = unit
        elif key == "user":
            found["user"] = value
        elif key.isdigit():
            fields = line.rpartition(")")[2].split()
            ticks = whole(fields[19]) if len(fields) > 19 else None
            if ticks is not None:
                found["state"] = fields[0]
                found["started"] = boot + ticks / TICKS
    return found


def hung(what: str) -> ProbeFailed:
    return ProbeFailed(
        f"{what} has said nothing for {HUNG:.0f} s: the GPU driver is stuck, the figures are those from before",
        "See dmesg for an Xid or a blocked task; a stuck driver is only cured by a reboot.",
        retry=REST,
    )


def ended(status: int, troubles: Sequence[Trouble], stderr: bytes) -> ProbeFailed:
    """Why nvidia-smi has ended."""
    if status in (126, 127):
        return ProbeFailed(
            "This host has no nvidia-smi, so there are no GPU figures",
            "It comes with the NVIDIA driver. Without a GPU there is nothing to do.",
            state="missing",
        )
    if troubles:
        worst = next((trouble for trouble in troubles if trouble.missing), troubles[-1])
        return ProbeFailed(worst.reason, worst.remedy, state="missing" if worst.missing else "failed")
    return ProbeFailed(f"nvidia-smi ended: {words(stderr) or f'exit status {status}'}")
