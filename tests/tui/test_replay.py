"""A replay through its keys: the time bar, going about, the list of recordings, notes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from probes.readings import Note, Reading
from tests.tui.showing import QUIET, press
from tests.watch.fed import a_load
from tui.app import Firstlight
from tui.playing import player
from tui.screens.recordings import RecordingsScreen
from tui.screens.replay import ReplayScreen
from tui.times import wanted
from tui.widgets.timebar import TimeBar, time_row
from watch.player import Player
from watch.session import SessionReader, SessionWriter, folder, new_header
from watch.timeline import Moment, Timeline

UNIT = "vllm-tiny-ngram.service"


def recorded(where: Path, recordings: Path, *more: Reading) -> Path:
    readings = [*a_load(recordings), *more]
    writer = SessionWriter(new_header("llm-two", UNIT, readings[0].at), where=where)
    for reading in readings:
        writer.write(reading)
    path = writer.close()
    assert path is not None
    return path


@dataclass
class Replayed:
    app: Firstlight
    pilot: Pilot[int]
    player: Player

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)

    async def until(self, true: Callable[[], bool], limit: float = 10.0) -> None:
        try:
            async with asyncio.timeout(limit):
                while not true():
                    await self.pilot.pause(0.005)
        except TimeoutError:
            pytest.fail("\n".join(self.screen()))
        await self.pilot.pause()

    def screen(self) -> list[str]:
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    def bar(self) -> str:
        return self.app.screen.query_one(TimeBar).rows[0].text


@asynccontextmanager
async def replayed(path: Path, size: tuple[int, int] = (120, 35)) -> AsyncIterator[Replayed]:
    with SessionReader(path) as reader:
        source = player(reader, 1.0)
        app = Firstlight(source, zone=UTC, alerts=QUIET)
        async with app.run_test(size=size) as pilot:
            shown = Replayed(app, pilot, source)
            await shown.until(lambda: source.index.done and isinstance(app.screen, ReplayScreen))
            await shown.press("space")
            yield shown


@pytest.mark.parametrize("size", [(200, 50), (120, 35), (80, 24)])
async def test_the_keys_of_a_replay(tmp_path: Path, recordings: Path, size: tuple[int, int]) -> None:
    async with replayed(recorded(tmp_path, recordings), size) as shown:
        assert "paused" in shown.bar()
        await shown.press("greater_than_sign", "greater_than_sign")
        assert shown.player.clock.speed == 5.0
        await shown.press("less_than_sign")
        assert shown.player.clock.speed == 2.0
        seen = []
        for _ in range(4):
            await shown.press("right_square_bracket")
            await shown.until(lambda: shown.player._wanted is None)
            view = shown.player.view(shown.player.now())
            seen.append(view.phase)
        assert len(set(seen)) > 2
        await shown.press("left_square_bracket")
        await shown.until(lambda: shown.player._wanted is None)
        assert shown.player.view(shown.player.now()).phase in seen[:-1]
        lines = len(shown.app.store)
        await shown.press("full_stop", "full_stop")
        await shown.until(lambda: len(shown.app.store) == lines + 2)
        await shown.press("comma")
        await shown.until(lambda: len(shown.app.store) == lines + 1)
        assert shown.app.watching.journal.shown_lines == lines + 1
        await shown.press("m", "t", *"100%", "enter")
        await shown.until(lambda: shown.player.at == shown.player.index.end)
        await shown.press("m")
        assert "range" in shown.bar()
        assert len(shown.player.timeline().marks) == 2
        await shown.press("space")
        await shown.until(lambda: shown.player.status().ended)
        shown.app.flush()
        assert "end" in shown.bar()


async def test_a_marked_range_is_written_as_a_report(tmp_path: Path, recordings: Path) -> None:
    path = recorded(tmp_path, recordings)
    async with replayed(path) as shown:

        def said() -> str:
            return str([one.message for one in shown.app._notifications])

        await shown.press("w")
        assert "Mark a range first" in said()
        for time in ("10s", "40s"):
            await shown.press("t", *time, "enter")
            await shown.player.arrived()
            await shown.press("m")
        assert "--from 10s --to 40s" in said()
        await shown.press("w")
        await shown.until(lambda: "Reported in" in said())
    (report,) = tmp_path.glob("*.range-10s-40s.html")
    assert "0:10 to 0:40 after its beginning" in report.read_text()


async def test_what_is_typed_into_a_search_is_no_key(tmp_path: Path, recordings: Path) -> None:
    async with replayed(recorded(tmp_path, recordings)) as shown:
        await shown.press("slash", *"t m", "enter")
        search = shown.app.watching.journal.search
        assert search is not None
        assert search.wanted == "t m"
        assert not shown.player.playing
        assert shown.player.timeline().marks == ()


async def test_a_time_that_is_none_is_said(tmp_path: Path, recordings: Path) -> None:
    async with replayed(recorded(tmp_path, recordings)) as shown:
        at = shown.player.at
        await shown.press("t", *"soon", "enter")
        assert "no time of this recording" in str([one.message for one in shown.app._notifications])
        await shown.press("t", "escape")
        assert shown.player.at == at


async def test_a_click_on_the_bar_goes_there(tmp_path: Path, recordings: Path) -> None:
    async with replayed(recorded(tmp_path, recordings)) as shown:
        bar = shown.app.screen.query_one(TimeBar)
        first, width = bar._bar
        await shown.pilot.click(bar, offset=(first + width - 1, 0))
        await shown.until(lambda: shown.player.at == shown.player.index.end)


async def test_nothing_of_a_recording_can_be_changed(tmp_path: Path, recordings: Path) -> None:
    async with replayed(recorded(tmp_path, recordings)) as shown:
        offered = {active.binding.action.split("(")[0] for active in shown.app.screen.active_bindings.values()}
        assert not offered & {"note", "operate"}
        assert {"play", "faster", "moment", "line", "jump", "mark", "recordings"} <= offered


async def test_the_list_of_recordings_and_back(recordings: Path) -> None:
    """``o``, Enter, Esc, Esc: the watch below is as it was."""
    recorded(folder(), recordings)
    bad = folder() / "20250101T000000Z-x-y.jsonl"
    bad.write_text("not a recording\n")
    async with replayed(recorded(folder(), recordings, Note(at=2e9, text="handed over"))) as shown:
        below = shown.app.screen
        await shown.press("o")
        await shown.until(lambda: isinstance(shown.app.screen, RecordingsScreen))
        await shown.until(lambda: "ready" in "\n".join(shown.screen()) or "stopped" in "\n".join(shown.screen()))
        text = "\n".join(shown.screen())
        assert "vllm-tiny-ngram @ llm-two" in text
        await shown.until(lambda: "unreadable" in "\n".join(shown.screen()))
        await shown.press("enter")  # the newest is none that can be replayed
        await shown.until(lambda: bool(shown.app._notifications))
        await shown.until(lambda: isinstance(shown.app.screen, RecordingsScreen))
        await shown.press("end", "enter")
        await shown.until(lambda: isinstance(shown.app.screen, ReplayScreen) and shown.app.screen is not below)
        await shown.until(lambda: "┃" in shown.bar() or "│" in shown.bar())
        await shown.press("space", "escape")
        await shown.until(lambda: isinstance(shown.app.screen, RecordingsScreen))
        await shown.press("escape")
        await shown.until(lambda: shown.app.screen is below)
        assert not [worker for worker in shown.app.workers if worker.group == "recordings" and worker.is_running]


@pytest.mark.parametrize("size", [(200, 50), (120, 35), (80, 24)], ids=["200x50", "120x35", "80x24"])
def test_how_a_replay_looks(
    snap_compare: Callable[..., bool], tmp_path: Path, recordings: Path, size: tuple[int, int]
) -> None:
    with SessionReader(recorded(tmp_path, recordings)) as reader:
        source = player(reader, 20.0)
        source.clock.pause()

        async def before(pilot: Pilot[Any]) -> None:
            await source.read_whole()
            while not isinstance(pilot.app.screen, ReplayScreen):
                await pilot.pause(0.005)
            for wanted_time in ("10s", "weights"):
                await press(pilot, "t", *wanted_time, "enter")
                await source.arrived()
                while not isinstance(pilot.app.screen, ReplayScreen):
                    await pilot.pause(0.005)
                await press(pilot, "m")
            pilot.app.clear_notifications()
            await pilot.pause()
            assert isinstance(pilot.app, Firstlight)
            pilot.app.flush()
            await pilot.pause()

        app = Firstlight(source, zone=UTC, alerts=QUIET)
        assert snap_compare(app, terminal_size=size, run_before=before)


# ----- the bar


def a_timeline(**changes: Any) -> Timeline:
    moments = (
        Moment(1000.0, 1, "load", "process-start"),
        Moment(1500.0, 2, "phase", "weights"),
        Moment(1500.0, 3, "finding", "slow", "warning"),
        Moment(1900.0, 4, "note", "here"),
    )
    values = {"start": 1000.0, "end": 2000.0, "at": 1250.0, "playing": True, "speed": 20.0, "moments": moments}
    return Timeline(**{**values, **changes})


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_the_bar_fits(width: int) -> None:
    for timeline in (
        a_timeline(),
        a_timeline(at=2000.0, playing=False),
        a_timeline(marks=(1100.0, 1900.0), read=0.4),
        a_timeline(start=1000.0, end=1000.0, at=1000.0),
        a_timeline(end=1000.0 + 40 * 86_400),
    ):
        row, (first, cells) = time_row(timeline, width, "15:00:00 UTC")
        assert len(row.text) <= max(width, 60)
        if cells:
            assert len(row.text) == width
            assert row.text[first : first + cells].count("●") == 1


def test_the_end_is_that_of_the_recording_and_not_of_what_is_read_of_it() -> None:
    for read, sign in ((0.4, "❚❚ paused"), (1.0, "■ end")):
        row, _ = time_row(a_timeline(at=2000.0, playing=False, read=read), 120)
        assert row.text.startswith(f" {sign}")


def test_what_weighs_more_is_seen() -> None:
    row, (first, cells) = time_row(a_timeline(), 120)
    bar = row.text[first : first + cells]
    assert bar[0] == "┃"
    assert "⚠" in bar
    assert "✎" in bar
    assert "│" not in bar


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("start", 1000.0),
        ("end", 2000.0),
        ("50%", 1500.0),
        ("50 %", 1500.0),
        ("+10m", 1850.0),
        ("-30s", 1220.0),
        ("45", 1045.0),
        ("1h", 4600.0),
        ("weights", 1500.0),
        ("00:20", 1200.0),
        ("0:20:30", 1230.0),
        ("23:00", None),
        ("25:00", None),
        ("banana", None),
        ("120%", None),
        ("", None),
    ],
)
def test_times_as_they_are_typed(text: str, at: float | None) -> None:
    assert wanted(text, a_timeline(), 0.0, UTC) == at


def test_a_time_of_the_day_in_a_recording_of_days() -> None:
    start = datetime(2026, 5, 4, 12, 0, tzinfo=UTC).timestamp()
    timeline = a_timeline(start=start, end=start + 3 * 86_400, at=start + 2 * 86_400)
    assert wanted("13:00", timeline, 0.0, UTC) == start + 2 * 86_400 + 3600
    assert wanted("13:00", timeline, 3600.0, UTC) == start + 2 * 86_400 + 7200
