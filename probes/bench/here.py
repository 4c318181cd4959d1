"""Measures from this machine, with a `vllm` of its own, where the server's own environment has none that can: through
the SSH connection, and no longer than that lasts.

The steps are those that run on a host (``bench.sh``), begun on this one. What the way through the connection adds is in
every figure, so the result says so (``orders.MEASURED``) and is compared with its like alone.
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from msgspec.structs import replace

from probes.bench.orders import DUTY, BenchOrder
from probes.bench.output import DISK_FULL, NO_TOKENIZER
from probes.bench.place import INSTALL, MODULE, Place, Unit, about
from probes.bench.results import clear
from probes.clock import Clock
from probes.command import plain
from probes.host import Forward, Host, HostError
from probes.hosts import LOCAL
from probes.local import LocalHost
from probes.operate.asked import ask, going
from probes.operate.orders import Rights, UnderWay
from probes.operate.scripts import GOING, KILL
from probes.probe import ProbeFailed, words
from probes.unit import full_name

SAID = {
    DISK_FULL: "this machine's disk is full",
    NO_TOKENIZER: 'the tokenizer was not found: name one in a preset: extra = ["--tokenizer", "PATH or hub name"]',
}
"""What a failure is called here, by what it is called on a host."""
RIGHTS = Rights(level="none")
"""Its steps are a process of the operator's own."""
ENDS_IN = 20.0
"""Seconds for a benchmark to end that was told to."""


def own() -> tuple[str, ...]:
    """What runs vLLM's command line on this machine: of firstlight's own environment (its extra ``server``), else on
    PATH. Empty: nothing does."""
    if find_spec("vllm") is not None:
        return (sys.executable, *MODULE)
    found = shutil.which("vllm")
    return (found,) if found is not None else ()


def place_here(unit: Unit, endpoint: str, why: HostError) -> Place:
    """Instead of one on the host, where there is none for this reason. Raises it, with a remedy, where there is none
    here either."""
    command = own()
    if not command:
        also = " Or install firstlight with its extra here, which measures through the connection: firstlight[server]."
        remedy = why.remedy + also if why.remedy.endswith(INSTALL) else why.remedy
        raise ProbeFailed(why.reason, remedy, state="missing") from None
    found = about(unit, endpoint)
    return replace(found, command=command, python=(sys.executable,), here=True)


def no_tokenizer(order: BenchOrder, tokenizer: str) -> str:
    """Why the prompts cannot be made here; empty where they can, or where only the hub can tell."""
    asked = {level.extra[at + 1] for level in order.levels for at, word in enumerate(level.extra[:-1])
             if word == "--tokenizer"} or {tokenizer}  # fmt: skip
    for name in sorted(asked):
        if name.startswith(("/", ".", "~")) and not Path(name).expanduser().exists():
            return (
                f"This machine would measure through the connection, and has no tokenizer at {plain(name)}, which the"
                " server uses. Copy its files (tokenizer.json, tokenizer_config.json, config.json) to that path here,"
                ' or name another in a preset: extra = ["--tokenizer", "PATH or name on the hub"]'
            )
    return ""


def from_where(host: Host) -> str:
    """The value of ``MEASURED``; empty where nothing is in between."""
    return "" if host.name == LOCAL else f"through the SSH tunnel from {plain(platform.node()) or 'this machine'}"


def failure(text: str) -> str:
    """Why it failed, as it is to be understood here."""
    for there, here in SAID.items():
        text = text.replace(there, here)
    return f"on this machine, {text}"


def reached(place: Place, way: Forward) -> Place:
    """With the server's address as it is from here."""
    return replace(place, endpoint=replace(place.outside, host=way.host, port=way.port, socket=""))


class Here:
    """One benchmark from this machine: ``order``, as it is known here, where servers of many hosts may be measured."""

    def __init__(self, host: Host, order: BenchOrder, clock: Clock) -> None:
        self.machine = LocalHost(clock=clock)
        self.order = replace(order, unit=_name(host, order.unit))
        self.why = ""
        """why it was ended by us"""
        self._ended = False

    async def end_with(self, way: Forward) -> None:
        """Without the connection every request fails: end it when that is lost, rather than let it."""
        lost = await way.lost()
        self.why = f"{lost.reason.rstrip('.')}: it was measured through that connection, and ended with it"
        if await self._runs():
            await _kill(self.machine, self.order.unit)

    def over(self) -> None:
        """It has ended by itself."""
        self._ended = True

    async def leave(self) -> None:
        """Whoever leaves it ends it: nobody could come back to it."""
        if self._ended:
            return
        try:
            if await self._runs():
                await _kill(self.machine, self.order.unit)
            async with asyncio.timeout(ENDS_IN):
                while await self._runs():  # noqa: ASYNC110 only its process tells
                    await asyncio.sleep(0.1)
            await clear(self.machine, RIGHTS, self.order)
        except (HostError, TimeoutError):
            return  # what is left goes when the next one begins

    async def _runs(self) -> bool:
        """Ours: another's of the same server is not touched."""
        found = await _under_way(self.machine, self.order.unit)
        return found is not None and found.id == self.order.id


async def under_way_here(host: Host, unit: str) -> UnderWay | None:
    """The benchmark of this host's unit that runs on this machine. Raises what ``Host.run`` does."""
    if not own():
        return None
    found = await _under_way(LocalHost(), _name(host, unit))
    return replace(found, unit=full_name(unit)) if found is not None else None


async def cancel_here(host: Host, unit: str) -> str:
    """End it. Why that could not be asked; empty when it was. Raises what ``Host.run`` does."""
    return await _kill(LocalHost(), _name(host, unit)) if own() else "no benchmark runs on this machine"


def _name(host: Host, unit: str) -> str:
    """What the unit is called on this machine: two hosts may have units of one name."""
    return f"{host.name}:{full_name(unit)}"


async def _under_way(machine: Host, unit: str) -> UnderWay | None:
    done = await ask(machine, RIGHTS, GOING, unit, duty=DUTY)
    return going(done.stdout.decode("utf-8", "backslashreplace"), unit)


async def _kill(machine: Host, unit: str) -> str:
    done = await ask(machine, RIGHTS, KILL, unit, duty=DUTY)
    return "" if done.status == 0 else words(done.stderr) or f"it ended with {done.status}"
