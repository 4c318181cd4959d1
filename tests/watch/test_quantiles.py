"""Quantiles of histograms, against the definition of Prometheus' ``histogram_quantile``."""

from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from watch.quantiles import added, grown, quantile

INF = math.inf


def test_a_quantile_is_interpolated_within_its_bucket():
    buckets = {0.1: 10, 0.2: 30, 0.4: 40, INF: 40}
    assert quantile(0.5, buckets) == 0.1 + 0.1 * (20 - 10) / 20
    assert quantile(0.25, buckets) == 0.1
    assert quantile(1.0, buckets) == 0.4


def test_beyond_the_last_bound_the_last_bound_is_all_that_is_known():
    assert quantile(0.99, {1.0: 1, 2.0: 2, INF: 100}) == 2.0


def test_no_observation_no_infinity_or_a_single_bucket_is_no_quantile():
    assert quantile(0.5, {}) is None
    assert quantile(0.5, {1.0: 0, INF: 0}) is None
    assert quantile(0.5, {1.0: 5, 2.0: 7}) is None
    assert quantile(0.5, {INF: 7}) is None


def test_a_torn_page_is_levelled_up():
    assert quantile(0.5, {1.0: 10, 2.0: 8, INF: 20}) == 1.0


def test_engines_are_added_before_the_quantile_is_taken():
    slow, fast = {1.0: 0, 10.0: 10, INF: 10}, {1.0: 90, 10.0: 90, INF: 90}
    merged = quantile(0.5, added([slow, fast]))
    assert merged is not None
    assert merged < 1.0, "the average of the two medians would be about 3"


def test_after_a_reset_the_new_page_counts_from_zero():
    assert grown({1.0: 3, INF: 5}, {1.0: 30, INF: 50}) == {1.0: 3, INF: 5}
    assert grown({1.0: 33, INF: 55}, {1.0: 30, INF: 50}) == {1.0: 3, INF: 5}


bounds = st.lists(st.floats(0.001, 1e4), min_size=1, max_size=12, unique=True)


@given(bounds, st.data())
def test_quantiles_never_fall_and_stay_within_the_bounds(edges, data):
    counts = data.draw(st.lists(st.integers(0, 1000), min_size=len(edges) + 1, max_size=len(edges) + 1))
    total, buckets = 0, {}
    for edge, count in zip([*sorted(edges), INF], counts, strict=True):
        total += count
        buckets[edge] = total
    values = [quantile(q / 20, buckets) for q in range(21)]
    if total == 0:
        assert set(values) == {None}
        return
    numbers = [value for value in values if value is not None]
    assert len(numbers) == 21
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(numbers))
    assert numbers[0] >= 0
    assert numbers[-1] <= max(edges)
