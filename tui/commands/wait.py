"""``firstlight wait``: a line whenever something changes, until the load is ready or will not be; for scripts."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from probes.command import plain
from tui.commands.live import live
from tui.commands.named import Named, named
from tui.commands.reach import open_target
from tui.commands.screen import configuration
from tui.exits import Ending, Exit, Waited
from tui.json import inert
from tui.pictures import Pictures
from tui.units import Zone, about, elapsed, percent
from watch.config import Config
from watch.status import Status, status
from watch.view import View
from watch.words import rank

Event = Literal["link", "state", "phase", "progress", "finding", "end"]


_STEPS: Final = 10
"""Lines that the progress of one phase is told in, at most."""


class Limits(Struct, frozen=True, kw_only=True):
    """Seconds. ``timeout``: for the whole. ``stall_grace``: that a stall may last. ``patience``: that the host may be
    out of reach."""

    timeout: float = 7200.0
    stall_grace: float = 0.0
    patience: float = 60.0


def run(
    words: Sequence[str],
    limits: Limits,
    *,
    endpoint: str | None = None,
    user: bool | None = None,
    since: str | None = None,
    record: bool = False,
    as_json: bool = False,
) -> Waited:
    """Wait, and say on standard output what changes. What ends it early is said on standard error."""
    try:
        config = configuration()
        one = named(config, words, endpoint=endpoint, user=user)
        return asyncio.run(_run(one, config, limits, since=since, record=record, as_json=as_json))
    except Ending as ending:
        ending.tell()
        return Waited.UNREACHABLE if ending.status in (Exit.UNREACHABLE, Exit.NO_UNIT) else Waited.USAGE


async def _run(one: Named, config: Config, limits: Limits, *, since: str | None, record: bool, as_json: bool) -> Waited:
    host = open_target(one.deployment.target)
    teller = Teller(one.title, as_json=as_json)
    async with live(host, one.deployment, config, name=one.name, record=record, since=since) as desk:
        waiting = Waiting(limits)
        pictures = Pictures(desk.watching)
        views = aiter(pictures)
        try:
            async for view in views:
                outcome = waiting.judge(view, settled=pictures.settled)
                teller.show(view, settled=pictures.settled, last=outcome is not None)
                if outcome is not None:
                    break
            else:
                outcome = (Waited.UNREACHABLE, "the watch ended")
        finally:
            await views.aclose()
        waited, why = outcome
        teller.end(desk.watching.view(desk.watching.now()), waited, why)
        return waited


class Waiting:
    """Decides when it is over. ``clock``: seconds of real time."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._began = clock()
        self._stalled: float | None = None
        self._gone: float | None = self._began

    def judge(self, view: View, *, settled: bool) -> tuple[Waited, str] | None:
        """The outcome and why, one sentence; None: go on. What is not ``settled`` is not of now."""
        now = self._clock()
        link = view.link
        up = link is not None and link.state == "up"
        self._gone = None if up else self._gone if self._gone is not None else now
        reason = " ".join(filter(None, (link.reason, link.remedy))) if link is not None else ""
        if link is not None and link.state == "refused":
            return Waited.UNREACHABLE, reason or "the host refuses us"
        if up and settled and (over := self._over(view, now)) is not None:
            return over
        if self._gone is not None and now - self._gone >= self._limits.patience:
            lasted = f"the host could not be reached for {about(now - self._gone)}"
            return Waited.UNREACHABLE, f"{lasted}: {reason}" if reason else lasted
        if now - self._began >= self._limits.timeout:
            return Waited.TIMED_OUT, f"not ready after {about(self._limits.timeout)}"
        return None

    def _over(self, view: View, now: float) -> tuple[Waited, str] | None:
        unit = view.unit_reading
        if view.state == "ready":
            return Waited.READY, "ready"
        if view.state == "failed":
            return Waited.FAILED, view.headline
        if unit is not None and missing(view):
            near = f" (did you mean {', '.join(unit.near)}?)" if unit.near else ""
            return Waited.UNREACHABLE, f"{view.target} has no unit {unit.unit}{near}"
        if view.state != "stalled":
            self._stalled = None
            return None
        self._stalled = now if self._stalled is None else self._stalled
        if now - self._stalled >= self._limits.stall_grace:
            return Waited.STALLED, view.stall.what if view.stall is not None else view.headline
        return None


