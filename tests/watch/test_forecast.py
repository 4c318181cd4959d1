"""The forecast of ready: sane on anything, right on real loads, and it forgets nothing that follows the bar."""

from __future__ import annotations

import itertools
import math
import statistics
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.make_priors import TIMELINES, as_toml, make_priors
from bench.timelines import Timeline, as_earlier, load_at, pairs, read_timelines
from tests.watch.test_pieces import ANY_FLOAT, SEEN
from watch.forecast import Forecast, LoadSoFar, forecast
from watch.pieces import EarlierLoad, PhaseSeen, Point
from watch.priors import PRIORS_FILE, parse_priors, shipped_priors

GIB = float(1 << 30)
TIMELINE = {timeline.id: timeline for timeline in read_timelines(TIMELINES)}
NAMES = st.sampled_from(("", "vllm", "sglang", "vLLM", "\x00"))
EARLIER = st.builds(
    EarlierLoad,
    started=ANY_FLOAT,
    first_line=ANY_FLOAT,
    ready=ANY_FLOAT,
    phases=st.lists(SEEN, max_size=4).map(tuple),
    compile_cache_warm=st.none() | st.booleans(),
)
LOADS = st.builds(
    LoadSoFar,
    started=ANY_FLOAT,
    now=ANY_FLOAT,
    first_line=st.none() | ANY_FLOAT,
    engine=NAMES,
    version=st.text(max_size=8) | st.sampled_from(("0.9.2", "v0.33.0", "1.2", "0.x", "²." * 4)),
    gpu=st.text(max_size=8),
    phases=st.lists(SEEN, max_size=8).map(tuple),
    weights_bytes=st.none() | ANY_FLOAT,
    bytes_read=st.none() | ANY_FLOAT,
    read_rate=st.none() | ANY_FLOAT,
    tp=st.none() | st.integers(),
    eager=st.none() | st.booleans(),
    compiled=st.none() | st.booleans(),
    compile_cache_warm=st.none() | st.booleans(),
    draft=st.booleans(),
    earlier=st.lists(EARLIER, max_size=3).map(tuple),
)


def check(made: Forecast, now: float) -> None:
    assert now <= made.low <= made.middle <= made.high < math.inf
    assert made.basis
    for piece in made.phases:
        assert 0 <= piece.low <= piece.middle <= piece.high < math.inf


@settings(max_examples=150)
@given(LOADS)
def test_anything_at_all_gives_a_forecast_in_order_or_none(load: LoadSoFar) -> None:
    made = forecast(load)
    if made is not None:
        check(made, load.now)
        assert forecast(load) == made


TIMES = st.floats(min_value=0, max_value=5000)


@settings(max_examples=100)
@given(
    st.lists(TIMES, min_size=3, max_size=9),
    TIMES,
    st.integers(0, 64),
    st.none() | st.floats(min_value=0.1, max_value=1200),
    st.booleans(),
)
def test_plausible_loads_always_get_one(
    times: list[float], later: float, done: int, gib: float | None, eager: bool
) -> None:
    times.sort()
    names = ("config", "dist-init", "weights", "compile", "profile", "kv-cache", "graph-capture", "api-start")
    now = times[-1] + later
    phases = []
    for index, (start, end) in enumerate(itertools.pairwise(times)):
        points = (Point(start, 0, 64, 0), Point(end, done, 64, end - start)) if names[index] == "weights" else ()
        phases.append(PhaseSeen(names[index], start, end if index < len(times) - 2 else None, points))
    load = LoadSoFar(
        started=0,
        now=now,
        first_line=times[0],
        engine="vllm",
        version="0.25.1",
        phases=tuple(phases),
        weights_bytes=gib * GIB if gib else None,
        tp=8,
        eager=eager,
    )
    made = forecast(load)
    assert made is not None
    check(made, now)


def test_nothing_is_said_before_the_first_line_of_a_first_load_nor_after_ready() -> None:
    assert forecast(LoadSoFar(started=0, now=5)) is None
    over = (PhaseSeen("ready", 90, 90),)
    assert forecast(LoadSoFar(started=0, now=100, first_line=10, phases=over)) is None
    assert forecast(LoadSoFar(started=100, now=5, first_line=100)) is None


def test_a_first_load_at_its_start_has_a_wide_range() -> None:
    made = forecast(LoadSoFar(started=0, now=1, first_line=0, engine="vllm", weights_bytes=500 * GIB, tp=8))
    assert made is not None
    assert made.high > 3 * made.low
    assert "elsewhere" in made.basis


def bar(done: int, seconds_each: float, total: int = 64, start: float = 40.0) -> PhaseSeen:
    points = tuple(Point(start + seconds_each * n, n, total, seconds_each * n) for n in range(done + 1))
    return PhaseSeen("weights", start - 2, None, points)


