"""What is asked before an action, what keeps it from being done, and what a yes orders."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from probes.operate.orders import Action, Edit, File, Rights, UnderWay, UnitFiles
from probes.readings import UnitReading
from tests.tui.views import UNIT, ready
from watch.history import Benchmark, History, LoadRecord
from watch.lineage import lineage
from watch.load_key import Key
from watch.plan import Plan, plan
from watch.precheck import Precheck, precheck
from watch.proposal import Proposal, after_plan, differences, newest, obstacle, order, question, steps_ahead

FULL = Rights(level="full", how="root", login="root")
PATH = f"/etc/systemd/system/{UNIT}"
OLD = "[Service]\nExecStart=/opt/vllm serve m --seed 7\n"
NEW = "[Service]\nExecStart=/opt/vllm serve m --seed 8\nTimeoutStopSec=9\n"
NOW = UnitFiles(unit=UNIT, load="loaded", files=(File(PATH, OLD),))
CLEAR = Precheck(running="It serves now")


def proposal(action: Action = "restart", **more: object) -> Proposal:
    made = Proposal(action=action, unit=UNIT, host="llm-two", rights=FULL, files=NOW, whole=True)
    return replace(made, **more)


def test_the_question_names_unit_and_host() -> None:
    assert question(proposal()) == f"Restart {UNIT} on llm-two?"
    # the same words for going to a fallback and for the way back
    assert question(proposal(action="fallback", fallback="old.service")) == f"Go from {UNIT} to old.service on llm-two?"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (proposal(whole=False), "not known yet"),
        (proposal(trouble="The host is down."), "The host is down."),
        (proposal(rights=Rights(level="none", reason="guest may not")), "guest may not"),
        (proposal(other=UnderWay(unit=UNIT, id="1", action="stop", who="bob@desk")), "bob@desk is at it"),
        (proposal("rollback", plan=Plan(refused="It is masked")), "It is masked"),
        (proposal("rollback", plan=Plan()), "nothing to change"),
        (proposal("rollback"), "nothing to change"),
    ],
)
def test_what_keeps_anybody_from_saying_yes(made: Proposal, says: str) -> None:
    assert says in obstacle(made, CLEAR)


def test_what_would_surely_fail_cannot_be_said_yes_to() -> None:
    view = replace(ready(), unit_reading=UnitReading(at=1.0, unit=UNIT, load="masked"))
    assert "masked" in obstacle(proposal(), precheck("restart", view))
    # the unit that is left need not be one that starts
    assert obstacle(proposal("fallback", fallback="other.service"), precheck("fallback", view)) == ""


def test_nothing_in_the_way() -> None:
    assert obstacle(proposal(), CLEAR) == ""


def test_an_edit_younger_than_the_last_look_at_the_unit_counts() -> None:
    view = replace(ready(), unit_reading=UnitReading(at=1.0, unit=UNIT, load="loaded"))
    made = proposal(files=replace(NOW, needs_reload=True))
    check = precheck("restart", newest(made, view))
    assert check.reload
    assert order(made, check, id="1", who="ann").reload
    assert newest(proposal(), view) is view


def test_a_yes_orders_what_was_shown() -> None:
    changed = plan(NOW, [File(PATH, NEW)])
    made = order(proposal("rollback", plan=changed), replace(CLEAR, accept_held=True), id="a1", who="ann@laptop")
    assert (made.action, made.unit, made.who, made.id) == ("rollback", UNIT, "ann@laptop", "a1")
    assert made.edits == (Edit(PATH, NEW),)
    assert made.expect == changed.expect
    assert made.accept_held
    arguments, settings = differences(proposal("rollback", plan=changed))
    assert [(change.key, change.old, change.new) for change in arguments] == [("--seed", "7", "8")]
    assert [change.key for change in settings] == ["Service.TimeoutStopSec"]


@pytest.mark.parametrize(
    ("action", "first", "last"),
    [
        ("start", "see that the GPUs are free", f"start {UNIT}"),
        ("stop", f"stop {UNIT} with SIGTERM; systemd ends it by SIGKILL after 90 s", "wait until the memory"),
        ("restart", f"stop {UNIT}", f"start {UNIT}"),
        ("rollback", "see that the files are as they are shown", f"start {UNIT}"),
        ("fallback", f"stop {UNIT}", "start other.service"),
    ],
)
def test_the_steps_ahead_are_told_in_their_order(action: Action, first: str, last: str) -> None:
    fallback = "other.service" if action == "fallback" else ""
    steps = steps_ahead(proposal(action, fallback=fallback), replace(CLEAR, stop_limit=90.0))
    assert steps[0].startswith(first)
    assert steps[-1].startswith(last)


def test_the_files_after_a_plan_are_those_that_it_writes() -> None:
    drop = File(f"{PATH}.d/10-a.conf", "[Service]\nNice=1\n")
    packaged = File(f"/usr/lib/systemd/system/{UNIT}", OLD)
    assert after_plan(
        (File(PATH, OLD), drop), plan(replace(NOW, files=(File(PATH, OLD), drop)), [File(PATH, NEW)])
    ) == (File(PATH, NEW),)
    written = plan(replace(NOW, files=(packaged,)), [File(packaged.path, NEW)])
    assert after_plan((packaged,), written) == (File(PATH, NEW),)


def test_the_lineage_of_a_unit(tmp_path: object) -> None:
    key = Key(target="llm-two", unit=UNIT, model="m", arguments="")

    def load(invocation: str, started: float, outcome: str, revision: int, cause: str = "") -> LoadRecord:
        return LoadRecord(
            key=key, invocation=invocation, started=started, ended=started + 50, outcome=outcome, revision=revision,
            cause=cause,
        )  # type: ignore[arg-type]  # fmt: skip

    with History.open(tmp_path / "h.sqlite") as history:  # type: ignore[operator]
        first = history.keep_revision("llm-two", UNIT, f"# {PATH}\n{OLD}", 100.0)
        second = history.keep_revision("llm-two", UNIT, f"# {PATH}\n{NEW}", 300.0)
        history.record_load(load("a", 100.0, "ready", first))
        history.record_load(load("b", 300.0, "failed", second, "out of memory"))
        history.record_benchmark(
            Benchmark(
                target="llm-two", unit=UNIT, at=200.0, run="r", preset="p", result={"output_throughput": 9.0},
                revision=first,
            )
        )  # fmt: skip
        found = lineage(history, "llm-two", UNIT, invocation="b")
    assert [(row.revision.id, row.runs, row.best, row.cause) for row in found.rows] == [
        (second, True, False, "out of memory"),
        (first, False, True, ""),
    ]
    assert found.rows[1].benchmark is not None
    assert [row.revision.id for row in found.for_roll_back()] == [first, second]
    assert [one.change.key for one in found.failed_in(NEW)] == ["--seed"]
    assert found.failed_in(OLD) == ()
