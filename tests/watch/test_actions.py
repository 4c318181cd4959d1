"""What operators did, folded: one picture from the readings of their actions, in whatever order these come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probes.readings import OperatorAction
from watch.actions import STEPS, Actions, ActionView
from watch.changes import Changes
from watch.state import WatchState


def said(
    step: str, outcome: str, detail: str = "", *, at: float = 1000.0, id: str = "a1", **more: str
) -> OperatorAction:
    return OperatorAction(
        at=at, id=id, step=step, outcome=outcome, detail=detail, action=more.pop("action", "restart"),
        who=more.pop("who", "ann@laptop"), unit="vllm.service", **more,
    )  # fmt: skip


def folded(*readings: OperatorAction) -> ActionView:
    actions = Actions()
    for reading in readings:
        actions.apply(reading)
    view = actions.view()
    assert view is not None
    return view


def test_a_step_says_what_it_waits_for_and_when_the_wait_ends_by_force() -> None:
    view = folded(
        said("begin", "begun", "restart of vllm.service"),
        said("stop", "begun", "stopping vllm.service", at=1001),
        said("stop", "wait", "12 s, ends by SIGKILL after 1min 30s; still there: 7 (VLLM::EngineCor)", at=1013),
    )
    assert view.running
    assert [(step.name, step.status) for step in view.steps] == [
        ("stop", "running"), ("leftovers", "pending"), ("memory", "pending"), ("start", "pending"),
    ]  # fmt: skip
    step = view.step
    assert step is not None
    assert (step.name, step.started, step.kill_at) == ("stop", 1001, 1091)
    assert "VLLM::EngineCor" in step.text


def test_without_a_limit_nothing_is_promised() -> None:
    view = folded(said("stop", "begun"), said("stop", "wait", "1 s, ends by SIGKILL after infinity; still there:"))
    assert view.step is not None
    assert view.step.kill_at is None


def test_a_failure_says_the_hosts_state_and_what_would_undo_it() -> None:
    view = folded(
        said("start", "begun", action="rollback"),
        said("start", "failed", "vllm.service failed at once (exit-code, status 3)", action="rollback"),
        said("start", "state", "vllm.service is failed (failed)", action="rollback"),
        said("start", "undo", "the files of before are in /var/lib/x", action="rollback"),
        said("end", "failed", "vllm.service failed at once", action="rollback", undo="the files of before are in x"),
    )
    assert (view.outcome, view.state) == ("failed", "vllm.service is failed (failed)")
    assert view.undo == "the files of before are in x"
    assert view.step is not None
    assert (view.step.name, view.step.status) == ("start", "failed")
    assert [step.name for step in view.steps] == ["start"]  # what never came is not promised any more


def test_a_lost_link_is_said_until_something_is_heard_again() -> None:
    lost = (said("stop", "begun"), said("link", "wait", "the link is lost; the steps go on"))
    assert folded(*lost).link
    assert not folded(*lost, said("stop", "wait", "3 s")).link
    assert not folded(*lost, said("link", "done", "it is back")).link


def test_an_end_in_the_middle_of_a_step_leaves_that_step_unknown() -> None:
    view = folded(said("stop", "begun"), said("end", "unknown", "it was ended from outside"))
    assert [(step.name, step.status) for step in view.steps] == [("stop", "unknown")]


def test_what_runs_is_shown_before_what_was_refused_beside_it() -> None:
    view = folded(said("stop", "begun", who="bob@desk"), said("end", "refused", "bob@desk is at it", id="b2"))
    assert (view.who, view.running) == ("bob@desk", True)


def test_the_other_unit_of_a_fallback_is_known() -> None:
    begin = said("begin", "begun", "fallback of vllm.service, vllm-int4.service instead", action="fallback")
    assert folded(begin).fallback == "vllm-int4.service"


def test_every_action_begins_with_all_of_its_steps_to_come() -> None:
    for action, steps in STEPS.items():
        view = folded(said("begin", "begun", action=action))
        assert tuple(step.name for step in view.steps) == steps


WORDS = st.text(max_size=30)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "check", "stop", "memory", "start", "link", "end", "odd", ""]),
            st.sampled_from(["begun", "wait", "done", "skipped", "failed", "undo", "state", "note", "unknown", ""]),
            WORDS | st.just("1 s, ends by SIGKILL after 99999y; still there:"),
            st.sampled_from(["a", "b", ""]),
        )
    )
)
def test_whatever_is_said_in_whatever_order(rows: list[tuple[str, str, str, str]]) -> None:
    actions = Actions()
    for number, (step, outcome, detail, id) in enumerate(rows):
        actions.apply(said(step, outcome, detail, at=1000.0 + number, id=id))
        view = actions.view()
        if view is not None:
            assert view.running == (not view.outcome)
            assert view.step is None or view.step.status != "pending"


def test_the_picture_has_it() -> None:
    state = WatchState("llm-two", "vllm")
    assert state.view(1000.0).action is None
    assert state.apply(said("stop", "begun")) & Changes.ACTION
    view = state.view(1000.0).action
    assert view is not None
    assert view.who == "ann@laptop"
