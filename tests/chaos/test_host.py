"""Whatever happens to the host: its journal, its clock's journal, its life."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.chaos.account import Account
from tests.chaos.watched import Watched, all_is_well, chatty, recorded, recordings, watched
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.proxy import Proxy
from tests.host.service import Service, fresh_name, shell


async def test_journald_is_restarted_rotated_vacuumed(
    machine: Machine, target: str, service: Service, account: Account, chance: random.Random
) -> None:
    """What was read before the host let go of it is in the recording; nothing is there twice. "The host's journal" is
    what it held before each time that it let go of something (the server pauses for that, or lines between would be in
    nobody's account), and what it holds in the end."""

    async def restart(seen: Watched) -> None:
        await machine.do("systemctl", "restart", "systemd-journald")

    async def rotate(seen: Watched) -> None:
        await machine.do("journalctl", "--rotate")

    async def vacuum(seen: Watched) -> None:
        await seen.lines_more(5)
        await service.signal("STOP")
        await machine.do("journalctl", "--sync")
        await seen.caught_up(account)
        await machine.do("journalctl", "--rotate", "--vacuum-files=1")
        await service.signal("CONT")

    faults: list[Callable[[Watched], Awaitable[None]]] = [restart, rotate, vacuum, rotate, restart, vacuum]
    chance.shuffle(faults)
    service.write_server(chatty(8.0, 40))
    async with watched(target, service.name) as seen:
        await seen.under_way(service)
        for fault in faults:
            await seen.lines_more(chance.randint(1, 30))
            await fault(seen)
        await seen.until(lambda: seen.view.state == "ready", "ready")
        await service.stop()  # a server writes a line for each time it is asked how it is
        await seen.caught_up(account)
    assert len(account.entries()) > len(await service.journal()), "the host has let go of something"
    (path,) = recordings()
    numbers = [int(line.text.split()[-1]) for line in recorded(path) if "] line " in line.text]
    assert numbers == list(range(len(numbers)))
    await all_is_well(account, seen.footprint, told=seen.told)


async def test_the_host_freezes_and_thaws(
    machine: Machine, proxy: Proxy, service: Service, account: Account, chance: random.Random
) -> None:
    """Every process of it stops, sshd in the middle of a word; once for so long that the link is given up."""
    service.write_server(chatty(6.0, 40))
    async with watched("far", service.name) as seen:
        await seen.linked()
        await service.start()
        await seen.lines_more(10)
        await seen.footprint.take()
        machine.signal(signal.SIGSTOP)
        await asyncio.sleep(chance.uniform(0.5, 3.0))
        machine.signal(signal.SIGCONT)
        await seen.lines_more(10)
        machine.signal(signal.SIGSTOP)
        try:
            await seen.until(lambda: seen.links[-1] != "up", "the end of the link", 40)
        finally:
            machine.signal(signal.SIGCONT)
        await seen.linked()
        await seen.until(lambda: seen.view.state == "ready", "ready")
        await service.stop()  # a server writes a line for each time it is asked how it is
        await seen.caught_up(account)
    await all_is_well(account, seen.footprint, told=seen.told)


async def test_a_unit_crashes_and_crashes(
    machine: Machine, target: str, service: Service, account: Account, chance: random.Random
) -> None:
    """Dozens of loads in seconds, each its own; systemd gives up in the end, and so it is told."""
    crash = "echo loading; echo RuntimeError: no; exit 1"
    service.write(
        "[Unit]\nStartLimitIntervalSec=600\nStartLimitBurst=25\n"
        f"[Service]\nRestart=always\nRestartSec=0.05\nExecStart={shell(crash)}\n"
    )
    async with watched(target, service.name) as seen:
        await seen.reading()  # else the watch begins at the load that runs by then
        await seen.footprint.take()
        await service.start()
        await seen.until(lambda: len(seen.view.loads) >= 25, "the last load")
        # until systemd gives up it has something to say
        await seen.until(lambda: seen.unit_is("failed"), "systemd giving up")
        await seen.caught_up(account)
        assert seen.view.state == "failed"
        assert len(seen.view.loads) == 25
    await all_is_well(account, seen.footprint, told=seen.told)


async def test_the_host_is_rebooted(
    keyring: Keyring, boot: Callable[..., Machine], chance: random.Random, tmp_path: Path
) -> None:
    """A new boot, the same journal: the load before and the load after are in one recording."""
    journal = tmp_path / "journal"
    journal.mkdir()
    machine = boot("llm-reboot", journal=journal)
    async with Proxy(machine.port) as proxy:
        keyring.add("far", proxy.port, machine.host_key)
        service = Service(machine, fresh_name())
        account = await Account(machine, service).begin()
        service.write_server(chatty(4.0, 40))
        async with watched("far", service.name) as seen:
            await seen.linked()
            await service.start()
            await seen.lines_more(chance.randint(10, 60))
            await seen.footprint.take()
            await asyncio.to_thread(machine.reboot)
            await seen.until(lambda: seen.links.count("up") >= 2 and seen.links[-1] == "up", "the link")
            service.write_server(chatty(4.0, 40))
            await service.start()
            await seen.until(lambda: seen.view.state == "ready", "ready")
            await service.stop()
            await seen.caught_up(account)
            assert len(seen.view.loads) == 2
        await all_is_well(account, seen.footprint, told=seen.told)
    machine.power_off()


async def test_the_operator_s_disk_is_full(
    machine: Machine, target: str, service: Service, account: Account, chance: random.Random, small_disk: Path
) -> None:
    """The recording stops with a reason and is whole as far as it goes; the watch goes on, and shows every line. One
    more file is open then: without a name, it takes what can no longer be recorded, so that it can be read back."""
    service.write_server(chatty(5.0, 400))
    async with watched(target, service.name, more_files=1) as seen:
        await seen.reading()
        await seen.footprint.take()
        await service.start()
        await seen.until(lambda: seen.desk.watching.status().recording_error, "the end of the recording")
        assert "no room left" in seen.desk.watching.status().recording_error
        await seen.until(lambda: seen.view.state == "ready", "ready")
        await service.stop()  # a server writes a line for each time it is asked how it is
        await seen.caught_up(account)
    assert len(recorded(recordings()[0])) < len(account.entries())
    await all_is_well(account, seen.footprint, told=seen.told, whole=False)
