"""Stalls: judged on all signals together; known silences, notices and a dead link are none."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.watch.test_pieces import ANY_FLOAT, POINTS
from watch.pieces import Point
from watch.stalls import STALLS_FILE, Signals, judge, parse_rows, quiet, spell
from watch.words import PHASES, Phase

CASES = Path(__file__).parent.parent / "cases"
ROWS = parse_rows(STALLS_FILE.read_text(encoding="utf-8"))
MAYBE = st.none() | ANY_FLOAT


def silent(phase: Phase, seconds: float, **more: object) -> Signals:
    """A load that has said nothing for so long."""
    told = Signals(now=10_000.0, phase=phase, phase_since=10_000.0 - seconds, telling_at=10_000.0 - seconds)
    return msgspec.structs.replace(told, **{"line_at": told.telling_at, **more})


def shards(done: int, interval: float, total: int = 64, *, last: float = 10_000.0) -> tuple[Point, ...]:
    start = last - done * interval
    return tuple(Point(start + n * interval, n, total, n * interval) for n in range(done + 1))


def meta(case: str) -> dict[str, float]:
    folder = next(CASES.glob(f"{case}-*"))
    found: dict[str, float] = json.loads((folder / "input.meta.json").read_text())
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{'-'.join(row.phases)}:{row.when}{row.engine}")
def test_the_table_makes_sense(row: object) -> None:
    assert isinstance(row, type(ROWS[0]))
    assert 0 < row.usual < row.limit <= row.busy
    assert row.about
    assert row.source


def test_every_phase_of_a_load_has_a_last_resort() -> None:
    loading = set(PHASES) - {"ready", "serving", "stopping", "n/a"}
    for phase in loading:
        assert any(phase in row.phases and not row.when and not row.words and not row.engine for row in ROWS)
    assert not any(set(row.phases) - loading for row in ROWS)


def test_a_collective_that_never_ends_is_a_stall_though_the_gpus_show_100_percent() -> None:
    seconds = meta("C32")["seconds_since_last_record"]
    hang = silent("dist-init", seconds, gpu_mib=612.0, gpu_moved_at=10_000.0 - seconds, gpu_busy=100.0, cpu_rate=8.0)
    stall = judge(hang)
    assert stall is not None
    assert stall.since == 10_000.0 - seconds
    assert "11 min" in stall.what
    assert "0.6 GiB" in stall.what
    assert "does nothing" in stall.what
    assert "10 s" in stall.usual
    assert judge(silent("dist-init", seconds)) is not None, "the journal alone is enough here"
    growing = msgspec.structs.replace(hang, gpu_moved_at=9_990.0)
    assert judge(growing) is None


def test_an_announced_compilation_is_none() -> None:
    line = "Creating FlashInfer allreduce workspace (backend=trtllm); cold cache JIT-compiles and may take minutes"
    seconds = meta("C38")["seconds_since_last_record"]
    tuning = silent("warmup", seconds, last_line=line, gpu_busy=0.0, compilers=True)
    assert judge(tuning) is None
    assert "compiled for the first time" in quiet(tuning)
    assert judge(silent("warmup", seconds, last_line=line, gpu_busy=0.0)) is None
    assert judge(silent("warmup", 4000.0, last_line=line)) is not None


def test_repeated_notices_hide_no_progress_and_are_none() -> None:
    moving = silent("warmup", 5000.0, points=shards(13, 43.0, 22), line_at=9_999.0)
    assert judge(moving) is None
    stuck = silent("warmup", 2000.0, line_at=9_990.0)
    stall = judge(stuck)
    assert stall is not None
    assert "only repeated notices" in stall.what


def test_the_limit_follows_the_pace_of_the_shards() -> None:
    slow = silent("weights", 400.0, points=shards(22, 29.6, last=9_750.0))
    assert judge(slow) is None
    very_slow = silent("weights", 600.0, points=shards(5, 100.0, last=9_400.0))
    assert judge(very_slow) is None
    stopped = silent("weights", 600.0, points=shards(22, 2.0, last=9_400.0))
    stall = judge(stopped)
    assert stall is not None
    assert "22 of 64" in stall.what
    assert judge(msgspec.structs.replace(stopped, read_moved_at=9_995.0, read_rate=2e8)) is None
    assert judge(msgspec.structs.replace(stopped, gpu_moved_at=9_995.0)) is None
    assert judge(msgspec.structs.replace(stopped, gpu_busy=100.0, cpu_rate=9.0)) is not None


def test_placing_after_the_bar_takes_its_time() -> None:
    full = shards(64, 2.0, last=10_000.0 - 24 * 60)
    assert judge(silent("weights", 24 * 60, points=full, engine="sglang")) is None
    assert judge(silent("weights", 15 * 60, points=shards(64, 2.0, last=9_100.0), engine="vllm")) is None
    assert judge(silent("weights", 24 * 60, points=full, engine="vllm")) is not None
    assert judge(silent("weights", 24 * 60, points=full, engine="vllm", cpu_rate=8.0)) is None


def test_a_download_prints_nothing_and_is_none() -> None:
    assert judge(silent("weights", 900.0)) is None
    assert judge(silent("weights", 900.0, weights_bytes=5e11)) is not None


def test_what_cannot_be_heard_is_not_judged() -> None:
    dead = silent("dist-init", 1140.0)
    assert judge(msgspec.structs.replace(dead, link_up=False)) is None
    assert judge(msgspec.structs.replace(dead, heard_at=10_000.0 - 1140)) is None
    assert judge(msgspec.structs.replace(dead, heard_at=9_995.0)) is not None
    assert judge(msgspec.structs.replace(dead, gap=True)) is None
    assert judge(msgspec.structs.replace(dead, gap=True, gpu_moved_at=8_000.0, gpu_mib=600.0)) is not None


def test_all_idle_is_believed_sooner() -> None:
    waiting = silent("graph-capture", 800.0)
    assert judge(waiting) is None
    idle = msgspec.structs.replace(waiting, cpu_rate=0.0, gpu_busy=0.0, read_rate=0.0)
    assert judge(idle) is not None
    assert judge(msgspec.structs.replace(waiting, cpu_rate=1.0, gpu_busy=30.0)) is None


def test_what_earlier_loads_took_is_no_stall() -> None:
    capture = silent("graph-capture", 2100.0)
    assert judge(capture) is not None
    assert judge(msgspec.structs.replace(capture, earlier_seconds=2174.0)) is None


@pytest.mark.parametrize("phase", ["ready", "serving", "stopping", "n/a"])
def test_only_loads_stall(phase: Phase) -> None:
    assert judge(silent(phase, 1e6)) is None


@given(
    st.builds(
        Signals,
        now=ANY_FLOAT,
        phase=st.sampled_from(PHASES),
        phase_since=ANY_FLOAT,
        engine=st.sampled_from(("", "vllm", "SGLang")),
        line_at=MAYBE,
        telling_at=MAYBE,
        last_line=st.text(max_size=40),
        points=st.lists(POINTS, max_size=5).map(tuple),
        gpu_mib=MAYBE,
        gpu_moved_at=MAYBE,
        gpu_busy=MAYBE,
        read_moved_at=MAYBE,
        read_rate=MAYBE,
        cpu_rate=MAYBE,
        heard_at=MAYBE,
        link_up=st.booleans(),
        gap=st.booleans(),
        compilers=st.booleans(),
        weights_bytes=MAYBE,
        earlier_seconds=MAYBE,
    )
)
def test_anything_at_all_is_judged_without_raising(signals: Signals) -> None:
    stall = judge(signals)
    assert isinstance(quiet(signals), str)
    if stall is not None:
        assert signals.link_up
        assert math.isfinite(stall.since)
        assert stall.since <= signals.now
        assert not quiet(signals)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (99, "99 s"),
        (100, "2 min"),
        (372, "6 min"),
        (6000, "1 h 40 min"),
        (-5, "0 s"),
        (math.nan, "an unknown time"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert spell(seconds) == words
