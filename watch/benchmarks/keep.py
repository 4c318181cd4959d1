"""Results in the history: kept whole, with what else may differ; and as sides of a comparison.

A benchmark is one row, however many runs it has. Its ``result`` is vLLM's JSON of the first run with one key more,
``firstlight``: ``runs`` (of each: ``level``, as it was shown, and from the second on ``result``), ``facts``, ``marks``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from probes.bench.orders import MEASURED
from probes.readings import BenchReading
from watch.benchmarks.compare import Comparison, Side, compare
from watch.benchmarks.result import BadResult, BenchResult, Speculation, read_result
from watch.history import Benchmark, History, LoadRecord
from watch.revisions import argument_changes, setting_changes
from watch.view import BenchLevelView, BenchView, View

ADDED = "firstlight"
SPECULATION = "speculation"
METHODS = {"ngram": "n-gram", "none": "no speculation", "eagle": "EAGLE", "eagle3": "EAGLE-3", "mtp": "MTP"}


def benchmark_of(
    view: View, results: Sequence[BenchReading], *, target: str, unit: str, load: LoadRecord | None, at: float
) -> Benchmark | None:
    """What is kept of the benchmark of this view. ``results``: its readings of stage result. ``load``: the load that it
    measured, as the history has it. None where no run left a result."""
    bench = view.benchmark
    if bench is None:
        return None
    whole = [reading for reading in results if reading.result is not None and reading.run == bench.run]
    if not whole:
        return None
    by_part = {level.part: level for level in bench.levels}
    first, *others = whole
    runs: list[dict[str, object]] = [{"level": msgspec.to_builtins(by_part.get(first.part))}]
    runs += [{"result": one.result, "level": msgspec.to_builtins(by_part.get(one.part))} for one in others]
    return Benchmark(
        target=target,
        unit=unit,
        at=at,
        run=bench.run,
        preset=bench.preset,
        result={
            **(first.result or {}),
            ADDED: {"runs": runs, "facts": facts_of(view, bench, load), "marks": list(marks_of(bench))},
        },
        versions=dict(load.versions) if load is not None else {},
        revision=load.revision if load is not None else 0,
        invocation=bench.invocation or (load.invocation if load is not None else ""),
    )


def facts_of(view: View, bench: BenchView, load: LoadRecord | None) -> dict[str, str]:
    """Whatever may differ between two results besides what was meant to."""
    facts: dict[str, str] = {}
    if view.version:
        facts["vLLM" if view.engine != "SGLang" else "SGLang"] = view.version
    for name, version in (load.versions if load is not None else {}).items():
        if name not in ("vllm", "sglang"):
            facts[name] = version
    for key in ("gpu", "topology", "model", MEASURED):
        if bench.facts.get(key):
            facts[{"gpu": "GPUs"}.get(key, key)] = bench.facts[key]
    for asked in view.asked:
        facts[asked.key] = asked.got or asked.asked
    for finding in view.findings:
        if finding.kind == "args" and view.load is not None and finding.load in (0, view.load.number):
            facts[finding.title] = "yes"
    if load is not None and load.compile_cache_warm is not None:
        facts["compile cache"] = "warm" if load.compile_cache_warm else "cold"
    return facts


def marks_of(bench: BenchView) -> Iterable[str]:
    """Reasons to doubt the whole of it."""
    return dict.fromkeys([*bench.warnings, *(mark for level in bench.levels for mark in level.marks)])


def levels_of(kept: Benchmark) -> tuple[BenchLevelView, ...]:
    """The runs of a kept benchmark, as they were shown."""
    out = []
    for run in _runs(kept):
        try:
            out.append(msgspec.convert(run.get("level"), BenchLevelView))
        except msgspec.ValidationError:
            continue
    return tuple(out)


def results_of(kept: Benchmark) -> tuple[BenchResult, ...]:
    """Its runs, in their order; one that cannot be read is left out."""
    return side_of(kept).runs


def side_of(kept: Benchmark, name: str = "") -> Side:
    """As one side of a comparison. A run that cannot be read is left out and said among the marks."""
    added = _mapping(kept.result.get(ADDED))
    runs, marks = [], [str(mark) for mark in _listed(added.get("marks"))]
    for number, run in enumerate(_runs(kept) or [{}]):
        try:
            result = read_result(_mapping(run.get("result")) if number else kept.result)
        except BadResult as error:
            marks.append(str(error))
            continue
        runs.append(_with_ours(result, _mapping(run.get("level"))))
    facts = {str(key): str(value) for key, value in _mapping(added.get("facts")).items()}
    return Side(name=name or f"run {kept.id}", runs=tuple(runs), facts=facts, marks=tuple(marks))


def _with_ours(result: BenchResult, level: Mapping[str, Any]) -> BenchResult:
    """With what was measured beside it: energy, and acceptance where an older vLLM leaves it to /metrics."""
    try:
        shown = msgspec.convert(level, BenchLevelView)
    except msgspec.ValidationError:
        return result
    speculation = result.speculation
    if speculation is None and shown.acceptance_length is not None:
        speculation = Speculation(shown.acceptance_rate, shown.acceptance_length, shown.per_position)
    return msgspec.structs.replace(result, speculation=speculation, joules_per_token=shown.joules_per_token)


def name_of(kept: Benchmark, against: Benchmark | None = None) -> str:
    """What a verdict calls it: by how it speculates where that is what differs, else by its revision, else by its
    run."""
    mine = method_of(kept)
    if kept.baseline:
        return "baseline"
    if mine and (against is None or method_of(against) != mine):
        return METHODS.get(mine, mine)
    if against is not None and kept.unit != against.unit:
        return kept.unit.removesuffix(".service")
    if against is not None and kept.revision and kept.revision != against.revision:
        return f"revision {kept.revision}"
    return f"run {kept.id}" if kept.id else "this run"


def method_of(kept: Benchmark) -> str:
    return str(_mapping(_mapping(kept.result.get(ADDED)).get("facts")).get(SPECULATION, ""))


def usable(kept: Benchmark) -> bool:
    """Whether a verdict may rest on it."""
    side = side_of(kept)
    return bool(side.runs) and not any(run.unusable for run in side.runs)


def compare_kept(history: History | None, a: Benchmark, b: Benchmark) -> Comparison:
    """``b`` against ``a``, with what differs between the files of their units beside the rest. Raises HistoryError."""
    found = compare(side_of(a, name_of(a, b)), side_of(b, name_of(b, a)))
    changes = revision_changes(history, a.revision, b.revision)
    known = {key for key, _, _ in changes}
    rest = tuple(row for row in found.differs if row[0] not in known)
    also = [f"the two have different presets: {a.preset} and {b.preset}"] if a.preset != b.preset else []
    return msgspec.structs.replace(
        found,
        differs=(*changes, *rest),
        refused=(*found.refused, *also),
        verdict="" if also else found.verdict,
    )


def revision_changes(history: History | None, a: int, b: int) -> tuple[tuple[str, str, str], ...]:
    """What differs between the files of two revisions: (argument or setting, in a, in b). Raises HistoryError."""
    if history is None or not a or not b or a == b:
        return ()
    one, other = history.revision(a), history.revision(b)
    if one is None or other is None:
        return ()
    changes = (*argument_changes(one.text, other.text), *setting_changes(one.text, other.text))
    return tuple((change.key, _shown(change.old), _shown(change.new)) for change in changes)


def word_of(found: Comparison) -> str:
    """better, worse, level; mixed where the levels disagree; refused where there is no verdict."""
    if found.refused or not found.points:
        return "refused"
    words = {point.throughput.word for point in found.points}
    if words <= {"better", "level"}:
        return "better" if "better" in words else "level"
    return "worse" if words <= {"worse", "level"} else "mixed"


def verdict_reading(kept: Benchmark, baseline: Benchmark | None, history: History | None, at: float) -> BenchReading:
    """The verdict as a reading, so that a replay shows it without the history. ``baseline`` None: there was none, and
    this one became it, or cannot. Raises HistoryError."""

    def made(text: str, word: str, differs: tuple[tuple[str, str, str], ...] = (), **facts: str) -> BenchReading:
        return BenchReading(
            at=at,
            run=kept.run,
            stage="verdict",
            text=text,
            unit=kept.unit,
            preset=kept.preset,
            facts={"word": word, **facts},
            differs=differs,
        )

    if baseline is None:
        if kept.baseline:
            return made("the first result of this deployment: it is the baseline from now on", "baseline")
        why = next((run.unusable for run in side_of(kept).runs if run.unusable), "it has no result that can be used")
        return made(f"no verdict: {why}", "refused")
    found = compare_kept(history, baseline, kept)
    if found.refused:
        text = f"no verdict against the baseline (run {baseline.id}): {found.refused[0]}"
        return made(text, "refused", found.differs, baseline=str(baseline.id))
    loss = found.regression()
    text = found.verdict + (f" ({'; '.join(found.doubts)})" if found.doubts else "")
    return made(
        text,
        word_of(found),
        found.differs,
        baseline=str(baseline.id),
        **({} if loss is None else {"regression": f"{loss:.6f}"}),
    )


def keep(
    history: History, view: View, results: Sequence[BenchReading], *, target: str, unit: str, at: float | None = None
) -> tuple[Benchmark, BenchReading] | None:
    """Put the benchmark of this view into the history, and say how it does against the baseline; the first that can be
    used becomes it. None where it left no result. Raises HistoryError."""
    loads = history.loads(target, unit, limit=20)
    bench = view.benchmark
    invocation = bench.invocation if bench is not None else ""
    load = next((one for one in loads if one.invocation == invocation), None) if invocation else None
    now = time.time() if at is None else at
    kept = benchmark_of(view, results, target=target, unit=unit, load=load, at=now)
    if kept is None:
        return None
    baseline = history.baseline(target, unit)
    if baseline is None and usable(kept):
        kept = msgspec.structs.replace(kept, baseline=True)
    kept = msgspec.structs.replace(kept, id=history.record_benchmark(kept))
    return kept, verdict_reading(kept, baseline, history, now)


def earlier_runs(history: History, target: str, unit: str, invocation: str) -> int:
    """How many runs this start of the server has been through: their prompts are in its prefix cache. Raises
    HistoryError."""
    kept = history.benchmarks(target, unit) if invocation else ()
    return sum(len(_runs(one)) for one in kept if one.invocation == invocation)


def _runs(kept: Benchmark) -> list[Mapping[str, Any]]:
    return [run for run in _listed(_mapping(kept.result.get(ADDED)).get("runs")) if isinstance(run, dict)]


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _shown(value: str | None) -> str:
    return "–" if value is None else value or "yes"
