"""What a report says, in its order, in blocks that HTML and Markdown each write in their own way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from typing import Literal

from msgspec import Struct

from watch.series import Series
from watch.telling.gather import Tale
from watch.telling.svg import Band, described
from watch.telling.words import against, clock, figure, length, outcome, stamp
from watch.view import BenchView, FindingView

_EVIDENCE = 6
_FINDINGS = 60


class Block(Struct, frozen=True, kw_only=True):
    """``kind``: ``text`` (paragraphs), ``list``, ``code`` (lines as they were printed), ``heading``, ``table``, or
    ``plot``, whose ``lines`` are its title and what it shows in words. All of it is plain, foreign text."""

    kind: Literal["text", "list", "code", "heading", "table", "plot"]
    lines: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    severity: str = ""
    series: tuple[Series, ...] = ()
    bands: tuple[Band, ...] = ()
    span: tuple[float, float] = (0.0, 0.0)


class Section(Struct, frozen=True):
    title: str
    blocks: tuple[Block, ...]


def sections(tale: Tale, zone: tzinfo | None) -> Iterator[Section]:
    """The first is the title of the whole. Those that would be empty are left out."""
    view = tale.view
    yield Section(f"{view.unit or 'unknown unit'} on {view.target or 'unknown host'}", (*_outcome(tale, zone),))
    parts = (
        ("Phases", _phases(tale)),
        ("Findings", _findings(tale, zone)),
        ("Asked and got", _asked(tale)),
        ("What operators did", _deeds(tale, zone)),
        ("Notes", _notes(tale, zone)),
        ("Memory and throughput", _plots(tale)),
        ("Benchmark", _benchmark(view.benchmark, zone)),
        ("About this recording", _about(tale, zone)),
    )
    for title, blocks in parts:
        found = tuple(blocks)
        if found:
            yield Section(title, found)


def _outcome(tale: Tale, zone: tzinfo | None) -> Iterator[Block]:
    view, load = tale.view, tale.load
    yield Block(kind="text", lines=tuple(filter(None, (outcome(tale), against(tale)))), severity=view.state)
    rows: list[tuple[str, str]] = [("Outcome", view.state), ("Phase", view.phase if view.phase != "n/a" else "")]
    if load is not None:
        rows.append(("Load", f"{load.number} of {len(view.loads)} in this recording"))
        rows.append(("Started", stamp(load.started, zone) + (" or before" if load.attached_late else "")))
        ready = next((one.started for one in load.phases if one.name == "ready" and one.started is not None), None)
        if ready is not None:
            rows.append(("Ready", stamp(ready, zone)))
        if load.ended is not None:
            rows.append(("Ended", stamp(load.ended, zone)))
        rows.append(("Invocation", load.invocation))
    rows.append(("Model", view.model))
    rows.append(("Engine", " ".join(filter(None, (view.engine, view.version)))))
    if view.gpu is not None and view.gpu.devices:
        kinds: dict[str, int] = {}
        for device in view.gpu.devices:
            kinds[device.name] = kinds.get(device.name, 0) + 1
        rows.append(("GPUs", ", ".join(f"{count} × {name or 'unnamed'}" for name, count in kinds.items())))
    yield Block(kind="table", head=("", ""), rows=tuple((name, value) for name, value in rows if value))


def _phases(tale: Tale) -> Iterator[Block]:
    if not tale.phases:
        return
    count = len(tale.earlier)
    head = ["Phase", "Took", *(["Load before", *(f"{n} before" for n in range(2, count + 1))] if count else [])]
    rows = []
    for took in tale.phases:
        if took.phase.before:
            rows.append(("between", length(took.phase.before), *([""] * count)))
        if took.phase.status != "awaited":
            rows.append((took.phase.name, length(took.seconds), *map(length, took.earlier)))
    ready_at = next((p for p in (tale.load.phases if tale.load is not None else ()) if p.name == "ready"), None)
    if ready_at is not None and ready_at.before:
        rows.append(("between", length(ready_at.before), *([""] * count)))
    if tale.load is not None:
        ready = next((p.started for p in tale.load.phases if p.name == "ready" and p.started is not None), None)
        whole = ready - tale.load.started if ready is not None else None
        rows.append(("to ready", length(whole), *(length(one.seconds) for one in tale.earlier)))
    yield Block(kind="table", head=tuple(head), rows=tuple(rows))
    failed = [took for took in tale.phases if took.phase.status == "failed"]
    for took in failed:
        yield Block(kind="text", lines=(f"It failed in {took.phase.name}.",), severity="failed")


def _findings(tale: Tale, zone: tzinfo | None) -> Iterator[Block]:
    told = [one for one in tale.findings if not one.benign]
    grave = [one for one in told if one.severity != "info"]
    for finding in grave[:_FINDINGS]:
        yield from _finding(finding, zone)
    if len(grave) > _FINDINGS:
        yield Block(kind="text", lines=(f"{len(grave) - _FINDINGS} more are left out.",))
    remarks = [one for one in told if one.severity == "info"]
    if remarks:
        yield Block(kind="heading", lines=("Also worth knowing",))
        lines = tuple(f"{one.title}. {one.advice or one.cause}".strip() for one in remarks[:_FINDINGS])
        yield Block(kind="list", lines=lines)
    benign = len(tale.findings) - len(told)
    if benign:
        yield Block(kind="text", lines=(f"{benign} harmless notice{'s' if benign > 1 else ''} of known kinds.",))
    if not told and not benign and tale.load is not None:
        yield Block(kind="text", lines=("Nothing that is known to be wrong was seen.",))


def _finding(finding: FindingView, zone: tzinfo | None) -> Iterator[Block]:
    yield Block(kind="heading", lines=(f"{finding.severity}: {finding.title}",), severity=finding.severity)
    times = f"{finding.count} times, " if finding.count > 1 else ""
    when = f"{times}{clock(finding.first, zone)}" + (
        f" to {clock(finding.last, zone)}" if finding.last - finding.first >= 1 else ""
    )
    facts = [
        when,
        f"in {finding.phase}" if finding.phase != "n/a" else "",
        f"load {finding.load}" if finding.load else "",
    ]
    if finding.ranks:
        facts.append("by " + ", ".join(finding.ranks[:8]))
    lines = [", ".join(filter(None, facts)) + "."]
    if finding.consequence_of:
        lines.append(f"It follows from {finding.consequence_of}.")
    lines += [finding.cause, finding.advice]
    yield Block(kind="text", lines=tuple(filter(None, lines)))
    if finding.evidence:
        yield Block(kind="code", lines=finding.evidence[:_EVIDENCE])


def _asked(tale: Tale) -> Iterator[Block]:
    rows = [
        (one.key, one.asked, one.got if one.verdict != "waiting" else "not said", one.verdict)
        for one in tale.view.asked
        if one.asked or one.verdict == "differs"
    ]
    if rows:
        rows.sort(key=lambda row: (row[3] != "differs", row[0]))
        yield Block(kind="table", head=("Argument", "Asked", "Got", ""), rows=tuple(rows))


def _deeds(tale: Tale, zone: tzinfo | None) -> Iterator[Block]:
    if tale.deeds:
        rows = tuple(
            (
                clock(deed.began, zone),
                deed.who,
                f"{deed.action} {deed.unit}".strip(),
                deed.outcome or "its end was not seen",
                length(deed.ended - deed.began),
                deed.detail,
                deed.undo,
            )
            for deed in tale.deeds
        )
        head = ("When", "Who", "What", "Outcome", "Took", "Detail", "What would undo it")
        yield Block(kind="table", head=head, rows=rows)


def _notes(tale: Tale, zone: tzinfo | None) -> Iterator[Block]:
    if tale.notes:
        rows = tuple((clock(note.at, zone), note.who, note.text) for note in tale.notes)
        yield Block(kind="table", head=("When", "Who", "Note"), rows=rows)


def _plots(tale: Tale) -> Iterator[Block]:
    titles = {
        "gpu.memory": "Memory used on each GPU",
        "io.read_rate": "Read from storage by the unit",
        "serving.generation_tps": "Tokens made per second",
    }
    load = tale.load
    start = load.started if load is not None else tale.started
    if tale.stretch is not None:
        start = max(start, tale.stretch[0])
    bands = tuple(
        Band(phase.started, phase.ended if phase.ended is not None else tale.ended, phase.name)
        for phase in (load.phases if load is not None else ())
        if phase.started is not None
    )
    for name, title in titles.items():
        series = tuple(
            Series(name=one.name, unit=one.unit, labels=one.labels, points=points)
            for one in tale.series
            if one.name == name and len(points := tuple(p for p in one.points if p[0] >= start)) > 1
        )
        if series and any(value for one in series for _, value in one.points):
            end = max(one.points[-1][0] for one in series)
            yield Block(
                kind="plot",
                lines=(title, f"{title}. {described(series, start, end)}"),
                series=series,
                bands=bands,
                span=(start, end),
            )


def _benchmark(bench: BenchView | None, zone: tzinfo | None) -> Iterator[Block]:
    if bench is None:
        return
    said = bench.verdict or bench.text
    yield Block(kind="text", lines=tuple(filter(None, (said, bench.text if said != bench.text else ""))))
    if bench.levels:
        head = (
            "Level",
            "Requests",
            "Failed",
            "Tokens/s",
            "TTFT ms (median, p99)",
            "TPOT ms (median, p99)",
            "J/token",
            "",
        )
        rows = tuple(
            (
                f"{level.level}, run {level.repeat}" if level.repeat > 1 else level.level,
                str(level.completed),
                str(level.failed),
                figure(level.output_tps),
                _pair(level.ttft),
                _pair(level.tpot),
                figure(level.joules_per_token) if level.joules_per_token is not None else "–",
                level.unusable,
            )
            for level in bench.levels
        )
        yield Block(kind="table", head=head, rows=rows)
    if bench.first_error:
        yield Block(kind="code", lines=(bench.first_error,))
    if bench.differs:
        yield Block(kind="table", head=("What else differs", "Baseline", "Now"), rows=bench.differs)
    facts = [("Run", bench.run), ("Preset", bench.preset), ("By", bench.who), ("Began", stamp(bench.started, zone))]
    facts.append(("Baseline", bench.baseline))
    yield Block(kind="table", head=("", ""), rows=tuple((name, value) for name, value in facts if value))
    if bench.warnings:
        yield Block(kind="list", lines=bench.warnings)


def _pair(pair: tuple[float | None, float | None]) -> str:
    return ", ".join(figure(value) if value is not None else "–" for value in pair)


def _stretch(tale: Tale, zone: tzinfo | None) -> str:
    if tale.stretch is None:
        return ""
    first, last = tale.stretch
    after = f"{length(first - tale.started)} to {length(last - tale.started)} after its beginning"
    return f"only {stamp(first, zone)} to {stamp(last, zone)}, {after}"


def _about(tale: Tale, zone: tzinfo | None) -> Iterator[Block]:
    rows = [
        ("File", tale.file),
        ("Recorded", f"{stamp(tale.started, zone)} to {stamp(tale.ended, zone)}, {length(tale.ended - tale.started)}"),
        ("Told of it", _stretch(tale, zone)),
        ("Lines of the journal", f"{tale.view.lines:,}"),
        ("Recorded by", f"firstlight {tale.recorded_by}" if tale.recorded_by else ""),
        ("Reported by", f"firstlight {tale.version}"),
    ]
    yield Block(kind="table", head=("", ""), rows=tuple((name, value) for name, value in rows if value))
    if tale.problems:
        yield Block(kind="list", lines=tale.problems)
