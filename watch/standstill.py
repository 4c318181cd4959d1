"""Whether a server that runs requests makes tokens: a step that hangs leaves /health at 200 and the load "ready".

Two witnesses: the statistics line (every 10 s while there is traffic; after the first line without a token vLLM prints
it at DEBUG only, so what follows is silence) and the metrics pages. A long prompt is worked through in parts and counts
only when it is through, but its part of the KV cache grows meanwhile: a cache that fills is movement too. SGLang counts
tokens when a request is over, so its pages say nothing of the kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from probes.readings import MetricsReading
from watch.metrics import Page, read_page
from watch.texts import duration
from watch.view import StallView

NO_TOKENS = r"Avg prompt throughput: 0\.0 tokens/s, Avg generation throughput: 0\.0 tokens/s, Running: [1-9]"
"""RE2: a statistics line of requests that run without a token."""
_LINE = re.compile(
    r"(?:(Engine \d{1,5}|\d{1,5} Engines Aggregated): )?Avg prompt throughput: (\d{1,12}\.\d) tokens/s, "
    r"Avg generation throughput: (\d{1,12}\.\d) tokens/s, Running: (\d{1,9}) reqs(?:.{0,80}?Waiting: (\d{1,9}) reqs)?"
    r"(?:.{0,200}?KV cache usage: ([\d.]{1,9})%)?"
)
TELL, TELL_SILENT, TELL_FIRST = 60.0, 180.0, 300.0
"""Seconds without a token after which it is said: no step takes that long. Longer where only silence follows a line
without tokens (the requests may have been given up), and where no token was ever made: the first requests compile
kernels, which takes minutes."""
_NEXT = 90.0
"""Lines further apart than this do not speak of one standstill: between them it moved, or there was no traffic."""
_USUAL = "a token comes within milliseconds; a very long prompt may take tens of seconds to its first"
_COUNTED = ("prompt tokens", "generation tokens")


@dataclass(slots=True)
class _Run:
    """Requests without a token. ``kv``: how full the cache is, as printed; ``paged``: by metrics pages."""

    since: float
    last: float
    refs: tuple[str, ...]
    running: float
    waiting: float
    kv: str
    paged: bool

    def until(self, now: float) -> float:
        return self.last if self.paged else max(self.last, now)

    def tells(self, now: float, *, first: bool) -> bool:
        least = (TELL_FIRST, TELL_FIRST) if first else (TELL, TELL_SILENT)
        return self.last - self.since >= least[0] or self.until(now) - self.since >= least[1]


class Standstill:
    """The fold of statistics lines and metrics pages, each engine by itself."""

    def __init__(self) -> None:
        self._runs: dict[tuple[bool, str], _Run] = {}
        self._made: dict[str, float] = {}
        self._first = True
        """no token yet"""

    def new_load(self) -> None:
        self._first = True
        self._runs.clear()
        self._made.clear()

    def line(self, at: float, text: str, ref: str) -> None:
        """A line that may be a statistics line."""
        found = _LINE.search(text[:1024])
        if found is not None:
            engine, prompt, made, running, waiting, kv = found.groups()
            run = _Run(at, at, (ref,), float(running), float(waiting or 0), kv or "", False)
            self._first = self._first and not float(made) > 0
            self._see(engine or "", run, float(prompt) > 0 or float(made) > 0)

    def page(self, reading: MetricsReading, page: Page | None = None) -> None:
        """``page``: what stands in it, where that is known."""
        if not reading.samples or any(sample.name.startswith("sglang:") for sample in reading.samples[:8]):
            return
        page = page or read_page(reading.samples)
        for engine in [name for key, name in page.gauges if key == "running"]:
            gauge = {key: value for (key, name), value in page.gauges.items() if name == engine}
            counts = [value for (key, name, _), value in page.series.items() if name == engine and key in _COUNTED]
            made, before = sum(counts), self._made.get(engine)
            self._made[engine] = made
            self._first = self._first and not made > 0
            kv, waiting = f"{gauge.get('KV cache', 0.0):.6f}", gauge.get("waiting", 0.0)
            run = _Run(reading.at, reading.at, (reading.ref,), gauge["running"], waiting, kv, True)
            self._see(engine, run, not counts or made != before)

    def _see(self, engine: str, new: _Run, moving: bool) -> None:
        key = new.paged, engine
        run = self._runs.get(key)
        if moving or not new.running > 0:
            self._runs.pop(key, None)
            if new.paged:  # what a page shows moving, no line before it says stands still
                self._runs = {known: run for known, run in self._runs.items() if known[0]}
        if not new.running > 0 or (moving and not new.paged):
            return
        follows = run is not None and not moving and run.kv == new.kv and (new.paged or new.since - run.last <= _NEXT)
        if run is not None and follows:
            run.last, run.refs = max(run.last, new.last), (run.refs[0], *new.refs)
            run.running, run.waiting = new.running, new.waiting
        elif len(self._runs) < 1024:
            self._runs[key] = new  # of a page that moved, too: what comes after it is counted from there

    def view(self, now: float) -> StallView | None:
        """The longest standstill at ``now`` (UTC seconds, no later than what could have been heard)."""
        runs = [run for run in self._runs.values() if run.tells(now, first=self._first)]
        if not runs:
            return None
        run = min(runs, key=lambda run: run.since)
        wait = f", {run.waiting:g} wait" if run.waiting else ""
        took = duration(run.until(now) - run.since)
        refs = tuple(dict.fromkeys(ref for ref in run.refs if ref))
        what = f"{run.running:g} request{'s run' if run.running != 1 else ' runs'}{wait}: no token for {took}"
        return StallView(since=run.since, what=what, usual=_USUAL, refs=refs)
