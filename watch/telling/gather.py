"""Reads a recording to its end, for a report of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from probes.readings import AnyReading, OperatorAction
from probes.version import __version__
from watch.history import History, HistoryError, LoadRecord
from watch.player import opening
from watch.series import Collector, Series, thinned
from watch.session import SessionReader
from watch.state import WatchState
from watch.view import FindingView, LoadView, NoteView, PhaseView, View
from watch.words import Phase

PLOTTED = ("gpu.memory", "io.read_rate", "serving.generation_tps")
POINTS = 700
"""Of each line of a plot."""
EARLIER = 5
"""Loads that a load is held against."""
_ACTIONS = 100
_LATE = 30 * 86_400.0


class Deed(Struct, frozen=True, kw_only=True):
    """What an operator did. ``outcome``: empty where its end was not seen."""

    began: float
    ended: float
    action: str
    unit: str
    who: str
    outcome: str = ""
    detail: str = ""
    undo: str = ""


class Took(Struct, frozen=True, kw_only=True):
    """A phase and how long it took; ``earlier``: in the loads before, the most recent first, None where it had none."""

    phase: PhaseView
    seconds: float | None
    earlier: tuple[float | None, ...] = ()


class Tale(Struct, frozen=True, kw_only=True):
    """Everything a report says. ``load``: the last one of the recording, which the report is about; ``findings``: of
    all loads. ``stretch``: what it is about, where that is not the whole recording. Times are UTC seconds."""

    view: View
    started: float
    ended: float
    file: str
    recorded_by: str
    load: LoadView | None
    findings: tuple[FindingView, ...]
    phases: tuple[Took, ...]
    earlier: tuple[LoadRecord, ...]
    deeds: tuple[Deed, ...]
    series: tuple[Series, ...]
    notes: tuple[NoteView, ...] = ()
    stretch: tuple[float, float] | None = None
    problems: tuple[str, ...] = ()
    """what is wrong with the recording"""
    version: str = __version__


def gather(
    reader: SessionReader,
    fold: Callable[[], WatchState],
    history: History | None = None,
    *,
    since: float | None = None,
    until: float | None = None,
    every: Callable[[], None] = lambda: None,
) -> Tale:
    """``fold``: an empty fold; ``history``: None: earlier loads are not known. ``since``, ``until``: seconds after the
    beginning: what was before is understood and not told, what came later is left out. ``every``: called every few
    thousand readings, for whoever waits."""
    header = reader.header
    state = fold()
    start = opening(reader)
    first = start + since if since is not None else 0.0
    end = start + until if until is not None else float("inf")
    collector = Collector(PLOTTED, since=first, until=end)
    deeds: dict[str, Deed] = {}
    last = header.started
    more = False
    for number, (_, reading) in enumerate(reader):
        if reading.at > end:
            more = True
            continue
        state.apply(reading)
        collector.take(reading)
        if isinstance(reading, OperatorAction):
            _deed(deeds, reading)
        if last < reading.at < last + _LATE or not last:
            last = reading.at
        if number % 5000 == 0:
            every()
    view = state.view(last)
    load = view.load
    earlier = _earlier(history, view, load)
    return Tale(
        view=view,
        started=header.started or last,
        ended=last,
        file=reader.path.name,
        recorded_by=header.version,
        load=load,
        findings=tuple(
            one
            for one in state.findings.views(load.number if load is not None else 0, earlier=True)
            if one.last >= first
        ),
        phases=tuple(took for took in _phases(load, earlier) if took.phase.ended is None or took.phase.ended > first),
        earlier=earlier,
        deeds=tuple(deed for deed in deeds.values() if deed.ended >= first),
        series=tuple(_drawn(collector.series())),
        notes=tuple(note for note in view.notes if note.at >= first),
        stretch=None if since is None and until is None else (max(first, start), end if more else last),
        problems=tuple(reader.notes()),
    )


def _drawn(series: Iterable[Series]) -> Iterable[Series]:
    for one in series:
        yield Series(name=one.name, unit=one.unit, labels=one.labels, points=thinned(one.points, POINTS))


def _deed(deeds: dict[str, Deed], reading: AnyReading) -> None:
    if not isinstance(reading, OperatorAction):
        return
    name = reading.id or f"{reading.action} {reading.who}"
    known = deeds.get(name)
    if known is None:
        if len(deeds) >= _ACTIONS:
            return
        known = Deed(began=reading.at, ended=reading.at, action=reading.action, unit=reading.unit, who=reading.who)
    over = reading.step == "end"
    deeds[name] = Deed(
        began=known.began,
        ended=reading.at,
        action=known.action,
        unit=known.unit or reading.unit,
        who=known.who or reading.who,
        outcome=reading.outcome if over else known.outcome,
        detail=reading.detail if over or reading.outcome in ("failed", "refused") else known.detail,
        undo=reading.undo or known.undo,
    )


def _earlier(history: History | None, view: View, load: LoadView | None) -> tuple[LoadRecord, ...]:
    """Loads of this unit that reached ready before this one began, the most recent first; what it is compared with."""
    if history is None or load is None:
        return ()
    try:
        known = history.loads(view.target, view.unit)
    except HistoryError:
        return ()
    before = [one for one in known if one.outcome == "ready" and one.first_line > 0 and one.started < load.started - 1]
    return tuple(before[:EARLIER])


def _phases(load: LoadView | None, earlier: tuple[LoadRecord, ...]) -> tuple[Took, ...]:
    if load is None:
        return ()
    out = []
    for phase in load.phases:
        if phase.started is None or phase.name in ("ready", "serving", "stopping"):
            continue
        end = phase.ended if phase.ended is not None else load.ended
        seconds = max(0.0, end - phase.started) if end is not None else None
        out.append(Took(phase=phase, seconds=seconds, earlier=tuple(_took(one, phase.name) for one in earlier)))
    return tuple(out)


def _took(load: LoadRecord, name: Phase) -> float | None:
    spent = [
        (phase.ended if phase.ended is not None else load.ended) - phase.started
        for phase in load.phases
        if phase.name == name
    ]
    return sum(spent) if spent else None
