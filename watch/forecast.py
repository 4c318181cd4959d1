"""When a load will be ready: a range of time, from what this load has shown, its earlier loads and priors.

A load is cut into pieces that follow one another (``watch/pieces.py``). Their durations have a joint prior (a Gaussian
copula with fat-tailed margins, ``watch/normals.py``): from the timelines of other loads, or around the durations of
this unit's earlier loads. The pieces that are over, the properties of the load (size, ranks, version …) and the bar of
the running piece condition it; the running piece is known to have lasted until now; what follows is summed over a fixed
set of even points. So what comes after the bar is never forgotten, a slow start-up slows the compile to come, and a
piece that outlasts everything known pushes its end away in proportion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from watch.normals import (
    Matrix,
    cdf,
    cholesky,
    condition,
    even_normals,
    even_points,
    quantile,
    spread,
    squash,
    weighted_quantiles,
)
from watch.pieces import (
    BOUNDS,
    PHASE_OF,
    PIECES,
    Bound,
    EarlierLoad,
    PhaseSeen,
    Piece,
    Point,
    bounds,
    durations,
    first_bar,
    last_bar,
)
from watch.priors import Priors, shipped_priors
from watch.rates import bar_ends, bytes_end
from watch.words import Phase

_POINTS = 192
_SILENT = frozenset(("pre-start", "process-start", "n/a"))
"""Phases in which the server itself need not have printed anything."""
_WEEK = 7 * 86400.0
_LONGEST = math.log(_WEEK)
_GIB = float(1 << 30)
_GIB_PER_BILLION = 1.1
"""Between 16 bits a weight (1.9) and 4 (0.6)."""


class LoadSoFar(Struct, frozen=True, kw_only=True):
    """Everything a forecast is made from. Unknown is None (or empty); any combination is accepted.

    ``started``: UTC seconds of the start attempt (systemd's), or of the first line where that is not known.
    ``first_line``: of the first line that the server itself printed; None before it. ``now``: UTC seconds.
    ``phases``: in order of their first mark, the running one last (``ended`` None). ``params_b``: billions of
    parameters, by the model's name, for where ``weights_bytes`` is not known. ``bytes_read``: read from storage by this
    load until now; ``read_rate``: bytes a second lately. ``gpu``: name of the device. ``draft``: a draft model's
    weights are loaded too (MTP, EAGLE, a draft model; not n-gram). ``cpu``: it runs on processors, not on
    GPUs. ``earlier``: loads of the same key, most recent first.
    """

    started: float
    now: float
    first_line: float | None = None
    engine: str = ""
    version: str = ""
    gpu: str = ""
    phases: tuple[PhaseSeen, ...] = ()
    weights_bytes: float | None = None
    params_b: float | None = None
    bytes_read: float | None = None
    read_rate: float | None = None
    tp: int | None = None
    pp: int | None = None
    eager: bool | None = None
    compiled: bool | None = None
    compile_cache_warm: bool | None = None
    draft: bool = False
    cpu: bool = False
    earlier: tuple[EarlierLoad, ...] = ()


class PieceForecast(Struct, frozen=True):
    """How long a phase that has not ended will take in all, seconds; ``low``..``high`` holds it 8 times in 10."""

    name: Phase
    low: float
    middle: float
    high: float


class Forecast(Struct, frozen=True, kw_only=True):
    """UTC seconds; ``low`` ≤ ``middle`` ≤ ``high``, none before ``now``; ``low``..``high`` holds the real time of
    ready 8 times in 10. ``basis``: where it comes from, in words for the screen. ``phases``: the running phase and
    those to come."""

    low: float
    middle: float
    high: float
    basis: str
    phases: tuple[PieceForecast, ...] = ()


def forecast(load: LoadSoFar, priors: Priors | None = None) -> Forecast | None:
    """When this load will be ready. None: there is nothing to say (times that cannot be, already ready, or the first
    load of a unit before its first line).

    Pure and deterministic; takes a few milliseconds; never raises.
    """
    priors = priors or shipped_priors()
    if not (math.isfinite(load.now) and math.isfinite(load.started)) or load.now < load.started - 1:
        return None
    if any(phase.name in ("ready", "serving", "stopping") for phase in load.phases):
        return None
    earlier = tuple(entry for entry in load.earlier if _usable(entry))
    begun = load.first_line is not None or any(phase.name not in _SILENT for phase in load.phases)
    if not begun and not earlier:
        return None
    return _Outlook(load, priors, earlier).forecast()


class _Stretch(Struct):
    """One stretch of time to come: ``median`` and ``scale`` of log(1 + seconds); ``index`` into the latent variables,
    None: on its own."""

    phase: Phase
    median: float
    scale: float
    index: int | None
    factor: float = 1.0


class _Outlook:
    """One forecast in the making."""

    def __init__(self, load: LoadSoFar, priors: Priors, earlier: tuple[EarlierLoad, ...]) -> None:
        self.load, self.priors, self.earlier = load, priors, earlier
        self.compiles = not (load.eager or load.compiled is False or load.engine.lower() == "sglang")
        if earlier and load.eager is None and load.compiled is None:
            before = _bounds_of(earlier[0])
            self.compiles = "compiled" in before or "kv" not in before
        begin = load.first_line
        if begin is None:  # systemd tells of the process before it says a word itself
            begin = next((phase.started for phase in load.phases if phase.name not in _SILENT), None)
        passed = bounds(begin, load.phases)
        self.passed: dict[Bound, float] = {bound: at for bound, at in passed.items() if at <= load.now}
        self.source = ""
        self.least = 0.0
        """seconds that the running piece takes at least, by a bar in it"""
        self._find_running()
        self.mean: list[float] = []
        self.cov: Matrix = []
        self.median: dict[Piece, float] = {}
        self.scale: dict[Piece, float] = {}
        if earlier:
            self._from_history()
        else:
            self._from_priors()
        self.prior = self.cov
        self._observe()

    def _find_running(self) -> None:
        """The piece that runs, and since when."""
        load = self.load
        bytes_move = (
            "weights" in self.passed
            and not {"bar", "placed"} & self.passed.keys()
            and (load.read_rate or 0.0) > 0
            and (load.bytes_read or 0.0) > max(4 * _GIB, 0.05 * (load.weights_bytes or math.inf))
        )
        if bytes_move:
            self.passed["bar"] = self.passed["weights"]
        last = max((BOUNDS.index(bound) for bound in self.passed), default=-1)
        self.running: Piece | None = PIECES[last] if 0 <= last < len(PIECES) else None
        if last >= 0:
            self.since = self.passed[BOUNDS[last]]
        else:  # the process, once systemd has started it, else its preparations
            spans = [phase.started for phase in load.phases if phase.name in _SILENT and phase.started <= load.now]
            self.since = max((at for at in spans if math.isfinite(at)), default=load.started)
        if self.running == "compile" and not self.compiles:
            self.running = "profile"

    # Where the durations come from

    def _from_priors(self) -> None:
        priors, load = self.priors, self.load
        size = len(PIECES) + len(priors.features)
        self.mean = [0.0] * size
        self.cov = [list(row) for row in priors.correlation]
        for piece in PIECES:
            self.median[piece], self.scale[piece] = self._prior(piece)
        if load.compile_cache_warm is not None:
            self.median["compile"] += priors.compile.warm if load.compile_cache_warm else priors.compile.cold
        seen = features(load)
        for index, (name, table) in enumerate(priors.features.items(), len(PIECES)):
            if name in seen:
                value = (max(table.least, min(table.most, seen[name])) - table.mean) / table.deviation
                self.mean, self.cov = condition(self.mean, self.cov, index, value, 1e-3)

    def _prior(self, piece: Piece) -> tuple[float, float]:
        """``median`` and ``scale`` of log(1 + seconds) of a piece, for a checkpoint of this size."""
        table, size, gib = self.priors.pieces[piece], self.priors.size, weights_gib(self.load)
        if gib is None:
            return table.median + table.size * size.median, math.hypot(table.scale, table.size * size.scale)
        return table.median + table.size * math.log1p(gib / size.unit), table.scale

    def _from_history(self) -> None:
        """Around the earlier loads' durations; what they do not show comes from the priors."""
        table = self.priors.history
        self.mean = [0.0] * len(PIECES)
        self.cov = [[1.0 if i == j else table.together for j in range(len(PIECES))] for i in range(len(PIECES))]
        cut = [_repeatable(durations(_bounds_of(entry), compiles=self.compiles)) for entry in self.earlier]
        cold_before = self.earlier[0].compile_cache_warm is False and self.load.compile_cache_warm is not False
        for piece in PIECES:
            pairs = [(math.log1p(d[piece]), w) for d, w in zip(cut, table.weights, strict=False) if piece in d]
            if not pairs:
                self.median[piece], self.scale[piece] = self._prior(piece)
                continue
            total = sum(weight for _, weight in pairs)
            middle = sum(value * weight for value, weight in pairs) / total
            between = sum(weight * (value - middle) ** 2 for value, weight in pairs) / total
            usual = table.deviation[piece] ** 2 + (table.seconds / math.exp(middle)) ** 2
            self.median[piece] = middle + (table.after_cold if piece == "compile" and cold_before else 0.0)
            # With several loads their own differences count beside the usual ones.
            self.scale[piece] = math.sqrt((usual * 2 + between * (len(pairs) - 1)) / (1 + len(pairs)))
            if piece == "compile" and cold_before:
                self.scale[piece] = math.hypot(self.scale[piece], abs(table.after_cold) / 2)

    def _observe(self) -> None:
        """Condition on the pieces that are over, and on the bar of the one that runs."""
        for piece, seconds in durations(self.passed, compiles=self.compiles).items():
            self._see(piece, math.log1p(seconds), 0.14)
        if self.running is None:
            return
        found = self._bar()
        if found is None:
            return
        total, deviation = found
        elapsed = self.load.now - self.since
        self._see(self.running, math.log1p(max(total, elapsed)), deviation)

    def _see(self, piece: Piece, value: float, deviation: float) -> None:
        """``value``: log(1 + seconds) of a piece; ``deviation``: how far off it may be."""
        scale, off = self.scale[piece], (value - self.median[piece]) / self.scale[piece]
        # In the tails the latent scale is narrower than the logarithm's: carry the deviation over, too.
        noise = (squash(off + deviation / scale) - squash(off - deviation / scale)) / 2
        self.mean, self.cov = condition(self.mean, self.cov, PIECES.index(piece), squash(off), max(noise * noise, 1e-4))

    def _bar(self) -> tuple[float, float] | None:
        """Seconds that the running piece takes in all by its bar, and the deviation of their logarithm."""
        load, table = self.load, self.priors.bar
        open_phase = next((phase for phase in reversed(load.phases) if phase.ended is None and phase.points), None)
        end: tuple[float, float] | None = None
        if self.running == "read":
            weights = next((phase for phase in load.phases if phase.name == "weights"), None)
            end = bar_ends(_until(first_bar(weights.points), load.now), load.now) if weights is not None else None
            if end is not None:
                self.source = "pace of the weights"
            elif load.weights_bytes and load.bytes_read and load.read_rate:
                end = bytes_end(load.bytes_read, load.weights_bytes, load.read_rate, load.now)
                if end is not None:
                    self.source = "bytes read"
                    return end[0] - self.since, 0.1 + _between(end[1], table.share, table.deviation)
            if end is None:
                return None
            return end[0] - self.since, _between(end[1], table.share, table.deviation)
        if open_phase is None or self.running in ("config", "dist-init", "prepare"):
            return None
        end = bar_ends(_until(last_bar(open_phase.points), load.now), load.now)
        if end is None or end[1] >= 1:
            return None
        self.source = "pace of the running bar"
        # Such a bar (a draft's weights, autotuning, one of two captures) is a part of its piece, which outlasts it.
        self.least = 0.8 * (end[0] - self.since)
        return 1.1 * (end[0] - self.since), 0.2 + _between(end[1], table.share, table.deviation)

    # What is to come

    def forecast(self) -> Forecast | None:
        load, table = self.load, self.priors.calibration
        to_come = self._to_come()
        indices = [stretch.index for stretch in to_come]
        factor = table.history if self.earlier else table.early if "read" not in self.passed else table.late
        cov = [
            [
                (self.cov[i][j] if i is not None and j is not None else float(a == b)) * factor * factor
                for b, j in enumerate(indices)
            ]
            for a, i in enumerate(indices)
        ]
        mean = [self.mean[i] if i is not None else 0.0 for i in indices]
        elapsed = max(0.0, load.now - self.since)
        rests = _sample(to_come, mean, cov, elapsed, max(elapsed, self.least))
        totals = [sum(row) for row in rests]
        age = max(0.0, load.now - load.started)
        weights = [(age + rest + 1) ** -table.by_total * (rest + 1 + 0.02 * age) ** -table.by_rest for rest in totals]
        wide = [(age + rest + 1) ** -table.range_by_total for rest in totals]
        low, high = weighted_quantiles(totals, wide, (table.low, table.high))
        middle = min(high, weighted_quantiles(totals, weights, (table.middle,))[0])
        phases = []
        for name in dict.fromkeys(stretch.phase for stretch in to_come):
            places = [place for place, stretch in enumerate(to_come) if stretch.phase == name]
            sums = [sum(row[place] for place in places) for row in rests]
            before = self._spent(name) if name == to_come[0].phase else 0.0
            parts = weighted_quantiles(sums, wide, (table.low, table.middle, table.high))
            phases.append(PieceForecast(name, *(before + part for part in parts)))
        return Forecast(
            low=load.now + low,
            middle=load.now + max(low, middle),
            high=load.now + max(low, middle, high),
            basis=self._basis(),
            phases=tuple(phases),
        )

    def _to_come(self) -> list[_Stretch]:
        load, out = self.load, []
        first = 0
        if self.running is None:
            boot, pre = self._silent()
            if any(phase.name == "pre-start" and phase.ended is None for phase in load.phases):
                out.append(pre)
            out.append(boot)
        else:
            first = PIECES.index(self.running)
        if self.running == "compile":
            out.append(self._compile_and_profile())
            first += 2
        for index in range(first, len(PIECES)):
            piece = PIECES[index]
            if piece == "compile" and not self.compiles:
                continue
            out.append(_Stretch(PHASE_OF[piece], self.median[piece], self.scale[piece], index, self._factor(piece)))
        return out

    def _factor(self, piece: Piece) -> float:
        """What is left of a piece by what is known of this load; an earlier one has shown it already."""
        if self.earlier or piece not in ("capture", "profile"):
            return 1.0
        if self.load.cpu:
            cpu = self.priors.cpu
            return cpu.capture if piece == "capture" else 1.0 if self.compiles else cpu.profile
        return self.priors.eager.capture if piece == "capture" and self.load.eager else 1.0

    def _compile_and_profile(self) -> _Stretch:
        """While torch.compile runs, it and the profiling around it are one stretch: some versions name the end of the
        one only after the other. To first order in the logarithm of the sum, its latent value is a weighted sum."""
        pieces: tuple[Piece, Piece] = ("compile", "profile")
        seconds = [math.expm1(self.median[piece]) for piece in pieces]
        parts = [(1 + s) / (2 + sum(seconds)) * self.scale[piece] for s, piece in zip(seconds, pieces, strict=True)]
        a, b = (PIECES.index(piece) for piece in pieces)
        spread_of_both = math.sqrt(parts[0] ** 2 + parts[1] ** 2 + 2 * parts[0] * parts[1] * self.prior[a][b])
        share = [part / spread_of_both for part in parts]
        row = [share[0] * x + share[1] * y for x, y in zip(self.cov[a], self.cov[b], strict=True)]
        self.mean = [*self.mean, share[0] * self.mean[a] + share[1] * self.mean[b]]
        self.cov = [[*line, value] for line, value in zip(self.cov, row, strict=True)]
        self.cov.append([*row, share[0] * row[a] + share[1] * row[b]])
        return _Stretch("compile", math.log1p(sum(seconds)), spread_of_both, len(self.mean) - 1)

    def _silent(self) -> tuple[_Stretch, _Stretch]:
        """From the start to the first line, and what ExecStartPre takes."""
        boot, pre = self.priors.boot, self.priors.pre_start
        if self.earlier:
            seconds = max(1.0, self.earlier[0].first_line - self.earlier[0].started)
            return _Stretch("process-start", math.log1p(seconds), 0.3, None), _Stretch("pre-start", 0.0, 0.1, None)
        return (
            _Stretch("process-start", math.log1p(boot.median), boot.scale, None),
            _Stretch("pre-start", math.log1p(pre.median), pre.scale, None),
        )

    def _spent(self, name: Phase) -> float:
        """Seconds that a running phase has taken so far."""
        firsts: dict[Phase, Bound] = {"weights": "weights"}
        since = self.passed.get(firsts[name], self.since) if name in firsts else self.since
        return max(0.0, self.load.now - since)

    def _basis(self) -> str:
        if self.earlier:
            count = min(len(self.earlier), len(self.priors.history.weights))
            known = f"{count} earlier load{'s' if count > 1 else ''} of this unit"
        else:
            known = f"{self.priors.loads} loads elsewhere"
        return f"{self.source} and {known}" if self.source else known


def weights_gib(load: LoadSoFar) -> float | None:
    """Size of the checkpoint: as looked up or printed, else a guess from the model's name."""
    if load.weights_bytes is not None and 0 < load.weights_bytes < 1e16:
        return max(0.1, load.weights_bytes / _GIB)
    if load.params_b is not None and 0 < load.params_b < 1e5:
        return max(0.1, _GIB_PER_BILLION * load.params_b)
    return None


def features(load: LoadSoFar) -> dict[str, float]:
    """The properties of a load that its duration depends on, as far as they are known."""
    out: dict[str, float] = {}
    gib = weights_gib(load)
    if gib is not None:
        out["log_gib"] = math.log(gib)
    ranks = (load.tp or 1) * (load.pp or 1)
    if (load.tp or load.pp) and ranks > 0:
        out["log2_ranks"] = math.log2(ranks)
    if load.engine:
        out["sglang"] = float(load.engine.lower() == "sglang")
    if load.gpu:
        out["unified_memory"] = float(any(word in load.gpu for word in ("GB10", "Spark", "Thor", "Orin")))
    if load.engine.lower() == "vllm":
        release = _minor(load.version)
        if release is not None:
            out["release"] = release
    out["draft"] = float(load.draft)
    return out


def _minor(version: str) -> float | None:
    """vLLM's minor version as a number (0.9.2 → 9; 1.2 → 102)."""
    parts = version.lstrip("v").split(".")
    if len(parts) < 2 or not (parts[0].isascii() and parts[0].isdigit() and parts[1].isascii() and parts[1].isdigit()):
        return None
    return float(min(int(parts[0][:4]) * 100 + int(parts[1][:4]), 1000))


def _sample(
    to_come: Sequence[_Stretch], mean: list[float], cov: Matrix, elapsed: float, least: float
) -> list[list[float]]:
    """Possible remaining seconds of each stretch, one row a future. The first one has lasted ``elapsed`` already and
    takes ``least`` in all."""
    lower = cholesky(cov)
    count = len(to_come)
    first = to_come[0]
    edge = squash((math.log1p(least / first.factor) - first.median) / first.scale)
    outside = cdf((edge - mean[0]) / lower[0][0])
    rows = []
    tails = _tails(tuple(tuple(line[1:]) for line in lower))
    for point, tail in zip(even_points(_POINTS, count), tails, strict=True):
        z = quantile(outside + point[0] * (1 - outside))
        row = []
        for place, stretch in enumerate(to_come):
            latent = mean[place] + lower[place][0] * z + tail[place]
            log = min(_LONGEST, stretch.median + stretch.scale * spread(latent))
            seconds = max(0.0, math.expm1(log)) * stretch.factor
            row.append(max(0.0, seconds - elapsed) if place == 0 else seconds)
        rows.append(row)
    return rows


@lru_cache(maxsize=8)
def _tails(lower: tuple[tuple[float, ...], ...]) -> list[list[float]]:
    """What the stretches after the first one add to each latent value, a row a future: the same from second to second,
    while only the first stretch grows longer."""
    count = len(lower)
    return [
        [sum(line[k] * normal[k + 1] for k in range(place)) for place, line in enumerate(lower)]
        for normal in even_normals(_POINTS, count)
    ]


def _between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Linear interpolation, flat outside."""
    if x <= xs[0]:
        return ys[0]
    for x0, x1, y0, y1 in zip(xs, xs[1:], ys, ys[1:], strict=False):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return ys[-1]


def _until(bar: Sequence[Point], now: float) -> tuple[Point, ...]:
    return tuple(point for point in bar if point.at <= now)


def _bounds_of(entry: EarlierLoad) -> dict[Bound, float]:
    return bounds(entry.first_line, entry.phases, entry.ready)


def _repeatable(cut: dict[Piece, float]) -> dict[Piece, float]:
    """Without a download of the model: minutes in front of a bar that is then read fast. It is not done twice."""
    if cut.get("prepare", 0.0) > max(60.0, 3 * cut.get("read", 0.0)):
        return {piece: seconds for piece, seconds in cut.items() if piece != "prepare"}
    return cut


def _usable(entry: EarlierLoad) -> bool:
    times = (entry.started, entry.first_line, entry.ready)
    return all(math.isfinite(at) for at in times) and entry.started <= entry.first_line + 1 <= entry.ready + 1