def loading(now: float, *phases: PhaseSeen, earlier: tuple[EarlierLoad, ...] = (), tp: int = 8) -> LoadSoFar:
    return LoadSoFar(
        started=0,
        now=now,
        first_line=9,
        engine="vllm",
        version="0.25.1",
        phases=(PhaseSeen("config", 9, 25), PhaseSeen("dist-init", 30, 38), *phases),
        weights_bytes=550 * GIB,
        tp=tp,
        earlier=earlier,
    )


def test_what_follows_the_bar_is_counted() -> None:
    now = 40 + 32 * 30.0
    made = forecast(loading(now, bar(32, 30.0)))
    assert made is not None
    assert made.low > 40 + 64 * 30.0 * 0.8
    assert made.middle > 40 + 64 * 30.0 + 30
    assert "pace of the weights" in made.basis
    assert [piece.name for piece in made.phases] == ["weights", "compile", "profile", "graph-capture", "api-start"]


def test_the_more_of_the_bar_is_done_the_sooner() -> None:
    now, middles = 600.0, []
    for done in (4, 8, 16, 32, 56):
        made = forecast(loading(now, bar(done, 560.0 / done)))
        assert made is not None
        middles.append(made.middle)
    assert middles == sorted(middles, reverse=True)


def test_silence_moves_the_end_away() -> None:
    before = 0.0
    for now in range(400, 4000, 200):
        made = forecast(loading(float(now), bar(12, 30.0)))
        assert made is not None
        assert made.middle >= before * 0.99
        before = made.middle
    captured = PhaseSeen("weights", 40, 300), PhaseSeen("compile", 302, 360), PhaseSeen("kv-cache", 370, 370)
    short, long = (forecast(loading(now, *captured)) for now in (380.0, 2000.0))
    assert short is not None
    assert long is not None
    assert long.middle - 2000 > short.middle - 380


def earlier_like(factor: float = 1.0) -> EarlierLoad:
    def at(seconds: float) -> float:
        return 1000 + seconds * factor

    points = tuple(Point(at(40 + 30.0 * n), n, 64, 30.0 * n * factor) for n in range(65))
    return EarlierLoad(
        started=1000,
        first_line=at(9),
        ready=at(2660),
        compile_cache_warm=True,
        phases=(
            PhaseSeen("config", at(9), at(25)),
            PhaseSeen("dist-init", at(30), at(38)),
            PhaseSeen("weights", at(38), at(2200), points),
            PhaseSeen("compile", at(2203), at(2260)),
            PhaseSeen("kv-cache", at(2300), at(2300)),
            PhaseSeen("graph-capture", at(2301), at(2650)),
            PhaseSeen("api-start", at(2652), at(2660)),
        ),
    )


def test_an_earlier_load_of_the_same_key_decides() -> None:
    before = earlier_like()
    for now, phases in (
        (20.0, ()),
        (40 + 16 * 30.0, (bar(16, 30.0),)),
        (40 + 48 * 30.0, (bar(48, 30.0),)),
    ):
        made = forecast(loading(now, *phases, earlier=(before,)))
        assert made is not None
        assert abs(made.middle - 2660) / 2660 < 0.10
        assert made.low <= 2660 <= made.high
        assert "1 earlier load of this unit" in made.basis
    first = forecast(LoadSoFar(started=0, now=2, earlier=(before,)))
    assert first is not None, "the history knows before the first line"
    assert abs(first.middle - 2660) / 2660 < 0.15


def test_before_the_first_line_the_history_knows_what_is_to_come() -> None:
    before = earlier_like()
    for phases in (
        (),
        (PhaseSeen("process-start", 0.0),),
        (PhaseSeen("pre-start", 0.0, 1.0), PhaseSeen("process-start", 1.0)),
    ):
        made = forecast(LoadSoFar(started=0, now=4, phases=phases, earlier=(before,)))
        assert made is not None
        assert abs(made.middle - 2660) / 2660 < 0.12
        assert made.phases[0].name == "process-start"
    assert forecast(LoadSoFar(started=0, now=4, phases=(PhaseSeen("process-start", 0.0),))) is None


def test_an_earlier_load_that_did_not_compile_tells_that_this_one_will_not() -> None:
    eager = msgspec.structs.replace(
        earlier_like(), phases=tuple(p for p in earlier_like().phases if p.name not in ("compile", "graph-capture"))
    )
    made = forecast(LoadSoFar(started=0, now=12, first_line=9, engine="vllm", earlier=(eager,)))
    assert made is not None
    assert "compile" not in [piece.name for piece in made.phases]


def test_the_pace_of_this_load_scales_the_earlier_one() -> None:
    slow = forecast(loading(40 + 16 * 60.0, bar(16, 60.0), earlier=(earlier_like(),)))
    usual = forecast(loading(40 + 16 * 30.0, bar(16, 30.0), earlier=(earlier_like(),)))
    assert slow is not None
    assert usual is not None
    assert slow.middle > 1.5 * usual.middle
    to_come = {piece.name: piece.middle for piece in usual.phases}
    assert all(piece.middle > to_come[piece.name] for piece in slow.phases)


