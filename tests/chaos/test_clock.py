"""The host's clock is stepped: times in its journal go back by hours and forward by days."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from probes.journal import JournalProbe
from probes.readings import JournalLine
from tests.chaos.account import Account
from tests.chaos.clock import Clock
from tests.chaos.watched import all_is_well, chatty, watched
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service, fresh_name
from tests.probes.hosts import Programs, Reader
from tests.probes.journals import BOOTED, HAS_JOURNALCTL, INVOCATION, JOURNAL_REMOTE, said, write_journal
from watch.explain import explain
from watch.state import WatchState

needs_journal = pytest.mark.skipif(
    not (HAS_JOURNALCTL and JOURNAL_REMOTE.exists()), reason="needs journalctl and Debian's systemd-journal-remote"
)

UNIT = "vllm.service"


async def test_the_clock_is_stepped(keyring: Keyring, boot: Callable[..., Machine], chance: random.Random) -> None:
    """While lines of a load come; whatever the clock says, it is one load, and each line is there once."""
    machine = boot("llm-clock")
    clock = await Clock(machine).start()
    target = keyring.add(machine.name, machine.port, machine.host_key)
    service = Service(machine, fresh_name())
    account = await Account(machine, service).begin()
    service.write_server(chatty(8.0, 40))
    async with watched(target, service.name) as seen:
        await seen.under_way(service)
        for step in (-chance.randint(60, 7200), chance.randint(3600, 200_000), -chance.randint(3600, 300_000)):
            clock.step(step)
            await seen.lines_more(chance.randint(20, 60))
        await seen.until(lambda: seen.view.state == "ready", "ready")
        await service.stop()
        await seen.until(lambda: seen.view.state == "stopped", "the stop")
        await seen.caught_up(account)
        assert len(seen.view.loads) == 1
    await all_is_well(account, seen.footprint, told=seen.told)
    machine.power_off()


@needs_journal
async def test_every_line_in_the_order_of_a_journal_of_any_times(chance: random.Random, tmp_path: Path) -> None:
    """The same with times put into a journal file, of which journalctl alone says in which order it holds them."""
    host = Programs(tmp_path)
    file = tmp_path / "journal" / "system.journal"
    file.parent.mkdir()
    real = f'exec /usr/bin/journalctl --directory="{file.parent}" "$@"'
    host.put("journalctl", real)
    host.put("cat", BOOTED)
    at, number = 1796009895.0, 0
    probe = JournalProbe(host.host, UNIT, invocation=INVOCATION)
    reader: Reader | None = None
    lines: list[JournalLine] = []
    for step in (0.0, chance.uniform(-7200, -60), chance.uniform(3600, 2e5), chance.uniform(-3e5, -3600)):
        at += step
        export = b""
        for _ in range(chance.randint(5, 40)):
            number, at = number + 1, at + chance.uniform(0.0, 0.5)
            export += said(number, b"line %d" % number, at=at)
        write_journal(file, export)
        if reader is None:
            reader = Reader(probe.batches())
        wanted = number - len(lines)
        await reader.until(lambda reader, wanted=wanted: len(reader.of(JournalLine)) >= wanted)
        if chance.random() < 0.5:  # and the link is lost
            await reader.stop()
            lines += reader.of(JournalLine)
            reader = Reader(probe.batches())
    assert reader is not None
    lines += reader.of(JournalLine)
    await reader.stop()
    assert [line.text for line in lines] == [f"line {n}" for n in range(1, number + 1)]

    state = WatchState("host", UNIT)
    for line in lines:
        state.apply(line)
        msgspec.json.encode(state.view(at))
    export_file = tmp_path / "host.export"
    done = await host.host.run(["journalctl", "-o", "export", "--no-pager"])
    export_file.write_bytes(done.stdout)
    assert explain([export_file]).state == state.view(max(line.at for line in lines)).state
