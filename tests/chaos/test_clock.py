"""The host's clock is stepped: times in its journal go back by hours and forward by days.

The real host of the other tests is a container: it shares this machine's clock, which no test may set, and may not set
it itself. So the times are put into a real journal file, which the real journalctl follows.
"""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from probes.journal import JournalProbe
from probes.readings import JournalLine
from tests.probes.hosts import Programs, Reader
from tests.probes.journals import BOOTED, HAS_JOURNALCTL, INVOCATION, JOURNAL_REMOTE, said, write_journal
from watch.explain import explain
from watch.state import WatchState

pytestmark = pytest.mark.skipif(
    not (HAS_JOURNALCTL and JOURNAL_REMOTE.exists()), reason="needs journalctl and Debian's systemd-journal-remote"
)

UNIT = "vllm.service"


async def test_every_line_in_the_order_of_the_journal(chance: random.Random, tmp_path: Path) -> None:
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
