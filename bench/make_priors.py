"""Makes ``watch/priors.toml`` from the timelines: ``python -m bench.make_priors [TIMELINES] [--out FILE]``.

Margins: location and scale of log(1 + seconds) of each piece, by maximum likelihood of Student's distribution with four
degrees of freedom. Correlations: of the latent values, over the loads that show both of a pair (n of them), shrunk by
n/(n + 5), then shrunk together until positive definite. Nothing is drawn at random: the same file gives the same
priors. What no timeline shows (the time before the first line, how loads of one key differ) is stated below, and the
file says so.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.timelines import BadTimelines, Timeline, load_at, phases, read_timelines
from watch.forecast import features, weights_gib
from watch.normals import Matrix, squash
from watch.pieces import PIECES, Piece, bounds, durations, first_bar
from watch.priors import (
    BarTable,
    Calibration,
    CompileTable,
    CpuTable,
    EagerTable,
    FeatureTable,
    HistoryTable,
    PieceTable,
    Priors,
    Silent,
    SizeTable,
)
from watch.rates import bar_ends

TIMELINES = Path(__file__).parent.parent / "tests" / "recordings" / "timelines" / "timelines.jsonl"
PRIORS = Path(__file__).parent.parent / "watch" / "priors.toml"
FEATURES = ("log_gib", "log2_ranks", "sglang", "unified_memory", "release", "draft")
SIZE_UNIT = 2.0
SIZE: dict[Piece, float] = {"read": 1.0, "place": 0.5, "capture": 0.5}
"""Exponents: reading takes time in proportion to the bytes; placing and capture grow with the root, measured."""
SHRINK = 5.0
LEAST_SCALE = 0.25
SMALLEST_PIVOT = 0.05
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)

CPU = CpuTable(capture=0.05, profile=0.1)
BOOT = Silent(median=15.0, scale=0.7)
PRE_START = Silent(median=5.0, scale=1.5)
HISTORY = HistoryTable(
    deviation={
        "config": 0.12,
        "dist-init": 0.2,
        "prepare": 0.3,
        "read": 0.2,
        "place": 0.25,
        "compile": 0.3,
        "profile": 0.2,
        "capture": 0.2,
        "api-start": 0.25,
    },
    together=0.5,
    seconds=0.7,
    after_cold=-0.5,
    weights=(1.0, 0.5, 0.25),
)
CALIBRATION = Calibration(
    low=0.05, middle=0.5, high=0.96, by_total=0.75, by_rest=0.5, range_by_total=1.0, early=1.2, late=0.95, history=1.2
)


class Row:
    """One timeline, cut: log(1 + seconds) of its pieces, and its features."""

    def __init__(self, timeline: Timeline) -> None:
        whole = timeline.ready if timeline.ready is not None else math.inf
        load = load_at(timeline, whole)
        begin = load.first_line if timeline.from_process_start else None
        passed = bounds(begin, phases(timeline, whole), timeline.ready)
        compiles = not (timeline.eager or timeline.compiled is False)
        cut = durations(passed, compiles=compiles)
        if begin is None:
            # The log begins in the middle: what lies before its first piece of evidence is not a duration.
            cut.pop("dist-init", None)
        self.capture = math.log1p(cut["capture"]) if "capture" in cut else None
        if timeline.eager:
            cut.pop("capture", None)
        gib = weights_gib(load)
        self.size = math.log1p(gib / SIZE_UNIT) if gib is not None else None
        self.eager, self.warm = timeline.eager, timeline.compile_cache_warm
        self.pieces: dict[Piece, float] = {piece: math.log1p(seconds) for piece, seconds in cut.items()}
        self.features = features(load)
        if timeline.engine is None:
            self.features.pop("sglang", None)


def make_priors(timelines: Sequence[Timeline]) -> Priors:
    """Raises ValueError when there is nothing to learn from (a piece that fewer than three loads show)."""
    rows = [Row(timeline) for timeline in timelines]
    pieces: dict[Piece, PieceTable] = {}
    columns: list[list[float | None]] = []
    sizes = [row.size for row in rows if row.size is not None]
    usual, between = _student(sizes)
    for piece in PIECES:
        exponent = SIZE.get(piece, 0.0)
        logs = [
            row.pieces[piece] - exponent * (row.size or 0.0)
            if piece in row.pieces and (row.size is not None or not exponent)
            else None
            for row in rows
        ]
        values = [value for value in logs if value is not None]
        if len(values) < 3:
            raise ValueError(f"only {len(values)} loads show the piece {piece}")
        median, scale = _student(values)
        pieces[piece] = PieceTable(median=round(median, 4), scale=round(scale, 4), size=exponent, loads=len(values))
        columns.append([squash((value - median) / scale) if value is not None else None for value in logs])
    tables: dict[str, FeatureTable] = {}
    for name in FEATURES:
        values = [row.features[name] for row in rows if name in row.features]
        mean = statistics.fmean(values)
        deviation = max(statistics.pstdev(values), 0.05)
        tables[name] = FeatureTable(
            mean=round(mean, 4),
            deviation=round(deviation, 4),
            least=round(min(values), 4),
            most=round(max(values), 4),
            loads=len(values),
        )
        columns.append([(row.features[name] - mean) / deviation if name in row.features else None for row in rows])
    return Priors(
        source="tests/recordings/timelines/timelines.jsonl, by bench/make_priors.py",
        loads=len(rows),
        correlation=_correlation(columns),
        size=SizeTable(unit=SIZE_UNIT, median=round(usual, 4), scale=round(between, 4)),
        pieces=pieces,
        features=tables,
        bar=_bars(timelines),
        compile=_compile(rows, pieces["compile"].median),
        eager=_eager(rows),
        cpu=CPU,
        boot=BOOT,
        pre_start=PRE_START,
        history=HISTORY,
        calibration=CALIBRATION,
    )


def _student(values: Sequence[float]) -> tuple[float, float]:
    """Location and scale of Student's distribution with four degrees of freedom, by expectation-maximisation."""
    middle = statistics.median(values)
    scale = max(1.4826 * statistics.median(abs(v - middle) for v in values), 0.2)
    for _ in range(60):
        weights = [5 / (4 + ((v - middle) / scale) ** 2) for v in values]
        middle = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
        spread = sum(w * (v - middle) ** 2 for w, v in zip(weights, values, strict=True)) / len(values)
        scale = max(math.sqrt(spread), 1e-3)
    return middle, max(scale, LEAST_SCALE)


