"""Benchmarks as text for a terminal or a pipe: what has been measured, one compared with another, one as it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from probes.command import plain
from tui.commands.tables import Tint, hanging
from tui.units import Zone
from watch.benchmarks.compare import Comparison, Point
from watch.benchmarks.told import Summary, figure, interval, summaries
from watch.config import Preset
from watch.history import Benchmark

HUES = {"better": "green", "worse": "red", "level": "", "mixed": "yellow", "refused": "yellow", "baseline": ""}


def listed(rows: Sequence[Benchmark], *, width: int, zone: Zone, colour: bool = False) -> str:
    """The results of the history, newest first; the baseline of each deployment has a star."""
    tint = Tint(colour)
    head = (
        "",
        "run",
        "when",
        "unit @ target",
        "preset",
        "load",
        "tok/s",
        "TTFT ms",
        "p99",
        "TPOT ms",
        "accepted",
        "J/tok",
    )
    table: list[tuple[str, ...]] = [head]
    notes: list[str] = []
    for kept in rows:
        first = True
        where = plain(f"{kept.unit.removesuffix('.service')} @ {kept.target}", 48)
        when = f"{zone.day(kept.at)} {zone.clock(kept.at, seconds=False)} {zone.name(kept.at)}"
        for one in summaries(kept):
            lead = ("*" if kept.baseline else "", str(kept.id), when, where, plain(kept.preset, 16))
            table.append((*(lead if first else ("",) * 5), *_cells(one)))
            first = False
            if one.unusable:
                notes.append(f"  run {kept.id}, {one.level}: {one.unusable}")
    lines = list(_columns(table, left=6))
    lines[0] = tint(lines[0], "dim")
    lines += [part for note in notes for part in hanging(tint(plain(note, 600), "yellow"), width, 4)]
    return "\n".join(lines) + "\n"


def _cells(one: Summary) -> tuple[str, ...]:
    level = one.level.replace("concurrency ", "× ") + (f" ({one.runs} runs)" if one.runs > 1 else "")
    return (
        level,
        "–" if one.unusable else figure(one.output_tps),
        _value(one.ttft),
        _value(one.ttft_p99),
        _value(one.tpot),
        _value(one.acceptance_length),
        "–" if one.joules_per_token is None else f"{one.joules_per_token:.3f}",
    )


def _value(value: float | None) -> str:
    return "–" if value is None else figure(value)


def figures(levels: Sequence[Summary]) -> str:
    """The figures of one benchmark, one line a load."""
    head = ("load", "tok/s", "TTFT ms", "p99", "TPOT ms", "accepted", "J/tok")
    return "\n".join(_columns([head, *map(_cells, levels)], left=1)) + "\n"


def compared(found: Comparison, *, width: int, colour: bool = False) -> str:
    """The verdict, a table for each load, what else differs, the doubts."""
    tint = Tint(colour)
    lines = [tint(plain(f"{found.b} against {found.a}", 200), "bold")]
    if found.verdict:
        word = _word(found)
        lines += [tint(part, HUES[word]) for part in hanging("  " + plain(found.verdict, 1000), width, 2)]
    for why in found.refused:
        lines += [tint(part, "yellow") for part in hanging("  no verdict: " + plain(why, 1000), width, 4)]
    if found.points:
        lines.append("")
        lines += [tint(line, hue) for line, hue in _points(found)]
    if found.differs:
        lines += ["", "  What else differs:"]
        for what, a, b in found.differs:
            text = f"    {plain(what, 100)}: {plain(a, 300)} → {plain(b, 300)}"
            lines += hanging(text, width, 6)
    if found.doubts:
        lines.append("")
        lines += [part for doubt in found.doubts for part in hanging("  doubt: " + plain(doubt, 600), width, 4)]
    return "\n".join(lines) + "\n"


def _word(found: Comparison) -> str:
    words = {point.throughput.word for point in found.points}
    return words.pop() if len(words) == 1 else "mixed"


def _points(found: Comparison) -> Iterator[tuple[str, str]]:
    table: list[tuple[str, ...]] = [("", "", plain(found.a, 24), plain(found.b, 24), "ratio", "95 % interval", "")]
    hues = ["dim"]
    for point in found.points:
        for row, hue in _rows(point):
            table.append(row)
            hues.append(hue)
    yield from zip((f"  {line}" for line in _columns(table, left=2)), hues, strict=True)


def _rows(point: Point) -> Iterator[tuple[tuple[str, ...], str]]:
    for place, ratio in enumerate(point.ratios):
        name = f"{ratio.name}, {ratio.unit}"
        values = (figure(ratio.a), figure(ratio.b), f"{ratio.ratio:.2f}", interval(ratio), ratio.word)
        yield (point.level if not place else "", name, *values), HUES[ratio.word] if not place else ""


def presets_text(known: dict[str, Preset], default: str) -> str:
    rows = [("", "preset", "loads", "prompts", "tokens in + out", "repeats", "")]
    for name, one in known.items():
        prompts = f"{one.prompts_per_concurrency} × load" if one.prompts_per_concurrency else str(one.prompts)
        loads = ", ".join(map(str, one.concurrency))
        lengths = f"{one.input_len} + {one.output_len}"
        mark = "*" if name == default else ""
        rows.append((mark, plain(name, 24), loads, prompts, lengths, str(one.repeats), plain(one.title, 120)))
    return "\n".join(_columns(rows, left=7)) + "\n"


def _columns(rows: Sequence[tuple[str, ...]], *, left: int) -> Iterator[str]:
    """Columns two blanks apart; the first ``left`` flush left, the others flush right, words at the end flush left."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        cells = []
        for place, cell in enumerate(row):
            last = place == len(row) - 1
            words = place < left or (last and not any(part.isdigit() for part in cell))
            cells.append(cell if last and words else cell.ljust(widths[place]) if words else cell.rjust(widths[place]))
        yield "  ".join(cells).rstrip()
