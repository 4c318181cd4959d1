"""Benchmarks as a watch saw them, folded from their readings: the one that runs, or the last one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from probes.command import plain
from probes.readings import BenchReading, GpuProcesses, GpuReading, JournalLine, MetricsReading
from probes.unit import full_name
from watch.benchmarks.compare import level_of
from watch.benchmarks.energy import Energy
from watch.benchmarks.growth import Growth, growth
from watch.benchmarks.result import BadResult, BenchResult, Latency, read_result
from watch.metrics import read_page
from watch.view import BenchLevelView, BenchState, BenchView

KEPT = 8
"""Benchmarks that are remembered: one is shown, others may have been refused beside it."""

WARM = 0.05
"""Share of prompt tokens from the prefix cache above which a run is no measure of a cold prompt."""

_ANSWER = re.compile(r'"(POST /v1/(?:chat/)?completions)[^ "]* HTTP/1\.[01]" (\d{3}\b[^\x00-\x1f]{0,100})')
"""How the server's access log tells of a request: what was asked, the status it was answered with."""

STATES: dict[str, BenchState] = {
    "done": "done", "failed": "failed", "refused": "refused", "cancelled": "cancelled",
}  # fmt: skip


class _Run:
    def __init__(self, first: BenchReading) -> None:
        self.first = first
        self.last = first
        self.started = first.at
        self.text = first.text
        self.state: BenchState = "running"
        self.ended: float | None = None
        self.warnings: list[str] = []
        self.facts: dict[str, str] = {}
        self.levels: dict[int, BenchLevelView] = {}
        self.level_began = 0.0
        self.done = self.total = self.failed = self.part = self.concurrency = 0
        self.first_error = ""
        self.refused = 0
        """requests of the run that is under way which the server answered with an error, by its journal"""
        self.refusal = ""
        self.tokens: tuple[float, float] | None = None
        """(at, tokens generated so far) of the first page of the run that is under way"""
        self.rate: float | None = None
        self.verdict: BenchReading | None = None


class Benchmarks:
    """``unit``: whose GPUs' energy is counted, where it is known which those are."""

    def __init__(self, unit: str) -> None:
        self._unit = full_name(unit) if unit else ""
        self._runs: dict[str, _Run] = {}
        self._energy = Energy()
        self._gpus: frozenset[int] = frozenset()
        self._view: BenchView | None = None

    # ----- readings

    def apply(self, reading: BenchReading) -> None:
        if not reading.run or (reading.stage == "result" and not reading.outcome):
            return  # a saved result in a folder that is explained: no run of this watch
        run = self._runs.get(reading.run)
        if run is None:
            run = self._runs[reading.run] = _Run(reading)
            if len(self._runs) > KEPT:
                del self._runs[next(iter(self._runs))]
        run.last = reading
        self._take(run, reading)
        runs = list(self._runs.values())
        found = [run for run in runs if run.state == "running"] or [run for run in runs if run.state == "armed"] or runs
        self._view = _made(found[-1])

    def _take(self, run: _Run, reading: BenchReading) -> None:
        run.facts.update(reading.facts if reading.stage != "verdict" else {})
        if reading.outcome == "warn" and reading.text not in run.warnings:
            run.warnings.append(reading.text)
        elif reading.text and reading.stage not in ("verdict", "progress") and reading.outcome != "note":
            run.text = reading.text
        match reading.stage:
            case "arm":
                run.state = "armed" if reading.outcome == "begun" else "cancelled"
                run.ended = None if run.state == "armed" else reading.at
            case "begin":
                run.state, run.ended, run.started = "running", None, reading.at
            case "level" if reading.outcome == "begun":
                run.part, run.concurrency, run.level_began = reading.part, reading.concurrency, reading.at
                run.done, run.total, run.tokens, run.rate = 0, reading.total or 0, None, None
                run.refused = 0
            case "progress":
                run.done, run.total = max(run.done, reading.done or 0), reading.total or run.total
                run.text = "measuring"
            case "result":
                run.failed += reading.failed or 0
                run.refused = 0  # ours are among those that vLLM has counted
                run.refusal = run.refusal if reading.failed else ""
                run.first_error = run.first_error or _first_error(reading.text)
                run.levels[reading.part] = self._level(run, reading)
            case "verdict":
                run.verdict = reading
            case "end":
                run.state, run.ended = STATES.get(reading.outcome, "unknown"), reading.at

    @property
    def measuring(self) -> bool:
        """Whether a run is under way, so that ``lines`` can tell anything."""
        return self._under_way() is not None

    def lines(self, lines: Iterable[JournalLine]) -> bool:
        """Lines of the server's own while a run goes on: vLLM's benchmark tells of failed requests at its end only, the
        server's access log at once. Requests of others are among them; the result counts ours alone. Whether anything
        changed."""
        run = self._under_way()
        changed = False
        for line in lines:
            if run is None or '"POST /v1/' not in line.text or line.at < run.level_began:
                continue
            found = _ANSWER.search(line.text)
            if found is not None and not found[2].startswith("2"):
                run.refused += 1
                run.refusal = run.refusal or plain(f"HTTP status {found[2].strip()} ({found[1]})", 200)
                changed = True
        if run is not None and changed:
            self._view = _made(run)
        return changed

    def gpu(self, reading: GpuReading) -> None:
        if not any(run.state == "running" for run in self._runs.values()):
            self._energy.forget()
        self._energy.take(reading)

    def processes(self, reading: GpuProcesses) -> None:
        mine = {process.gpu for process in reading.processes if self._unit and process.unit == self._unit}
        self._gpus = frozenset(mine)

    def page(self, reading: MetricsReading) -> None:
        """Tokens a second so far, of the run that is under way."""
        run = self._under_way()
        if run is None or not reading.samples or reading.at < run.level_began:
            return
        series = read_page(reading.samples).series
        made = sum(value for (key, _, _), value in series.items() if key == "generation tokens")
        if run.tokens is None or made < run.tokens[1]:
            run.tokens = (reading.at, made)
        elif reading.at > run.tokens[0]:
            run.rate = (made - run.tokens[1]) / (reading.at - run.tokens[0])
        self._view = _made(run)

    def view(self) -> BenchView | None:
        return self._view

    def _under_way(self) -> _Run | None:
        return next((one for one in self._runs.values() if one.state == "running" and one.level_began), None)

    # ----- one run

    def _level(self, run: _Run, reading: BenchReading) -> BenchLevelView:
        began, ended = reading.began or run.level_began, reading.at
        marks: list[str] = []
        result: BenchResult | None = None
        why = reading.text
        if reading.result is not None:
            try:
                result = read_result(reading.result)
                why = result.unusable
            except BadResult as error:
                why = str(error)
        counted = growth(reading.before, reading.after)
        if result is not None and counted is not None:
            marks += _doubts(result, counted)
        joules = self._energy.used(began, ended, self._gpus) if result is not None else None
        return _level_view(run, reading, result, why, counted, joules, began, ended, tuple(marks))