def _correlation(columns: Sequence[Sequence[float | None]]) -> tuple[tuple[float, ...], ...]:
    size = len(columns)
    norms = []
    for column in columns:
        known = [v for v in column if v is not None]
        norms.append(math.sqrt(max(1e-6, sum(v * v for v in known) / len(known))))
    matrix: Matrix = [[1.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i):
            both = [(a, b) for a, b in zip(columns[i], columns[j], strict=True) if a is not None and b is not None]
            n = len(both)
            raw = sum(a * b for a, b in both) / n / norms[i] / norms[j] if n else 0.0
            matrix[i][j] = matrix[j][i] = max(-0.95, min(0.95, raw * n / (n + SHRINK)))
    share = 1.0
    while not _definite([[v * share if i != j else 1.0 for j, v in enumerate(row)] for i, row in enumerate(matrix)]):
        share -= 0.01
    return tuple(
        tuple(round(v * share, 3) if i != j else 1.0 for j, v in enumerate(row)) for i, row in enumerate(matrix)
    )


def _definite(matrix: Matrix) -> bool:
    """Whether every pivot of the Cholesky decomposition is far enough from zero."""
    size = len(matrix)
    lower: Matrix = [[0.0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = matrix[i][j] - sum(lower[i][k] * lower[j][k] for k in range(j))
            if i == j:
                if rest < SMALLEST_PIVOT:
                    return False
                lower[i][i] = math.sqrt(rest)
            else:
                lower[i][j] = rest / lower[j][j]
    return True


def _bars(timelines: Sequence[Timeline]) -> BarTable:
    """How far off the total of a bar is at each share, as the deviation that half of the errors lie within, × 1.48."""
    errors: dict[float, list[float]] = {share: [] for share in SHARES}
    for timeline in timelines:
        weights = next((p for p in phases(timeline, math.inf) if p.name == "weights"), None)
        bar = first_bar(weights.points) if weights is not None else ()
        if len(bar) < 4 or bar[-1].done < bar[-1].total:
            continue
        start = bar[0].at - (bar[0].elapsed or 0.0)
        real = bar[-1].at - start
        if real < 5:
            continue
        for share in SHARES:
            seen = [point for point in bar if point.done / point.total <= share + 0.05]
            if len(seen) > 1 and seen[-1].done / seen[-1].total > share - 0.05:
                ends = bar_ends(seen, seen[-1].at)
                if ends is not None:
                    errors[share].append(abs(math.log1p(ends[0] - start) - math.log1p(real)))
    deviations = [max(1.4826 * statistics.median(found), 0.05) if found else 0.3 for found in errors.values()]
    for index in range(len(deviations) - 2, -1, -1):
        deviations[index] = max(deviations[index], deviations[index + 1])
    return BarTable(share=SHARES, deviation=tuple(round(value, 3) for value in deviations))


def _compile(rows: Sequence[Row], median: float) -> CompileTable:
    shifts = []
    for warm in (True, False):
        values = [row.pieces["compile"] for row in rows if row.warm is warm and "compile" in row.pieces]
        n = len(values)
        shifts.append(round((statistics.median(values) - median) * n / (n + 4), 3) if n else 0.0)
    return CompileTable(warm=shifts[0], cold=shifts[1])


def _eager(rows: Sequence[Row]) -> EagerTable:
    eager = [row.capture for row in rows if row.eager and row.capture is not None]
    other = [row.capture for row in rows if not row.eager and row.capture is not None]
    if not eager or not other:
        return EagerTable(capture=0.15)
    return EagerTable(capture=round(math.exp(statistics.median(eager) - statistics.median(other)), 3))


def as_toml(priors: Priors) -> str:
    """The file's text."""
    lines = [
        "# Priors for the forecast of ready. Made by bench/make_priors.py: change that, not this file.",
        "# Shapes and units: watch/priors.py. Durations are in log(1 + seconds).",
        "",
        f'source = "{priors.source}"',
        f"loads = {priors.loads}",
        "correlation = [",
        *(f"  [{', '.join(f'{v:g}' for v in row)}]," for row in priors.correlation),
        "]",
    ]
    lines += ["", "[size]", *_fields(priors.size)]
    for piece, table in priors.pieces.items():
        seconds = math.expm1(table.median + table.size * priors.size.median)
        lines += ["", f"[pieces.{piece}]  # median {seconds:.0f} s at a usual size", *_fields(table)]
    for name, feature in priors.features.items():
        lines += ["", f"[features.{name}]", *_fields(feature)]
    for name in ("bar", "compile", "eager"):
        lines += ["", f"[{name}]", *_fields(getattr(priors, name))]
    lines += [
        "",
        "# What follows is stated, not fitted.",
        "",
        "[cpu]  # 19 recordings on a CPU: 0.7 to 0.9 s from the size of the KV cache to the end of the warm-up",
        *_fields(priors.cpu),
        "",
        "[boot]  # imports before the first line: 11 and 27 s in two GPU recordings, 10 to 60 s by public reports",
        *_fields(priors.boot),
        "",
        "[pre_start]  # ExecStartPre is anything: a check of a second or a download",
        *_fields(priors.pre_start),
        "",
        "[history]  # set to hold five pairs of repeats among the timelines and 22 among the recordings",
        *(line for line in _fields(priors.history) if not line.startswith("deviation")),
    ]
    lines += ["", "[history.deviation]", *(f"{name} = {value:g}" for name, value in priors.history.deviation.items())]
    lines += ["", "[calibration]  # chosen by cross-validation among round values", *_fields(priors.calibration), ""]
    return "\n".join(lines)


def _fields(table: object) -> list[str]:
    out = []
    for name in table.__struct_fields__:  # type: ignore[attr-defined]
        value = getattr(table, name)
        text = "[" + ", ".join(f"{v:g}" for v in value) + "]" if isinstance(value, tuple) else value
        out.append(f"{name} = {text}")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("timelines", nargs="?", type=Path, default=TIMELINES)
    parser.add_argument("--out", type=Path, default=PRIORS)
    args = parser.parse_args(argv)
    try:
        text = as_toml(make_priors(read_timelines(args.timelines)))
    except (BadTimelines, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    args.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
