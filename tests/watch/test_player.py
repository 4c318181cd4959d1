"""A recording played: the same pictures as the live fold, whatever way leads to a moment of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.readings import GpuDevice, GpuReading, IoReading, JournalLine, Note, Reading
from tests.watch import feeds
from tests.watch.fed import a_load
from watch.batch import Batch
from watch.columns import Columns
from watch.index import Index
from watch.player import SPEEDS, Player, opening
from watch.session import SessionReader, SessionWriter, new_header
from watch.snapshots import duplicate
from watch.state import WatchState

UNIT = "vllm-tiny-ngram.service"


def fold() -> WatchState:
    return WatchState("llm-two", UNIT)


def recorded(where: Path, readings: Sequence[Reading], started: float = 0.0) -> SessionReader:
    writer = SessionWriter(new_header("llm-two", UNIT, started or readings[0].at), where=where)
    for reading in readings:
        writer.write(reading)
    path = writer.close()
    assert path is not None
    return SessionReader(path)


def picture(state: WatchState, now: float) -> bytes:
    return msgspec.json.encode(state.view(now))


@pytest.fixture(autouse=True)
def many_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of the fold are taken every few readings, so that each move goes over one."""
    monkeypatch.setattr("watch.index.APART", 0.0)
    monkeypatch.setattr("watch.player.SLICE", 0.0005)


