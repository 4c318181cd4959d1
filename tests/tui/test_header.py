"""The header: the most important facts at every width."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC

import msgspec
import pytest
from rich.cells import cell_len

from tests.tui import views
from tui.scene import Scene
from tui.source import SourceStatus
from tui.units import Zone
from tui.widgets.header import header
from watch.view import View

PICTURES: list[Callable[[], View]] = [
    views.loading,
    views.waiting,
    views.pre_start,
    views.stalled,
    views.failed,
    views.ready,
    views.link_lost,
    views.no_gpu,
    views.demo,
]


def drawn(view: View, width: int = 200, status: SourceStatus = views.LIVE, fault: str = "") -> tuple[str, str]:
    top, bottom = header(Scene(view, status, Zone(UTC), fault), width)
    return top.text, bottom.text


@pytest.mark.parametrize("picture", PICTURES)
@pytest.mark.parametrize("status", [views.LIVE, views.DEMO, views.REPLAY])
def test_it_fits_and_says_who_and_how_at_every_width(picture: Callable[[], View], status: SourceStatus) -> None:
    view = picture()
    word = {"loading": "LOADING", "failed": "FAILED", "ready": "READY", "stalled": "STALLED", "stopped": "STOPPED"}
    for width in range(80, 220):
        top, bottom = drawn(view, width, status)
        assert cell_len(top) <= width
        assert cell_len(bottom) <= width
        assert view.unit.removesuffix(".service") in top
        assert view.target in top
        assert word[view.state] in top
        if status.mode != "live":
            assert status.mode.upper() in top + bottom


def test_names_of_any_length_leave_room_for_the_state() -> None:
    view = msgspec.structs.replace(views.failed(), unit="u" * 300, target="日本" * 100)
    for width in (80, 120, 200):
        top, _bottom = drawn(view, width)
        assert cell_len(top) <= width
        assert "FAILED" in top


def test_a_load_says_where_it_is_and_when_it_will_be_ready() -> None:
    for width in (80, 120, 200):
        text = " ".join(drawn(views.loading(), width))
        assert "▶ LOADING" in text
        assert "weights 38/64" in text
        assert "41:12 elapsed" in text
        assert "ready ≈ 15:38 UTC, in 38 min (35–44 min)" in text


def test_ready_says_how_long_it_took() -> None:
    assert "✔ READY   loaded in 57:01, ready for 0:35" in drawn(views.ready())[0]


def test_failed_says_where_and_why() -> None:
    top, bottom = drawn(views.failed(), 80)
    assert "✖ FAILED" in top
    assert "in graph-capture" in top
    assert bottom.strip().startswith("CUDA out of memory on GPU 3")


def test_a_lost_link_says_since_when_and_what_was_known() -> None:
    top, bottom = drawn(views.link_lost(), 120)
    assert "✖ LINK LOST 1:23" in top
    assert "last known: LOADING" in top
    assert "ready ≈" not in top + bottom
    assert "No answer to keepalives" in bottom
    assert "tries again in 4 s" in top + bottom


def test_a_link_that_never_was_is_not_lost() -> None:
    view = msgspec.structs.replace(views.link_lost(), state="unknown", load=None, loads=())
    assert "✖ NO LINK 1:23" in drawn(view)[0]
    assert "last known" not in drawn(view)[0]


def test_a_load_first_seen_late_says_at_least() -> None:
    view = views.loading()
    assert view.load is not None
    view = msgspec.structs.replace(view, load=msgspec.structs.replace(view.load, attached_late=True))
    assert "≥ 41:12 elapsed" in drawn(view)[0]


def test_a_forecast_that_has_passed_says_so() -> None:
    view = msgspec.structs.replace(views.loading(), now=views.NOW + 40 * 60)
    assert "any moment now, by 15:44 UTC" in drawn(view)[0]


def test_recording_that_stopped_is_an_error_in_words() -> None:
    status = SourceStatus(recording_error="Recording stopped: no space left on the disk.")
    top, bottom = drawn(views.loading(), 200, status)
    assert "✖ not recording" in top
    assert "no space left" in bottom


def test_a_watch_that_broke_off_says_why() -> None:
    assert "The watch broke off" in drawn(views.loading(), fault="The watch broke off: x.")[1]


def test_what_the_host_says_is_only_text() -> None:
    view = msgspec.structs.replace(views.failed(), headline="\x1b[2J[bold]gone[/bold]\u202e", unit="a\x07b.service")
    top, bottom = drawn(view)
    assert "␛[2J[bold]gone[/bold]<U+202E>" in bottom
    assert "a␇b" in top
