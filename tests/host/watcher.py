"""A whole watch without its screen, for tests: host, supervisor and fold, and everything that came by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from probes.hosts import open_host
from probes.readings import JournalLine, LinkReading, ProbeReading, Reading
from probes.supervise import Supervisor
from tests.host.machine import Machine
from tests.host.service import Entry
from watch.state import WatchState
from watch.view import View

Kind = TypeVar("Kind", bound=Reading)

LIMIT = 60.0
"""seconds to wait for what must come; generous, since the machine may be busy"""


class Watcher:
    """``async with Watcher("llm-two", "vllm-x") as seen: await seen.until(lambda: seen.view.state == "ready")``."""

    def __init__(self, target: str, unit: str, **how: object) -> None:
        self.host = open_host(target)
        self.supervisor = Supervisor(self.host, unit, **how)  # type: ignore[arg-type]
        self.state = WatchState(target, unit)
        self.readings: list[Reading] = []
        self._more = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    async def __aenter__(self) -> Watcher:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.supervisor.close()
        assert self._task is not None
        try:
            await asyncio.wait_for(self._task, 10)
        finally:
            await self.host.close()

    async def _run(self) -> None:
        try:
            async for batch in self.supervisor.batches():
                for reading in batch:
                    self.state.apply(reading)
                self.readings += batch
                async with self._more:
                    self._more.notify_all()
        finally:
            self._ended = True
            async with self._more:
                self._more.notify_all()

    @property
    def view(self) -> View:
        return self.state.view(self.readings[-1].at if self.readings else 0.0)

    async def until(self, true: Callable[[], object], *, limit: float = LIMIT, what: str = "") -> None:
        """Wait until it is so; AssertionError, with what the screen would say, when it never is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit), self._more:
                await self._more.wait_for(lambda: self._ended or true())
        assert true(), f"{what or 'what was waited for'} did not come in {limit:.0f} s:\n{self.story()}"

    async def holds(self, held: list[Entry]) -> None:
        """Wait until these lines came by; AssertionError unless they came once each, in order, and no other before
        the last of them."""
        await self.until(lambda: len(self.entries) >= len(held), what=f"{len(held)} lines of the journal")
        assert [entry.text for entry in self.entries[: len(held)]] == [entry.text for entry in held]
        assert self.entries[: len(held)] == held
        assert len({entry.cursor for entry in self.entries}) == len(self.entries)

    # ---- what came by

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [reading for reading in self.readings if isinstance(reading, kind)]

    @property
    def lines(self) -> list[JournalLine]:
        return self.of(JournalLine)

    @property
    def entries(self) -> list[Entry]:
        """The unit's own lines and systemd's about it: what ``Service.journal`` reads on the host itself."""
        return [Entry(line.cursor, line.text) for line in self.lines if line.source in {"unit", "systemd"}]

    def said(self, text: str) -> bool:
        return any(text in line.text for line in self.lines)

    def finding(self, part: str) -> bool:
        """Whether a finding's id, title, evidence or cause has this in it."""
        return any(
            part in field
            for finding in self.view.findings
            for field in (finding.id, finding.title, finding.cause, *finding.evidence)
        )

    def probe(self, name: str) -> list[ProbeReading]:
        return [reading for reading in self.of(ProbeReading) if reading.probe == name]

    def links(self) -> list[str]:
        """States of the link, without repeats."""
        states: list[str] = []
        for reading in self.of(LinkReading):
            if states[-1:] != [reading.state]:
                states.append(reading.state)
        return states

    def story(self) -> str:
        """Where things stand, for the message of a failed test."""
        view = self.view
        lines = [f"state {view.state}, phase {view.phase}, {view.headline}"]
        lines += [f"finding {one.severity} {one.id}: {one.title}" for one in view.findings]
        lines += [f"link {one.state} {one.reason}" for one in self.of(LinkReading)[-5:] if one.state != "up"]
        lines += [f"probe {one.probe} {one.state}: {one.reason}" for one in self.of(ProbeReading)[-20:]]
        lines += [f"| {line.text[:160]}" for line in self.lines[-15:]]
        return "\n".join(lines)


def logged_in(machine: Machine) -> list[str]:
    """Command lines of every process that a login started and that lives on, detached ones too, by their cgroup."""
    script = (
        "for one in $(grep --files-with-matches --no-messages 0::.*/session- /proc/[0-9]*/cgroup); do"
        " tr '\\0' ' ' <${one%cgroup}cmdline; echo; done 2>/dev/null; true"
    )
    return [line for line in machine.run("sh", "-c", script).text.splitlines() if line]


async def nothing_left(machine: Machine, limit: float = 15.0) -> None:
    """Wait until no login and nothing that one started is left on the host."""
    left: list[str] = []
    try:
        async with asyncio.timeout(limit):
            while left := logged_in(machine):  # noqa: ASYNC110 nobody tells this machine when a process there ends
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError("left on the host: " + "; ".join(left)) from None
