"""Quantiles from histogram buckets, as Prometheus' ``histogram_quantile`` defines them for classic histograms.

Percentiles of several engines are never averaged: their buckets are added first. What is shown live is the difference
of two pages (what happened in the window), never the life-time distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

Buckets = Mapping[float, float]
"""Upper bound (``le``, inf for +Inf) → how many observations were at or below it."""


def quantile(q: float, buckets: Buckets) -> float | None:
    """The q-quantile (0–1) in the unit of the bounds, interpolated within its bucket.

    None where Prometheus says NaN: no observations, no +Inf bucket, fewer than two buckets. In the +Inf bucket the
    answer is the highest finite bound; a first bucket whose bound is not positive answers with that bound. Counts that
    decrease from bucket to bucket (a page torn between two scrapes) are levelled up, as Prometheus does.
    """
    bounds = sorted(buckets)
    if len(bounds) < 2 or bounds[-1] != math.inf or math.isnan(q):
        return None
    counts: list[float] = []
    highest = 0.0
    for bound in bounds:
        value = buckets[bound]
        highest = max(highest, value if not math.isnan(value) else 0.0)
        counts.append(highest)
    total = counts[-1]
    if total <= 0:
        return None
    if q < 0:
        return -math.inf
    if q > 1:
        return math.inf
    rank = q * total
    at = next((index for index, count in enumerate(counts[:-1]) if count >= rank), len(counts) - 1)
    if at == len(counts) - 1:
        return bounds[-2]
    if at == 0 and bounds[0] <= 0:
        return bounds[0]
    start, below = (bounds[at - 1], counts[at - 1]) if at else (0.0, 0.0)
    within = counts[at] - below
    if within <= 0:
        return bounds[at]
    return start + (bounds[at] - start) * (rank - below) / within


def added(parts: Iterable[Buckets]) -> dict[float, float]:
    """Several engines' buckets as one histogram. A bound that one of them lacks keeps the sum of the others."""
    out: dict[float, float] = {}
    for part in parts:
        for bound, count in part.items():
            out[bound] = out.get(bound, 0.0) + count
    return out


def grown(new: Buckets, old: Buckets) -> dict[float, float]:
    """What was observed between two pages. After a reset (fewer than before) all of the new page counts."""
    if any(count < old.get(bound, 0.0) for bound, count in new.items()):
        return dict(new)
    return {bound: count - old.get(bound, 0.0) for bound, count in new.items()}
