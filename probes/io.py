"""Storage and CPU of the unit: what its processes read and burn, each second, from one shell on the host.

A sample starts no process there: the shell reads ``/proc`` and the cgroup by itself. During a long load these are
often the only figures that move (GPU memory is taken whole at the beginning).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from msgspec.structs import replace

from probes.asking import Asker, asking
from probes.clock import SYSTEM, Clock, sleep_unless
from probes.host import CommandTimeout, Host
from probes.iofiles import Tally, device_names, sections, shm_use
from probes.model import Model, find_model
from probes.readings import Reading

SCRIPT = r"""
root=/sys/fs/cgroup
emit() { [ -r "$1" ] && while IFS= read -r line || [ -n "$line" ]; do printf '%s\n' "$line"; done <"$1"; }
file() { [ -r "$2" ] && { printf '\036%s\n' "$1"; emit "$2"; }; }
processes() {
  count=0
  for folder in "$1" "$1"/*; do
    [ -r "$folder/cgroup.procs" ] || continue
    while IFS= read -r pid && [ $count -lt 200 ]; do
      count=$((count + 1))
      file "stat $pid" "/proc/$pid/stat"
      file "io $pid" "/proc/$pid/io"
    done <"$folder/cgroup.procs"
  done
}
sample() {
  if [ -e $root/cgroup.controllers ]; then
    for name in io.stat cpu.stat memory.current memory.max; do file $name "$root$1/$name"; done
    processes "$root$1"
  else
    file memory.current "$root/memory$1/memory.usage_in_bytes"
    file memory.max "$root/memory$1/memory.limit_in_bytes"
    file cpuacct.usage "$root/cpuacct$1/cpuacct.usage"
    processes "$root/systemd$1"
  fi
}
answer() {
  group=${1#* }
  [ "$group" = - ] || sample "$group"
  case $1 in
  sample*) printf '\036meminfo\n'
    for number in 1 2 3 4 5; do IFS= read -r line && printf '%s\n' "$line"; done </proc/meminfo ;;
  esac
  case $1 in sample+disks*) file diskstats /proc/diskstats ;; esac
  case $1 in sample+shm*) printf '\036shm\n'; df -Pk /dev/shm ;; esac
  return 0
} 2>/dev/null
"""
"""Asks: ``sample CGROUP`` (``-``: no group), ``sample+disks CGROUP``, ``sample+shm CGROUP``. The answer is sections,
each beginning with the byte 036, a name and a newline: ``io.stat``, ``cpu.stat``, ``memory.current``, ``memory.max``,
``cpuacct.usage``, ``stat PID``, ``io PID``, ``meminfo`` (its first five lines), ``diskstats``, ``shm`` (``df -Pk``).
What cannot be read is not there."""

EVERY = 1.0
IDLE = 5.0
SHM_EVERY = 30
"""Samples from one look at /dev/shm, which takes a process, to the next."""


class IoProbe:
    """``group``: the unit's control group ("" while there is none). ``argv``, ``environment``, ``user``: of the server,
    to find its checkpoint. Set by the supervisor as they become known. ``idle``: nothing is being loaded now."""

    def __init__(self, host: Host, *, clock: Clock = SYSTEM) -> None:
        self.group = ""
        self.argv: Sequence[str] = ()
        self.environment: Sequence[str] = ()
        self.user = ""
        self.idle = False
        self._host = host
        self._clock = clock
        self._wanted = asyncio.Event()
        self._model = Model()
        self._model_of: tuple[object, ...] = ()
        self._names: dict[str, str] = {}

    def poke(self) -> None:
        """Take a sample now."""
        self._wanted.set()

    async def batches(self) -> AsyncIterator[list[Reading]]:
        """An IoReading a turn. Ends by an exception only: ProbeFailed, or what the host raises."""
        tally = Tally()
        turn = 0
        looking = asyncio.ensure_future(self._look())
        try:
            async with asking(self._host, SCRIPT) as asker:
                while True:
                    self._wanted.clear()
                    yield [await self._sample(asker, tally, turn)]
                    turn += 1
                    if looking.done() and self._model_of != self._named():
                        looking.result()
                        looking = asyncio.ensure_future(self._look())
                    await sleep_unless(self._clock, IDLE if self.idle else EVERY, self._wanted)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _sample(self, asker: Asker, tally: Tally, turn: int) -> Reading:
        extra = "+shm" if turn % SHM_EVERY == 1 else "+disks" if turn == 0 or tally.blind else ""
        answer = await asker.ask(f"sample{extra} {self.group or '-'}")
        found = sections(answer.output)
        if "diskstats" in found:
            self._names = device_names(found["diskstats"])
        if "shm" in found:
            tally.shm = shm_use(found["shm"])
        reading = tally.reading(found, group=self.group, names=self._names, at=self._clock.now())
        model = self._model
        return replace(reading, model_path=model.path, model_bytes=model.bytes, model_mount=model.mount)

    def _named(self) -> tuple[object, ...]:
        return (tuple(self.argv), tuple(self.environment), self.user)

    async def _look(self) -> None:
        """Finds the checkpoint, beside the samples: a network mount may let us wait."""
        named = self._named()
        try:
            self._model = await find_model(self._host, self.argv, self.environment, self.user)
        except CommandTimeout:
            self._model = Model()
        self._model_of = named
