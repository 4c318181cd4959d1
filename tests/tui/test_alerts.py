"""Loud once, when something becomes so; and what a server prints stays inside the notification."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui import views
from tui.alerts import Alert, Alerts, changes, sequence, speak
from watch.view import View


def kinds(before: View | None, view: View) -> list[str]:
    return [alert.kind for alert in changes(before, view)]


def test_how_things_were_found_is_no_news() -> None:
    assert kinds(None, views.failed()) == []


@pytest.mark.parametrize(
    ("picture", "kind"), [(views.ready, "ready"), (views.failed, "failed"), (views.stalled, "stalled")]
)
def test_what_became_so_is_said_once(picture: object, kind: str) -> None:
    assert callable(picture)
    assert kinds(views.loading(), picture()) == [kind]
    assert kinds(picture(), picture()) == []


def test_what_an_old_journal_tells_is_no_news() -> None:
    empty = views.waiting()
    for picture in (views.failed(), views.ready()):
        late = msgspec.structs.replace(picture, now=picture.now + 3600)
        assert kinds(empty, picture) == [picture.state]
        assert kinds(empty, late) == []
    assert kinds(empty, views.stalled()) == []


def test_a_second_load_that_fails_as_the_first_did_is_news() -> None:
    first = views.failed()
    assert first.load is not None
    second = msgspec.structs.replace(first, load=msgspec.structs.replace(first.load, number=2))
    assert kinds(first, second) == ["failed"]


def test_the_link_lost_and_back() -> None:
    assert kinds(views.loading(), views.link_lost()) == ["link_lost"]
    assert kinds(views.link_lost(), views.link_lost()) == []
    assert kinds(views.link_lost(), views.loading()) == ["link_back"]


@given(st.text(st.characters(codec=None)), st.sampled_from(("osc9", "osc777")))
def test_a_notification_is_one_sequence_whatever_it_says(text: str, desktop: str) -> None:
    drawn = sequence(Alert("failed", text), Alerts(desktop=desktop))  # type: ignore[arg-type]
    assert drawn.startswith("\x1b]")
    assert drawn.endswith("\x07")
    inside = drawn[2:-1]
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in inside)
    inside.encode()


def test_the_forms_of_a_notification() -> None:
    alert = Alert("ready", "kimi @ two: ready; 3×")
    assert sequence(alert, Alerts(desktop="osc9")) == "\x1b]9;firstlight: kimi @ two: ready; 3×\x07"
    assert sequence(alert, Alerts(desktop="osc777")) == "\x1b]777;notify;firstlight;kimi @ two: ready, 3×\x07"
    assert sequence(alert, Alerts(desktop="off")) == ""
    assert sequence(alert, Alerts(desktop="osc9", tmux=True)).startswith("\x1bPtmux;\x1b\x1b]9;")


@pytest.mark.parametrize(("alerts", "rings", "writes"), [(Alerts(), 1, 1), (Alerts(bell=False, desktop="off"), 0, 0)])
def test_what_is_switched_off_stays_quiet(alerts: Alerts, rings: int, writes: int) -> None:
    rung: list[bool] = []
    written: list[str] = []
    speak(Alert("ready", "x"), alerts, written.append, lambda: rung.append(True))
    assert (len(rung), len(written)) == (rings, writes)


def test_good_news_of_the_link_does_not_ring() -> None:
    rung: list[bool] = []
    speak(Alert("link_back", "x"), Alerts(), lambda _: None, lambda: rung.append(True))
    assert rung == []
