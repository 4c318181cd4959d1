"""Benchmarks of a real host's server through the app's keys, with a scripted `vllm`: armed before the load, begun by
itself at ready, judged by itself; begun and cancelled by keys; found again by the next watch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.host.machine import Machine
from tests.host.screen import Screen, state, watched  # noqa: F401 a fixture
from tests.host.service import fresh_name
from tests.host.tape import RECORDINGS
from tests.host.test_bench import Benched
from tui.benchmarks.choose import AskMeasure, PresetScreen
from tui.benchmarks.compare import CompareScreen
from tui.benchmarks.live import BenchScreen
from tui.benchmarks.results import ResultsScreen
from watch.config import Deployment
from watch.session import SessionReader
from watch.state import WatchState

pytestmark = pytest.mark.usefixtures("state")


@pytest.fixture
def benched(machine: Machine) -> Benched:
    return Benched(machine, fresh_name("vllm-benched"))


async def choose(screen: Screen, key: str) -> None:
    """The preset quick, and yes."""
    await screen.press(key)
    await screen.until(lambda: isinstance(screen.app.screen, PresetScreen))
    await screen.press("g", "enter")
    await screen.until(lambda: isinstance(screen.app.screen, AskMeasure))
    assert "quick" in screen.text()
    await screen.confirm()


async def ended(screen: Screen, outcome: str) -> None:
    await screen.until(lambda: screen.view.benchmark is not None and screen.view.benchmark.state == outcome)


async def test_armed_before_the_load_it_runs_by_itself_and_is_judged(
    machine: Machine, target: str, benched: Benched
) -> None:
    benched.install()
    async with watched(Deployment(target=target, unit=benched.name)) as screen:
        assert "b Benchmark" not in screen.footer()
        await choose(screen, "B")
        await screen.until("benchmark armed: quick")
        await screen.press("question_mark")  # whatever is open
        await benched.up()
        await ended(screen, "done")
        await screen.press("escape")
        await screen.until("* benchmark: the baseline")
        assert "it is the baseline from now on" in " ".join(screen.text().split())
        first = screen.view.benchmark
        assert first is not None
        assert screen.view.load is not None
        assert first.invocation == screen.view.load.invocation

        slower = json.loads((RECORDINGS / "cpu-ngram/bench-c4-result.json").read_bytes())
        slower["output_throughput"] *= 0.8
        machine.write(f"{benched.folder}/result", json.dumps(slower))
        await screen.press("b")
        await screen.until(lambda: isinstance(screen.app.screen, BenchScreen))
        await choose(screen, "b")
        await screen.until(lambda: screen.view.benchmark is not None and screen.view.benchmark.run != first.run)
        await ended(screen, "done")
        await screen.until("▼ Worse than the baseline")
        assert "0.80 × baseline" in screen.text()
        await screen.press("escape")
        await screen.until("▼ benchmark: worse than the baseline")

        await screen.press("c")
        await screen.until(lambda: isinstance(screen.app.screen, ResultsScreen))
        await screen.until("Enter compares run 2 with the baseline")
        await screen.press("enter")
        await screen.until(lambda: isinstance(screen.app.screen, CompareScreen))
        assert "▼ Worse" in screen.text()
        assert "0.80" in screen.text()
        recording = Path(screen.app.source.status().recording)
        shown = screen.view.benchmark
    again = WatchState(target, benched.name)
    with SessionReader(recording.with_name(recording.name + ".gz")) as reader:
        for _, reading in reader:
            again.apply(reading)
    replayed = again.view(0.0).benchmark
    assert replayed is not None
    assert shown is not None
    assert (replayed.word, replayed.verdict, replayed.levels) == (shown.word, shown.verdict, shown.levels)


async def test_left_running_it_is_found_again_and_cancelled(target: str, benched: Benched) -> None:
    benched.install()
    benched.mode("slow")
    await benched.up()
    deployment = Deployment(target=target, unit=benched.name)
    async with watched(deployment) as screen:
        await screen.until("b Benchmark")
        await choose(screen, "b")
        await screen.until("requests at a time")
        await screen.press("escape", "q")
    async with watched(deployment) as screen:
        await screen.until("▶ benchmark quick")  # a key answers to what is on the screen
        await screen.press("b")
        await screen.until("x Cancel it")
        await screen.press("x")
        await screen.until("Cancel the benchmark of")
        await screen.press("enter")  # Cancel is chosen first: the benchmark goes on
        await screen.until(lambda: isinstance(screen.app.screen, BenchScreen))
        assert screen.view.benchmark is not None
        assert screen.view.benchmark.state == "running"
        await screen.press("x")
        await screen.confirm()
        await ended(screen, "cancelled")
        await screen.until("Cancelled")


async def test_a_read_only_watch_shows_what_runs_and_takes_nothing_away(target: str, benched: Benched) -> None:
    benched.install()
    benched.mode("slow")
    await benched.up()
    deployment = Deployment(target=target, unit=benched.name)
    async with watched(deployment) as screen:
        await screen.until("b Benchmark")
        await choose(screen, "b")
        await screen.until("requests at a time")
        async with watched(replace(deployment, read_only=True)) as other:
            await other.until("▶ benchmark quick")
            await other.press("b")
            await other.until(lambda: isinstance(other.app.screen, BenchScreen))
            assert "Cancel it" not in other.footer()
            await screen.press("x")
            await screen.confirm()
            await ended(other, "cancelled")
        await ended(screen, "cancelled")


async def test_a_read_only_watch_measures_nothing(target: str, benched: Benched) -> None:
    benched.install()
    await benched.up()
    async with watched(Deployment(target=target, unit=benched.name, read_only=True)) as screen:
        await screen.until(lambda: screen.view.state == "ready")
        await screen.until("c Compare")
        assert "Benchmark" not in screen.footer()
        await screen.press("b", "B")
        assert screen.app.screen is screen.app.watching
    assert benched.calls == []
