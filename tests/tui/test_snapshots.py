"""How the screen looks: the main states at three sizes in both themes, every pane where one is shown at a time, and
what is shown over the watch. New pictures are looked at before they are accepted (``--snapshot-update``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

import themes
from tests.tui import views
from tests.tui.showing import make_app, press
from tui.app import Firstlight
from tui.source import SourceStatus
from watch.view import View

Compare = Callable[..., bool]

SIZES = {"200x50": (200, 50), "120x35": (120, 35), "80x24": (80, 24)}
THEMES = {"dark": themes.DARK, "light": themes.LIGHT}


async def settled(pilot: Pilot[Any]) -> None:
    """Until all lines and the picture are shown."""
    app = pilot.app
    assert isinstance(app, Firstlight)
    while app.watching.journal.shown_lines < 60 or app.watching.picture is None:
        await pilot.pause(0.005)
    await pilot.pause()


def compare(
    snap_compare: Compare,
    picture: View,
    size: tuple[int, int],
    keys: tuple[str, ...] = (),
    theme: str = themes.DARK,
    status: SourceStatus = views.LIVE,
) -> bool:
    async def before(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await press(pilot, *keys)

    app = make_app(picture, views.lines(), status, theme=theme)
    return snap_compare(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("picture", [views.loading, views.failed, views.ready])
def test_states(snap_compare: Compare, picture: Callable[[], View], size: str, theme: str) -> None:
    assert compare(snap_compare, picture(), SIZES[size], theme=THEMES[theme])


@pytest.mark.parametrize("picture", [views.waiting, views.pre_start, views.stalled, views.link_lost, views.no_gpu])
def test_more_states(snap_compare: Compare, picture: Callable[[], View]) -> None:
    assert compare(snap_compare, picture(), SIZES["120x35"])


def test_demo(snap_compare: Compare) -> None:
    assert compare(snap_compare, views.demo(), SIZES["120x35"], status=views.DEMO)


def test_replay(snap_compare: Compare) -> None:
    assert compare(snap_compare, views.loading(), SIZES["80x24"], status=views.REPLAY)


@pytest.mark.parametrize("pane", ["1", "2", "3", "4"])
def test_one_pane_at_a_time(snap_compare: Compare, pane: str) -> None:
    assert compare(snap_compare, views.loading(), SIZES["80x24"], (pane,))


def test_serving_alone(snap_compare: Compare) -> None:
    assert compare(snap_compare, views.ready(), SIZES["80x24"], ("3",))


def test_large_plot(snap_compare: Compare) -> None:
    assert compare(snap_compare, views.loading(), SIZES["120x35"], ("2", "z"))


@pytest.mark.parametrize("size", SIZES)
def test_all_that_is_known_of_a_machine(snap_compare: Compare, size: str) -> None:
    assert compare(snap_compare, views.busy(), SIZES[size], ("2",))


def test_one_gpu_whole(snap_compare: Compare) -> None:
    assert compare(snap_compare, views.busy(), SIZES["120x35"], ("2", "enter", *"nnnnn"))


@pytest.mark.parametrize("size", ["200x50", "80x24"])
def test_several_engines(snap_compare: Compare, size: str) -> None:
    assert compare(snap_compare, views.engines(), SIZES[size], ("3",))


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("help", ("question_mark",)),
        ("finding", ("f", "enter")),
        ("line", ("g", "j", "enter")),
        ("process", ("p",)),
        ("search", ("slash", *"nccl", "enter", "k")),
    ],
)
def test_over_the_watch(snap_compare: Compare, name: str, keys: tuple[str, ...]) -> None:
    assert compare(snap_compare, views.failed(), SIZES["120x35"], keys)


def test_high_contrast(snap_compare: Compare) -> None:
    assert compare(snap_compare, views.stalled(), SIZES["120x35"], ("k", "k"), theme=themes.CONTRAST)


def test_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert compare(snap_compare, views.stalled(), SIZES["120x35"], ("k", "k"))
