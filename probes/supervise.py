"""One watch of one deployment: the host's link and every probe, as tasks that fail and come back alone."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing

from msgspec.structs import replace

from probes.ahead import DRAW_WAIT, within
from probes.arguments import arguments
from probes.clock import SYSTEM, Clock
from probes.endpoint import Endpoint, endpoint_from, endpoint_of
from probes.gpu import INTERVAL, GpuProbe, Way
from probes.host import Host, HostError, LinkDown, LinkRefused
from probes.io import IoProbe
from probes.journal import JournalProbe, has_manager_line
from probes.outbox import Outbox
from probes.probe import ProbeFailed
from probes.readings import HealthReading, JournalLine, LinkReading, ProbeReading, Reading, UnitFile, UnitReading
from probes.serving import ServingProbe
from probes.thrift import OneAtATime
from probes.unit import UnitProbe, full_name

SHORTEST, LONGEST = 0.5, 30.0
"""Seconds from a probe's failure to the next try: doubling, with jitter."""
MISSING = 60.0
"""Seconds until something that the host does not offer is asked for again."""
STEADY = 30.0
"""A probe that ran so long begins again with short waits."""
UNIT_WAIT = 8.0
"""Seconds that the journal's first lines wait for what systemd says of the unit, which is told before them."""
LINES_WAIT = 1.0
"""Seconds that all else waits for the journal's first lines once the unit is known: they are what is looked for first,
and a host that is busy loading a model answers one question sooner than eight."""

API_KEY = "FIRSTLIGHT_API_KEY"

Make = Callable[[], AsyncIterator[list[Reading]]]


