"""What becomes so between two pictures, told once."""

from __future__ import annotations

import msgspec
import pytest

from tests.tui import views
from watch.events import Event, events
from watch.view import BenchView, LinkView, SourceView, View


def kinds(before: View | None, after: View) -> list[str]:
    return [event.kind for event in events(before, after)]


def bench(state: str, run: str = "r1", ended: float | None = None) -> View:
    view = BenchView(run=run, unit="u", preset="quick", who="", state=state, text="", started=views.NOW, ended=ended)  # type: ignore[arg-type]
    return msgspec.structs.replace(views.ready(), benchmark=view)


def test_how_things_are_found_is_no_news() -> None:
    assert events(None, views.failed()) == ()


@pytest.mark.parametrize(
    ("after", "kind"), [(views.ready, "ready"), (views.failed, "failed"), (views.stalled, "stalled")]
)
def test_an_event_names_what_it_happened_to(after: object, kind: str) -> None:
    assert callable(after)
    view = after()
    (event,) = events(views.loading(), view)
    assert (event.kind, event.target, event.unit, event.state) == (kind, view.target, view.unit, view.state)
    assert event.message.startswith(f"{view.unit} @ {view.target}: ")
    assert event.about
    assert events(view, view) == ()


def silent(sources: tuple[SourceView, ...] = ()) -> View:
    """It answers; nothing of its journal has been read."""
    ready = views.ready()
    assert ready.load is not None
    load = msgspec.structs.replace(ready.load, phases=())
    return msgspec.structs.replace(ready, load=load, sources=sources)


def test_a_server_that_answers_before_its_journal_is_read_has_not_become_ready() -> None:
    assert kinds(views.waiting(), silent()) == []
    assert kinds(views.loading(), silent()) == []
    assert kinds(silent(), views.ready()) == ["ready"]  # the journal says that it was just now
    assert kinds(silent(), msgspec.structs.replace(views.ready(), now=views.NOW + 3600)) == []


def test_where_no_journal_can_be_read_the_answer_itself_is_the_event() -> None:
    journal = SourceView(probe="journal", state="failed", reason="no right", remedy="", since=0.0, last=0.0)
    assert kinds(views.loading(), silent((journal,))) == ["ready"]
    assert kinds(views.waiting(), silent((journal,))) == []


def test_a_benchmark_that_ends() -> None:
    assert kinds(bench("running"), bench("done")) == ["benchmark_done"]
    assert kinds(views.ready(), bench("refused")) == ["benchmark_done"]
    assert kinds(bench("done"), bench("done")) == []
    assert kinds(bench("done"), bench("running", "r2")) == []
    assert kinds(bench("done"), bench("failed", "r2")) == ["benchmark_done"]
    assert kinds(views.ready(), bench("done", ended=views.NOW - 3600)) == []


def test_a_host_that_never_answered_was_not_lost() -> None:
    down = LinkView(state="down", reason="refused", remedy="", rtt_ms=None, since=views.NOW)
    lost = msgspec.structs.replace(views.loading(), link=down)
    assert kinds(views.loading(), lost) == ["link_lost"]
    assert kinds(lost, views.loading()) == ["link_back"]
    never = msgspec.structs.replace(views.waiting(), link=down, unit_reading=None, lines=0)
    assert kinds(msgspec.structs.replace(never, link=None), never) == []


def test_two_losses_are_two_events() -> None:
    def lost(since: float) -> Event:
        link = LinkView(state="down", reason="", remedy="", rtt_ms=None, since=since)
        return events(views.loading(), msgspec.structs.replace(views.loading(), link=link))[0]

    assert lost(1.0).about != lost(60.0).about