def test_a_download_is_not_expected_twice() -> None:
    before = TIMELINE["qwen2.5-14b-tp4-v0.9.2-download"]
    later = TIMELINE["qwen2.5-14b-tp4-v0.9.2"]
    history = as_earlier(before)
    assert history is not None
    made = forecast(load_at(later, 23.0, earlier=(history,)))
    assert made is not None
    assert made.middle < 200


@pytest.mark.parametrize("bytes_read", [60, 300, 500])
def test_bytes_read_stand_in_for_a_bar(bytes_read: int) -> None:
    rate = 0.5 * GIB
    now = 40 + bytes_read * GIB / rate
    load = msgspec.structs.replace(
        loading(now, PhaseSeen("weights", 40, None)), bytes_read=bytes_read * GIB, read_rate=rate
    )
    made = forecast(load)
    assert made is not None
    assert "bytes read" in made.basis
    assert 40 + 1100 * 0.85 < made.middle < 40 + 1100 * 1.6


def test_a_running_bar_after_the_weights_is_heeded() -> None:
    tuning = PhaseSeen("warmup", 400, None, tuple(Point(400 + 43.0 * n, n, 22, 43.0 * n) for n in range(13)))
    made = forecast(loading(400 + 43.0 * 12, PhaseSeen("weights", 40, 300), PhaseSeen("compile", 302, 390), tuning))
    assert made is not None
    assert made.middle > 400 + 43.0 * 22


def test_the_real_loads_are_forecast_well() -> None:
    """In sample, so only a guard against breaking it: bench/forecast.py prints what holds out of sample."""
    errors: dict[float, list[float]] = {}
    inside = []
    for timeline in TIMELINE.values():
        if timeline.ready is None:
            continue
        for moment in (0.25, 0.5, 0.75):
            made = forecast(load_at(timeline, moment * timeline.ready))
            assert made is not None
            check(made, moment * timeline.ready)
            errors.setdefault(moment, []).append(abs(made.middle - timeline.ready) / timeline.ready)
            inside.append(made.low <= timeline.ready <= made.high)
    assert all(statistics.median(found) < 0.30 for found in errors.values())
    assert sum(inside) / len(inside) > 0.8


def test_lines_are_never_needed() -> None:
    timeline = TIMELINE["kimi-k2.5-nvfp4-4xgb300-nfs-warm"]
    bare = msgspec.structs.replace(
        timeline, marks=[msgspec.structs.replace(mark, line=None) for mark in timeline.marks]
    )
    assert forecast(load_at(bare, 140)) == forecast(load_at(timeline, 140))


def test_repeats_of_one_configuration_are_found() -> None:
    found = {(before.id, later.id) for before, later in pairs(list(TIMELINE.values()))}
    assert ("kimi-k2.5-nvfp4-4xgb300-nfs-warm", "kimi-k2.5-nvfp4-4xgb300-nfs-warm-repeat") in found
    assert all(before != later for before, later in found)


def test_the_shipped_priors_are_those_that_the_script_makes() -> None:
    made = as_toml(make_priors(list(TIMELINE.values())))
    assert made == PRIORS_FILE.read_text(encoding="utf-8"), "run python -m bench.make_priors"
    assert parse_priors(made) == shipped_priors()


def test_a_file_without_timelines_is_refused_with_its_line(tmp_path: Path) -> None:
    from bench.forecast import main

    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "a", "marks": []}\n{"id": 3}\n')
    assert main([str(bad)]) == 1
    assert main([str(tmp_path / "missing")]) == 1
    assert isinstance(TIMELINE["glm-5.1-fp8-8xh200-runai-eager"], Timeline)


# --------------------------------------------------------------------------------------------- held out, and CPUs


def test_owners_held_out_are_inside_the_range_eight_times_in_ten_at_each_moment() -> None:
    from bench.forecast import MOMENTS, score, without

    timelines = list(TIMELINE.values())
    made = score(timelines, without(timelines, lambda timeline: timeline.owner))
    for moment in MOMENTS:
        here = [one.inside for one in made if one.moment == moment]
        assert sum(here) >= 0.8 * len(here), f"at {moment:.0%}"


def test_a_load_on_processors_captures_nothing() -> None:
    seen = (PhaseSeen("config", 0.0, 20.0), PhaseSeen("weights", 30.0, 40.0), PhaseSeen("profile", 40.0))
    with_gpu = LoadSoFar(started=0.0, now=45.0, first_line=0.0, engine="vLLM", phases=seen, eager=True)
    made, usual = forecast(msgspec.structs.replace(with_gpu, cpu=True)), forecast(with_gpu)
    assert made is not None
    assert usual is not None
    assert made.middle < usual.middle
    parts = {piece.name: piece for piece in made.phases}
    assert parts["graph-capture"].middle < 5
