"""The pace of a replay, and the clock of a story."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.clock import LEAST, SYSTEM, StoryClock
from probes.readings import Note, Reading
from watch.replay import Replay, opening
from watch.session import SessionReader, SessionWriter, new_header


def recorded(where: Path, times: list[float], *, started: float = 1000.0) -> SessionReader:
    writer = SessionWriter(new_header("t", "u", started), where=where)
    for at in times:
        writer.write(Note(at=at, text=str(at)))
    path = writer.close()
    assert path is not None
    return SessionReader(path)


async def played(reader: SessionReader, clock: StoryClock) -> list[tuple[float, list[float]]]:
    """(time of the story, times of the readings) of each batch."""
    replay = Replay(reader, clock)
    out = []
    async for batch in replay.batches():
        out.append((clock.now(), [reading.at for reading in batch]))
        for reading in batch:
            place, kept = replay.keep(reading)
            assert replay.read(place) == kept == reading
    reader.close()
    return out


async def test_no_reading_comes_before_its_time(tmp_path: Path) -> None:
    times = [1000.0, 1010.0, 1010.0, 1030.0, 1100.0]
    clock = StoryClock(1000.0, 1000.0)
    batches = await played(recorded(tmp_path, times), clock)
    assert [at for _, readings in batches for at in readings] == times
    for now, readings in batches:
        assert now >= max(readings)
    assert len(batches) >= 3
    assert clock.now() == 1100.0
    assert clock.paused


async def test_what_was_there_before_comes_at_once(tmp_path: Path) -> None:
    backlog = [float(number) for number in range(900)]
    clock = StoryClock(1000.0, 0.001)
    clock.pause()
    batches = await played(recorded(tmp_path, backlog), clock)
    assert [at for _, readings in batches for at in readings] == backlog
    assert max(len(readings) for _, readings in batches) <= 500


async def test_a_reading_with_an_impossible_time_stops_nothing(tmp_path: Path) -> None:
    clock = StoryClock(1000.0, 1000.0)
    batches = await played(recorded(tmp_path, [1000.0, 9e9, 1001.0, 0.0, 1002.0]), clock)
    assert [at for _, readings in batches for at in readings] == [1000.0, 9e9, 1001.0, 0.0, 1002.0]
    assert clock.now() == 1002.0


def test_when_it_begins(tmp_path: Path) -> None:
    for times, started, begins in (([1.0, 2.0], 1000.0, 1000.0), ([5.0, 2.0], 0.0, 5.0), ([], 0.0, 0.0)):
        with recorded(tmp_path, times, started=started) as reader:
            assert opening(reader) == begins


async def test_a_story_is_fast_until_and_then_real() -> None:
    began = time.monotonic()
    clock = StoryClock(0.0, 1e6, until=1000.0, then=1.0)
    await clock.sleep_until(999.0)
    await clock.sleep_until(1000.0)
    assert clock.now() <= 1000.0 + time.monotonic() - began
    assert clock.speed == 1.0
    await clock.sleep_until(1000.2)
    assert time.monotonic() - began >= 0.199


async def test_a_change_of_speed_wakes_who_sleeps() -> None:
    clock = StoryClock(0.0, 0.001)
    sleeping = asyncio.ensure_future(clock.sleep_until(50.0))
    await asyncio.sleep(0)
    clock.speed = 1e6
    await sleeping
    clock.pause()
    assert clock.now() == clock.now()
    sleeping = asyncio.ensure_future(clock.sleep_until(clock.now() + 1.0))
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.move(clock.now() + 2.0)
    await sleeping
    clock.resume()
    clock.resume()
    await clock.sleep_until(clock.now() + 1.0)


async def test_a_story_told_fast_is_not_sampled_more_often() -> None:
    clock = StoryClock(0.0, 1e6)
    began = time.monotonic()
    await clock.sleep(1.0)
    assert time.monotonic() - began >= LEAST


async def test_the_real_clock() -> None:
    began = SYSTEM.now()
    await SYSTEM.sleep(-1.0)
    assert SYSTEM.now() >= began


@pytest.mark.parametrize("speed", [0.0, -1.0])
def test_a_story_goes_forward(speed: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        StoryClock(0.0, speed)
    clock = StoryClock(0.0, 1.0)
    with pytest.raises(ValueError, match="above 0"):
        clock.speed = speed


@given(st.lists(st.floats(0.0, 2e9), max_size=30))
def test_any_order_of_times_is_given_in_the_order_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, times: list[float]
) -> None:
    reader = recorded(tmp_path_factory.mktemp("replay"), times)

    async def run() -> list[Reading]:
        clock = StoryClock(1000.0, 1e12)
        return [reading async for batch in Replay(reader, clock).batches() for reading in batch]

    assert [reading.at for reading in asyncio.run(run())] == times
    reader.close()
