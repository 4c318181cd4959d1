"""A watch without a screen: recorded, folded, handed over; and the same again from its recording."""

from __future__ import annotations

import asyncio
import gzip
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from probes.clock import StoryClock
from probes.readings import GpuDevice, GpuReading, JournalLine, Reading
from tests.watch.fed import ListFeed, OpenFeed, a_load
from watch import watching as module
from watch.courtesy import Courtesy
from watch.player import Player
from watch.session import SessionReader, SessionWriter, new_header
from watch.state import Changes, WatchState
from watch.view import View
from watch.watching import Batch, Watching

UNIT = "vllm-tiny-ngram.service"


class Observed(WatchState):
    """The fold, with the picture after every single reading."""

    def __init__(self) -> None:
        super().__init__("llm-two", UNIT)
        self.pictures: list[bytes] = []

    def apply(self, reading: Reading) -> Changes:
        changes = super().apply(reading)
        if not isinstance(reading, JournalLine):
            self._look(self.view(reading.at))
        return changes

    def apply_lines(self, lines: Sequence[JournalLine]) -> Changes:
        changes = Changes.NONE
        for line in lines:
            changes |= super().apply_lines([line])
            self._look(self.view(line.at))
        return changes

    def _look(self, view: View) -> None:
        self.pictures.append(msgspec.json.encode(view))


def line(number: int) -> JournalLine:
    return JournalLine(at=1000.0 + number, text=f"line {number}", unit=UNIT)


async def all_of(watching: Watching) -> list[Batch]:
    return [batch async for batch in watching.batches()]


def a_watching(feed: ListFeed | OpenFeed, tape: SessionWriter | None = None) -> Watching:
    tape = tape or SessionWriter(new_header("llm-two", UNIT, 1000.0), where=None)
    return Watching(feed, WatchState("llm-two", UNIT), tape)


async def test_a_replay_gives_the_same_pictures_as_the_live_fold(tmp_path: Path, recordings: Path) -> None:
    load = a_load(recordings)
    live = Observed()
    writer = SessionWriter(new_header("llm-two", UNIT, load[0].at), where=tmp_path)
    await all_of(Watching(ListFeed([load[i : i + 13] for i in range(0, len(load), 13)]), live, writer))
    path = writer.close()
    assert path is not None
    assert b"secret" not in gzip.decompress(path.read_bytes())

    reader = SessionReader(path)
    player = Player(reader, Observed, 1e6)
    batches = []
    async for batch in player.batches():
        batches.append(batch)
        if player.status().ended:
            break
    assert len(live.pictures) == len(load)
    assert isinstance(player.state, Observed)
    assert player.state.pictures == live.pictures
    assert player.now() == max(reading.at for reading in load)
    assert sum(len(batch.lines) for batch in batches) == sum(isinstance(reading, JournalLine) for reading in load)
    reader.close()


async def test_every_line_comes_once_in_order_and_can_be_read_back(tmp_path: Path) -> None:
    lines = [line(number) for number in range(3000)]
    tape = SessionWriter(new_header("llm-two", UNIT, 1000.0), where=tmp_path)
    watching = a_watching(ListFeed([lines[:1], lines[1:2500], lines[2500:]]), tape)
    batches = await all_of(watching)
    assert [each for batch in batches for each in batch.lines] == lines
    for batch in batches:
        assert [watching.line(offset) for offset in batch.offsets] == list(batch.lines)
    assert watching.status().ended
    assert watching.view(watching.now()).lines == 3000
    tape.close()


async def test_what_is_kept_is_what_is_shown(tmp_path: Path) -> None:
    """The screen sees no secret either: a screenshot goes as far as a recording."""
    secret = JournalLine(at=1000.0, text="api_key='correct-horse'", unit=UNIT)
    watching = a_watching(ListFeed([[secret]]))
    (batch,) = await all_of(watching)
    assert batch.lines[0].text == "api_key='***'"
    assert watching.line(batch.offsets[0]) == batch.lines[0]


async def test_a_line_after_a_pause_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 1e9)
    feed = OpenFeed()
    watching = a_watching(feed)
    batches = watching.batches()
    feed.put(line(1))
    assert (await anext(batches)).lines == [line(1)]
    feed.put(line(2))
    assert (await anext(batches)).lines == [line(2)]
    await batches.aclose()
    assert feed.closed


async def test_samples_wait_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 1e9)
    feed = OpenFeed()
    watching = a_watching(feed)
    batches = watching.batches()
    feed.put(GpuReading(at=1000.0, devices=(GpuDevice(index=0, used_mib=1.0),)))
    waiting = asyncio.ensure_future(anext(batches))
    assert await watching.until(lambda: watching.view(1000.0).gpu is not None, 30.0)
    assert not waiting.done()
    feed.put(line(1))
    batch = await waiting
    assert Changes.GPU in batch.changes
    assert batch.lines == [line(1)]
    await batches.aclose()


