"""One benchmark within a watch, over this machine with a scripted `vllm`: recorded, kept, judged, replayed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from probes.clock import SYSTEM
from probes.local import LocalHost
from probes.readings import BenchReading, UnitReading
from tests.probes.model_server import model_server
from tests.probes.test_bench import NONE, ORDER, UNIT, Bench
from tests.watch.fed import OpenFeed
from watch.benchmarks.measure import measure, order_for
from watch.config import Config, Deployment, Preset
from watch.history import History
from watch.redact import Redactor
from watch.session import SessionReader, SessionWriter, new_header
from watch.state import WatchState
from watch.view import BenchView
from watch.watching import Watching


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'host/bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "host/cache"))
    monkeypatch.delenv("FIRSTLIGHT_API_KEY", raising=False)


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[Watching, SessionWriter]]:
    tape = SessionWriter(new_header("local", UNIT, 1_796_000_000.0), where=folder)
    watching = Watching(OpenFeed(), WatchState("local", UNIT), tape)
    watching.start()
    try:
        yield watching, tape
    finally:
        await watching.stop()


async def measured(watching: Watching, history: History | None, why: str = "") -> BenchView:
    async with asyncio.timeout(60):
        shown = await measure(
            watching,
            LocalHost(),
            NONE,
            ORDER,
            target="local",
            unit=UNIT,
            history=history,
            no_history=why,
            clock=SYSTEM,
            redactor=Redactor(),
        )
    assert shown is not None
    return shown


async def test_kept_before_its_end_is_shown_and_the_same_in_a_replay(tmp_path: Path) -> None:
    with model_server() as server, History.open(tmp_path / "history.sqlite") as history:
        Bench(tmp_path / "host", server)
        async with watched(tmp_path / "sessions") as (watching, tape):
            shown = await measured(watching, history)
            (kept,) = history.benchmarks("local", UNIT)
            path = tape.close()
    assert (shown.state, shown.word) == ("done", "baseline")
    assert (kept.run, kept.baseline, kept.preset) == (ORDER.id, True, "quick")
    assert kept.result["output_throughput"] == shown.levels[0].output_tps
    assert path is not None
    state = WatchState("local", UNIT)
    stages = []
    for _, reading in SessionReader(path):
        state.apply(reading)
        stages += [reading.stage] if isinstance(reading, BenchReading) else []
    assert stages[-3:] == ["result", "verdict", "end"]
    assert state.view(0.0).benchmark == shown


async def test_without_a_history_it_is_measured_all_the_same(tmp_path: Path) -> None:
    with model_server() as server:
        Bench(tmp_path / "host", server)
        async with watched(tmp_path / "sessions") as (watching, _):
            shown = await measured(watching, None, "the disk is full")
    assert shown.state == "done"
    assert shown.levels[0].output_tps > 0
    assert shown.verdict == "not kept: the disk is full"


async def test_what_is_refused_is_kept_nowhere(tmp_path: Path) -> None:
    with model_server() as server, History.open(tmp_path / "history.sqlite") as history:
        Bench(tmp_path / "host", server)
        server.served = set()
        async with watched(tmp_path / "sessions") as (watching, _):
            shown = await measured(watching, history)
        assert shown.state == "refused"
        assert history.benchmarks() == ()


def test_the_deployments_own_preset_and_place(tmp_path: Path) -> None:
    config = Config(presets={"mine": Preset(concurrency=(2, 4), repeats=2)})
    deployment = Deployment(target="llm-two", unit="vllm", preset="mine", endpoint="https://127.0.0.1:8443", user=True)
    order = order_for(config, deployment, who="ann@laptop", repeats=1)
    assert [level.concurrency for level in order.levels] == [2, 4]
    assert (order.preset, order.endpoint, order.user, order.unit) == ("mine", "https://127.0.0.1:8443", True, "vllm")
    assert order_for(config, deployment, who="x", preset_name="quick").preset == "quick"
    with History.open(tmp_path / "h.sqlite") as history:
        assert order_for(config, deployment, who="x", history=history, invocation="f00").levels[0].seed == 0


def test_readings_of_others_are_left_alone() -> None:
    state = WatchState("llm-two", "vllm")
    state.apply(UnitReading(at=1.0, unit="vllm.service"))
    assert state.view(2.0).benchmark is None
