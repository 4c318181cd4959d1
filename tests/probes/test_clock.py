"""The clock of a story, and the real one."""

from __future__ import annotations

import asyncio
import time

import pytest

from probes.clock import LEAST, SYSTEM, StoryClock


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
