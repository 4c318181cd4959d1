"""Who works in a flood rests while somebody is at the keys, and not for ever."""

from __future__ import annotations

import asyncio
import time

import pytest

from watch import courtesy
from watch.courtesy import BETWEEN, REST, Courtesy


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be moved; sleeping moves it too."""
    now = [1000.0]
    sleep = asyncio.sleep

    async def slept(seconds: float) -> None:
        now[0] += seconds
        await sleep(0)

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(courtesy.asyncio, "sleep", slept)
    return now


async def test_a_key_gives_a_rest_and_nothing_else_does(at: list[float]) -> None:
    polite = Courtesy()
    await polite.turn()
    assert at[0] == 1000.0
    polite.ask()
    assert polite.asked
    await polite.turn()
    assert at[0] == pytest.approx(1000.0 + REST)
    assert not polite.asked


async def test_two_who_work_rest_together(at: list[float]) -> None:
    polite = Courtesy()
    polite.ask()
    at[0] += REST / 2
    await polite.turn()
    await polite.turn()
    assert at[0] == pytest.approx(1000.0 + REST)


async def test_a_key_that_is_held_down_stops_no_work(at: list[float]) -> None:
    polite = Courtesy()
    worked = 0.0
    while at[0] < 1010.0:
        polite.ask()  # a key each millisecond
        before = at[0]
        await polite.turn()
        if at[0] == before:
            at[0] += 0.001
            worked += 0.001
    assert worked / 10 >= BETWEEN / (BETWEEN + REST) - 0.02
