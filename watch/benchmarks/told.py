"""Comparisons and kept results told: as JSON for programs, as Markdown to paste, as rows for a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from watch.benchmarks.compare import Comparison, Ratio, level_of
from watch.benchmarks.keep import levels_of, side_of
from watch.benchmarks.result import BenchResult
from watch.history import Benchmark
from watch.view import BenchLevelView


class Summary(Struct, frozen=True, kw_only=True):
    """One load level of a kept benchmark, its repeats averaged. Latencies ms. None: not measured."""

    level: str
    concurrency: int | None
    runs: int
    output_tps: float
    requests_per_second: float
    ttft: float | None
    ttft_p99: float | None
    tpot: float | None
    e2el: float | None
    acceptance_length: float | None = None
    acceptance_rate: float | None = None
    joules_per_token: float | None = None
    watts: float | None = None
    failed: int = 0
    unusable: str = ""


def summaries(kept: Benchmark) -> tuple[Summary, ...]:
    """By level, in the order in which they were measured."""
    side, shown = side_of(kept), levels_of(kept)
    out = []
    for level in dict.fromkeys(map(level_of, side.runs)):
        runs = [run for run in side.runs if level_of(run) == level]
        views = [view for view in shown if view.level == level]
        out.append(_summary(level, runs, views))
    return tuple(out)


def _summary(level: str, runs: Sequence[BenchResult], views: Sequence[BenchLevelView]) -> Summary:
    return Summary(
        level=level,
        concurrency=runs[0].concurrency,
        runs=len(runs),
        output_tps=_mean(run.output_tps for run in runs) or 0.0,
        requests_per_second=_mean(run.requests_per_second for run in runs) or 0.0,
        ttft=_mean(run.ttft.median for run in runs),
        ttft_p99=_mean(run.ttft.p99 for run in runs),
        tpot=_mean(run.tpot.median for run in runs),
        e2el=_mean(run.e2el.median for run in runs),
        acceptance_length=_mean(
            [view.acceptance_length for view in views]
            or [run.speculation.length if run.speculation else None for run in runs]
        ),
        acceptance_rate=_mean(view.acceptance_rate for view in views),
        joules_per_token=_mean(view.joules_per_token for view in views),
        watts=_mean(view.watts for view in views),
        failed=sum(run.failures for run in runs),
        unusable=next((run.unusable for run in runs if run.unusable), ""),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known else None


def kept_json(kept: Benchmark) -> dict[str, Any]:
    """A row of ``bench list --json``: vLLM's own JSON is in ``result``, whole."""
    return {
        "id": kept.id,
        "run": kept.run,
        "target": kept.target,
        "unit": kept.unit,
        "at": datetime.fromtimestamp(kept.at, UTC).isoformat(),
        "preset": kept.preset,
        "baseline": kept.baseline,
        "revision": kept.revision or None,
        "invocation": kept.invocation,
        "versions": kept.versions,
        "levels": [{key: getattr(one, key) for key in one.__struct_fields__} for one in summaries(kept)],
        "result": kept.result,
    }


def comparison_json(found: Comparison, worse_by: float) -> dict[str, Any]:
    """``worse_by``: percent. ``outcome``: not-worse, worse, no-verdict."""
    return {
        "a": found.a,
        "b": found.b,
        "outcome": outcome(found, worse_by),
        "verdict": found.verdict or None,
        "refused": list(found.refused),
        "regression": found.regression(),
        "worse_by": worse_by / 100,
        "levels": [
            {
                "level": point.level,
                "concurrency": point.concurrency,
                "runs": list(point.runs),
                "figures": [_ratio_json(ratio) for ratio in point.ratios],
            }
            for point in found.points
        ],
        "differs": [{"what": what, "a": a, "b": b} for what, a, b in found.differs],
        "doubts": list(found.doubts),
    }


def _ratio_json(ratio: Ratio) -> dict[str, Any]:
    return {
        "name": ratio.name,
        "unit": ratio.unit,
        "a": ratio.a,
        "b": ratio.b,
        "ratio": ratio.ratio if math.isfinite(ratio.ratio) else None,
        "interval": None if ratio.low is None else [ratio.low, ratio.high],
        "word": ratio.word,
    }


def outcome(found: Comparison, worse_by: float) -> str:
    """By output tokens per second at the level that lost most. ``worse_by``: percent."""
    loss = found.regression()
    if loss is None:
        return "no-verdict"
    return "worse" if loss * 100 > worse_by else "not-worse"


def interval(ratio: Ratio) -> str:
    """``0.84–0.90``; a dash where the noise is unknown."""
    return "–" if ratio.low is None or ratio.high is None else f"{ratio.low:.2f}–{ratio.high:.2f}"


def figure(value: float) -> str:
    """With as many digits as mean something."""
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def comparison_markdown(found: Comparison) -> str:
    """A heading, the verdict, a table for each level, what else differs, the doubts."""
    lines = [f"### {_plain(found.b)} against {_plain(found.a)}", ""]
    if found.verdict:
        lines += [f"**{_plain(found.verdict)}**", ""]
    for why in found.refused:
        lines.append(f"No verdict: {_plain(why)}.  ")
    if found.points:
        lines += [
            f"| | | {_plain(found.a)} | {_plain(found.b)} | ratio | 95 % interval | |",
            "| --- | --- | ---: | ---: | ---: | ---: | --- |",
        ]
        for point in found.points:
            for place, ratio in enumerate(point.ratios):
                level = point.level if not place else ""
                values = f"{figure(ratio.a)} | {figure(ratio.b)} | {ratio.ratio:.2f} | {interval(ratio)} | {ratio.word}"
                lines.append(f"| {_plain(level)} | {ratio.name} ({ratio.unit}) | {values} |")
        lines.append("")
    if found.differs:
        lines += ["What else differs:", ""]
        lines += [f"- {_plain(what)}: {_plain(a)} → {_plain(b)}" for what, a, b in found.differs]
        lines.append("")
    lines += [f"- Doubt: {_plain(doubt)}" for doubt in found.doubts]
    return "\n".join(lines).rstrip() + "\n"


def _plain(text: str) -> str:
    """A server's words inside a line of Markdown: one line, nothing of them read as its marks."""
    words = "".join(char if char.isprintable() else "�" for char in " ".join(text.split()))
    return "".join("\\" + char if char in "\\`*_[]<>|#~" else char for char in words)