def _level_view(
    run: _Run,
    reading: BenchReading,
    result: BenchResult | None,
    why: str,
    counted: Growth | None,
    joules: float | None,
    began: float,
    ended: float,
    marks: tuple[str, ...],
) -> BenchLevelView:
    counted = counted or Growth()
    own = result.speculation if result is not None else None
    nothing = Latency()
    tokens = result.output_tokens if result is not None else 0
    return BenchLevelView(
        part=reading.part,
        level=level_of(result) if result is not None else f"concurrency {reading.concurrency}",
        concurrency=reading.concurrency,
        repeat=reading.repeat,
        began=began,
        ended=ended,
        completed=result.completed if result is not None else 0,
        failed=result.failures if result is not None else reading.failed or 0,
        unusable=why,
        output_tps=_finite(result.output_tps) if result is not None else 0.0,
        requests_per_second=_finite(result.requests_per_second) if result is not None else 0.0,
        ttft=_pair(result.ttft if result is not None else nothing),
        tpot=_pair(result.tpot if result is not None else nothing),
        itl=_pair(result.itl if result is not None else nothing),
        e2el=_pair(result.e2el if result is not None else nothing),
        acceptance_length=own.length if own is not None and own.length else counted.acceptance_length,
        acceptance_rate=own.rate if own is not None and own.rate is not None else counted.acceptance_rate,
        per_position=(own.positions if own is not None else ()) or counted.positions,
        preemptions=counted.preemptions,
        queue_mean=counted.queue_mean,
        joules_per_token=joules / tokens if joules is not None and tokens else None,
        watts=joules / (ended - began) if joules is not None and ended > began else None,
        marks=marks,
    )


def _doubts(result: BenchResult, counted: Growth) -> list[str]:
    out = []
    # a first request may be sent to see whether the server answers, and one or more to warm it up
    own = result.completed + result.failures + 1 + max(1, round(0.02 * result.asked))
    if counted.requests is not None and counted.requests > own:
        out.append(f"the server answered {counted.requests - result.completed:.0f} requests of others meanwhile")
    if counted.prefix_hit is not None and counted.prefix_hit > WARM:
        out.append(f"{counted.prefix_hit:.0%} of the prompt tokens came from the prefix cache")
    return out


def _pair(latency: Latency) -> tuple[float | None, float | None]:
    return latency.median, latency.p99


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _first_error(text: str) -> str:
    return text.partition("(first error: ")[2].removesuffix(")")


def _made(run: _Run) -> BenchView:
    first, verdict = run.first, run.verdict
    facts = verdict.facts if verdict is not None else {}
    loss = facts.get("regression", "")
    return BenchView(
        run=first.run,
        unit=first.unit,
        preset=first.preset,
        who=first.who,
        state=run.state,
        text=run.text,
        started=run.started,
        ended=run.ended,
        part=run.part,
        parts=run.last.parts or first.parts,
        concurrency=run.concurrency,
        level_began=run.level_began,
        done=run.done,
        total=run.total,
        failed=run.failed + run.refused,
        first_error=run.first_error or run.refusal,
        generation_tps=run.rate,
        warnings=tuple(run.warnings),
        levels=tuple(run.levels[part] for part in sorted(run.levels)),
        facts=dict(run.facts),
        invocation=run.facts.get("invocation", ""),
        verdict=verdict.text if verdict is not None else "",
        word=facts.get("word", ""),
        baseline=facts.get("baseline", ""),
        regression=float(loss) if loss.replace(".", "", 1).isdecimal() else None,
        differs=verdict.differs if verdict is not None else (),
    )
