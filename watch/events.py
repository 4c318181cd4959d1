"""What becomes so between two pictures and is worth telling: ready, failed, stalled, link lost, benchmark done.

One place for all who tell: the terminal's bell, hooks, a watch without a screen. Pure.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from watch.view import LoadView, View

Kind = Literal["ready", "stalled", "failed", "link_lost", "link_back", "benchmark_done"]

RECENT: Final = 60.0
"""Seconds: what happened before that was found so, when an old journal was read, and is no news."""

_LOST: Final = ("down", "refused")


class Event(Struct, frozen=True, kw_only=True):
    """``at``: UTC seconds at which it was seen. ``message``: one sentence that begins with unit and host.

    ``about``: what it happened to (a load, a loss of the link, a run), so that one event is told once.
    """

    kind: Kind
    at: float
    target: str
    unit: str
    message: str
    state: str = ""
    phase: str = ""
    about: str = ""


def events(before: View | None, after: View) -> tuple[Event, ...]:
    """What became so since the picture ``before``. The first picture is no news: it is how things were found; nor is
    what the journal tells of times long past."""
    if before is None:
        return ()
    what = f"{after.unit} @ {after.target}"
    found: list[Event] = []

    def tell(kind: Kind, message: str, about: str) -> None:
        found.append(
            Event(
                kind=kind,
                at=after.now,
                target=after.target,
                unit=after.unit,
                message=message.strip(),
                state=after.state,
                phase=after.phase,
                about=about,
            )
        )

    load = after.load
    another = (before.load.number if before.load else 0) != (load.number if load else 0)
    if load is not None and _became_ready(before, after, load, another):
        tell("ready", f"{what}: ready", _load(load))
    if load is not None and (after.state != before.state or another):
        if after.state == "failed" and _recent(after, load.ended):
            tell("failed", f"{what}: failed. {after.headline}", _load(load))
        elif after.state == "stalled" and before.state == "loading":
            since = f" {after.stall.since:.0f}" if after.stall is not None else ""
            tell("stalled", f"{what}: stalled in {after.phase}. {after.headline}", _load(load) + since)
    lost_before, lost = (picture.link is not None and picture.link.state in _LOST for picture in (before, after))
    if lost and not lost_before and after.link is not None and (after.unit_reading is not None or after.lines):
        # a host that has never answered was not lost
        tell("link_lost", f"{what}: link lost. {after.link.reason}", f"{after.link.since:.0f}")
    elif lost_before and not lost and after.link is not None and after.link.state == "up":
        tell("link_back", f"{what}: the link is back", f"{after.link.since:.0f}")
    bench, earlier = after.benchmark, before.benchmark
    if bench is not None and bench.state not in ("running", "armed"):
        known = earlier is not None and earlier.run == bench.run and earlier.state == bench.state
        if not known and _recent(after, bench.ended):
            words = f"benchmark {bench.preset} {bench.state}. {bench.verdict or bench.text}"
            tell("benchmark_done", f"{what}: {words}", bench.run)
    return tuple(found)


def _became_ready(before: View, after: View, load: LoadView, another: bool) -> bool:
    """Whether it came to ready just now. A server that answers before its journal has been read may have done so for
    days: then it is the journal that says since when, where there is one to read."""
    if after.state != "ready":
        return False
    since = _ready_at(load)
    if since is None:
        unread = any(source.probe == "journal" and source.state != "up" for source in after.sources)
        return unread and before.state in ("loading", "stalled") and not another
    known = before.state == "ready" and before.load is not None and _ready_at(before.load) is not None
    return (another or not known) and _recent(after, since)


def _load(load: LoadView) -> str:
    return load.invocation or f"{load.started:.0f}"


def _ready_at(load: LoadView) -> float | None:
    return next((phase.started for phase in load.phases if phase.name == "ready"), None)


def _recent(view: View, at: float | None) -> bool:
    """Whether it happened just now; so also where nobody knows when."""
    return at is None or view.now - at <= RECENT
