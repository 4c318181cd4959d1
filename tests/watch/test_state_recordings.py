"""The fold over real servers. The figures are worked out by hand from the recordings' READMEs and raw files: seconds
on the recording's own clock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from probes.readings import HealthReading, JournalLine
from tests.watch.feeds import RECORDINGS, folded, journal_json, recording
from watch.view import View
from watch.words import Phase, State

SECOND = 0.6
"""READMEs give tenths, log lines whole seconds."""


def at_end(name: str) -> tuple[float, View]:
    started, lines = recording(name)
    return started, folded(lines).view(lines[-1].at + 1)


def clock(name: str) -> dict[Phase, tuple[float | None, float | None]]:
    """Phase → (start, end) in seconds since the server was started."""
    started, view = at_end(name)
    assert view.load is not None
    return {
        phase.name: (
            None if phase.started is None else phase.started - started,
            None if phase.ended is None else phase.ended - started,
        )
        for phase in view.load.phases
        if phase.started is not None
    }


ENDS: list[tuple[str, State, Phase]] = [
    ("cpu-baseline", "stopped", "stopping"),
    ("cpu-baseline-cold", "stopped", "stopping"),
    ("cpu-bench-server-killed", "failed", "serving"),
    ("cpu-bench-wrong-model", "stopped", "stopping"),
    ("cpu-eager-pty", "stopped", "stopping"),
    ("cpu-eager-two-pipes", "stopped", "stopping"),
    ("cpu-fail-missing-shard", "failed", "weights"),
    ("cpu-fail-model-path", "failed", "config"),
    ("cpu-fail-port-in-use", "failed", "config"),
    ("cpu-fail-spec-json", "failed", "config"),
    ("cpu-fail-spec-method", "failed", "config"),
    ("cpu-fail-tp2-one-numa-node", "failed", "dist-init"),
    ("cpu-fail-truncated-shard", "failed", "weights"),
    ("cpu-fail-unknown-flag", "failed", "config"),
    ("cpu-kill9-engine-during-load", "failed", "weights"),
    ("cpu-kill9-worker-after-ready", "failed", "ready"),
    ("cpu-kill9-worker-during-load", "failed", "weights"),
    ("cpu-moe", "stopped", "stopping"),
    ("cpu-ngram", "stopped", "stopping"),
    ("cpu-quiet-access-log", "stopped", "stopping"),
    ("cpu-qwen3", "stopped", "stopping"),
    ("cpu-sigterm-group-during-load", "stopped", "weights"),
    ("cpu-sigterm-inflight", "stopped", "stopping"),
    ("cpu-sigterm-main-during-load", "stopped", "stopping"),
    ("cpu-sigterm-twice-during-load", "stopped", "api-start"),
    ("cpu-small-baseline", "stopped", "stopping"),
    ("cpu-small-ngram", "stopped", "stopping"),
    ("cpu-tp2", "stopped", "stopping"),
    ("gpu-h200x2/b1-ngram-cold-cache", "stopped", "stopping"),
    ("gpu-h200x2/b2-baseline-worker-killed", "failed", "serving"),
    ("gpu-h200x2/b3-memory-taken", "failed", "dist-init"),
]


@pytest.mark.parametrize(("name", "state", "phase"), ENDS, ids=[name for name, _, _ in ENDS])
def test_how_a_recorded_server_ended(name: str, state: State, phase: Phase) -> None:
    _, view = at_end(name)
    assert (view.state, view.phase) == (state, phase)
    assert len(view.loads) == 1
    assert view.headline


WEIGHTS_AND_READY = [
    # Starting to load model, engine up, start-up complete: as the READMEs list them
    ("cpu-baseline-cold", 69.1, 289.1, 292.5),
    ("cpu-baseline", 73.0, 225.4, 227.0),
    ("cpu-ngram", 45.7, 216.7, 218.5),
    ("cpu-quiet-access-log", 40.7, 43.2, 45.2),
    ("cpu-qwen3", 56.8, 59.4, 62.1),
    ("cpu-sigterm-inflight", 45.4, 48.4, 50.3),
    ("cpu-sigterm-main-during-load", 43.0, 45.8, 52.6),
    ("cpu-small-baseline", 43.2, 45.9, 47.3),
    ("cpu-small-ngram", 42.2, 45.1, 47.1),
    ("cpu-tp2", 45.2, 49.1, 51.1),
    ("cpu-eager-pty", 44.2, 46.4, 48.1),
    ("cpu-eager-two-pipes", 64.6, 67.7, 71.3),
    ("cpu-bench-server-killed", 40.7, 43.1, 44.7),
    ("cpu-bench-wrong-model", 39.6, 42.2, 44.0),
    ("cpu-moe", 38.3, 40.9, 42.5),
    ("cpu-kill9-worker-after-ready", 42.2, 44.6, 46.3),
]


@pytest.mark.parametrize(("name", "weights", "engine", "ready"), WEIGHTS_AND_READY)
def test_the_phases_of_a_recorded_load_are_right_to_the_second(
    name: str, weights: float, engine: float, ready: float
) -> None:
    phases = clock(name)
    assert phases["weights"][0] == pytest.approx(weights, abs=SECOND)
    assert phases["api-start"][0] == pytest.approx(engine, abs=SECOND)
    assert phases["ready"][0] == pytest.approx(ready, abs=SECOND)


def test_a_compiled_load_on_two_gpus_phase_by_phase() -> None:
    """b1, README's table and the log: 43.36 s of weights, torch.compile 43.60 s, 26 s of capture."""
    phases = clock("gpu-h200x2/b1-ngram-cold-cache")
    expected: dict[Phase, tuple[float, float]] = {
        "config": (28.7, 52.0),
        "dist-init": (63.4, 64.9),
        "weights": (66.2, 110.7),
        "compile": (110.7, 154.8),
        "profile": (154.8, 171.5),
        "kv-cache": (171.5, 171.5),
        "graph-capture": (172.2, 198.2),
        "api-start": (200.7, 203.5),
    }
    for name, (start, end) in expected.items():
        assert phases[name] == (pytest.approx(start, abs=SECOND), pytest.approx(end, abs=SECOND)), name
    assert phases["ready"][0] == pytest.approx(203.5, abs=SECOND)
    assert "draft-weights" not in phases, "n-gram loads no weights though it says `Loading drafter model...`"


