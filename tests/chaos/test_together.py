"""Faults of all kinds in one watch, one after the other and two at a time, in another order each round."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.terminal import Terminal
from tests.chaos.account import Account
from tests.chaos.clock import Clock
from tests.chaos.test_terminal import CHATTER, children, drained, footprint, left, resized, until
from tests.chaos.watched import Watched, all_is_well, chatty, watched
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.proxy import Proxy
from tests.host.service import Service, fresh_name, shell
from tests.host.terminal import PROGRAM

LOAD = chatty(60.0, 30)
"""Longer than a round: there are always lines to come."""


Fault = Callable[[], Awaitable[None]]
"""It takes a few seconds at most, and leaves nothing broken."""


class Way:
    """What may happen to the way to the host."""

    def __init__(self, proxy: Proxy, chance: random.Random) -> None:
        self.proxy = proxy
        self.chance = chance

    async def moment(self, longest: float = 1.5) -> None:
        await asyncio.sleep(self.chance.uniform(0.0, longest))

    async def delayed(self) -> None:
        self.proxy.delay = self.chance.uniform(0.05, 0.3)
        await self.moment()
        self.proxy.delay = 0.0

    async def throttled(self) -> None:
        self.proxy.rate = self.chance.uniform(5e3, 5e4)
        await self.moment()
        self.proxy.rate = 0.0

    async def cut(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.proxy.cut()
            await self.moment(0.5)

    async def half_closed(self) -> None:
        self.proxy.half_close()
        await self.moment(0.5)

    async def refused(self) -> None:
        self.proxy.refusing = True
        self.proxy.cut()
        await self.moment()
        self.proxy.refusing = False

    async def way_frozen(self) -> None:
        self.proxy.freeze()
        await self.moment(2.5)
        if self.chance.random() < 0.5:
            self.proxy.cut()
        self.proxy.thaw()

    def some(self, count: int) -> list[Fault]:
        faults = [self.delayed, self.throttled, self.cut, self.half_closed, self.refused, self.way_frozen]
        return self.chance.sample(faults, count)


@dataclass
class Scene:
    """Where it all happens, and what may happen to the host."""

    machine: Machine
    way: Way
    service: Service
    account: Account
    seen: Watched
    clock: Clock | None
    chance: random.Random

    async def sshd_restarted(self) -> None:
        await self.machine.do("systemctl", "restart", "ssh.service")
        await self.machine.do("pkill", "-f", "^sshd-session:", check=False)

    async def journald_restarted(self) -> None:
        await self.machine.do("systemctl", "restart", "systemd-journald")

    async def journal_rotated(self) -> None:
        await self.machine.do("journalctl", "--rotate")

    async def host_frozen(self) -> None:
        self.machine.signal(signal.SIGSTOP)
        await self.way.moment(2.5)
        self.machine.signal(signal.SIGCONT)

    async def unit_restarted(self) -> None:
        await self.service.restart()

    async def unit_killed(self) -> None:
        await self.service.signal("KILL")
        await self.way.moment(0.3)
        await self.service.start()

    async def clock_stepped(self) -> None:
        assert self.clock is not None
        self.clock.step(self.chance.randint(-7200, 7200))

    # ---- these alone: what they do to the host's account of the unit must not be missed

    async def journal_vacuumed(self) -> None:
        await self.service.signal("STOP")
        await self.machine.do("journalctl", "--sync")
        await self.seen.caught_up(self.account)
        await self.machine.do("journalctl", "--rotate", "--vacuum-files=1")
        await self.service.signal("CONT")

    async def rebooted(self) -> None:
        await asyncio.to_thread(self.machine.reboot)
        self.service.write_server(LOAD)
        await self.service.start()

    def groups(self) -> list[list[Fault]]:
        """The faults of a round: one alone, or one of the way and one of the host at once."""
        ways = self.way.some(3)
        host = [self.sshd_restarted, self.journald_restarted, self.journal_rotated, self.host_frozen]
        host += [self.unit_restarted, self.unit_killed]
        if self.clock is not None:
            host += [self.clock_stepped]
        hosts = self.chance.sample(host, 4)
        groups: list[list[Fault]] = [[ways[0], hosts[0]], [ways[1], hosts[1]], ways[2:], hosts[2:3], hosts[3:]]
        groups += [[self.journal_vacuumed if self.clock is not None else self.rebooted]]
        self.chance.shuffle(groups)
        return groups


@pytest.fixture(params=["stepped", "rebooted"])
async def host(
    request: pytest.FixtureRequest, boot: Callable[..., Machine], keyring: Keyring, tmp_path: Path
) -> AsyncIterator[tuple[Machine, Proxy, Clock | None]]:
    """A host of its own, whose clock can be stepped, or which can be rebooted and keeps its journal: the order of
    lines of two boots is that of their times, and not to be had from a clock that was stepped."""
    journal = tmp_path / "journal"
    journal.mkdir()
    machine = boot("llm-all", journal=journal)
    clock = await Clock(machine).start() if request.param == "stepped" else None
    async with Proxy(machine.port) as proxy:
        keyring.add("far", proxy.port, machine.host_key)
        yield machine, proxy, clock
    machine.power_off()


async def together(group: Sequence[Fault]) -> None:
    """At once. A test that fails shows what came before."""
    print(" + ".join(fault.__name__ for fault in group))
    await asyncio.gather(*(fault() for fault in group))


async def test_faults_together(host: tuple[Machine, Proxy, Clock | None], chance: random.Random) -> None:
    machine, proxy, clock = host
    service = Service(machine, fresh_name())
    account = await Account(machine, service).begin()
    service.write_server(LOAD)
    async with watched("far", service.name) as seen:
        scene = Scene(machine, Way(proxy, chance), service, account, seen, clock, chance)
        await seen.reading()
        await service.start()
        await seen.lines_more(20)
        await seen.footprint.take()
        for group in scene.groups():
            await together(group)
            if chance.random() < 0.7:  # or the next comes before all is well again
                await seen.linked()
                await seen.lines_more(chance.randint(1, 20))
        await seen.linked()
        await service.stop()
        await seen.until(lambda: seen.view.state == "stopped", "the stop")
        await seen.caught_up(account)
    await all_is_well(account, seen.footprint, told=seen.told)


async def test_faults_of_the_terminal_and_of_the_way_together(
    proxy: Proxy, service: Service, account: Account, chance: random.Random
) -> None:
    """The program itself, started by a shell, while the link comes and goes."""
    way = Way(proxy, chance)
    service.write(f"[Service]\nExecStart={shell(CHATTER)}\n")
    with Terminal(["bash", "--norc", "--noprofile", "-i"], env={"PS1": "prompt> "}) as terminal:

        async def resizes() -> None:
            await resized(terminal, chance, chance.randint(10, 150))

        async def leaves() -> None:
            terminal.send("\x1a")
            await comes_back()

        async def is_stopped() -> None:
            os.kill(program, signal.SIGSTOP)
            await comes_back()

        async def comes_back() -> None:
            terminal.seen = b""
            await until(terminal, "Stopped")
            await drained(terminal, chance.uniform(0.1, 1.0))
            terminal.seen = b""
            terminal.send("fg\n")
            await until(terminal, "\x1b[?1049h")

        await until(terminal, "prompt>")
        terminal.send(f"{PROGRAM} watch far {service.name}\n")
        await until(terminal, "Journal")
        await service.start()
        await until(terminal, "line 5")
        (program,) = children(terminal.process.pid)
        await resized(terminal, chance, 100)
        size = footprint(terminal, program)
        await size.take()
        faults: list[Fault] = [resizes, leaves, is_stopped, resizes]
        chance.shuffle(faults)
        for fault, other in zip(faults, way.some(4), strict=True):
            await together([fault, other])
            terminal.seen = b""
            await until(terminal, "line ")
        await left(terminal, service, size)
    await all_is_well(account, size)
