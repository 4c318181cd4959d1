"""How the screens of operations look, at the three sizes. New pictures are looked at before they are accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

import themes
from tests.tui import acting
from tests.tui.showing import press
from tests.tui.test_snapshots import SIZES, settled
from tui.app import Firstlight

Compare = Callable[..., bool]

VIEWS: dict[str, tuple[Callable[[], Firstlight], tuple[str, ...]]] = {
    "restart": (lambda: acting.acting_app(acting.troubled()), ("r",)),
    "restart-yes": (acting.acting_app, ("r", "tab")),
    "fallback": (acting.acting_app, ("R", "G", "enter")),
    "stopping": (lambda: acting.acting_app(acting.action_view(acting.STOPPING)), ("A",)),
    "memory": (lambda: acting.acting_app(acting.action_view(acting.MEMORY)), ("A",)),
    "done": (lambda: acting.acting_app(acting.action_view(acting.DONE)), ("A",)),
    "failed": (lambda: acting.acting_app(acting.action_view(acting.FAILED), undoable=acting.UNDOABLE), ("A",)),
    "revisions": (acting.acting_app, ("v",)),
    "choose": (acting.acting_app, ("R",)),
    "difference": (acting.acting_app, ("R", "enter")),
    "roll-back": (acting.acting_app, ("R", "enter", "R")),
    "by-hand": (lambda: acting.acting_app(rights=acting.NONE), ("r",)),
    "diagnosis": (acting.acting_app, ("d",)),
}


def text_of(pilot: Pilot[Any]) -> str:
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


def compare(
    snap_compare: Compare, make: Callable[[], Firstlight], size: tuple[int, int], keys: tuple[str, ...]
) -> bool:
    async def before(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        for key in keys:
            await press(pilot, key)
            while any(words in text_of(pilot) for words in ("is not known yet", "the host is asked", "asking …")):
                await pilot.pause(0.01)  # until what the operations answer is shown
            for _ in range(5):
                await pilot.pause(0.01)

    return snap_compare(make(), terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", VIEWS)
def test_screens(snap_compare: Compare, name: str, size: str) -> None:
    make, keys = VIEWS[name]
    assert compare(snap_compare, make, SIZES[size], keys)


@pytest.mark.parametrize("name", ["restart", "difference"])
def test_light(snap_compare: Compare, name: str) -> None:
    views = {"restart": acting.troubled(), "difference": None}
    keys = VIEWS[name][1]
    assert compare(snap_compare, lambda: acting.acting_app(views[name], theme=themes.LIGHT), SIZES["120x35"], keys)


def test_no_colour(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert compare(snap_compare, acting.acting_app, SIZES["120x35"], VIEWS["difference"][1])