async def test_what_came_before_the_screen_is_shown_by_it() -> None:
    feed = OpenFeed()
    watching = a_watching(feed)
    feed.put(line(1), line(2))
    assert await watching.until(lambda: watching.view(1000.0).lines == 2, 30.0)
    feed.end()
    assert [each for batch in await all_of(watching) for each in batch.lines] == [line(1), line(2)]


async def test_waiting_ends_with_the_feed_and_with_patience() -> None:
    feed = OpenFeed()
    watching = a_watching(feed)
    assert not await watching.until(lambda: False, 0.01)
    feed.end()
    assert not await watching.until(lambda: False, 1e9)
    await watching.stop()
    await watching.stop()


async def test_a_feed_waits_for_a_screen_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AHEAD", 1000)
    lines = [line(number) for number in range(10_000)]
    watching = a_watching(ListFeed([lines]))
    assert not await watching.until(lambda: watching.view(1000.0).lines == 10_000, 0.3)
    assert [each for batch in await all_of(watching) for each in batch.lines] == lines


async def test_what_should_never_happen_is_not_hidden() -> None:
    feed = OpenFeed()
    watching = a_watching(feed)
    feed.put(line(1))
    feed.end(RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        await all_of(watching)


async def test_offsets_that_lead_to_no_line(tmp_path: Path) -> None:
    gpu = GpuReading(at=1000.0, devices=())
    tape = SessionWriter(new_header("llm-two", UNIT, 1000.0), where=tmp_path)
    watching = a_watching(ListFeed([[gpu]]), tape)
    place = tape.write(gpu)
    for offset in (place, place + 1, place + 10_000):
        with pytest.raises(ValueError, match=r"no (journal )?line|no reading"):
            watching.line(offset)
    tape.close()


async def test_status(tmp_path: Path) -> None:
    tape = SessionWriter(new_header("llm-two", UNIT, 1000.0), where=tmp_path)
    watching = a_watching(ListFeed([]), tape)
    assert watching.status().recording == str(tape.path)
    assert watching.status().mode == "live"
    tape.close()
    clock = StoryClock(1000.0, 30.0)
    watching = Watching(ListFeed([]), WatchState("t", "u"), tape, clock=clock, mode="demo", label=lambda: "a demo")
    assert (watching.status().speed, watching.status().label) == (30.0, "a demo")


ONE_LINE_THEN_SILENCE = """
import asyncio, sys
from pathlib import Path
from probes.readings import JournalLine
from watch.session import SessionWriter, new_header
from watch.state import WatchState
from watch.watching import Watching

class Feed:
    async def batches(self):
        yield [JournalLine(at=float(n), text=f"line {n}") for n in range(3)]
        await asyncio.Event().wait()

async def main():
    tape = SessionWriter(new_header("t", "u", 0.0), where=Path(sys.argv[1]))
    async for batch in Watching(Feed(), WatchState("t", "u"), tape).batches():
        print(len(batch.lines), flush=True)

asyncio.run(main())
"""


def test_a_watch_killed_in_a_silence_has_written_what_it_showed(tmp_path: Path) -> None:
    """Nothing but the second's flush writes these lines: they are in the file though nothing follows them."""
    child = subprocess.Popen(
        [sys.executable, "-c", ONE_LINE_THEN_SILENCE, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "3\n"
    (path,) = tmp_path.glob("*.jsonl")
    kept: list[Reading] = []
    while len(kept) < 3:  # bounded by the suite's own patience; each turn reads what the other process has written
        assert child.poll() is None
        kept = kept_in(path)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert [reading.at for reading in kept_in(path)] == [0.0, 1.0, 2.0]


def kept_in(path: Path) -> list[Reading]:
    with SessionReader(path) as reader:
        return [reading for _, reading in reader]


class Counting(Courtesy):
    """Somebody is always at the keys."""

    turns = 0

    @property
    def asked(self) -> bool:
        return True

    async def turn(self) -> None:
        self.turns += 1
        await asyncio.sleep(0)


async def test_a_flood_gives_way_to_keys_and_loses_nothing() -> None:
    lines = [line(number) for number in range(3000)]
    watching = a_watching(ListFeed([lines]))
    watching.courtesy = polite = Counting()
    assert [each for batch in await all_of(watching) for each in batch.lines] == lines
    assert polite.turns >= len(lines) // module.LINES_AT_ONCE - 1


async def test_what_a_key_brings_about_does_not_wait_for_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 60.0)
    watching = a_watching(ListFeed([]))
    watching.courtesy = polite = Counting()
    await watching.put(line(1))
    assert not polite.turns
