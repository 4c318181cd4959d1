"""What a watch leaves in the history, and what it gets from it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench.recordings import RECORDINGS, UNIT, Recording, read_recordings
from probes.clock import StoryClock
from probes.readings import EarlierReading
from tests.watch.fed import OpenFeed
from watch.history import History, HistoryError
from watch.keeping import Keeper, Recall, load_record
from watch.load import Load
from watch.load_key import Key, load_key
from watch.session import SessionReader, SessionWriter, new_header
from watch.state import WatchState
from watch.watching import Watching

FIRST, SECOND = "cpu-bench-server-killed", "cpu-bench-wrong-model"
KEY = Key(target="gpu-1", unit="vllm.service", model="/models/kimi", arguments="0123456789ab")


def loaded(invocation: str = "a1", *, started: float = 100.0) -> Load:
    load = Load(1, started, invocation)
    load.heard(started + 10)
    load.enter("config", started + 10)
    load.enter("weights", started + 40)
    load.enter("api-start", started + 800)
    load.facts["version"] = "0.25.1"
    return load


def ready(load: Load) -> Load:
    load.enter("ready", load.started + 810)
    load.ready_line = load.started + 810
    return load


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History.open(tmp_path / "history.sqlite")


def test_a_load_is_kept_as_it_goes_and_recalled_when_it_was_ready(history: History) -> None:
    keeper = Keeper(history)
    load = loaded()
    keeper.keep(load, KEY, unit_text="ExecStart=vllm serve")
    (kept,) = history.loads("gpu-1", "vllm.service")
    assert (kept.outcome, kept.versions) == ("loading", {"vllm": "0.25.1"})
    assert Recall(history).earlier(KEY) == ()
    keeper.keep(ready(load), KEY, unit_text="ExecStart=vllm serve")
    (earlier,) = Recall(history).earlier(KEY)
    assert (earlier.started, earlier.first_line, earlier.ready) == (100.0, 110.0, 910.0)
    assert [phase.name for phase in earlier.phases] == ["config", "weights", "api-start"]
    good = history.known_good("gpu-1", "vllm.service")
    assert good is not None
    assert good.text == "ExecStart=vllm serve"


def test_the_same_is_not_written_twice(history: History) -> None:
    keeper = Keeper(history)
    load = ready(loaded())
    keeper.keep(load, KEY)
    history.close()
    keeper.keep(load, KEY)
    assert not keeper.reason
    keeper.keep(loaded("b2"), KEY)
    assert "history" in keeper.reason


def test_outcomes() -> None:
    failed, stopped, late = loaded(), loaded(), ready(loaded())
    failed.fail(300.0)
    stopped.stop(400.0)
    late.attached_late = True
    assert (load_record(failed, KEY, versions={}).outcome, load_record(failed, KEY, versions={}).ended) == (
        "failed",
        300.0,
    )
    assert load_record(stopped, KEY, versions={}).outcome == "stopped"
    assert load_record(late, KEY, versions={}).first_line == 0.0


def test_a_history_that_fails_is_said_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").write_bytes(b"no database at all " * 100)
    with pytest.raises(HistoryError) as caught:
        History.open(tmp_path / "history.sqlite")
    recall, keeper = Recall(None, str(caught.value)), Keeper(None, str(caught.value))
    assert recall.earlier(KEY) == ()
    keeper.keep(loaded(), KEY)
    assert "damaged" in recall.reason
    assert "damaged" in keeper.reason


def test_a_file_that_is_closed_under_it_gives_a_reason(history: History) -> None:
    recall = Recall(history)
    history.close()
    assert recall.earlier(KEY) == ()
    assert "history" in recall.reason


def two_loads(history: History) -> Recording:
    """Two recordings of the same command, the one kept in the history; the other."""
    first, second = (next(read_recordings(RECORDINGS / name)) for name in (FIRST, SECOND))
    state = WatchState("host", UNIT)
    keeper = Keeper(history)
    for reading in (first.unit(), first.begun()):
        state.apply(reading)
    state.apply_lines(first.lines)
    assert state.attempts.current is not None
    arguments = state.asked.arguments()
    key = load_key("host", UNIT, arguments["model"], arguments)
    keeper.keep(state.attempts.current.load, key, unit_text="ExecStart=" + " ".join(first.argv))
    assert not keeper.reason
    return second


def test_a_second_load_of_a_unit_is_forecast_from_the_first(history: History) -> None:
    """All through the fold."""
    second = two_loads(history)
    watched = WatchState("host", UNIT, history=Recall(history))
    for reading in (second.unit(), second.begun()):
        watched.apply(reading)
    real, fed = 43.97, 0
    for moment in (0.05, 0.5, 0.75):
        now = second.started + moment * real
        until = sum(line.at <= now for line in second.lines)
        watched.apply_lines(second.lines[fed:until])
        fed = until
        shown = watched.view(now).forecast
        assert shown is not None
        assert "1 earlier load" in shown.basis
        assert shown.low < second.started + real < shown.high
        assert abs(shown.middle - second.started - real) / real < 0.2


async def test_a_recording_is_forecast_alike_where_there_is_no_history(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watch.watching.FLUSH_SECONDS", 0.01)
    second = two_loads(history)
    now = second.started + 30.0
    feed, recall, clock = OpenFeed(), Recall(history), StoryClock(now, 1.0)
    clock.pause()
    with closing(SessionWriter(new_header("host", UNIT, second.started), where=tmp_path)) as tape:
        watching = Watching(feed, WatchState("host", UNIT, history=recall), tape, clock=clock, recall=recall)
        feed.put(second.unit(), second.begun(), *(line for line in second.lines if line.at <= now))
        assert await watching.until(lambda: watching.view(now).forecast is not None, 20)
        shown = watching.view(now).forecast
        assert await watching.until(lambda: bool(watching.state._outlook._told), 20)
        await watching.stop()
    assert tape.path is not None
    with SessionReader(tape.path) as reader:
        elsewhere = WatchState("host", UNIT)
        for _, reading in reader:
            elsewhere.apply(reading)
    assert shown is not None
    assert "1 earlier load" in shown.basis
    assert elsewhere.view(now).forecast == shown


@pytest.mark.parametrize("loads", [({"started": "soon"},), ({},), ({"of": "tomorrow"},)])
def test_earlier_loads_of_another_version_are_left_out(loads: tuple[dict[str, Any], ...]) -> None:
    state = WatchState("host", UNIT)
    before = state.view(2.0)
    state.apply(EarlierReading(at=1.0, before=1.0, model="m", loads=loads))
    assert state.view(2.0) == before