def missing(view: View) -> bool:
    """The host answers, and has no such unit."""
    return view.unit_reading is not None and view.unit_reading.load == "not-found" and not view.lines


class Told(Struct, frozen=True, kw_only=True):
    """One line of ``--json``. ``exit``: with the event ``end``, the exit status."""

    event: Event
    text: str
    status: Status
    exit: int | None = None


class Teller:
    """Says what differs from what was said before."""

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._name = name
        self._json = as_json
        self._zone = Zone()
        self._before: Status | None = None
        self._link_before = ""
        self._lost = False
        self._told: set[tuple[int, str]] = set()
        self._step = (0, "", -1)

    def show(self, view: View, *, settled: bool, last: bool = False) -> None:
        """The link at once, the load as soon as it is ``settled``. ``last``: how it stands is said by ``end``."""
        seen = status(view, self._name)
        for event, text in (*self._link(seen), *(self._load(seen) if settled else ())):
            if not last or (event == "finding" and not missing(view)):
                self._say(event, text, seen)

    def end(self, view: View, waited: Waited, why: str) -> None:
        seen = status(view, self._name)
        word = {Waited.READY: "ready", Waited.FAILED: "failed", Waited.STALLED: "stalled",
                Waited.TIMED_OUT: "timed out", Waited.UNREACHABLE: "unreachable"}[waited]  # fmt: skip
        text = f"{word}: {why}" if why != word else word
        if waited is Waited.UNREACHABLE and missing(view):
            text = why
        if waited is Waited.READY and seen.seconds is not None:
            text = f"ready; it took {elapsed(seen.seconds)}"
        self._say("end", text, seen, int(waited))

    def _link(self, seen: Status) -> Iterator[tuple[Event, str]]:
        before, self._link_before = self._link_before, seen.link
        if seen.link in ("down", "refused") and seen.link != before:
            yield "link", f"link {seen.link}: {seen.link_reason}"
        elif seen.link == "up" and self._lost:
            yield "link", "the link is back"
        if seen.link != "connecting":
            self._lost = seen.link in ("down", "refused")

    def _load(self, seen: Status) -> Iterator[tuple[Event, str]]:
        before, self._before = self._before, seen
        stepped = self._stepped(seen)
        if before is None or (before.state, before.load) != (seen.state, seen.load):
            yield "state", self._where(seen)
        elif before.phase != seen.phase and seen.state == "loading":
            yield "phase", self._where(seen)
        elif stepped:
            yield "progress", self._where(seen)
        for finding in seen.findings:
            if rank(finding.severity) >= rank("warning") and (seen.load, finding.id) not in self._told:
                self._told.add((seen.load, finding.id))
                yield "finding", f"{finding.severity}: {finding.title}"

    def _stepped(self, seen: Status) -> bool:
        """Whether the running phase is another tenth further."""
        if seen.state != "loading" or seen.progress is None or seen.progress.ratio is None:
            return False
        step = (seen.load, seen.phase, int(seen.progress.ratio * _STEPS))
        before, self._step = self._step, step
        return step[:2] == before[:2] and step[2] > before[2]

    def _where(self, seen: Status) -> str:
        words: str = seen.state
        if seen.state in ("loading", "stalled"):
            words += f": {seen.phase}"
            if seen.progress is not None and seen.progress.ratio is not None:
                words += f" {percent(seen.progress.ratio)}"
            if seen.seconds is not None:
                words += f", {elapsed(seen.seconds)} elapsed"
            if seen.forecast is not None:
                at = seen.forecast.middle
                words += f", ready in about {about(seen.forecast.seconds)} ({self._zone.clock(at, seconds=False)})"
        elif seen.headline:
            words += f": {seen.headline}"
        return words

    def _say(self, event: Event, text: str, seen: Status, ended: int | None = None) -> None:
        text = plain(text, 1000)
        if self._json:
            line = inert(msgspec.json.encode(Told(event=event, text=text, status=seen, exit=ended))).decode()
        else:
            when = f"{self._zone.clock(seen.at)} {self._zone.name(seen.at)}"
            line = f"{when}  {plain(seen.deployment, 100)} @ {plain(seen.target, 100)}  {text}"
        print(line, file=sys.stdout, flush=True)
