"""Is one configuration better than another? Ratios with an interval, and a verdict in words.

A *side* is one configuration: one or more runs (repeats) at one or more load levels. Only levels that both sides
measured in the same way are compared; where the way differs, the difference is named and there is no verdict.

The interval comes from repeats: runs are drawn with replacement, and within each run its requests where their records
were saved, else the runs alone. With one run a side the noise between runs is unknown, and it is said so: requests
within one run share its weather, so they alone would promise too much.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from probes.bench.orders import MEASURED
from watch.benchmarks.result import BenchResult, Latency

DRAWS = 2000
LEVEL = 0.95
SAME = 0.02
"""Ratios nearer to 1 than this are called level: no operator would act on them."""
ON_THE_SERVER = "on the server's own host"
TOKENS_TOLERANCE = 0.02
"""Random prompts are tokenised anew by each server: their totals may differ by this share."""


class Side(Struct, frozen=True, kw_only=True):
    """One configuration and its runs. ``name``: what the verdict calls it: "n-gram", "baseline"."""

    name: str
    runs: tuple[BenchResult, ...]
    facts: Mapping[str, str] = {}
    """versions, revision, GPU, silent changes: whatever may differ besides what was meant to"""
    marks: tuple[str, ...] = ()
    """reasons to doubt all of its runs: "2 requests of others were running when it began" """


class Ratio(Struct, frozen=True, kw_only=True):
    """One figure of two sides. ``ratio`` is b / a; ``low``/``high`` its 95 % interval, None where noise is unknown."""

    name: str
    unit: str
    a: float
    b: float
    ratio: float
    low: float | None
    high: float | None
    higher_is_better: bool

    @property
    def word(self) -> str:
        """better, worse or level, as seen from b; by the interval where there is one."""
        if self.low is not None and self.high is not None and self.low <= 1 <= self.high:
            return "level"
        if abs(self.ratio - 1) < SAME:
            return "level"
        return "better" if (self.ratio > 1) == self.higher_is_better else "worse"


class Point(Struct, frozen=True, kw_only=True):
    """One load level at which both sides were measured."""

    level: str
    concurrency: int | None
    ratios: tuple[Ratio, ...]
    runs: tuple[int, int]

    @property
    def throughput(self) -> Ratio:
        return self.ratios[0]


class Comparison(Struct, frozen=True, kw_only=True):
    """``verdict`` is empty exactly where ``refused`` says why there is none."""

    a: str
    b: str
    points: tuple[Point, ...]
    verdict: str
    refused: tuple[str, ...]
    differs: tuple[tuple[str, str, str], ...]
    """what else is not the same: (fact, on a, on b)"""
    doubts: tuple[str, ...]

    def regression(self) -> float | None:
        """The worst loss of output tokens per second over the levels, a share (0.13: 13 % less); None: no verdict."""
        if self.refused or not self.points:
            return None
        return max(0.0, 1 - min(point.throughput.ratio for point in self.points))


def level_of(run: BenchResult) -> str:
    if run.rate is not None:
        return f"{run.rate:g} requests/s"
    return "no limit" if run.concurrency is None else f"concurrency {run.concurrency}"


def compare(a: Side, b: Side) -> Comparison:
    """``b`` against ``a`` (the baseline). Never raises on results that ``read_result`` gave."""
    refused = [f"{side.name}: {why}" for side in (a, b) for why in _unusable(side)]
    levels = [level for level in _levels(a) if level in _levels(b)]
    if not levels:
        refused.append(f"no load level in common ({_list(_levels(a))} against {_list(_levels(b))})")
    here, there = a.facts.get(MEASURED, ""), b.facts.get(MEASURED, "")
    if bool(here) != bool(there):
        refused.append(f"measured differently: {a.name} {here or ON_THE_SERVER}, {b.name} {there or ON_THE_SERVER}")
    for level in levels:
        refused += _way(level, _at(a, level), _at(b, level))
    points = tuple(_point(level, _at(a, level), _at(b, level)) for level in levels if _all_usable(a, b, level))
    doubts = [f"{side.name}: {mark}" for side in (a, b) for mark in side.marks]
    if points and any(min(point.runs) < 2 for point in points):
        doubts.append("one run each: how much two runs of the same configuration differ is unknown")
    left = [level for level in {*_levels(a), *_levels(b)} if level not in levels]
    if levels and left:
        doubts.append(f"measured on one side only, left out: {_list(sorted(left))}")
    return Comparison(
        a=a.name,
        b=b.name,
        points=points,
        verdict="" if refused else verdict(a, b, points),
        refused=tuple(dict.fromkeys(refused)),
        differs=tuple(
            (key, a.facts.get(key, "–"), b.facts.get(key, "–"))
            for key in dict.fromkeys([*a.facts, *b.facts])
            if a.facts.get(key) != b.facts.get(key)
        ),
        doubts=tuple(doubts),
    )


def verdict(a: Side, b: Side, points: Sequence[Point]) -> str:
    """One sentence: the ratio of output tokens per second, its interval, acceptance length, and at which levels."""
    if not points:
        return ""
    middle = statistics.geometric_mean([point.throughput.ratio for point in points])
    lows = [point.throughput.low for point in points if point.throughput.low is not None]
    highs = [point.throughput.high for point in points if point.throughput.high is not None]
    text = f"{b.name}: {middle:.2f} × {a.name} output tokens per second"
    if len(lows) == len(points) == 1:
        text += f" ({lows[0]:.2f}–{highs[0]:.2f})"
    elif len(lows) == len(points):
        text += f" (over the levels {min(lows):.2f}–{max(highs):.2f})"
    length = acceptance(b)
    if length is not None:
        text += f", acceptance length {length:.1f}"
    words = {point.level: point.throughput.word for point in points}
    kinds = set(words.values())
    if len(points) == 1:
        text += f"; {words[points[0].level]} at {points[0].level}"
    elif len(kinds) == 1:
        every = "concurrency" if all(point.concurrency is not None for point in points) else "load level"
        text += f"; {kinds.pop()} at every {every}"
    else:
        text += "; " + ", ".join(
            f"{word} at {_list([level for level in words if words[level] == word])}"
            for word in ("better", "level", "worse")
            if word in kinds
        )
    return text


def acceptance(side: Side) -> float | None:
    """Mean acceptance length over the runs that speculated, weighted by their output tokens."""
    rows = [(r.speculation.length, r.output_tokens) for r in side.runs if r.speculation and r.speculation.length]
    weight = sum(tokens for _, tokens in rows)
    return sum(length * tokens for length, tokens in rows) / weight if weight else None


def _point(level: str, a: Sequence[BenchResult], b: Sequence[BenchResult]) -> Point:
    ratios = [_ratio("output throughput", "tokens/s", a, b, lambda run: run.output_tps, True, _boot_throughput(a, b))]
    ratios.append(_ratio("request throughput", "requests/s", a, b, lambda run: run.requests_per_second, True, None))
    for name, get in (("TTFT", _get("ttft")), ("TPOT", _get("tpot")), ("E2EL", _get("e2el"))):
        for kind in ("median", "p99"):
            values = [(kind, get)]
            ratio = _latency_ratio(f"{name} {kind}", a, b, values[0])
            if ratio is not None:
                ratios.append(ratio)
    energy = {id(run): run.joules_per_token for run in (*a, *b)}
    if all(value is not None and value > 0 for value in energy.values()):
        ratios.append(_ratio("GPU energy", "J/token", a, b, lambda run: energy[id(run)] or 0.0, False, None))
    return Point(level=level, concurrency=a[0].concurrency, ratios=tuple(ratios), runs=(len(a), len(b)))


def _get(name: str) -> Callable[[BenchResult], Latency]:
    def get(run: BenchResult) -> Latency:
        found: Latency = getattr(run, name)
        return found

    return get


def _latency_ratio(
    name: str, a: Sequence[BenchResult], b: Sequence[BenchResult], which: tuple[str, Callable[[BenchResult], Latency]]
) -> Ratio | None:
    kind, get = which
    values = [[getattr(get(run), kind) for run in side] for side in (a, b)]
    if any(value is None or value <= 0 for side in values for value in side):
        return None
    lookup = {
        id(run): value for side, runs in zip(values, (a, b), strict=True) for run, value in zip(runs, side, strict=True)
    }
    return _ratio(name, "ms", a, b, lambda run: lookup[id(run)], False, None)


def _ratio(
    name: str,
    unit: str,
    a: Sequence[BenchResult],
    b: Sequence[BenchResult],
    value: Callable[[BenchResult], float],
    higher_is_better: bool,
    draws: list[float] | None,
) -> Ratio:
    before, after = statistics.fmean(map(value, a)), statistics.fmean(map(value, b))
    if draws is None and min(len(a), len(b)) > 1:
        draws = _boot_runs([value(run) for run in a], [value(run) for run in b])
    low, high = _interval(draws) if draws else (None, None)
    ratio = after / before if before > 0 else math.inf
    return Ratio(
        name=name, unit=unit, a=before, b=after, ratio=ratio, low=low, high=high, higher_is_better=higher_is_better
    )


def _boot_runs(a: Sequence[float], b: Sequence[float]) -> list[float]:
    chance = random.Random(0)  # seeded: the same input gives the same interval
    out = []
    for _ in range(DRAWS):
        before = statistics.fmean(chance.choices(a, k=len(a)))
        after = statistics.fmean(chance.choices(b, k=len(b)))
        if before > 0:
            out.append(after / before)
    return out


def _boot_throughput(a: Sequence[BenchResult], b: Sequence[BenchResult]) -> list[float] | None:
    """Draws of the ratio of output tokens per second, or None where runs or records do not allow it.

    At a fixed concurrency the throughput is concurrency × tokens / seconds of the requests (Little's law), so drawing
    requests with replacement moves a run's throughput by the same factor as their tokens per second.
    """
    if min(len(a), len(b)) < 2 or not all(run.request_seconds for run in (*a, *b)):
        return None
    chance = random.Random(0)
    out = []
    for _ in range(DRAWS // 4):
        sides = []
        for runs in (a, b):
            drawn = chance.choices(runs, k=len(runs))
            sides.append(statistics.fmean(run.output_tps * _wobble(run, chance) for run in drawn))
        if sides[0] > 0:
            out.append(sides[1] / sides[0])
    return out


def _wobble(run: BenchResult, chance: random.Random) -> float:
    count = len(run.request_seconds)
    picks = chance.choices(range(count), k=count)
    tokens = run.request_tokens or (1,) * count
    now = sum(tokens[i] for i in picks) / math.fsum(run.request_seconds[i] for i in picks)
    return now / (sum(tokens) / math.fsum(run.request_seconds))


def _interval(draws: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(draws)
    edge = (1 - LEVEL) / 2
    return ordered[int(edge * (len(ordered) - 1))], ordered[math.ceil((1 - edge) * (len(ordered) - 1))]


def _levels(side: Side) -> list[str]:
    return list(dict.fromkeys(level_of(run) for run in side.runs))


def _at(side: Side, level: str) -> list[BenchResult]:
    return [run for run in side.runs if level_of(run) == level]


def _all_usable(a: Side, b: Side, level: str) -> bool:
    return not any(run.unusable for side in (a, b) for run in _at(side, level))


def _unusable(side: Side) -> list[str]:
    if not side.runs:
        return ["it has no run"]
    return [f"at {level_of(run)}, {run.unusable}" for run in side.runs if run.unusable]


def _way(level: str, a: Sequence[BenchResult], b: Sequence[BenchResult]) -> list[str]:
    """Which parameters of the measurement differ at a level, as sentences."""
    out = []
    one, other = a[0], b[0]
    pairs: list[tuple[str, object, object]] = [
        ("number of prompts", one.asked, other.asked),
        ("burstiness", one.burstiness, other.burstiness),
        ("concurrency", one.concurrency, other.concurrency),
        ("backend", one.backend, other.backend),
    ]
    pairs += [(key, one.dataset.get(key), other.dataset.get(key)) for key in {*one.dataset, *other.dataset}]
    for name, left, right in pairs:
        if left != right:
            out.append(f"measured differently at {level}: {name} {left} against {right}")
    if not out and one.completed and other.completed:
        for name, left, right in (
            ("input tokens a request", one.input_tokens / one.completed, other.input_tokens / other.completed),
            ("output tokens a request", one.output_tokens / one.completed, other.output_tokens / other.completed),
        ):
            if abs(left - right) > TOKENS_TOLERANCE * max(left, right):
                out.append(f"measured differently at {level}: {left:.0f} against {right:.0f} {name}")
    return out


def _list(words: Sequence[str]) -> str:
    return ", ".join(words) if words else "none"