class Hands:
    """A player whose batches are taken as they come, and what a journal pane would hold after them."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.offsets: list[int] = []
        self.loud = b""
        self.process: list[str] = []
        self._task = asyncio.ensure_future(self._take(player.batches()))
        self.columns = Columns()

    async def _take(self, batches: AsyncIterator[Batch]) -> None:
        async for batch in batches:
            if batch.instead is not None:
                self.columns = batch.instead
            self.columns.add(batch.lines, batch.offsets)

    async def until_read(self) -> None:
        async with asyncio.timeout(30):
            await self.player.read_whole()

    async def until(self, taken: int) -> None:
        async with asyncio.timeout(30):
            while self.player._taken != taken or self.player._wanted is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.001)

    async def ended(self) -> None:
        async with asyncio.timeout(30):
            while not self.player.status().ended:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def moved(self) -> None:
        """Until the last wish has been carried out."""
        async with asyncio.timeout(30):
            while self.player._wanted is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def playing(reader: SessionReader, speed: float = 1.0, *, paused: bool = False) -> AsyncIterator[Hands]:
    player = Player(reader, fold, speed)
    if paused:
        player.clock.pause()
    hands = Hands(player)
    try:
        yield hands
        if hands._task.done():
            hands._task.result()
    finally:
        await hands.close()
        reader.close()


def truth(readings: Sequence[Reading], taken: int) -> WatchState:
    state = fold()
    for reading in readings[:taken]:
        state.apply(reading)
    return state


# ----- the same as live


async def test_played_through_it_is_the_live_fold_byte_for_byte(tmp_path: Path, recordings: Path) -> None:
    reader = recorded(tmp_path, a_load(recordings))
    kept = [reading for _, reading in reader]
    async with playing(reader, 1e9) as hands:
        await hands.until(len(kept))
        assert picture(hands.player.state, kept[-1].at) == picture(truth(kept, len(kept)), kept[-1].at)
        await hands.ended()
        lines = [reading for reading in kept if isinstance(reading, JournalLine)]
        assert len(hands.columns) == len(lines)
        assert [hands.player.line(offset) for offset in hands.columns.offsets] == lines


async def test_wherever_it_is_moved_to_the_state_is_that_of_the_live_fold(tmp_path: Path, recordings: Path) -> None:
    reader = recorded(tmp_path, a_load(recordings))
    kept = [reading for _, reading in reader]
    whole = truth([], 0)
    pictures = []
    for reading in kept:
        whole.apply(reading)
        pictures.append(picture(whole, reading.at))
    chance = random.Random(7)
    async with playing(reader, paused=True) as hands:
        player = hands.player
        await hands.until_read()
        assert len(player.index.stops) > 10
        for _ in range(60):
            wanted = chance.randrange(1, len(kept) + 1)
            player._go(wanted)
            await hands.moved()
            assert player._taken == wanted
            assert picture(player.state, kept[wanted - 1].at) == pictures[wanted - 1]
            lines = [reading for reading in kept[:wanted] if isinstance(reading, JournalLine)]
            assert len(hands.columns) == len(lines)
        straight = [hands.columns.loud, hands.columns.process, hands.columns.names]
        player._go(1)
        await hands.moved()
        player._go(wanted)
        await hands.moved()
        assert [hands.columns.loud, hands.columns.process, hands.columns.names] == straight


@pytest.mark.parametrize("name", ["cpu-baseline", "cpu-kill9-worker-after-ready", "cpu-fail-missing-shard", "cpu-tp2"])
def test_a_copy_goes_on_as_the_fold_that_it_was_taken_from(name: str) -> None:
    _, lines = feeds.recording(name)
    state = fold()
    copies = []
    for number, line in enumerate(lines):
        if number % 25 == 0:
            copies.append((number, duplicate(state)))
        state.apply(line)
    for number, copy in copies:
        other = duplicate(copy)
        copy.apply_lines(lines[number:])
        assert picture(copy, lines[-1].at) == picture(state, lines[-1].at)
        other.apply_lines(lines[number:])
        assert picture(other, lines[-1].at) == picture(state, lines[-1].at)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_mix_of_readings(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    times = st.floats(0.0, 5000.0)
    lines = [line.text for line in feeds.recording("cpu-fail-missing-shard")[1]]
    some = st.one_of(
        st.builds(JournalLine, at=times, text=st.sampled_from(lines), pid=st.integers(1, 3)),
        st.builds(Note, at=times, text=st.text(max_size=20)),
        st.builds(IoReading, at=times, read_bytes=st.integers(0, 1 << 40)),
        times.map(lambda at: GpuReading(at=at, devices=(GpuDevice(index=0, used_mib=at, total_mib=9e4),))),
    )
    readings: list[Reading] = data.draw(st.lists(some, min_size=1, max_size=60))
    wanted = data.draw(st.lists(st.integers(1, len(readings)), max_size=6))
    reader = recorded(tmp_path_factory.mktemp("mix"), readings, 1000.0)
    kept = [reading for _, reading in reader]

    async def run() -> None:
        async with playing(reader, paused=True) as hands:
            await hands.until_read()
            due = list(hands.player.index.due)
            assert due == sorted(due)
            for number in wanted:
                hands.player._go(number)
                await hands.moved()
                assert picture(hands.player.state, 5000.0) == picture(truth(kept, number), 5000.0)

    asyncio.run(run())


# ----- time


async def test_no_reading_comes_before_its_time(tmp_path: Path) -> None:
    reader = recorded(tmp_path, [Note(at=at, text=str(at)) for at in (1000.0, 1010.0, 1010.0, 1030.0, 1100.0)])
    async with playing(reader, 0.001) as hands:
        await hands.until_read()
        await hands.until(1)
        hands.player.seek(1009.9)
        await hands.moved()
        assert hands.player._taken == 1
        hands.player.seek(1010.0)
        await hands.moved()
        assert hands.player._taken == 3
        hands.player.clock.speed = 1e6
        await hands.until(5)
        assert hands.player.now() == 1100.0


async def test_what_was_there_before_comes_at_once(tmp_path: Path) -> None:
    reader = recorded(tmp_path, [Note(at=float(at), text="") for at in range(900)], 1000.0)
    async with playing(reader, 0.001) as hands:
        await hands.until(900)
        assert hands.player.index.end == 1000.0


async def test_a_reading_with_an_impossible_time_stops_nothing(tmp_path: Path) -> None:
    reader = recorded(tmp_path, [Note(at=at, text="") for at in (1000.0, 9e9, 1001.0, 0.0, 1002.0)])
    async with playing(reader, 1000.0) as hands:
        await hands.until(5)
        assert hands.player.now() == pytest.approx(1002.0)


async def test_a_clock_that_is_set_back_does_not_stop_the_replay(tmp_path: Path) -> None:
    """An hour back: the replay goes on second by second, and its clock is the host's."""
    times = [*(1000.0 + n for n in range(10)), *(1010.0 - 3600 + n for n in range(10))]
    reader = recorded(tmp_path, [IoReading(at=at + 8000) for at in times])
    async with playing(reader, 0.001) as hands:
        await hands.until_read()
        index = hands.player.index
        assert index.end - index.start == pytest.approx(19.0, abs=2.0)
        hands.player.seek(index.end)
        await hands.moved()
        assert hands.player.now() == pytest.approx(times[-1] + 8000, abs=2.0)


async def test_a_back_log_is_no_clock_set_back(tmp_path: Path) -> None:
    readings: list[Reading] = []
    for number in range(20):
        readings.append(IoReading(at=10_000.0 + number))
        readings.append(JournalLine(at=2000.0 + number, text="old"))
    reader = recorded(tmp_path, readings)
    async with playing(reader, paused=True) as hands:
        await hands.until_read()
        assert hands.player.index.end == 10_019.0
        assert hands.player.index.shift(40) == 0.0