def test_a_load_with_a_warm_page_cache_phase_by_phase() -> None:
    """b2: capture's bar arrives 21 s late, with its end; the end line says 32 secs."""
    phases = clock("gpu-h200x2/b2-baseline-worker-killed")
    assert phases["weights"] == (pytest.approx(35.8, abs=SECOND), pytest.approx(47.2, abs=SECOND))
    assert phases["compile"] == (pytest.approx(47.5, abs=SECOND), pytest.approx(92.9, abs=SECOND))
    assert phases["graph-capture"] == (pytest.approx(109.8, abs=SECOND), pytest.approx(141.8, abs=SECOND))
    assert phases["ready"][0] == pytest.approx(146.4, abs=SECOND)


@pytest.mark.parametrize("name", [row[0] for row in WEIGHTS_AND_READY])
def test_phases_and_what_lies_between_them_add_up_to_the_whole(name: str) -> None:
    _, view = at_end(name)
    assert view.load is not None
    phases = {phase.name: phase for phase in view.load.phases}
    ready = phases["ready"]
    assert ready.started is not None
    told = ready.before
    for phase in phases.values():
        if phase.name not in ("ready", "serving", "stopping"):
            assert phase.started is not None
            assert phase.ended is not None
            told += phase.before + phase.ended - phase.started
    missing = ready.started - view.load.started - told
    assert -0.01 <= missing < len(phases), "less than a second at each seam is left out"


@pytest.mark.parametrize("name", ["cpu-fail-missing-shard", "cpu-small-baseline", "gpu-h200x2/b1-ngram-cold-cache"])
def test_the_time_before_a_phase_is_the_same_while_it_passes_and_afterwards(name: str) -> None:
    _, lines = recording(name)
    after = next(phase for phase in at_end(name)[1].load.phases if phase.name == "dist-init")  # type: ignore[union-attr]
    assert after.started is not None
    assert after.before > 5
    earlier = [line for line in lines if line.at < after.started]
    load = folded(earlier).view(after.started - 0.1).load
    assert load is not None
    awaited = next(phase for phase in load.phases if phase.name == "dist-init")
    assert awaited.status == "awaited"
    assert awaited.before == pytest.approx(after.before, abs=0.2)


def test_an_eager_load_shows_neither_compile_nor_capture() -> None:
    started, lines = recording("cpu-small-ngram")
    state = folded([line for line in lines if line.at - started < 42.55])
    view = state.view(started + 42.6)
    assert view.load is not None
    names = [phase.name for phase in view.load.phases]
    assert "compile" not in names
    assert "graph-capture" not in names
    assert view.phase == "weights"


def test_a_cold_start_on_a_cpu_spends_its_time_in_compile_and_profiling() -> None:
    phases = clock("cpu-baseline-cold")
    assert phases["compile"] == (pytest.approx(71.8, abs=SECOND), pytest.approx(159.0, abs=SECOND))
    assert phases["profile"] == (pytest.approx(159.0, abs=SECOND), pytest.approx(288.2, abs=SECOND))


def test_after_the_last_shard_it_says_that_nothing_is_printed() -> None:
    started, lines = recording("gpu-h200x2/b1-ngram-cold-cache")
    state = folded([line for line in lines if line.at - started <= 109.91])
    view = state.view(started + 110.2)
    assert view.load is not None
    weights = next(phase for phase in view.load.phases if phase.name == "weights")
    assert (weights.status, weights.ended) == ("running", None)
    assert weights.progress is not None
    assert (weights.progress.done, weights.progress.total) == (40, 40)
    assert "nothing is printed" in weights.note


