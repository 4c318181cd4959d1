"""A bar that is followed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watch.bars import Bar
from watch.progress import KEEP, track


def bar(done: float, total: float = 1000, elapsed: float | None = None, label: str = "shards") -> Bar:
    return Bar(label, done, total, "it", elapsed, None, None, 0)


def test_a_long_bar_keeps_few_points_and_its_ends() -> None:
    followed = track(0.0, bar(0, 5000), "tensors", 7)
    for n in range(1, 5001):
        followed.add(float(n), bar(n, 5000))
    assert len(followed.points) <= KEEP
    assert (followed.points[0].done, followed.points[-1].done) == (0, 5000)
    assert followed.rate() == pytest.approx(1.0)


def test_the_rate_is_of_the_last_minutes() -> None:
    followed = track(0.0, bar(0), "shards", 7)
    for n in range(1, 11):
        followed.add(n * 100.0, bar(n))
    for n in range(11, 200):
        followed.add(1000.0 + (n - 10) * 2.0, bar(n))
    assert followed.rate() == pytest.approx(0.5, rel=0.05)


def test_a_bar_that_arrives_all_at_once_is_timed_by_its_own_clock() -> None:
    followed = track(500.0, bar(0, elapsed=0.0), "graphs", 7)
    for n in range(1, 20):
        followed.add(500.0, bar(n, elapsed=n * 3.0))
    assert followed.rate() == pytest.approx(1 / 3)


def test_dropped_lines_change_no_rate() -> None:
    followed = track(0.0, bar(0, 64, 0.0), "shards", 7)
    followed.add(90.0, bar(10, 64, 90.0))
    followed.add(360.0, bar(40, 64, 360.0))
    assert followed.rate() == pytest.approx(1 / 9)


def test_the_first_update_says_too_little() -> None:
    assert track(0.0, bar(0, 64, 0.0), "shards", 7).rate() is None
    assert track(0.0, bar(5, 64, 50.0), "shards", 7).rate() == pytest.approx(0.1)


def test_a_copy_is_no_restart_and_a_new_bar_is() -> None:
    followed = track(0.0, bar(64, 64, 600.0), "shards", 7)
    assert not followed.restarts(bar(64, 64, 600.0))
    assert followed.restarts(bar(0, 64, 0.0))
    running = track(0.0, bar(30, 64, 300.0), "shards", 7)
    assert not running.restarts(bar(29, 64, 290.0)), "an older update, late"
    assert not running.restarts(bar(0, 64, 0.0)), "another rank's bar"
    assert running.restarts(bar(1, 5, 2.0)), "lines were lost, and another bar runs"


@given(st.lists(st.tuples(st.floats(0, 1e9), st.integers(0, 500), st.none() | st.floats(0, 1e6)), max_size=500))
def test_counts_never_fall(updates: list[tuple[float, int, float | None]]) -> None:
    followed = track(0.0, bar(0, 500), "shards", 7)
    done = 0.0
    for at, count, elapsed in updates:
        followed.add(at, bar(count, 500, elapsed))
        assert followed.done >= done
        done = followed.done
        assert (followed.rate() or 0.0) >= 0.0
    assert len(followed.points) <= KEEP