def test_when_it_begins(tmp_path: Path) -> None:
    for times, started, begins in (([1.0, 2.0], 1000.0, 1000.0), ([5.0, 2.0], 0.0, 5.0), ([], 0.0, 0.0)):
        writer = SessionWriter(new_header("t", "u", started), where=tmp_path)
        for at in times:
            writer.write(Note(at=at, text=""))
        path = writer.close()
        assert path is not None
        with SessionReader(path) as reader:
            assert opening(reader) == begins


# ----- the operator's hands


async def test_pause_play_and_speeds(tmp_path: Path) -> None:
    reader = recorded(tmp_path, [Note(at=1000.0 + at, text="") for at in range(0, 100, 10)])
    async with playing(reader) as hands:
        player = hands.player
        await hands.until_read()
        player.toggle()
        assert not player.timeline().playing
        at = player.at
        assert [player.faster(1) for _ in range(11)] == [*SPEEDS[1:], SPEEDS[-1], SPEEDS[-1]]
        assert player.at == at
        assert [player.faster(-1) for _ in range(10)] == [*reversed(SPEEDS[:-1]), SPEEDS[0]]
        for _ in range(9):
            player.faster(1)
        player.toggle()
        await hands.until(10)
        await hands.ended()
        assert not player.timeline().playing
        player.toggle()
        assert player.playing
        assert player.at < 1090.0
        await hands.until(10)


async def test_an_empty_recording_is_at_its_end(tmp_path: Path) -> None:
    writer = SessionWriter(new_header("t", "u", 1000.0), where=tmp_path)
    path = writer.close()
    assert path is not None
    async with playing(SessionReader(path)) as hands:
        await hands.ended()
        for act in (hands.player.toggle, hands.player.mark, lambda: hands.player.seek(0.0)):
            act()
        assert hands.player.step(("phase",), 1) is None
        assert not hands.player.step_line(1)
        await hands.moved()


async def test_from_phase_to_phase_and_finding_to_finding(tmp_path: Path, recordings: Path) -> None:
    reader = recorded(tmp_path, [*a_load(recordings), Note(at=2e9, text="seen")])
    async with playing(reader, paused=True) as hands:
        player = hands.player
        await hands.until_read()
        phases = []
        while (moment := player.step(("load", "phase"), 1)) is not None:
            await hands.moved()
            phases.append(moment.text)
            view = player.view(player.now())
            assert view.load is not None
            assert moment.text in {phase.name for phase in view.load.phases if phase.started is not None}
        assert phases[0] in ("pre-start", "process-start")
        assert {"config", "weights", "ready"} <= set(phases)
        back = []
        while (moment := player.step(("load", "phase"), -1)) is not None:
            await hands.moved()
            back.append(moment.text)
        assert back == phases[-2::-1]
        found = 0
        while (moment := player.step(("finding",), 1)) is not None:
            await hands.moved()
            assert moment.text in [finding.title for finding in player.view(player.now()).findings]
            found += 1
        assert found
        note = player.step(("note",), 1)
        assert note is not None
        assert note.text == "seen"


async def test_from_line_to_line(tmp_path: Path, recordings: Path) -> None:
    reader = recorded(tmp_path, a_load(recordings))
    async with playing(reader) as hands:
        player = hands.player
        await hands.until_read()
        player._go(40)
        await hands.moved()
        before = len(hands.columns)
        for _ in range(3):
            assert player.step_line(1)
            await hands.moved()
        assert len(hands.columns) == before + 3
        assert not player.playing
        for _ in range(5):
            assert player.step_line(-1)
            await hands.moved()
        assert len(hands.columns) == before - 2
        while player.step_line(-1):
            await hands.moved()
        assert len(hands.columns) == 1


async def test_a_range_is_marked(tmp_path: Path) -> None:
    reader = recorded(tmp_path, [Note(at=1000.0 + at, text="") for at in range(100)])
    async with playing(reader, paused=True) as hands:
        player = hands.player
        await hands.until_read()
        player.seek(1080.0)
        assert player.mark() == (1080.0,)
        player.seek(1020.0)
        assert player.mark() == (1020.0, 1080.0)
        assert player.timeline().marks == (1020.0, 1080.0)
        assert player.mark() == ()


async def test_what_is_not_read_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watch.player.SLICE", 0.0)
    reader = recorded(tmp_path, [Note(at=1000.0 + at, text="") for at in range(400)])
    async with playing(reader, paused=True) as hands:
        hands.player.seek(1399.0)
        await hands.until(400)


def test_copies_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watch.index.MOST_STOPS", 16)
    reader = recorded(tmp_path, [Note(at=1000.0 + at, text="") for at in range(2000)])
    index = Index(reader, fold, 1000.0)
    while index.step(0.0):
        assert len(index.stops) <= 16
    assert len(index) == 2000
    for number in (0, 1, 7, 999, 2000):
        assert index.before(number).reading <= number
    reader.close()
