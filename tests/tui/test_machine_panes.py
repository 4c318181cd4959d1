"""The machine's panes with the whole screen to themselves, and when their plots are drawn again."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

import themes
from tests.tui import views
from tests.tui.showing import Showing, showing
from tui.widgets import gpu as gpu_pane
from watch.bound import Pace
from watch.view import PhaseView, View

REPLACE = msgspec.structs.replace


def row(shown: Showing, word: str) -> str:
    return next(line for line in shown.screen() if word in line)


async def test_with_room_a_gpu_says_its_power_limit_clock_and_what_comes_over_pcie() -> None:
    async with showing(views.busy()) as shown:
        assert "/ 600 W" not in shown.text()
        await shown.press("2", "z")
        line = row(shown, "Worker_TP3")
        for figure in ("71.2 / 95.6 GiB", "85 / 600 W", "2,430 MHz", "812 MB/s in"):
            assert figure in line


@pytest.mark.parametrize(("size", "listed"), [((120, 35), True), ((80, 24), True), ((120, 9), False)])
async def test_with_room_each_worker_has_a_row_of_its_own(size: tuple[int, int], listed: bool) -> None:
    picture = views.loading()
    assert picture.io is not None
    workers = tuple(Pace(100 + n, f"Worker_TP{n}", 0.33, 1.0 if n == 2 else 0.0, 18e6) for n in range(4))
    async with showing(REPLACE(picture, io=REPLACE(picture.io, workers=workers)), size=size) as shown:
        await shown.press("3", "z")
        rows = [line for line in shown.screen() if "Worker_TP" in line]
        if listed:
            assert [line.split()[1:4] for line in rows] == [
                [f"Worker_TP{n}", "0.33", "100" if n == 2 else "–"] for n in range(4)
            ]
            assert all("18.0 MB/s" in line for line in rows)
        else:
            assert len(rows) <= 1


async def test_more_workers_than_rows_are_counted() -> None:
    picture = views.loading()
    assert picture.io is not None
    workers = tuple(Pace(100 + n, f"Worker_TP{n}", 1.0 - n / 100, 0.0) for n in range(40))
    async with showing(REPLACE(picture, io=REPLACE(picture.io, workers=workers)), size=(80, 24)) as shown:
        await shown.press("3", "z")
        listed = sum("Worker_TP" in line for line in shown.screen())
        assert 5 <= listed < 40
        assert f"{40 - listed} more, from 0.61 cores" in shown.text()


def later(picture: View, seconds: float, mib: float = 0.0) -> View:
    """The same picture some time on, with so much more memory in use."""
    assert picture.gpu is not None
    devices = tuple(REPLACE(one, used_mib=(one.used_mib or 0.0) + mib) for one in picture.gpu.devices)
    return REPLACE(
        picture,
        now=picture.now + seconds,
        gpu=REPLACE(picture.gpu, at=picture.gpu.at + seconds, devices=devices),
    )


async def test_the_large_plot_is_drawn_again_only_when_it_would_look_different(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = 0
    draw = gpu_pane._draw_chart

    def counted(*args: object) -> object:
        nonlocal drawn
        drawn += 1
        return draw(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(gpu_pane, "_draw_chart", counted)
    picture = views.loading()
    async with showing(picture) as shown:
        assert drawn == 0, "in this size it is not on the screen"
        await shown.press("2", "z")
        assert drawn == 1
        for second in range(1, 4):
            await shown.look(later(picture, second))
        assert drawn == 1, "seconds of an hour are less than half a column"
        await shown.look(later(picture, 4, mib=8000.0))
        assert drawn == 2, "a level moved"
        await shown.look(later(picture, 120, mib=8000.0))
        assert drawn == 3, "time moved on by a column"


@pytest.mark.parametrize("theme", [themes.DARK, themes.LIGHT, themes.PLAIN])
async def test_the_large_plot_is_read_without_colour(theme: str) -> None:
    """What it says stands in its characters: levels in braille, phases as vertical lines, the line to reach."""
    async with showing(views.loading(), theme=theme) as shown:
        await shown.press("2", "z")
        rows = shown.screen()
        assert any("─ 71 expected" in line for line in rows)
        assert any("╷weights" in line for line in rows)
        plot = [line for line in rows if line.count("│") > 4]
        assert plot, "phases"
        assert any(set(line) & set("⣀⣤⣶⠉⠒⡇⢸") for line in plot), "levels"


async def test_what_lies_between_two_phases_is_counted_apart_and_not_as_the_one_that_is_awaited() -> None:
    at = views.NOW - 20
    phases = (
        PhaseView(name="config", status="done", started=at, ended=at + 13),
        PhaseView(name="dist-init", status="awaited", started=at + 13, before=7.0, note="the workers start up"),
    )
    picture = views.loading()
    assert picture.load is not None
    load = replace(picture.load, phases=phases, phase="dist-init", progress=None)
    async with showing(replace(picture, load=load)) as shown:
        rows = [row for row in shown.text().splitlines() if "between" in row or "dist-init  " in row]
        assert any("▶ between" in row and "0:07" in row for row in rows)
        assert any("· dist-init" in row and "0:07" not in row for row in rows)
        assert "the workers start up" in shown.text()