class Supervisor:
    """Runs ``host.links()`` and the probes of one deployment and merges what they yield.

    ``unit``: name as systemd knows it (``.service`` is added where no suffix is given). ``endpoint``: URL of the
    server; None: read from the server's own arguments, else http://127.0.0.1:8000. ``since``: UTC seconds, or anything
    ``journalctl --since`` takes; None: from the current invocation's first line. ``api_key``: sent to the server,
    never recorded; None: what the operator's environment has as FIRSTLIGHT_API_KEY. ``gpu``: ``auto`` (NVML in
    process for ``local``; else the NVML agent, then ``nvidia-smi``), ``nvidia-smi``, or ``none``. ``tls_ca``,
    ``tls_verify``: whom https to the server trusts, as ``Endpoint``. ``drawn``: set by a screen when it shows lines;
    what can wait is asked after that. Raises ``endpoint.BadEndpoint`` for what is no URL.

    At most six channels of the host: journal, unit, GPU, storage, HTTP, and one for what is asked seldom.
    The host stays the caller's: it is not closed here.
    """

    def __init__(
        self,
        host: Host,
        unit: str,
        *,
        endpoint: str | None = None,
        user: bool = False,
        since: float | str | None = None,
        clock: Clock = SYSTEM,
        api_key: str | None = None,
        gpu: Way = "auto",
        gpu_interval: float = INTERVAL,
        tls_ca: str = "",
        tls_verify: bool = True,
        drawn: asyncio.Event | None = None,
    ) -> None:
        self._host = OneAtATime(host)
        self._name = full_name(unit)
        self._user = user
        self._api_key = os.environ.get(API_KEY, "") if api_key is None else api_key
        self._given = endpoint_from(endpoint) if endpoint else None
        self._tls_ca, self._tls_verify = tls_ca, tls_verify
        self._drawn = drawn
        self._way = gpu
        self._unit = UnitProbe(self._host, unit, user=user, clock=clock)
        self.clock: Clock = HostClock(clock, self._unit)
        self._gpu = GpuProbe(self._host, clock=self.clock, way=gpu, interval=gpu_interval)
        self._io = IoProbe(self._host, clock=self.clock)
        self._journal = JournalProbe(self._host, self._name, user=user, since=since, clock=self.clock, drawn=drawn)
        self._serving: ServingProbe | None = None
        self._serving_task: asyncio.Task[None] | None = None
        self._last_unit: UnitReading | None = None
        self._text = ""
        self._unit_known = asyncio.Event()
        self._lines_came = asyncio.Event()
        self._ready = False
        self._outbox = Outbox()
        self._tasks: set[asyncio.Task[None]] = set()
        self.began = 0.0
        """UTC seconds by this machine's clock; 0: not yet"""
        self._taken = False

    def start(self) -> None:
        """Reach the host and begin to ask it, before anybody takes what it says. Safe to call again."""
        if self.began:
            return
        self.began = time.time()
        self._start(self._links())
        self._start(self._keep("unit", self._unit.batches))
        self._start(self._keep("journal", self._lines))
        self._start(self._turn())
        self._start(self._keep("io", self._io.batches, after=self._lines_came))
        if self._way != "none":
            self._start(self._keep("gpu", self._gpu.batches, after=self._lines_came))
            self._start(self._keep("gpu-processes", self._gpu.processes, after=self._lines_came))

    async def batches(self) -> AsyncIterator[list[Reading]]:
        """Readings as they come, until the host refuses us for good (a ``LinkReading`` says so) or ``close()``.

        A probe that fails says so as a ``ProbeReading`` and is tried again; nothing but cancellation escapes. To be
        iterated once.
        """
        if self._taken:
            raise RuntimeError("a supervisor's batches are iterated once")
        self._taken = True
        self.start()
        try:
            while batch := await self._outbox.take():
                yield batch
        finally:
            await self.close()

    async def first_lines(self) -> None:
        """Return once the newest lines were told (and drawn), or their time is over: what can wait comes then."""
        await self._lines_came.wait()

    def poke(self) -> None:
        """Ask the unit, the storage and the server now rather than at their next turn."""
        self._unit.poke()
        self._io.poke()
        if self._serving:
            self._serving.poke()

    async def close(self) -> None:
        """End every probe and wait for it; nothing of ours is left on the host. May be called twice."""
        self._outbox.close()
        tasks = {task for task in self._tasks if task is not asyncio.current_task()}
        while tasks:  # again for one that was just busy turning its cancellation into something else
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=1.0)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- the link

    async def _links(self) -> None:
        try:
            async with aclosing(self._host.links()) as links:  # type: ignore[type-var]
                async for reading in links:
                    ahead = self._unit.offset
                    await self._outbox.put([replace(reading, at=reading.at + ahead) if ahead else reading])
                    self._note_greeting(reading)
        except Exception as error:  # noqa: BLE001 (whatever breaks in it, the screen must hear of it)
            reason = f"The link broke in a way that is a fault of firstlight: {error!r}"
            await self._outbox.put([LinkReading(at=self.clock.now(), state="refused", reason=reason)])
        self._outbox.finish()

    def _note_greeting(self, reading: LinkReading) -> None:
        """What the login shell prints before every command was skipped: said once."""
        greeting = self._host.greeting
        if reading.state == "up" and greeting and not self._host.greeted:
            self._host.greeted = True
            head = greeting.encode("unicode_escape").decode("ascii")[:120]
            self._start(
                self._say(
                    "shell",
                    "up",
                    f"A start-up file of the login shell prints before every command; it is left out: {head}",
                    "Let .bashrc print only where the shell is interactive: case $- in *i*) … esac.",
                )
            )

    # --- keeping a probe

    async def _keep(self, name: str, make: Make, *, after: asyncio.Event | None = None) -> None:
        """Runs a probe for ever. The same failure is said once; then ``up`` when it is over."""
        if after is not None:
            await after.wait()
        said = ("", "")
        failures = 0
        while True:
            began = time.monotonic()
            failed: HostError | None = None
            try:
                await self._host.up()
                async with aclosing(make()) as batches:  # type: ignore[type-var]
                    async for batch in batches:
                        if said[0] != "up":
                            said = ("up", "")
                            await self._say(name, "up")
                        if batch:
                            self._learn(batch)
                            await self._outbox.put(batch)
            except LinkRefused:
                return
            except LinkDown:
                await asyncio.sleep(0.1)  # the link's own reading says it; up() waits for its return
                continue
            except HostError as error:
                failed = error
            except Exception as error:  # noqa: BLE001 (one probe's fault must not take the others down)
                failed = ProbeFailed(
                    f"The {name} probe stopped by a fault of firstlight: {type(error).__name__}: {error}",
                    "The other panes go on; it is tried again. Please report it with the session file.",
                )
            failures = 0 if time.monotonic() - began > STEADY else failures + 1
            if failed is not None:
                state = failed.state if isinstance(failed, ProbeFailed) else "failed"
                if said != (state, failed.reason):
                    said = (state, failed.reason)
                    await self._say(name, state, failed.reason, failed.remedy)
            if name == "unit":
                self._unit_known.set()
            if name == "journal":
                self._journal.told_newest.set()
            await self._pause(failed, failures)

    async def _pause(self, failed: HostError | None, failures: int) -> None:
        if isinstance(failed, ProbeFailed) and (failed.retry is not None or failed.state == "missing"):
            seconds = failed.retry if failed.retry is not None else MISSING
        else:
            seconds = min(SHORTEST * 2 ** min(failures - 1, 8), LONGEST) * random.uniform(0.8, 1.2) if failures else 0.1
        await asyncio.sleep(seconds)

    async def _say(self, probe: str, state: str, reason: str = "", remedy: str = "") -> None:
        await self._outbox.put(
            [ProbeReading(at=self.clock.now(), probe=probe, state=state, reason=reason, remedy=remedy)]  # type: ignore[arg-type]
        )

    # --- what one probe learns for another

    async def _lines(self) -> AsyncIterator[list[Reading]]:
        """The journal is asked beside the unit, and told after it."""
        async with aclosing(self._journal.batches()) as batches:  # type: ignore[type-var]
            first = await anext(batches, None)
            await within(self._unit_known, UNIT_WAIT)
            if first is not None:
                yield first
            async for batch in batches:
                yield batch

    async def _turn(self) -> None:
        """The turn of all else comes without lines too, where a unit is silent or its journal is slow."""
        await self._unit_known.wait()
        await within(self._journal.told_newest, LINES_WAIT)
        if self._drawn is not None:
            await within(self._drawn, DRAW_WAIT)
        self._lines_came.set()

    def _learn(self, batch: list[Reading]) -> None:
        if has_manager_line(batch):
            self._unit.poke()
        others = [reading for reading in batch if type(reading) is not JournalLine]
        for reading in others:
            if isinstance(reading, UnitFile):
                self._text = reading.text
            if isinstance(reading, HealthReading) and (reading.status == 200) != self._ready:
                self._ready = reading.status == 200
                self._set_pace()
        for reading in others:
            if isinstance(reading, UnitReading):
                self._learn_unit(reading)

    def _learn_unit(self, unit: UnitReading) -> None:
        before, self._last_unit = self._last_unit, unit
        argv = arguments(unit, self._text)
        self._gpu.argv = argv
        self._io.argv, self._io.environment, self._io.user = argv, unit.environment, unit.user
        self._io.group = unit.control_group
        self._unit_known.set()
        endpoint = replace(self._given or endpoint_of(argv), ca=self._tls_ca, verify=self._tls_verify)
        if self._serving is None or self._serving.endpoint != endpoint:
            self._serve(endpoint)
        self._set_pace()
        if before and (before.invocation, before.active) != (unit.invocation, unit.active):
            self._io.poke()
            if self._serving:
                self._serving.poke()

    def _serve(self, endpoint: Endpoint) -> None:
        if self._serving_task:
            self._serving_task.cancel()
        self._serving = ServingProbe(self._host, endpoint, clock=self.clock, api_key=self._api_key)
        self._serving_task = self._start(self._keep("serving", self._serving.batches, after=self._lines_came))

    def _set_pace(self) -> None:
        """Often while something is expected to move."""
        idle = self._last_unit is not None and self._last_unit.active in ("inactive", "failed", "")
        self._io.idle = idle or self._ready
        if self._serving:
            self._serving.idle = idle


class HostClock:
    """The host's time as far as it is known: what is stamped here must stand beside the journal's own times."""

    def __init__(self, clock: Clock, unit: UnitProbe) -> None:
        self._clock = clock
        self._unit = unit

    def now(self) -> float:
        return self._clock.now() + self._unit.offset

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