def test_the_workers_of_a_real_load_are_known_by_one_pid_each() -> None:
    _, view = at_end("cpu-tp2")
    assert view.load is not None
    ranks = {rank.pid: (rank.name, rank.rank) for rank in view.load.ranks}
    assert ranks[18538] == ("Worker_TP0", 0)
    assert ranks[18539] == ("Worker_TP1", 1)
    assert not any(rank.lags for rank in view.load.ranks)


def test_ready_waits_for_health_where_health_is_asked() -> None:
    started, lines = recording("cpu-small-baseline")
    loading = [line for line in lines if line.at - started < 47.35]
    state = folded(loading[:-1])
    state.apply(HealthReading(at=started + 46, error="refused"))
    state.apply(loading[-1])
    assert "Application startup complete." in loading[-1].text
    waiting = state.view(started + 47.4)
    assert (waiting.state, waiting.phase) == ("loading", "ready")
    assert "/health" in waiting.headline
    state.apply(HealthReading(at=started + 47.5, status=200))
    assert state.view(started + 48).state == "ready"


def test_health_that_still_answers_does_not_hide_a_dead_engine() -> None:
    started, lines = recording("gpu-h200x2/b2-baseline-worker-killed")
    state = folded([line for line in lines if line.at - started < 212.8])
    state.apply(HealthReading(at=started + 214, status=200))
    view = state.view(started + 215)
    assert view.state == "failed"
    state.apply_lines([line for line in lines if line.at - started >= 212.8])
    assert state.view(lines[-1].at).state == "failed", "exit 0 after the engine died is no clean end"


def test_a_real_journal_of_a_real_unit_from_start_to_stop() -> None:
    lines = journal_json(RECORDINGS / "host-systemd-ngram" / "journal.json.gz")
    assert lines[0].text.startswith("Starting vllm-tiny-ngram.service")
    state = folded(lines, "vllm-tiny-ngram")
    view = state.view(lines[-1].at + 1)
    assert view.load is not None
    assert (view.state, view.phase, view.load.invocation) == ("stopped", "stopping", lines[0].invocation)
    start = lines[0].at
    found = {phase.name: round(phase.started - start, 1) for phase in view.load.phases if phase.started is not None}
    assert found["pre-start"] == 0
    assert found["process-start"] == pytest.approx(0.1, abs=0.1)
    assert found["config"] == pytest.approx(13.5, abs=SECOND)
    assert found["weights"] == pytest.approx(46.3, abs=1.0)
    assert found["api-start"] == pytest.approx(48.7, abs=SECOND)
    assert found["ready"] == pytest.approx(49.9, abs=SECOND)
    assert found["stopping"] == pytest.approx(73.0, abs=SECOND)
    assert (view.engine, view.version, view.model) == ("vLLM", "0.32.0", "/opt/models/small")
    silent = folded(lines[:4], "vllm-tiny-ngram").view(start + 5)
    assert silent.load is not None
    running = next(phase for phase in silent.load.phases if phase.status == "running")
    assert (running.name, silent.state) == ("process-start", "loading")
    assert "nothing is printed" in running.note


def timelines() -> list[dict[str, Any]]:
    path = RECORDINGS / "timelines" / "timelines.jsonl"
    return [json.loads(text) for text in path.read_text().splitlines()]


BASE = 1_700_000_000.0
STAMPS = [
    # phase and event of the timeline; which end of our phase that is
    ("config", "end", 1),
    ("dist-init", "start", 0),
    ("weights", "start", 0),
    ("kv-cache", "end", 1),
    ("graph-capture", "end", 1),
    ("ready", "end", 0),
]


@pytest.mark.parametrize("row", timelines(), ids=lambda row: row["id"])
def test_published_loads_of_many_versions_are_read_to_the_second(row: dict[str, Any]) -> None:
    """61 real starts, vLLM 0.6 to 0.27 and SGLang. Drafts that SGLang loads at the end repeat phases: left out."""
    at, lines = 0.0, []
    for mark in row["marks"]:
        at = max(at, mark["at"] if mark["at"] is not None else at)
        if mark["line"]:
            lines.append(JournalLine(at=BASE + at, text=mark["line"]))
    view = folded(lines).view(BASE + at + 1)
    assert len(view.loads) == 1
    assert view.load is not None
    assert (view.engine == "SGLang") == (row["engine"] == "sglang")
    if row["complete"] and row["ready_kind"] == "server":
        assert view.state == "ready"
    ours = {phase.name: (phase.started, phase.ended) for phase in view.load.phases}
    repeats = row["engine"] == "sglang" and any(mark["phase"] == "draft-weights" for mark in row["marks"])
    for phase, event, end in STAMPS if not repeats and row["ready_kind"] == "server" else ():
        stamps = [
            mark["at"]
            for mark in row["marks"]
            if (mark["phase"], mark["event"]) == (phase, event) and mark["at"] is not None and mark["line"]
        ]
        if stamps and "(...)" not in str([mark["line"] for mark in row["marks"] if mark["phase"] == phase]):
            wanted = stamps[0] if end == 0 else stamps[-1]
            assert phase in ours, phase
            found = ours[phase][end]
            assert found is not None
            assert found - BASE == pytest.approx(wanted, abs=1.1), phase
