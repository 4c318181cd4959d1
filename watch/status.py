"""The picture in a few figures, for whatever reads it without a screen: a script, a health check, Prometheus.

The same ``Status`` is an event of ``firstlight wait --json`` and the body of ``/startupz``. All times are UTC seconds,
durations seconds, ratios 0–1. Fields are only ever added.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from watch.view import LoadView, View
from watch.words import Phase, Severity, State

_LINK_LOST = ("down", "refused")


class Reached(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the running phase is. ``ratio``: None where its whole is not known."""

    done: float
    total: float
    unit: str
    ratio: float | None = None


class Expected(Struct, frozen=True, kw_only=True):
    """When it will be ready. ``low``..``high`` (UTC seconds) holds the real time 8 times in 10."""

    low: float
    middle: float
    high: float
    seconds: float
    """from now to ``middle``"""
    basis: str


class Found(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    severity: Severity
    title: str
    count: int = 1
    phase: Phase = "n/a"
    first: float = 0.0
    cause: str = ""
    advice: str = ""
    evidence: str = ""
    """the first line that shows it, as printed"""


class PhaseTook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: Phase
    status: str
    """done, running or failed"""
    started: float
    seconds: float
    """so far, where it runs"""


class Status(Struct, frozen=True, kw_only=True):
    """One deployment at ``at``."""

    at: float
    deployment: str
    target: str
    unit: str
    state: State
    phase: Phase
    headline: str
    ready: bool
    """it serves, as far as can be seen from here: False also where the link is lost"""
    started: bool
    """the present load has reached ready, whatever came of it"""
    alive: bool
    """False only where it is known to have failed or stopped"""
    link: str
    """up, connecting, down, refused; empty: not known yet"""
    link_reason: str
    since: float | None
    """when the present load began; None: no load was seen"""
    seconds: float | None
    """how long it has been loading; once it is over, how long it took"""
    progress: Reached | None
    ratio: float | None
    """of the whole load, by its forecast; 1 once it is ready; None: not known"""
    forecast: Expected | None
    stalled: str
    """what stopped; empty: nothing did"""
    findings: tuple[Found, ...]
    phases: tuple[PhaseTook, ...]
    load: int
    """number of the present load, from 1 on; 0: none"""
    model: str
    engine: str
    version: str


def status(view: View, name: str = "", *, clean: Callable[[str], str] = str) -> Status:
    """``name``: what the deployment is called; "" takes its unit. ``clean``: takes secrets out of a server's words."""
    load = view.load
    link = view.link.state if view.link is not None else ""
    seconds = _seconds(view, load)
    forecast = view.forecast if view.state == "loading" else None
    return Status(
        at=view.now,
        deployment=name or view.unit.removesuffix(".service"),
        target=view.target,
        unit=view.unit,
        state=view.state,
        phase=view.phase,
        headline=clean(view.headline),
        ready=view.state == "ready" and link not in _LINK_LOST,
        started=view.state == "ready" or (_ended(view) and load is not None and ready_at(load) is not None),
        alive=view.state not in ("failed", "stopped"),
        link=link,
        link_reason=clean(view.link.reason) if view.link is not None else "",
        since=load.started if load is not None else None,
        seconds=seconds,
        progress=_reached(load, view.state),
        ratio=_ratio(view, seconds),
        forecast=Expected(
            low=forecast.low,
            middle=forecast.middle,
            high=forecast.high,
            seconds=max(0.0, forecast.middle - view.now),
            basis=forecast.basis,
        )
        if forecast is not None
        else None,
        stalled=clean(view.stall.what) if view.stall is not None else "",
        findings=tuple(
            Found(
                id=finding.id,
                severity=finding.severity,
                title=clean(finding.title),
                count=finding.count,
                phase=finding.phase,
                first=finding.first,
                cause=clean(finding.cause),
                advice=clean(finding.advice),
                evidence=clean(finding.evidence[0]) if finding.evidence else "",
            )
            for finding in view.findings
            if not finding.benign
        ),
        phases=_phases(view, load),
        load=load.number if load is not None else 0,
        model=clean(view.model),
        engine=view.engine,
        version=clean(view.version),
    )


def _ended(view: View) -> bool:
    return view.state in ("failed", "stopped")


def ready_at(load: LoadView) -> float | None:
    """When a load reached ready."""
    return next((phase.started for phase in load.phases if phase.name == "ready" and phase.started), None)


def _seconds(view: View, load: LoadView | None) -> float | None:
    if load is None:
        return None
    end = ready_at(load)
    if end is None:
        end = load.ended if load.ended is not None else view.now
    return max(0.0, end - load.started)


def _reached(load: LoadView | None, state: State) -> Reached | None:
    progress = load.progress if load is not None else None
    if progress is None or state not in ("loading", "stalled", "failed"):
        return None
    ratio = min(1.0, progress.done / progress.total) if progress.total > 0 else None
    return Reached(done=progress.done, total=progress.total, unit=progress.unit, ratio=ratio)


def _ratio(view: View, seconds: float | None) -> float | None:
    if view.state == "ready":
        return 1.0
    if view.forecast is None or view.state != "loading" or seconds is None:
        return None
    whole = seconds + max(0.0, view.forecast.middle - view.now)
    return min(1.0, seconds / whole) if whole > 0 else None


def _phases(view: View, load: LoadView | None) -> tuple[PhaseTook, ...]:
    rows = []
    for phase in load.phases if load is not None else ():
        if phase.started is None or phase.status == "awaited" or phase.name in ("ready", "serving", "stopping", "n/a"):
            continue
        end = phase.ended
        if end is None and phase.status == "running":
            end = view.now
        rows.append(
            PhaseTook(
                name=phase.name,
                status=phase.status,
                started=phase.started,
                seconds=max(0.0, (end if end is not None else phase.started) - phase.started),
            )
        )
    return tuple(rows)
