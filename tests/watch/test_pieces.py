"""Phases cut into consecutive pieces; bars found among updates."""

from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from watch.pieces import BOUNDS, PhaseSeen, Point, bounds, durations, first_bar, last_bar
from watch.words import PHASES

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)
POINTS = st.builds(Point, ANY_FLOAT, ANY_FLOAT, ANY_FLOAT, st.none() | ANY_FLOAT)
SEEN = st.builds(
    PhaseSeen,
    st.sampled_from(PHASES),
    ANY_FLOAT,
    st.none() | ANY_FLOAT,
    st.lists(POINTS, max_size=6).map(tuple),
)


def test_a_whole_load_is_cut_without_a_rest() -> None:
    phases = (
        PhaseSeen("config", 0, 20),
        PhaseSeen("dist-init", 25, 29),
        PhaseSeen("weights", 29, 55, (Point(31, 0, 4, 0), Point(40, 2, 4, 9), Point(52, 4, 4, 21))),
        PhaseSeen("compile", 60, 80),
        PhaseSeen("kv-cache", 90, 90),
        PhaseSeen("graph-capture", 92, 100),
        PhaseSeen("api-start", 101, None),
    )
    cut = durations(bounds(0, phases, 103))
    assert cut == {
        "config": 20,
        "dist-init": 9,
        "prepare": 2,
        "read": 21,
        "place": 3,
        "compile": 25,
        "profile": 10,
        "capture": 10,
        "api-start": 3,
    }
    assert sum(cut.values()) == 103


def test_a_draft_model_belongs_to_placing() -> None:
    weights = PhaseSeen("weights", 10, 22, (Point(12, 0, 2), Point(20, 2, 2)))
    running = PhaseSeen("draft-weights", 22, None, (Point(23, 0, 2), Point(25, 1, 2)))
    assert "placed" not in bounds(0, (weights, running))
    over = PhaseSeen("draft-weights", 22, 40)
    assert durations(bounds(0, (weights, over)))["place"] == 20


def test_without_compilation_the_profile_follows_the_weights() -> None:
    phases = (PhaseSeen("weights", 5, 50), PhaseSeen("kv-cache", 60, 60))
    assert durations(bounds(0, phases), compiles=False)["profile"] == 10
    assert not {"compile", "profile"} & durations(bounds(0, phases)).keys()


def test_a_bar_that_starts_anew_is_another_bar() -> None:
    first = (Point(0, 0, 4), Point(5, 4, 4))
    second = (Point(6, 0, 4), Point(7, 1, 4))
    assert first_bar(first + second) == first
    assert last_bar(first + second) == second
    assert last_bar((Point(0, 0, 0), Point(1, math.nan, 3))) == ()


@given(ANY_FLOAT, st.lists(SEEN, max_size=8), st.none() | ANY_FLOAT)
def test_any_phases_at_all_give_bounds_in_order(begin: float, phases: list[PhaseSeen], ready: float | None) -> None:
    passed = bounds(begin, phases, ready)
    values = [passed[bound] for bound in BOUNDS if bound in passed]
    assert values == sorted(values)
    assert all(math.isfinite(value) for value in values)
    for compiles in (True, False):
        assert all(seconds >= 0 for seconds in durations(passed, compiles=compiles).values())


@given(st.lists(POINTS, max_size=12))
def test_any_updates_at_all_give_bars_that_rise(points: list[Point]) -> None:
    for bar in (first_bar(points), last_bar(points)):
        assert all(a.done <= b.done and a.at <= b.at and a.total == b.total for a, b in itertools.pairwise(bar))
        assert all(0 <= p.done <= p.total for p in bar)
