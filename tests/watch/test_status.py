"""The picture in a few figures: held to what the fold says, and to what a prober may conclude from it."""

from __future__ import annotations

import json

import msgspec
import pytest

from probes.readings import HealthReading, JournalLine, LinkReading, UnitReading
from tests.watch.feeds import after, folded, recording
from watch.state import WatchState
from watch.status import Status, status


def ready() -> list[JournalLine]:
    """A recorded load's lines until it served."""
    _, lines = recording("cpu-small-ngram")
    end = next(number for number, line in enumerate(lines) if "Application startup complete" in line.text)
    return lines[: end + 1]


def seen(state: WatchState, now: float) -> Status:
    return status(state.view(now))


def test_a_load_that_became_ready() -> None:
    lines = ready()
    state = WatchState("llm-two", "vllm.service")
    state.apply_lines(lines[: len(lines) // 3])
    halfway = seen(state, lines[len(lines) // 3].at)
    assert (halfway.state, halfway.ready, halfway.started, halfway.alive) == ("loading", False, False, True)
    assert halfway.seconds is not None
    assert halfway.since is not None
    assert halfway.forecast is None or halfway.forecast.low <= halfway.forecast.middle <= halfway.forecast.high
    assert halfway.ratio is None or 0 <= halfway.ratio < 1

    state.apply_lines(lines[len(lines) // 3 :])
    whole = seen(state, lines[-1].at + 500.0)
    assert (whole.state, whole.ready, whole.started, whole.alive, whole.ratio) == ("ready", True, True, True, 1.0)
    assert whole.seconds == seen(state, lines[-1].at + 5000.0).seconds, "how long it took does not go on"
    phases = {phase.name: phase.seconds for phase in whole.phases}
    assert {"weights"} <= set(phases)
    assert sum(phases.values()) <= whole.seconds + 1.0
    assert json.loads(msgspec.json.encode(whole))["deployment"] == "vllm"


def test_a_server_that_says_ready_and_has_not_answered_yet_has_not_started() -> None:
    """Its own word comes before its port does; what it served and then lost stays so."""
    state = folded(ready(), "vllm.service")
    last = ready()[-1].at
    state.apply(HealthReading(at=last + 0.1, error="refused"))
    waiting = seen(state, last + 0.2)
    assert (waiting.state, waiting.started, waiting.ready) == ("loading", False, False)
    state.apply(HealthReading(at=last + 1.0, status=200))
    assert seen(state, last + 1.1).started
    state.apply(UnitReading(at=last + 2.0, unit="vllm.service", load="loaded", active="failed", result="signal"))
    gone = seen(state, last + 3.0)
    assert (gone.state, gone.started, gone.alive, gone.ready) == ("failed", True, False, False)


def test_a_link_lost_says_nothing_of_the_server_but_is_not_ready() -> None:
    lines = ready()
    state = folded(lines, "vllm.service")
    state.apply(LinkReading(at=lines[-1].at + 1, state="down", reason="silent for 15 s"))
    lost = seen(state, lines[-1].at + 2)
    assert (lost.state, lost.ready, lost.alive, lost.link) == ("ready", False, True, "down")
    assert "15 s" in lost.link_reason


@pytest.mark.parametrize(("active", "state"), [("failed", "failed"), ("inactive", "stopped")])
def test_a_unit_that_does_not_run(active: str, state: str) -> None:
    fold = WatchState("llm-two", "vllm.service")
    fold.apply(UnitReading(at=1000.0, unit="vllm.service", load="loaded", active=active))
    one = status(fold.view(1001.0), "kimi")
    assert (one.state, one.alive, one.started, one.deployment) == (state, False, False, "kimi")
    assert (one.seconds, one.ratio, one.forecast, one.phases) == (None, None, None, ())


def test_secrets_go_where_a_cleaner_is_given() -> None:
    lines = ready()
    view = after(folded(lines), lines)
    told = status(view, clean=lambda text: "cleaned")  # type: ignore[arg-type]
    assert {told.headline, told.model} == {"cleaned"}
    assert all(finding.title == "cleaned" for finding in told.findings)
