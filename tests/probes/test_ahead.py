"""The newest lines of a long journal come before the back-log, and all of it comes all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from probes.ahead import HEAD, NEWEST
from probes.journal import JournalProbe
from probes.readings import BacklogReading, JournalLine, Reading
from tests.probes.hosts import Programs, Reader
from tests.probes.journals import BOOTED, HAS_JOURNALCTL, INVOCATION, JOURNAL_REMOTE, said, write_journal

pytestmark = pytest.mark.skipif(
    not (HAS_JOURNALCTL and JOURNAL_REMOTE.exists()), reason="needs journalctl and Debian's systemd-journal-remote"
)

COUNT = 6 * HEAD
HOLD = 500_000
"""Bytes of the stream after which it stands still until the test lets it go on: some thousand lines."""


class Machine(Programs):
    """A host whose journal is a real file; its stream stands still in the middle while ``gate`` is there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = folder / "system.journal"
        self.gate = folder / "gate"
        self.gate.touch()
        real = f'/usr/bin/journalctl --file="{self.file}" "$@"'
        held = f'{{ stdbuf -o0 head -c {HOLD}; while [ -e "{self.gate}" ]; do sleep 0.05; done; /bin/cat; }}'
        self.put("journalctl", f'case "$*" in *--follow*) {real} | {held} ;; *) exec {real} ;; esac')
        self.put("cat", BOOTED)

    def say(self, first: int, last: int) -> None:
        export = b"".join(said(number, b"line %d" % number) for number in range(first, last + 1))
        write_journal(self.file, export)

    def probe(self) -> JournalProbe:
        return JournalProbe(self.host, "vllm.service", invocation=INVOCATION)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    assert machine.host.running == 0, "something of ours still runs on the host"


def numbers(lines: list[JournalLine]) -> list[int]:
    return [int(line.text.split()[1]) for line in lines]


def newest(reader: Reader) -> list[JournalLine]:
    return [line for reading in reader.of(BacklogReading) for line in reading.lines]


async def test_the_newest_comes_while_the_back_log_is_read_and_then_all_in_order(machine: Machine) -> None:
    machine.say(1, COUNT)
    reader = await Reader(machine.probe().batches()).until(newest)
    assert numbers(newest(reader)) == list(range(COUNT - NEWEST + 1, COUNT + 1))
    read = numbers(reader.of(JournalLine))
    assert read == list(range(1, len(read) + 1))
    assert len(read) < COUNT - NEWEST
    share = reader.of(BacklogReading)[0].share
    assert share is not None
    assert abs(share - len(read) / COUNT) < 0.2

    machine.gate.unlink()
    await reader.until(lambda reader: len(reader.of(JournalLine)) == COUNT)
    assert numbers(reader.of(JournalLine)) == list(range(1, COUNT + 1))
    await reader.until(lambda reader: reader.of(BacklogReading)[-1].share is None)
    await reader.stop()


def slow(machine: Machine) -> Path:
    """Asked for what is newest, its journalctl says nothing for as long as this file is there."""
    gate = machine.folder / "slow"
    gate.touch()
    machine.put(
        "journalctl",
        f'case "$*" in *" -r "*) while [ -e "{gate}" ]; do sleep 0.05; done ;; esac\n'
        f'exec /usr/bin/journalctl --file="{machine.file}" "$@"',
    )
    return gate


async def test_the_stream_is_read_on_when_the_newest_lines_were_shown(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.ahead.PATIENCE", 60.0)
    gate = slow(machine)
    machine.say(1, COUNT)
    reader = await Reader(machine.probe().batches()).until(lambda reader: len(reader.of(JournalLine)) >= HEAD)
    gate.unlink()
    await reader.until(lambda reader: len(reader.of(JournalLine)) == COUNT)
    ahead = next(at for at, one in enumerate(reader.readings) if isinstance(one, BacklogReading) and one.lines)
    assert len([one for one in reader.readings[:ahead] if isinstance(one, JournalLine)]) < COUNT - NEWEST
    assert numbers(reader.of(JournalLine)) == list(range(1, COUNT + 1))
    await reader.stop()


async def test_a_host_that_does_not_find_its_newest_lines_is_read_all_the_same(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.ahead.PATIENCE", 0.05)
    slow(machine)
    machine.say(1, COUNT)
    reader = await Reader(machine.probe().batches()).until(lambda reader: len(reader.of(JournalLine)) == COUNT)
    assert newest(reader) == []
    await reader.stop()


async def test_what_is_said_meanwhile_is_shown_meanwhile(machine: Machine) -> None:
    machine.say(1, COUNT)
    reader = await Reader(machine.probe().batches()).until(newest)
    machine.say(COUNT + 1, COUNT + 3)
    await reader.until(lambda reader: numbers(newest(reader))[-1] == COUNT + 3)
    assert numbers(newest(reader))[-4:] == [COUNT, COUNT + 1, COUNT + 2, COUNT + 3]
    machine.gate.unlink()
    await reader.until(lambda reader: len(reader.of(JournalLine)) == COUNT + 3)
    await reader.until(lambda reader: reader.of(BacklogReading)[-1].share is None)
    await reader.stop()


async def test_a_short_journal_has_no_back_log_to_speak_of(machine: Machine) -> None:
    machine.gate.unlink()
    machine.say(1, NEWEST - 1)
    reader = await Reader(machine.probe().batches()).until(lambda reader: len(reader.of(JournalLine)) == NEWEST - 1)
    machine.say(NEWEST, NEWEST + 5)
    await reader.until(lambda reader: len(reader.of(JournalLine)) == NEWEST + 5)
    assert reader.of(BacklogReading) == []
    await reader.stop()


async def test_earlier_loads_are_not_this_load_s_newest_lines(machine: Machine) -> None:
    machine.gate.unlink()
    export = b"".join(said(n, b"old %d" % n, _SYSTEMD_INVOCATION_ID="c1" * 16) for n in range(1, COUNT))
    export += b"".join(said(COUNT + n, b"line %d" % n) for n in range(1, 4))
    write_journal(machine.file, export)
    reader = await Reader(machine.probe().batches()).until(lambda reader: len(reader.of(JournalLine)) == 3)
    assert reader.of(BacklogReading) == []
    await reader.stop()


async def test_a_link_lost_in_the_middle_goes_on_and_comes_to_its_end(machine: Machine) -> None:
    machine.say(1, COUNT)
    probe = machine.probe()
    reader = await Reader(probe.batches()).until(newest)
    machine.host.cut_now()
    await reader.end()
    read: list[Reading] = list(reader.readings)
    machine.host.mend()
    machine.gate.unlink()
    again = await Reader(probe.batches()).until(
        lambda again: len(reader.of(JournalLine)) + len(again.of(JournalLine)) == COUNT
    )
    read += again.readings
    assert numbers([one for one in read if isinstance(one, JournalLine)]) == list(range(1, COUNT + 1))
    await again.until(lambda again: again.of(BacklogReading) and again.of(BacklogReading)[-1].share is None)
    await again.stop()
