"""Words and signs for benchmarks and verdicts. Colour only repeats what these say."""

from __future__ import annotations

from typing import Final

from tui.signs import Sign
from watch.benchmarks.told import figure
from watch.view import BenchView, View

VERDICTS: Final = {
    "better": Sign("▲", "better than the baseline", "strong ok"),
    "worse": Sign("▼", "worse than the baseline", "strong error"),
    "level": Sign("=", "level with the baseline", "strong"),
    "mixed": Sign("±", "better and worse than the baseline", "strong warn"),
    "refused": Sign("?", "no verdict", "strong warn"),
    "baseline": Sign("*", "the baseline", "strong ok"),
}
"""By the word of a verdict."""

STATES: Final = {
    "armed": Sign("◷", "Armed", "strong accent"),
    "running": Sign("▶", "Measuring", "strong accent"),
    "done": Sign("✔", "Done", "strong ok"),
    "failed": Sign("✖", "Failed", "strong error"),
    "refused": Sign("✖", "Refused", "strong error"),
    "cancelled": Sign("■", "Cancelled", "strong"),
    "unknown": Sign("?", "Not known how it ended", "strong warn"),
}
"""By the state of a benchmark."""

RECENT: Final = 900.0
"""Seconds for which one that came to nothing stands in the header."""


def of_this_load(view: View) -> BenchView | None:
    """The benchmark that says something of the load that is there now: of no other start of the server."""
    bench = view.benchmark
    if bench is None or bench.state in ("armed", "running"):
        return bench
    load = view.load
    if load is None:
        return bench
    if bench.invocation and load.invocation:
        return bench if bench.invocation == load.invocation else None
    return bench if bench.started >= load.started else None


def in_a_line(view: View) -> tuple[str, str]:
    """For the header, and its style; empty: nothing worth saying there."""
    bench = of_this_load(view)
    if bench is None:
        return "", ""
    if bench.state == "armed":
        return f"{STATES['armed'].sign} benchmark armed: {bench.preset}", "strong accent"
    if bench.state == "running":
        count = f" {bench.done}/{bench.total}" if bench.total and bench.part else ""
        of = f" run {bench.part}/{bench.parts}" if bench.part and bench.parts > 1 else ""
        return f"▶ benchmark {bench.preset}{of}{count}", "strong accent"
    if bench.state == "done" and bench.word in VERDICTS:
        sign = VERDICTS[bench.word]
        return f"{sign.sign} benchmark: {sign.word}", sign.style
    if bench.state in ("failed", "refused", "unknown") and view.now - (bench.ended or view.now) < RECENT:
        sign = STATES[bench.state]
        return f"{sign.sign} benchmark {'of unknown outcome' if bench.state == 'unknown' else bench.state}", sign.style
    return "", ""


def pair(values: tuple[float | None, float | None]) -> tuple[str, str]:
    """Median and p99."""
    return value(values[0]), value(values[1])


def value(number: float | None) -> str:
    return "–" if number is None else figure(number)
