"""``firstlight export``: figures over time, the screen as a film, or one picture of it, out of a recording."""

from __future__ import annotations

import asyncio
import csv
import io
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

import msgspec

from probes.readings import MetricsReading
from tui.commands.replay import open_recording
from tui.commands.screen import configuration
from tui.exits import Ending, Exit
from tui.playing import player
from tui.reporting import write
from tui.text import safe
from watch.player import opening
from watch.series import Collector, Series, is_name, names
from watch.session import SessionReader


def run(
    file: Path,
    *,
    series: Sequence[str],
    names: bool,
    as_json: bool,
    as_csv: bool,
    cast: Path | None,
    svg: Path | None,
    at: float | None,
    since: float,
    until: float | None,
    speed: float,
    size: tuple[int, int],
    output: Path | None,
) -> Exit:
    """Raises Ending for what cannot be done, before anything is written."""
    if not (series or names or cast or svg):
        raise Ending(Exit.USAGE, "export is not told what", "Give --series NAME, --list, --cast OUT or --svg OUT.")
    if as_json and as_csv:
        raise Ending(Exit.USAGE, "series are written as CSV or as JSON, not both", "Leave one of them away.")
    _check(series)
    with open_recording(file) as reader:
        if names:
            _list(reader)
        if series:
            _series(reader, series, as_json, since, until, output)
        if cast is not None:
            _put(cast, asyncio.run(_film(reader, size, speed, since, until)))
        if svg is not None:
            _put(svg, asyncio.run(_picture(reader, size, at if at is not None else since)))
    return Exit.OK


def _check(series: Sequence[str]) -> None:
    for name in series:
        if not is_name(name):
            near = get_close_matches(name, names(), n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else "firstlight export FILE --list shows which there are."
            raise Ending(Exit.USAGE, f"there is no series named {name}", hint)


def _list(reader: SessionReader) -> None:
    """Each name that this recording has figures for."""
    known = names()
    collector = Collector(known)
    samples: dict[str, None] = {}
    for _, reading in reader:
        collector.take(reading)
        if isinstance(reading, MetricsReading):
            samples.update(dict.fromkeys(sample.name for sample in reading.samples))
    seen: dict[str, int] = {}
    for one in collector.series():
        seen[one.name] = seen.get(one.name, 0) + len(one.points)
    for name, (unit, words) in known.items():
        if name in seen:
            print(f"{name:<26} {unit:<10} {seen[name]:>9,} points  {words}")
    for name in sorted(samples):
        print(safe(name))


def _series(
    reader: SessionReader, wanted: Sequence[str], as_json: bool, since: float, until: float | None, output: Path | None
) -> None:
    start = opening(reader)
    end = start + until if until is not None else float("inf")
    collector = Collector(wanted, since=start + since if since else 0.0, until=end)
    for _, reading in reader:
        collector.take(reading)
    found = collector.series()
    missing = [name for name in dict.fromkeys(wanted) if not any(one.name == name for one in found)]
    if missing:
        print(f"firstlight: this recording has no figures for {', '.join(missing)}", file=sys.stderr)
    if collector.full:
        print("firstlight: there is more than is written; choose fewer series, or --from and --to", file=sys.stderr)
    text = _json(found) if as_json else _csv(found)
    _put(output or Path("-"), text)


def _csv(found: Sequence[Series]) -> str:
    """A line a point: UTC seconds, the same as ISO 8601, the series with its labels, its unit, the value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("at", "time", "series", "unit", "value"))
    for one in found:
        for at, value in one.points:
            writer.writerow((f"{at:.3f}", _iso(at), safe(one.title), one.unit, f"{value:.10g}"))
    return out.getvalue()


def _iso(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # a time of no calendar, out of a recording that is not in order
        return ""


def _json(found: Sequence[Series]) -> str:
    objects = [{"name": one.name, "unit": one.unit, "labels": dict(one.labels), "points": one.points} for one in found]
    return msgspec.json.encode({"series": objects}).decode() + "\n"


async def _film(reader: SessionReader, size: tuple[int, int], speed: float, since: float, until: float | None) -> str:
    from tui.commands.filming import film

    return await film(player(reader, speed), configuration(), size, speed, since, until, title=reader.path.name)


async def _picture(reader: SessionReader, size: tuple[int, int], at: float) -> str:
    from tui.commands.filming import picture

    return await picture(player(reader, 1.0), configuration(), size, at, title=reader.path.name)


def _put(path: Path, text: str) -> None:
    """``-`` is the terminal, or what stands in its place."""
    if str(path) == "-":
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
        return
    try:
        write(path, text)
    except OSError as error:
        raise Ending(Exit.UNREADABLE, f"{path} cannot be written: {error.strerror or error}", "Name another.") from None
    print(path, file=sys.stderr)
