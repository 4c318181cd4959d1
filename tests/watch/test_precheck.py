"""What would go wrong with a start, told before."""

from __future__ import annotations

from types import SimpleNamespace

from msgspec.structs import replace

from probes.operate.orders import Rights
from probes.readings import ProbeReading, UnitReading
from watch.history import LoadRecord
from watch.load_key import Key
from watch.memory import Holder
from watch.precheck import failed_arguments, precheck
from watch.revisions import Change
from watch.sources import Sources
from watch.state import WatchState
from watch.view import GpuView, ServingView, View
from watch.words import State

KEY = Key(target="h", unit="vllm.service", model="/m", arguments="0")
GOOD = "[Service]\nExecStart=/opt/vllm serve /m --tp 8\n"
BAD = "[Service]\nExecStart=/opt/vllm serve /m --tp 16\n"


def view(state: State = "ready", **unit: object) -> View:
    seen = WatchState("h", "vllm.service").view(1.0)
    values: dict[str, object] = {"at": 1.0, "unit": "vllm.service", "load": "loaded", "timeout_stop": 90.0}
    reading = UnitReading(**{**values, **unit})  # type: ignore[arg-type]
    return replace(seen, state=state, unit_reading=reading, last_load_seconds=3600.0)


def ids(seen: View, action: str = "restart", **how: object) -> list[str]:
    return [concern.id for concern in precheck(action, seen, **how).concerns]  # type: ignore[arg-type]


def holder(*, ours: bool, dying: bool = False) -> Holder:
    return Holder(
        pid=9, role="EngineCore", unit="", user="root", mib=70000.0, gpus=(0,), since=0.0, dying=dying, ours=ours
    )


def test_nothing_stands_in_the_way() -> None:
    found = precheck("restart", view())
    assert (found.concerns, found.last_load, found.stop_limit) == ((), 3600.0, 90.0)
    assert not found.reload
    assert not found.accept_held


def test_requests_in_flight() -> None:
    seen = replace(view(), serving=ServingView(at=1.0, running=3.0, waiting=2.0))
    assert precheck("restart", seen).requests == 5
    assert ids(seen) == ["requests"]
    assert ids(seen, "start") == []
    # figures that could not be read are not zero
    assert precheck("restart", replace(seen, serving=ServingView(at=1.0, running=3.0, error="no"))).requests is None


def test_a_file_that_is_not_loaded_is_loaded_first() -> None:
    seen = view(needs_reload=True)
    assert ids(seen) == ["needs-reload"]
    assert precheck("restart", seen).reload
    assert not precheck("stop", seen).reload


def test_memory_of_others() -> None:
    gpu = GpuView(at=1.0, source="nvml", devices=(), holders=(holder(ours=False),))
    assert ids(replace(view("stopped"), gpu=gpu), "start") == ["memory-held"]
    assert precheck("start", replace(view("stopped"), gpu=gpu)).accept_held
    for one in (holder(ours=True), holder(ours=False, dying=True)):
        assert ids(replace(view(), gpu=replace(gpu, holders=(one,)))) == []


def test_the_unit_itself() -> None:
    assert ids(view("failed", result="start-limit-hit"), "start") == ["start-limit"]
    assert ids(view("stopped", load="masked"), "start") == ["masked"]
    assert ids(view("stopped", load="not-found"), "start") == ["not-found"]
    assert ids(view("loading")) == ["loading"]


def test_a_driver_that_does_not_match() -> None:
    sources = Sources()
    sources.probe(ProbeReading(at=1.0, probe="gpu", state="failed", reason="Driver/library version mismatch"))
    assert ids(replace(view(), sources=sources.views())) == ["driver-mismatch"]


def test_rights_that_are_not_enough() -> None:
    assert ids(view(), rights=Rights(level="none", reason="guest may not")) == ["rights"]
    assert ids(view(), rights=Rights(level="manage", how="sudo")) == []


def load(outcome: State, revision: int, started: float) -> LoadRecord:
    return LoadRecord(
        key=KEY, invocation=str(started), started=started, outcome=outcome, revision=revision, cause="OOM"
    )


def test_an_argument_that_failed_last_time() -> None:
    loads = [load("failed", 2, 200.0), load("ready", 1, 100.0)]
    (failed,) = failed_arguments(BAD, loads, {1: GOOD, 2: BAD})
    assert failed.change == Change("--tp", "8", "16")
    assert ids(view(), failed=[failed]) == ["failed-argument"]
    assert "--tp 16: OOM" in precheck("restart", view(), failed=[failed]).concerns[0].text
    assert failed_arguments(GOOD, loads, {1: GOOD, 2: BAD}) == ()
    assert failed_arguments(BAD, loads[::-1], {1: GOOD, 2: BAD}) == ()
    assert failed_arguments(BAD, loads[:1], {1: GOOD, 2: BAD}) == ()
    assert failed_arguments(BAD, [load("loading", 2, 300.0), *loads], {1: GOOD, 2: BAD}) == (failed,)


def test_a_start_limit_is_known_by_systemds_line_where_the_result_is_the_servers() -> None:
    finding = SimpleNamespace(id="start-limit", kind="unit", title="", benign=False)
    limited = replace(view("failed", result="exit-code"), findings=(finding,))  # type: ignore[arg-type]
    assert ids(limited, "start") == ["start-limit"]
    assert ids(replace(limited, state="ready"), "start") == []
