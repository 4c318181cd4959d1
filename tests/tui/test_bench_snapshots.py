"""How benchmarks look, at the three sizes. New pictures are looked at before they are accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import themes
from tests.tui import benching
from tests.tui.test_operations_snapshots import compare
from tests.tui.test_snapshots import SIZES
from watch.view import View

Compare = Callable[..., bool]

VIEWS: dict[str, tuple[Callable[[], View] | None, tuple[str, ...]]] = {
    "armed": (benching.armed, ()),
    "choose": (None, ("b",)),
    "ask": (None, ("b", "enter")),
    "running": (benching.running, ("b",)),
    "failing": (benching.failing, ("b",)),
    "done": (benching.done, ("b",)),
    "broken": (benching.broken, ("b",)),
    "verdict": (benching.done, ()),
    "results": (None, ("c", "j", "m")),
    "compare": (None, ("c", "j", "j", "enter")),
    "refused": (None, ("c", "enter")),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", VIEWS)
def test_screens(snap_compare: Compare, tmp_path: Path, name: str, size: str) -> None:
    make, keys = VIEWS[name]
    with benching.filled(tmp_path / "h.sqlite") as history:
        app = benching.bench_app(make() if make is not None else None, history=history)
        assert compare(snap_compare, lambda: app, SIZES[size], keys)


@pytest.mark.parametrize("name", ["running", "done", "compare"])
def test_light(snap_compare: Compare, tmp_path: Path, name: str) -> None:
    make, keys = VIEWS[name]
    with benching.filled(tmp_path / "h.sqlite") as history:
        app = benching.bench_app(make() if make is not None else None, history=history, theme=themes.LIGHT)
        assert compare(snap_compare, lambda: app, SIZES["120x35"], keys)


@pytest.mark.parametrize("name", ["done", "compare"])
def test_no_colour(snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    make, keys = VIEWS[name]
    with benching.filled(tmp_path / "h.sqlite") as history:
        app = benching.bench_app(make() if make is not None else None, history=history)
        assert compare(snap_compare, lambda: app, SIZES["120x35"], keys)
