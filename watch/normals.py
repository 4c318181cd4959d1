"""The little mathematics of a forecast: normal and Student quantiles, conditioning, even points. No dependencies.

The joint prior of a load's pieces is a Gaussian copula with Student margins of four degrees of freedom: the logarithm
of a piece's duration is ``median + scale * spread(z)`` with standard normal, correlated ``z``. Student's fat tails are
what loads have (a capture of seconds that takes half an hour), and squashing an outlier back to ``z`` keeps it from
pulling the other pieces along. With four degrees of freedom, distribution function and quantile are closed forms
(W. T. Shaw, "Sampling Student's T distribution – use of the inverse cumulative distribution function", 2006).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

Matrix = list[list[float]]

_NORMAL = NormalDist()
_EDGE = 5.0
"""Beyond this many standard deviations a latent value is taken for the edge."""


def cdf(z: float) -> float:
    """Of the standard normal distribution."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def quantile(u: float) -> float:
    """Of the standard normal distribution, held within the edges."""
    if u <= 1e-9:
        return -_EDGE
    if u >= 1 - 1e-9:
        return _EDGE
    return max(-_EDGE, min(_EDGE, _NORMAL.inv_cdf(u)))


def student_cdf(t: float) -> float:
    """Of Student's distribution with four degrees of freedom."""
    if abs(t) > 1e6:
        return 1.0 if t > 0 else 0.0
    a = t / math.sqrt(1 + t * t / 4)
    return min(1.0, max(0.0, 0.5 + 0.375 * a * (1 - a * a / 12)))


def student_quantile(u: float) -> float:
    """Of Student's distribution with four degrees of freedom; ``u`` is held within (0, 1)."""
    u = min(1 - 1e-12, max(1e-12, u))
    alpha = 4 * u * (1 - u)
    root = math.sqrt(alpha)
    q = math.cos(math.acos(min(1.0, root)) / 3) / root
    return math.copysign(2 * math.sqrt(max(0.0, q - 1)), u - 0.5)


_STEP = 1 / 32
_TABLE = [student_quantile(cdf(-_EDGE + index * _STEP)) for index in range(int(2 * _EDGE / _STEP) + 2)]


def spread(z: float) -> float:
    """From the latent normal scale to Student's (by a table: exact to four digits)."""
    position = (max(-_EDGE, min(_EDGE, z)) + _EDGE) / _STEP
    index = int(position)
    return _TABLE[index] + (position - index) * (_TABLE[index + 1] - _TABLE[index])


def squash(t: float) -> float:
    """The inverse of ``spread``."""
    return quantile(student_cdf(t))


def condition(mean: list[float], cov: Matrix, index: int, value: float, noise: float) -> tuple[list[float], Matrix]:
    """The normal distribution after seeing ``value`` for one of its variables, with that variance of noise."""
    column = [row[index] for row in cov]
    total = column[index] + noise
    if not total > 0:
        return mean, cov
    off = (value - mean[index]) / total
    new_mean = [m + c * off for m, c in zip(mean, column, strict=True)]
    scaled = [c / total for c in column]
    new_cov = [[v - s * c for v, c in zip(row, column, strict=True)] for row, s in zip(cov, scaled, strict=True)]
    return new_mean, new_cov


def cholesky(cov: Matrix) -> Matrix:
    """Lower triangle L with L·Lᵀ = cov; pivots that rounding made negative are taken for nearly zero."""
    size = len(cov)
    out = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = cov[i][j] - sum(out[i][k] * out[j][k] for k in range(j))
            out[i][j] = math.sqrt(max(rest, 1e-9)) if i == j else rest / out[j][j]
    return out


_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


@functools.cache
def even_points(count: int, dimensions: int) -> tuple[tuple[float, ...], ...]:
    """``count`` points spread evenly over the unit cube (Halton's sequence): the same at every call, so that a forecast
    is a function of what was seen and of nothing else."""
    points = []
    for number in range(20, 20 + count):
        point = []
        for base in _PRIMES[:dimensions]:
            fraction, value, rest = 1.0, 0.0, number
            while rest:
                fraction /= base
                value += fraction * (rest % base)
                rest //= base
            point.append(value)
        points.append(tuple(point))
    return tuple(points)


@functools.cache
def even_normals(count: int, dimensions: int) -> tuple[tuple[float, ...], ...]:
    """``even_points`` as standard normal values."""
    return tuple(tuple(quantile(u) for u in point) for point in even_points(count, dimensions))


def weighted_quantiles(values: Sequence[float], weights: Sequence[float], at: Sequence[float]) -> list[float]:
    """Quantiles of a weighted sample, linear between the middles of its weights. ``values`` must not be empty."""
    order = sorted(range(len(values)), key=values.__getitem__)
    total = sum(weights)
    if not total > 0:
        weights, total = [1.0] * len(values), float(len(values))
    middles, sum_so_far = [], 0.0
    for index in order:
        middles.append((sum_so_far + weights[index] / 2) / total)
        sum_so_far += weights[index]
    out = []
    for wanted in at:
        right = next((place for place, middle in enumerate(middles) if middle >= wanted), len(order) - 1)
        left = max(0, right - 1)
        low, high = values[order[left]], values[order[right]]
        gap = middles[right] - middles[left]
        share = min(1.0, max(0.0, (wanted - middles[left]) / gap)) if gap > 0 else 1.0
        out.append(low + share * (high - low))
    return out
