"""How good the forecast of ready is: ``python -m bench.forecast [TIMELINES]`` (``make bench-forecast TIMELINES=FILE``).

Every timeline that reaches ready is replayed to 10, 25, 50 and 75 % of its real load time (first mark to ready), and
the forecast made there, from what a watcher had seen by then, is compared with the real moment. Printed per moment:

- ``error, whole``: median of |forecast − real| / (real − start): how far off the forecast of ready is, measured in load
  times. This is the error that the goals (30 % on a first load, 10 % with one earlier load) are about.
- ``error, rest``: median of |forecast − real| / (real − now): the same, measured in the time that is still to go; the
  stricter figure, and the one in which tqdm's own estimate is usually given.
- ``in range``: how often the real moment lay between low and high (goal 80 %), and ``width``: median of
  (high − low) / (real − start).
- ``tqdm``: both errors of the bar's own ``left``, taken as a forecast of ready, over the moments at which an unfinished
  bar stands (n of them); ours over the same moments beside it.

Without a file the shipped timelines are scored three times: with the shipped priors, which were made from these very
timelines (in sample), and with priors made without the scored configuration, and without anything from its owner. The
last two are what to believe. ``earlier load``: repeats of one configuration on one machine, each once as the history of
the other; and apart by whether the conditions stayed (no piece took twice as long in one of them as in the other):
pairs are published because something changed, a cold cache, a download. The recordings under ``tests/recordings`` are
played through the product's own fold.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from bench.make_priors import TIMELINES, make_priors
from bench.recordings import OneEarlier, Outcome, forecasts, played, read_recordings
from bench.timelines import BadTimelines, Timeline, alike, as_earlier, load_at, pairs, phases, read_timelines
from watch.forecast import Forecast, forecast
from watch.priors import Priors, shipped_priors

MOMENTS = (0.10, 0.25, 0.50, 0.75)


class Score(Struct, frozen=True):
    """One forecast against what happened. All in seconds from the start of the load."""

    name: str
    moment: float
    now: float
    real: float
    low: float
    middle: float
    high: float
    tqdm: float | None = None

    @property
    def whole(self) -> float:
        return abs(self.middle - self.real) / self.real

    @property
    def rest(self) -> float:
        return abs(self.middle - self.real) / (self.real - self.now)

    @property
    def inside(self) -> bool:
        return self.low <= self.real <= self.high

    @property
    def width(self) -> float:
        return (self.high - self.low) / self.real


def tqdm_says(timeline: Timeline, now: float) -> float | None:
    """When the bar of the weights ends by its own estimate; None before it has one and once it is full."""
    seen = [m for m in timeline.marks if m.phase == "weights" and m.at is not None and m.at <= now and m.total]
    if not seen or seen[-1].left is None or seen[-1].done == seen[-1].total:
        return None
    return max(now, (seen[-1].at or 0.0) + seen[-1].left)


def score(
    timelines: Iterable[Timeline],
    priors_for: Callable[[Timeline], Priors],
    *,
    blind: bool = False,
    earlier: Timeline | None = None,
) -> list[Score]:
    """All moments of all timelines that reach ready."""
    out = []
    for timeline in timelines:
        ready = timeline.ready
        if ready is None or ready <= 0:
            continue
        before = as_earlier(earlier) if earlier is not None else None
        for moment in MOMENTS:
            now = moment * ready
            load = load_at(timeline, now, blind=blind, earlier=(before,) if before is not None else ())
            made = forecast(load, priors_for(timeline))
            if made is not None:
                out.append(_scored(timeline.id, moment, now, ready, made, tqdm_says(timeline, now)))
    return out


def _scored(name: str, moment: float, now: float, real: float, made: Forecast, tqdm: float | None = None) -> Score:
    return Score(name, moment, now, real, made.low, made.middle, made.high, tqdm)


def without(timelines: Sequence[Timeline], group: Callable[[Timeline], Hashable]) -> Callable[[Timeline], Priors]:
    """Priors made from all timelines but those of the same group."""
    made: dict[Hashable, Priors] = {}

    def priors_for(timeline: Timeline) -> Priors:
        key = group(timeline)
        if key not in made:
            made[key] = make_priors([other for other in timelines if group(other) != key])
        return made[key]

    return priors_for


def with_history(timelines: Sequence[Timeline], priors_for: Callable[[Timeline], Priors]) -> list[Score]:
    out: list[Score] = []
    for before, later in pairs(list(timelines)):
        out += score([later], priors_for, earlier=before)
    return out


def score_recordings(outcomes: Sequence[Outcome], pairs_only: bool = False) -> list[Score]:
    """Recordings through the fold. ``pairs_only``: each with every other of its key as its one earlier load."""
    out: list[Score] = []
    for outcome in outcomes:
        others = [other for other in outcomes if other is not outcome and other.key == outcome.key]
        for history in [OneEarlier(o.key, o.load) for o in others] if pairs_only else [None]:
            start = outcome.recording.started
            for moment, now, shown in forecasts(outcome, MOMENTS, history):
                if shown is not None:
                    figures = (now - start, outcome.ready - start)
                    times = (shown.low - start, shown.middle - start, shown.high - start)
                    out.append(Score(outcome.recording.name, moment, *figures, *times))
    return out


def table(title: str, scores: Sequence[Score]) -> str:
    """One block of the printed table."""
    head = (
        f"{'load':>5} {'n':>4} {'error, whole':>13} {'error, rest':>12} {'in range':>9} {'width':>6}"
        f"   {'n':>3} {'tqdm whole':>11} {'ours':>5} {'tqdm rest':>10} {'ours':>5}"
    )
    lines = [title, head]
    for moment in MOMENTS:
        here = [s for s in scores if s.moment == moment]
        if not here:
            lines.append(f"{moment:>5.0%} {0:>4}")
            continue
        barred = [s for s in here if s.tqdm is not None]
        line = (
            f"{moment:>5.0%} {len(here):>4} {_percent(s.whole for s in here):>13} {_percent(s.rest for s in here):>12}"
            f" {sum(s.inside for s in here) / len(here):>9.0%} {_percent(s.width for s in here):>6}   {len(barred):>3}"
        )
        if barred:
            naive_whole = [abs((s.tqdm or 0.0) - s.real) / s.real for s in barred]
            naive_rest = [abs((s.tqdm or 0.0) - s.real) / (s.real - s.now) for s in barred]
            line += (
                f" {_percent(naive_whole):>11} {_percent(s.whole for s in barred):>5}"
                f" {_percent(naive_rest):>10} {_percent(s.rest for s in barred):>5}"
            )
        lines.append(line)
    return "\n".join(lines) + "\n"


def _percent(values: Iterable[float]) -> str:
    return f"{100 * statistics.median(values):.0f} %"


def listing(scores: Sequence[Score]) -> str:
    return "\n".join(
        f"{s.moment:>4.0%} now {s.now:>6.0f}  real {s.real:>6.0f}  forecast {s.middle:>6.0f} "
        f"({s.low:.0f} to {s.high:.0f}){'' if s.inside else ' outside'}  {s.name}"
        for s in sorted(scores, key=lambda s: (s.moment, s.whole))
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("timelines", nargs="?", type=Path, help="another file of timelines")
    parser.add_argument("--list", action="store_true", help="list every single forecast")
    args = parser.parse_args(argv)
    try:
        timelines = read_timelines(args.timelines or TIMELINES)
    except BadTimelines as error:
        print(error, file=sys.stderr)
        return 1
    own = args.timelines is None or args.timelines.resolve() == TIMELINES.resolve()
    ready = sum(t.ready is not None for t in timelines)
    print(f"{len(timelines)} timelines, {ready} reach ready\n")
    shipped = shipped_priors()
    first = score(timelines, lambda _: shipped)
    print(table("first load, shipped priors" + (" (in sample: made from these timelines)" if own else ""), first))
    if own:
        held_out = without(timelines, lambda t: t.configuration)
        print(table("first load, priors made without this configuration", score(timelines, held_out)))
        strict = without(timelines, lambda t: t.owner)
        print(table("first load, priors made without anything of this owner", score(timelines, strict)))
    early = [s for s in first if s.moment == MOMENTS[0]]
    by_id = {timeline.id: timeline for timeline in timelines}
    for title, reading in (("the weights have begun", True), ("before the weights", False)):
        off = [s.whole for s in early if any(p.name == "weights" for p in phases(by_id[s.name], s.now)) is reading]
        if off:
            print(f"first load, at {MOMENTS[0]:.0%} of its time, {title}: error {_percent(off)} (n {len(off)})")
    print()
    print(table("first load, size of the checkpoint unknown", score(timelines, lambda _: shipped, blind=True)))
    count = sum(1 for _ in pairs(timelines))
    alone = [s for _, later in pairs(timelines) for s in score([later], lambda _: shipped)]
    if count:
        print(
            table(
                f"one earlier load of the same configuration ({count} ordered pairs)",
                with_history(timelines, lambda _: shipped),
            )
        )
        for title, same in (("conditions as before", True), ("conditions changed between the two", False)):
            of = [(before, later) for before, later in pairs(timelines) if alike(before, later) is same]
            made = [s for before, later in of for s in score([later], lambda _: shipped, earlier=before)]
            print(table(f"of these, {title} ({len(of)} pairs)", made))
        print(table("the same loads without their history", alone))
    else:
        print("one earlier load of the same configuration: no repeats in this file\n")
    recorded: list[Score] = []
    if own:
        outcomes = [outcome for recording in read_recordings() if (outcome := played(recording)) is not None]
        recorded = score_recordings(outcomes)
        again = score_recordings(outcomes, pairs_only=True)
        n, pairs_count = len(outcomes), max((sum(s.moment == moment for s in again) for moment in MOMENTS), default=0)
        print(table(f"recordings through the fold, first load ({n} that reach ready; those on a CPU, tiny)", recorded))
        print(table(f"recordings with one earlier load of the same key ({pairs_count} ordered pairs)", again))
        recorded += again
    if args.list:
        print(listing(first))
        if count:
            print(listing(with_history(timelines, lambda _: shipped)))
        print(listing(recorded))
    return 0


if __name__ == "__main__":
    sys.exit(main())
