"""While a long back-log is read, the picture is made from its two ends; in the end it is the fold's own."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from probes.readings import BacklogReading, JournalLine, Reading
from tests.watch.fed import a_load
from watch.batch import Batch
from watch.provisional import Provisional
from watch.session import SessionReader, SessionWriter, new_header
from watch.state import WatchState
from watch.watching import Watching

UNIT = "vllm-tiny-ngram.service"


class Feed:
    """Batches as the test hands them over."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Sequence[Reading] | None] = asyncio.Queue()

    async def batches(self) -> AsyncIterator[list[Reading]]:
        while (batch := await self.queue.get()) is not None:
            yield list(batch)


class Text(str):
    """Of which it can be told whether somebody still holds it."""


def fresh() -> WatchState:
    return WatchState("llm-two", UNIT)


def told(state: WatchState, now: float) -> bytes:
    return msgspec.json.encode(state.view(now))


async def test_the_two_ends_first_and_the_whole_in_the_end(tmp_path: Path, recordings: Path) -> None:
    load = [one for one in a_load(recordings) if isinstance(one, JournalLine)]
    middle = [
        JournalLine(at=load[-1].at, text=f"noise {n}", unit=UNIT, invocation=load[-1].invocation) for n in range(50)
    ]
    head, tail = load[: len(load) // 2], load[len(load) // 2 :]
    now = load[-1].at + 1.0
    tape = SessionWriter(new_header("llm-two", UNIT, load[0].at), where=tmp_path)
    feed = Feed()
    watching = Watching(feed, fresh(), tape, fresh=fresh)
    batches: list[Batch] = []

    async def take() -> None:
        async for batch in watching.batches():
            batches.append(batch)

    taking = asyncio.create_task(take())
    feed.queue.put_nowait(head)
    feed.queue.put_nowait([BacklogReading(at=now, lines=tuple(tail[:-1]), share=0.25)])
    feed.queue.put_nowait([BacklogReading(at=now, lines=tuple(tail[-1:]), share=0.5)])
    assert await watching.until(lambda: watching.status().backlog == 0.5, 10)

    ahead = fresh()
    ahead.apply_lines([*head, *tail])
    assert told(ahead, now) == msgspec.json.encode(watching.view(now))
    assert watching.state.lines == len(head)
    async with asyncio.timeout(10):
        while sum(len(batch.newest) for batch in batches) < len(tail):  # noqa: ASYNC110 the watching tells nobody else
            await asyncio.sleep(0.01)
    assert [line for batch in batches for line in batch.newest] == tail
    assert batches[-1].backlog == 0.5

    feed.queue.put_nowait([*middle, *tail, BacklogReading(at=now)])
    feed.queue.put_nowait(None)
    await taking
    assert watching.status().backlog is None
    assert batches[-1].backlog is None
    whole = fresh()
    whole.apply_lines([*head, *middle, *tail])
    assert told(whole, now) == msgspec.json.encode(watching.view(now))
    path = tape.close()
    assert path is not None
    kept = [reading for _, reading in SessionReader(path)]
    assert kept == [*head, *middle, *tail]


async def test_what_is_shown_ahead_has_no_secrets_either() -> None:
    feed = Feed()
    watching = Watching(feed, fresh(), SessionWriter(new_header("llm-two", UNIT, 1.0), where=None), fresh=fresh)
    secret = JournalLine(at=1000.0, text="api_key='correct-horse'", unit=UNIT)
    feed.queue.put_nowait([BacklogReading(at=1000.0, lines=(secret,), share=0.1)])
    feed.queue.put_nowait(None)
    (batch,) = [batch async for batch in watching.batches()]
    assert [line.text for line in batch.newest] == ["api_key='***'"]


@pytest.mark.parametrize("at_once", [1, 7])
def test_what_is_kept_of_a_beginning_is_bounded_however_long_its_lines(at_once: int) -> None:
    made: list[weakref.ref[Text]] = []
    provisional = Provisional(lambda: WatchState("llm-two", "vllm"))
    for number in range(40):
        texts = [Text("x" * (1 << 20)) for _ in range(at_once)]
        made += [weakref.ref(text) for text in texts]
        provisional.see_lines([JournalLine(at=number, text=text) for text in texts])
        del texts
        held = [text for one in made if (text := one()) is not None]
        assert sum(map(len, held)) <= 8 << 20
        del held
