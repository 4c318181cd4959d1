"""Whatever happens to the way to the host, and to sshd, while a load is under way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.chaos.account import Account
from tests.chaos.watched import Watched, all_is_well, chatty, watched
from tests.host.machine import Machine
from tests.host.proxy import Proxy
from tests.host.service import Service

SECONDS = 14.0


async def test_the_way_is_made_worse(
    machine: Machine, proxy: Proxy, service: Service, account: Account, chance: random.Random
) -> None:
    """Delayed, throttled, cut, half-closed, refused, frozen, in any order."""

    async def delay(seen: Watched) -> None:
        proxy.delay = chance.uniform(0.05, 0.3)
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        proxy.delay = 0.0

    async def throttle(seen: Watched) -> None:
        proxy.rate = chance.uniform(5e3, 5e4)
        await asyncio.sleep(chance.uniform(0.5, 1.5))
        proxy.rate = 0.0

    async def cut(seen: Watched) -> None:
        for _ in range(chance.randint(1, 4)):
            proxy.cut()
            await asyncio.sleep(chance.uniform(0.0, 0.7))

    async def half_close(seen: Watched) -> None:
        proxy.half_close()
        await asyncio.sleep(chance.uniform(0.0, 0.5))

    async def refuse(seen: Watched) -> None:
        proxy.refusing = True
        proxy.cut()
        await asyncio.sleep(chance.uniform(0.2, 1.5))
        proxy.refusing = False

    async def freeze(seen: Watched) -> None:
        proxy.freeze()
        await asyncio.sleep(chance.uniform(0.5, 2.5))
        if chance.random() < 0.5:
            proxy.cut()
        proxy.thaw()

    faults: list[Callable[[Watched], Awaitable[None]]] = [delay, throttle, cut, half_close, refuse, freeze]
    chance.shuffle(faults)
    service.write_server(chatty(SECONDS, 40))
    async with watched("far", service.name) as seen:
        await seen.under_way(service)
        for fault in faults:
            await fault(seen)
            await seen.linked()
            await asyncio.sleep(chance.uniform(0.0, 0.6))
        await seen.until(lambda: seen.view.state == "ready", "ready")
        await service.stop()
        await seen.until(lambda: seen.view.state == "stopped", "the stop")
        await seen.caught_up(account)
    assert proxy.accepted >= 3
    await all_is_well(account, seen.footprint, told=seen.told)


async def test_sshd_is_restarted(
    machine: Machine, proxy: Proxy, service: Service, account: Account, chance: random.Random
) -> None:
    """The daemon with its logins, and at a random moment of an attempt to log in again."""
    service.write_server(chatty(6.0, 40))
    async with watched("far", service.name) as seen:
        await seen.under_way(service)
        for _ in range(3):
            await seen.lines_more(20)
            await machine.do("systemctl", "restart", "ssh.service")
            await machine.do("pkill", "-f", "^sshd-session:", check=False)
            await asyncio.sleep(chance.uniform(0.0, 0.5))
            await machine.do("pkill", "-f", "^sshd-session:", check=False)
            await seen.linked()
        await seen.until(lambda: seen.view.state == "ready", "ready")
        await service.stop()
        await seen.caught_up(account)
    assert seen.links.count("down") >= 2
    await all_is_well(account, seen.footprint, told=seen.told)
