"""The fold over the cases: how each load stands at its last line, and what came before."""

from __future__ import annotations

import pytest

from probes.readings import UnitReading
from tests.watch.feeds import case, folded
from watch.words import Phase, State

STANDS: list[tuple[str, State, Phase]] = [
    ("C01", "loading", "weights"),
    ("C03", "failed", "config"),
    ("C05", "failed", "ready"),
    ("C06", "failed", "process-start"),
    ("C07", "failed", "config"),
    ("C09", "failed", "weights"),
    ("C11", "stopped", "weights"),
    ("C13", "failed", "dist-init"),
    ("C15", "loading", "weights"),
    ("C18", "loading", "weights"),
    ("C21", "loading", "weights"),
    ("C22", "loading", "weights"),
    ("C26", "loading", "weights"),
    ("C28", "failed", "weights"),
    ("C29", "failed", "config"),
    ("C30", "failed", "weights"),
    ("C34", "loading", "warmup"),
    ("C38", "loading", "warmup"),
    ("C40", "failed", "graph-capture"),
    ("C42", "failed", "kv-cache"),
    ("C44", "failed", "weights"),
    ("C46", "failed", "draft-weights"),
    ("C49", "failed", "weights"),
    ("C70", "loading", "weights"),
    ("C72", "ready", "serving"),
    ("C74", "failed", "weights"),
    ("C76", "ready", "ready"),
]


@pytest.mark.parametrize(("name", "state", "phase"), STANDS, ids=[name for name, _, _ in STANDS])
def test_how_the_load_of_a_case_stands(name: str, state: State, phase: Phase) -> None:
    lines = case(name)
    view = folded(lines, "vllm.service").view(lines[-1].at + 1)
    assert (view.state, view.phase) == (state, phase)


PROGRESS = [
    ("C15", 23, 64, "shards"),
    ("C18", 47, 64, "shards"),
    ("C21", 19, 64, "shards"),
    ("C22", 7, 64, "shards"),
    ("C26", 22, 64, "shards"),
    ("C34", 13, 22, "profiles"),
    ("C70", 30, 64, "shards"),
]


@pytest.mark.parametrize(("name", "done", "total", "unit"), PROGRESS)
def test_the_progress_of_a_case(name: str, done: int, total: int, unit: str) -> None:
    lines = case(name)
    view = folded(lines, "vllm.service").view(lines[-1].at + 1)
    assert view.load is not None
    assert view.load.progress is not None
    assert (view.load.progress.done, view.load.progress.total, view.load.progress.unit) == (done, total, unit)


def test_the_rate_comes_from_the_bars_own_counters_when_lines_are_dropped() -> None:
    lines = case("C18")
    view = folded(lines, "vllm.service").view(lines[-1].at + 1)
    assert view.load is not None
    assert view.load.progress is not None
    assert view.load.progress.rate is not None
    assert 1 / view.load.progress.rate == pytest.approx(9.0, rel=0.05)


def test_slow_shards_are_slow_not_stalled() -> None:
    lines = case("C26")
    view = folded(lines, "vllm.service").view(lines[-1].at + 25)
    assert view.state == "loading"
    assert view.load is not None
    assert view.load.progress is not None
    assert view.load.progress.rate == pytest.approx(1 / 29.6, rel=0.02)


def test_the_second_load_of_one_journal_starts_anew() -> None:
    lines = case("C22")
    view = folded(lines, "vllm.service").view(lines[-1].at + 1)
    first, second = view.loads
    assert (first.state, first.phase) == ("stopped", "weights")
    assert first.progress is not None
    assert first.progress.done == 38
    assert second.started == pytest.approx(lines[51].at)
    assert view.load == second


def test_a_crash_loop_counts_its_starts() -> None:
    lines = case("C07")
    view = folded(lines, "vllm.service").view(lines[-1].at + 1)
    assert [load.state for load in view.loads] == ["failed"] * 3
    assert "3 times" in view.headline


def test_a_stop_on_request_is_no_failure() -> None:
    lines = case("C11")
    view = folded(lines).view(lines[-1].at + 1)
    assert view.state == "stopped"
    assert "on request" in view.headline
    assert "27 of 64 shards" in view.headline


def test_a_bar_that_goes_on_after_the_front_end_gave_up_makes_no_load() -> None:
    lines = case("C30")
    view = folded(lines, "vllm.service").view(lines[-1].at + 1)
    assert view.state == "failed"
    assert view.load is not None
    assert view.load.progress is not None
    assert view.load.progress.done == 23
    assert view.load.ended == lines[32].at


def test_a_clean_load_names_every_phase_with_its_time() -> None:
    lines = case("C76")
    view = folded(lines, "vllm.service").view(lines[-1].at + 1)
    assert view.load is not None
    seconds = {
        phase.name: round(phase.ended - phase.started)
        for phase in view.load.phases
        if phase.started is not None and phase.ended is not None
    }
    assert seconds == {
        "pre-start": 0,
        "process-start": 9,
        "config": 15,
        "dist-init": 7,
        "weights": 630,
        "compile": 68,
        "profile": 14,
        "kv-cache": 0,
        "warmup": 0,
        "graph-capture": 22,
        "api-start": 4,
    }


def test_eight_ranks_are_eight_workers_and_one_load() -> None:
    lines = case("C76")
    view = folded(lines, "vllm.service").view(lines[-1].at + 1)
    assert view.load is not None
    workers = [rank for rank in view.load.ranks if rank.name.startswith("Worker")]
    assert [(rank.name, rank.rank) for rank in workers] == [(f"Worker_TP{n}", n) for n in range(8)]


def test_a_notify_unit_that_was_ready_fails_in_ready() -> None:
    lines = case("C05")
    ready = folded(lines[:70], "vllm.service")
    ready.apply(UnitReading(at=lines[69].at + 1, unit="vllm.service", active="activating", sub="start", main_pid=5101))
    assert ready.view(lines[69].at + 2).state == "ready"
    ready.apply_lines(lines[70:])
    view = ready.view(lines[-1].at + 1)
    assert (view.state, view.phase) == ("failed", "ready")
    assert view.load is not None
    assert view.load.ended is not None
