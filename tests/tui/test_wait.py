"""``firstlight wait``: what it says, when it is over, and how it ends."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from probes.host import Host
from probes.readings import UnitReading
from probes.rehearsal.host import Rehearsal
from probes.rehearsal.story import load_story
from tests.tui import views
from tui.commands import wait as command
from tui.commands.wait import Limits, Teller, Waiting
from tui.exits import Waited
from watch.config import Config
from watch.view import LinkView, StallView, View


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def picture(**changes: object) -> View:
    return replace(views.loading(), **changes)


@pytest.fixture
def clock() -> Time:
    return Time()


def link(state: str, reason: str = "") -> LinkView:
    return LinkView(state=state, reason=reason, remedy="", rtt_ms=None, since=views.NOW)


def test_a_unit_that_is_not_there_is_said_once(clock: Time, capsys: pytest.CaptureFixture[str]) -> None:
    """The finding about it says the same, and the host is no less reachable for it."""
    gone = UnitReading(at=1.0, unit="x", load="not-found")
    finding = replace(views.failed().findings[0], severity="error")
    view = picture(state="unknown", lines=0, unit_reading=gone, findings=(finding,))
    outcome = Waiting(Limits(), clock).judge(view, settled=True)
    assert outcome is not None
    teller = Teller("x", as_json=False)
    teller.show(view, settled=True, last=True)
    teller.end(view, *outcome)
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "has no unit x" in said
    assert "unreachable" not in said


def test_it_goes_on_while_it_loads(clock: Time) -> None:
    assert Waiting(Limits(), clock).judge(picture(), settled=True) is None


@pytest.mark.parametrize(
    ("changes", "waited"),
    [({"state": "ready"}, Waited.READY), ({"state": "failed", "headline": "no memory"}, Waited.FAILED),
     ({"state": "stalled"}, Waited.STALLED),
     ({"state": "unknown", "lines": 0, "unit_reading": UnitReading(at=1.0, unit="x", load="not-found")},
      Waited.UNREACHABLE)],
)  # fmt: skip
def test_outcomes_count_only_once_the_past_was_read(clock: Time, changes: dict[str, object], waited: Waited) -> None:
    waiting = Waiting(Limits(), clock)
    assert waiting.judge(picture(**changes), settled=False) is None
    outcome = waiting.judge(picture(**changes), settled=True)
    assert outcome is not None
    assert outcome[0] is waited
    assert outcome[1]


def test_a_stall_may_be_let_pass(clock: Time) -> None:
    waiting = Waiting(Limits(stall_grace=30.0), clock)
    stalled = picture(state="stalled", stall=StallView(since=1.0, what="shards stopped at 3 of 8", usual=""))
    assert waiting.judge(stalled, settled=True) is None
    clock.now = 20.0
    assert waiting.judge(picture(), settled=True) is None
    assert waiting.judge(stalled, settled=True) is None
    clock.now = 49.0
    assert waiting.judge(stalled, settled=True) is None
    clock.now = 51.0
    assert waiting.judge(stalled, settled=True) == (Waited.STALLED, "shards stopped at 3 of 8")


def test_time_runs_out(clock: Time) -> None:
    waiting = Waiting(Limits(timeout=60.0), clock)
    clock.now = 60.0
    assert waiting.judge(picture(), settled=True) == (Waited.TIMED_OUT, "not ready after 60 s")
    ready = waiting.judge(picture(state="ready"), settled=True)
    assert ready is not None
    assert ready[0] is Waited.READY, "what is so at the end counts more than the time"


def test_out_of_reach(clock: Time) -> None:
    waiting = Waiting(Limits(patience=10.0), clock)
    down = picture(state="ready", link=link("down", "no route to llm-two"))
    assert waiting.judge(down, settled=True) is None, "what was last known is not what is"
    clock.now = 8.0
    assert waiting.judge(picture(), settled=True) is None
    clock.now = 12.0
    assert waiting.judge(down, settled=True) is None
    clock.now = 23.0
    outcome = waiting.judge(down, settled=True)
    assert outcome is not None
    assert outcome[0] is Waited.UNREACHABLE
    assert "no route to llm-two" in outcome[1]
    refused = Waiting(Limits(), clock).judge(picture(link=link("refused", "unknown host key")), settled=False)
    assert refused == (Waited.UNREACHABLE, "unknown host key")


def test_a_line_for_each_change_and_none_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller("kimi", as_json=False)
    seen = picture()
    for _ in range(3):
        teller.show(seen, settled=True)
    teller.show(replace(seen, state="ready", phase="ready", headline="serving"), settled=True)
    teller.end(replace(seen, state="ready", phase="ready"), Waited.READY, "ready")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 + len([finding for finding in seen.findings if finding.severity != "info"])
    assert "kimi @ llm-two" in lines[0]
    assert "loading: weights" in lines[0]
    assert lines[-1].endswith(("ready; it took 41:12", "ready"))


def test_hostile_words_stay_in_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller("kimi", as_json=False)
    teller.end(picture(state="failed"), Waited.FAILED, "bad\nnews \x1b]52;c;x\x07")
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "\x1b" not in out


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))


async def test_the_demo_load_is_waited_for(
    story: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way over SSH: one JSON object a line, phases in their order, and the time it took."""
    told = load_story()
    async with Rehearsal(told, 60.0, now=time.time()) as rehearsal:
        host: Host = rehearsal.host
        monkeypatch.setattr(command, "open_target", lambda target: host)
        deployed = command.named(Config(), [told.host, told.unit])
        waited = await command._run(deployed, Config(), Limits(), since=None, record=False, as_json=True)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert waited is Waited.READY
    assert events[-1]["event"] == "end"
    assert events[-1]["exit"] == 0
    assert events[-1]["status"]["ready"]
    phases = [event["status"]["phase"] for event in events]
    assert phases.index("weights") < len(phases) - 1
    assert {"state", "phase"} <= {event["event"] for event in events}
    assert all(event["status"]["deployment"] for event in events)
