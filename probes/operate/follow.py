"""What work on the host says, as it comes from there: each word once, in order, over any number of lost links.

``follow`` is for every sort of work (``asked.Duty``); a ``Teller`` makes readings of what is said. ``Trail`` is that of
actions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Protocol, TypeVar

from probes.clock import Clock
from probes.host import Host, HostError, LinkDown, LinkRefused
from probes.operate.asked import ACTION, Duty, argv, ask, going
from probes.operate.orders import Order, Rights, UnderWay
from probes.operate.scripts import FOLLOW, GOING, SAID, STATE
from probes.probe import chunks
from probes.readings import OperatorAction

QUIET = 4.0
"""Real seconds without a line after which is asked whether the action still runs. While it waits it says so each
second."""

PAUSE = 1.0
"""Real seconds before the lines are asked for again, when what reads them ended."""

_LINE = re.compile(r"@firstlight\t([^\t]*)\t(\d{1,9})\t(\d{1,12}(?:\.\d{1,9})?)\t([a-z]{1,20})\t([a-z]{1,20})\t(.*)")


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Teller(Protocol[R_co]):
    """Makes readings of what the work says. ``ended``: its last word has come."""

    ended: bool

    def restart(self) -> None:
        """All will come again from the first byte on; what was taken is to be left out."""
        ...

    def feed(self, data: bytes) -> Iterator[R_co]: ...

    def word(self, at: float, step: str, outcome: str, detail: str) -> R_co:
        """A word of ours, not of the host's: about the link, or that it ended without a word."""
        ...


class Work(Protocol):
    """What is followed: an order, or what is under way."""

    @property
    def id(self) -> str: ...

    @property
    def unit(self) -> str: ...


class Trail:
    """What an action has said so far."""

    def __init__(self, order: Order | UnderWay) -> None:
        self._order = order
        self._last = 0
        self._undo = ""
        self._rest = b""
        self.failed = ""
        self.ended = False

    def restart(self) -> None:
        """The lines will come again from the first on; those that were taken are left out."""
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[OperatorAction]:
        """The steps that these bytes complete. Lines that are none of this action's are passed over."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-65536:]
        for line in lines:
            found = _LINE.fullmatch(line.decode("utf-8", "backslashreplace").rstrip("\r"))
            if found is None or found[1] != self._order.id or int(found[2]) <= self._last:
                continue
            self._last = int(found[2])
            step, outcome, words = found[4], found[5], found[6]
            if outcome == "undo":
                self._undo = words
            self.ended = self.ended or step == "end"
            yield self.reading(float(found[3]), step, outcome, words, undo=self._undo if step == "end" else "")

    def word(self, at: float, step: str, outcome: str, detail: str) -> OperatorAction:
        return self.reading(at, step, outcome, detail, undo="")

    def reading(self, at: float, step: str, outcome: str, detail: str, *, undo: str = "") -> OperatorAction:
        order = self._order
        return OperatorAction(
            at=at,
            action=order.action,
            step=step,
            outcome=outcome,
            detail=detail,
            who=order.who,
            unit=order.unit,
            undo=undo,
            id=order.id,
        )


async def follow(
    host: Host, rights: Rights, order: Work, trail: Teller[R], clock: Clock, duty: Duty = ACTION
) -> AsyncGenerator[R, None]:
    """To its end; a lost link is waited for. Never raises but for cancellation."""
    lost = False
    while not trail.ended:
        try:
            await host.up()
            if lost:
                lost = False
                yield trail.word(clock.now(), "link", "done", "the link is back: what was said meanwhile follows")
            async with aclosing(_lines(host, rights, order, trail, duty)) as lines:
                async for reading in lines:
                    yield reading
            if trail.ended:
                return
            if not await _runs(host, rights, order, duty):
                # what it said last may still have been on its way
                trail.restart()
                done = await ask(host, rights, SAID, order.unit, id=order.id, duty=duty)
                for reading in trail.feed(done.stdout):
                    yield reading
                if not trail.ended:
                    state = await _state(host, rights, order.unit)
                    trail.ended = True
                    yield trail.word(
                        clock.now(),
                        "end",
                        "unknown",
                        f"it was ended from outside, or the host was started anew; {order.unit} is {state}",
                    )
                return
            await asyncio.sleep(PAUSE)
        except LinkRefused as error:
            trail.ended = True
            yield trail.word(clock.now(), "end", "unknown", f"The host is no longer reached: {error.reason}")
        except LinkDown:
            if not lost:
                lost = True
                yield trail.word(
                    clock.now(),
                    "link",
                    "wait",
                    "the link is lost; the steps go on on the host, and are read afterwards",
                )
        except HostError as error:
            yield trail.word(clock.now(), "link", "wait", error.reason)
            await asyncio.sleep(PAUSE * 3)


async def _lines(host: Host, rights: Rights, order: Work, trail: Teller[R], duty: Duty) -> AsyncGenerator[R, None]:
    """From the first line on, until its end or until nothing comes for a while."""
    trail.restart()
    async with (
        host.stream(argv(rights, FOLLOW, order.unit, id=order.id, duty=duty), stdin=True) as stream,
        aclosing(chunks(stream, QUIET)) as pieces,
    ):
        async for chunk in pieces:
            if chunk is None:
                return
            for reading in trail.feed(chunk):
                yield reading
            if trail.ended:
                return


async def _runs(host: Host, rights: Rights, order: Work, duty: Duty) -> bool:
    done = await ask(host, rights, GOING, order.unit, duty=duty)
    found = going(done.stdout.decode("utf-8", "backslashreplace"), order.unit)
    return found is not None and found.id == order.id


async def _state(host: Host, rights: Rights, unit: str) -> str:
    done = await ask(host, rights, STATE, unit)
    return " ".join(done.stdout.decode("utf-8", "backslashreplace").split()) or "in an unknown state"
