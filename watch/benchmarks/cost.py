"""What a preset costs: how long it keeps the server busy, from what was measured before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from watch.benchmarks.keep import levels_of, side_of
from watch.benchmarks.presets import levels
from watch.config import Preset
from watch.history import Benchmark

START = 15.0
"""Seconds that a run takes before its first request, about: imports, the tokenizer, its prompts."""


class Cost(Struct, frozen=True, kw_only=True):
    """``seconds`` None: nothing was measured here that would tell; ``limit`` is then all that is known."""

    runs: int
    requests: int
    output_tokens: int
    limit: float
    seconds: float | None = None
    measured: bool = False
    """``seconds`` is what this preset took last time; else it follows from the speed at other loads"""


def cost(name: str, preset: Preset, kept: Sequence[Benchmark]) -> Cost:
    """``kept``: of the deployment, newest first. Raises BadPreset."""
    made = levels(name, preset)
    out = Cost(
        runs=len(made),
        requests=sum(level.prompts for level in made),
        output_tokens=sum(level.prompts * level.output_len for level in made),
        limit=preset.limit,
    )
    for one in kept:
        if one.preset == name and (took := _took(one, [level.concurrency for level in made])) is not None:
            return replace(out, seconds=took, measured=True)
    speeds = _speeds(kept)
    if not speeds:
        return out
    seconds = sum(START + level.prompts * level.output_len / _near(speeds, level.concurrency) for level in made)
    return replace(out, seconds=min(seconds, preset.limit))


def _took(kept: Benchmark, wanted: list[int]) -> float | None:
    """Seconds from the beginning of its first run to the end of its last; None where it was another measurement."""
    shown = levels_of(kept)
    if [level.concurrency for level in shown] != wanted or any(level.unusable for level in shown):
        return None
    took = max(level.ended for level in shown) - min(level.began for level in shown)
    return took if math.isfinite(took) and took > 0 else None


def _speeds(kept: Iterable[Benchmark]) -> dict[int, float]:
    """Output tokens a second by concurrency, the newest of each."""
    out: dict[int, float] = {}
    for one in kept:
        for run in side_of(one).runs:
            if run.concurrency and not run.unusable:
                out.setdefault(run.concurrency, run.output_tps)
    return out


def _near(speeds: dict[int, float], concurrency: int) -> float:
    """The speed at the nearest concurrency that was measured; below it less in proportion, above it no more."""
    nearest = min(speeds, key=lambda at: abs(math.log(at) - math.log(concurrency)))
    return speeds[nearest] * min(1.0, concurrency / nearest)
