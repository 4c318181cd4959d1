"""``firstlight bench list``, ``baseline``, ``compare``, ``presets``: what the history and result files hold."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from probes.command import plain
from tui.commands.bench_text import compared, listed, presets_text
from tui.commands.named import named
from tui.exits import Benched, Ending, Exit
from tui.settings import configuration
from tui.units import Zone
from watch.benchmarks.compare import Comparison, Side, compare
from watch.benchmarks.keep import compare_kept, name_of, side_of
from watch.benchmarks.presets import presets
from watch.benchmarks.result import BadResult, read_result
from watch.benchmarks.told import comparison_json, comparison_markdown, kept_json, outcome
from watch.history import Benchmark, History, HistoryError
from watch.regular import whole

MOST_FILE = 256 << 20
"""bytes of a result file"""


@contextmanager
def opened() -> Iterator[History]:
    """The history. Raises Ending where it cannot be used."""
    try:
        with History.open() as history:
            yield history
    except HistoryError as error:
        raise Ending(Exit.UNREADABLE, str(error)) from None


def list_kept(words: Sequence[str], *, limit: int, as_json: bool) -> Exit:
    config = configuration()
    target = unit = ""
    if words:
        deployment = named(config, words).deployment
        target, unit = deployment.target, deployment.unit
    with opened() as history:
        rows = history.benchmarks(target, unit, limit=limit)
        if target and not rows:  # written with or without its suffix
            other = unit.removesuffix(".service") if unit.endswith(".service") else f"{unit}.service"
            rows = history.benchmarks(target, other, limit=limit)
    if as_json:
        sys.stdout.write(json.dumps([kept_json(row) for row in rows], indent=1) + "\n")
    elif not rows:
        print("nothing has been measured yet: firstlight bench run NAME", file=sys.stderr)
    else:
        sys.stdout.write(listed(rows, width=width(), zone=Zone(), colour=colour()))
    sys.stdout.flush()
    return Exit.OK


def set_baseline(run: str) -> Exit:
    with opened() as history:
        kept = find(history, run)
        history.set_baseline(kept.id)
    unit = plain(f"{kept.unit} @ {kept.target}", 200)
    print(f"run {kept.id} is the baseline of {unit} from now on", file=sys.stderr)
    return Exit.OK


def find(history: History, run: str) -> Benchmark:
    """By its number, or the beginning of its id. Raises Ending."""
    if run.isdecimal() and len(run) < 10 and (kept := history.benchmark(int(run))) is not None:
        return kept
    found = [kept for kept in history.benchmarks(limit=10_000) if len(run) >= 4 and kept.run.startswith(run)]
    if len(found) == 1:
        return found[0]
    why = f"{len(found)} runs begin with {run!r}" if found else f"there is no run {run!r}"
    raise Ending(Exit.USAGE, why, "firstlight bench list shows them with their numbers.")


def compare_sides(words: Sequence[str], *, worse_by: float | None, as_json: bool, as_markdown: bool) -> Benched:
    """The first against each of the others."""
    if len(words) < 2:
        raise Ending(Exit.USAGE, "say what is to be compared: two results or more", "firstlight bench compare 12 15")
    if as_json and as_markdown:
        raise Ending(Exit.USAGE, "--json and --markdown exclude each other")
    config = configuration()
    limit = config.defaults.worse_by if worse_by is None else worse_by
    found = _comparisons(words)
    if as_json:
        sys.stdout.write(json.dumps([comparison_json(one, limit) for one in found], indent=1) + "\n")
    elif as_markdown:
        sys.stdout.write("\n".join(comparison_markdown(one) for one in found))
    else:
        sys.stdout.write("\n".join(compared(one, width=width(), colour=colour()) for one in found))
    sys.stdout.flush()
    return status_of(found, limit)


def status_of(found: Sequence[Comparison], worse_by: float) -> Benched:
    """Worse where one is; else no verdict where one has none."""
    outcomes = {outcome(one, worse_by) for one in found}
    if "worse" in outcomes:
        return Benched.WORSE
    return Benched.NO_VERDICT if "no-verdict" in outcomes else Benched.OK


def _comparisons(words: Sequence[str]) -> list[Comparison]:
    if not any(_is_file(word) for word in words) and not any("," in word for word in words):
        with opened() as history:
            first, *others = [find(history, word) for word in words]
            return [compare_kept(history, first, other) for other in others]
    sides = [_side(word) for word in words]
    for other in (lambda word: Path(word.split(",")[0]).absolute().parent.name, lambda word: word):
        if len({side.name for side in sides}) == len(sides):
            break  # else two folders' files of one name: called by their folders, else by what was typed
        sides = [replace(side, name=other(word)) for side, word in zip(sides, words, strict=True)]
    return [compare(sides[0], other) for other in sides[1:]]


def _is_file(word: str) -> bool:
    return word.endswith(".json") or "/" in word or os.path.isfile(word)


def _side(word: str) -> Side:
    """One side from its parts, joined by commas: files and runs, repeats of one configuration."""
    parts = word.split(",") if not os.path.isfile(word) else [word]
    sides = [_file(Path(part)) if _is_file(part) else _kept(part) for part in parts if part]
    if not sides:
        raise Ending(Exit.USAGE, f"{word!r} names no result")
    first = sides[0]
    return replace(
        first,
        runs=tuple(run for side in sides for run in side.runs),
        marks=tuple(dict.fromkeys(mark for side in sides for mark in side.marks)),
    )


def _kept(run: str) -> Side:
    with opened() as history:
        kept = find(history, run)
    return side_of(kept, name_of(kept))


def _file(path: Path) -> Side:
    try:
        data = whole(path, MOST_FILE)
    except OSError as error:
        raise Ending(Exit.UNREADABLE, f"{path}: {error.strerror}") from None
    try:
        return Side(name=path.stem, runs=(read_result(data),))
    except BadResult as error:
        raise Ending(Exit.UNREADABLE, f"{path}: {error}") from None


def list_presets() -> Exit:
    config = configuration()
    sys.stdout.write(presets_text(presets(config), config.defaults.preset))
    return Exit.OK


def width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 140)


def colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
