"""The way to the host breaks, and nothing is lost and nothing comes twice."""

from __future__ import annotations

import asyncio
import re
from functools import partial

from probes.readings import LinkReading
from tests.host.conftest import Keyring
from tests.host.machine import Machine, free_port
from tests.host.proxy import Proxy
from tests.host.service import Service, shell
from tests.host.watcher import Watcher, nothing_left

CHANNEL = re.compile(r"sshd-session\[(\d+)\]: debug[12]: channel (\d+): (new|free|rcvd close)\b")
COUNTING = "i=0; while [ $i -lt %d ]; do i=$((i+1)); echo line $i; sleep %s; done"


async def test_cut_in_the_middle(machine: Machine, proxy: Proxy, service: Service) -> None:
    service.write(f"[Service]\nExecStart={shell(COUNTING % (200, 0.01))}\n")
    async with Watcher("far", service.name) as seen:
        await seen.until(lambda: "up" in seen.links())
        await service.start()
        for text in ("line 20", "line 80", "line 140"):
            await seen.until(partial(seen.said, text))
            proxy.cut()
        await seen.until(lambda: seen.said("line 200"))
        assert seen.links().count("down") >= 1
        await seen.until(lambda: seen.links()[-1] == "up")
        await seen.holds(await service.journal())
    await nothing_left(machine)


async def test_refused_for_a_while(machine: Machine, proxy: Proxy, service: Service) -> None:
    service.write(f"[Service]\nExecStart={shell(COUNTING % (50, 0.01))}\n")
    async with Watcher("far", service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.said("line 5"))
        proxy.refusing = True
        proxy.cut()
        await seen.until(lambda: seen.of(LinkReading)[-1].retry_in is not None, what="a word on when it tries again")
        assert "up" not in seen.links()[-1]
        assert seen.of(LinkReading)[-1].reason
        proxy.refusing = False
        await seen.until(lambda: seen.said("line 50"))
        await seen.holds(await service.journal())


async def test_a_frozen_way_is_found_dead(machine: Machine, proxy: Proxy, service: Service) -> None:
    service.write(f"[Service]\nExecStart={shell(COUNTING % (100, 0.05))}\n")
    async with Watcher("far", service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.said("line 5"))
        proxy.freeze()
        await seen.until(lambda: seen.links()[-1] != "up", limit=40, what="the end of the link")
        proxy.cut()
        proxy.thaw()
        await seen.until(lambda: seen.said("line 100"))
        await seen.holds(await service.journal())


async def test_sshd_restarted(machine: Machine, target: str, service: Service) -> None:
    service.write(f"[Service]\nExecStart={shell(COUNTING % (100, 0.02))}\n")
    async with Watcher(target, service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.said("line 10"))
        await machine.do("systemctl", "restart", "ssh.service")
        await machine.do("pkill", "-f", "^sshd-session:", check=False)  # a restart alone spares the logins
        await seen.until(lambda: "down" in seen.links())
        await seen.until(lambda: seen.said("line 100"))
        await seen.holds(await service.journal())
    await nothing_left(machine)


async def test_at_most_six_channels(machine: Machine, target: str, service: Service) -> None:
    """Counted by sshd itself, which writes down each channel it opens and closes."""
    machine.write("/etc/ssh/sshd_config.d/debug.conf", "LogLevel DEBUG2\n")
    await machine.do("systemctl", "restart", "ssh.service")
    try:
        began = (await machine.do("date", "+%s.%N")).text.strip()
        service.write(f"[Service]\nExecStart={shell(COUNTING % (20, 0.05))}\n")
        async with Watcher(target, service.name) as seen:
            await service.start()
            await seen.until(lambda: seen.said("line 20"))
            await seen.until(lambda: any(view.probe for view in seen.view.sources))
        await nothing_left(machine)
        said = await machine.do("journalctl", "--identifier=sshd-session", f"--since=@{began}", "--no-pager")
    finally:
        (machine.root / "etc/ssh/sshd_config.d/debug.conf").unlink()
        await machine.do("systemctl", "restart", "ssh.service")
    open_now: set[tuple[str, str]] = set()
    most = 0
    for login, channel, what in CHANNEL.findall(said.text):
        if what == "new":
            open_now.add((login, channel))
        else:
            open_now.discard((login, channel))
        most = max(most, len(open_now))
    assert 3 <= most <= 6  # the journal, the unit and the machine at least: else nothing was counted


async def test_an_unknown_host_key_is_never_accepted(machine: Machine, keyring: Keyring) -> None:
    keyring.add("stranger", machine.port, host_key="")
    async with Watcher("stranger", "any.service") as seen:
        await seen.until(lambda: "refused" in seen.links())
        last = seen.of(LinkReading)[-1]
        assert "stranger" in last.reason
        said = await machine.do("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub")
        assert said.text.split()[1] in last.reason + last.remedy  # SHA256:…
        assert f"ssh-keyscan -p {machine.port}" in last.remedy or "ssh-keygen -lf" in last.remedy
    assert keyring.known_hosts.read_text() == ""


async def test_a_changed_host_key_is_never_accepted(machine: Machine, keyring: Keyring) -> None:
    other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0rqe5N2kP0GZ7p8Gm0kzZ1w9q3X5V1rS7Q2yJ4aB1c"
    keyring.add("changed", machine.port, host_key=other)
    async with Watcher("changed", "any.service") as seen:
        await seen.until(lambda: "refused" in seen.links())
        assert "changed" in seen.of(LinkReading)[-1].reason
    assert keyring.known_hosts.read_text().count("\n") == 1


async def test_a_port_where_nobody_listens(machine: Machine, keyring: Keyring) -> None:
    keyring.add("nobody", free_port(), machine.host_key)
    async with Watcher("nobody", "any.service") as seen:
        await seen.until(lambda: any(link.retry_in is not None for link in seen.of(LinkReading)))
        assert any("nothing listens there" in link.reason for link in seen.of(LinkReading))
    assert not asyncio.all_tasks() - {asyncio.current_task()}
