"""What an operator must notice from another window: failed, stalled, ready, link lost.

The terminal's bell, and a desktop notification by OSC 9 or OSC 777, which many terminals pass on (also over SSH).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from tui.text import clip, safe
from watch.view import LoadView, View

Desktop = Literal["off", "osc9", "osc777"]

_LONGEST: Final = 200
"""Cells of a notification: what is longer is cut by desktops anyway."""


@dataclass(frozen=True, slots=True)
class Alerts:
    """How to be loud. ``tmux``: wrap for tmux, which passes a sequence on only if it is marked."""

    bell: bool = True
    desktop: Desktop = "osc9"
    tmux: bool = False


@dataclass(frozen=True, slots=True)
class Alert:
    kind: Literal["ready", "failed", "stalled", "link-lost", "link-back"]
    text: str


_RECENT: Final = 60.0
"""Seconds: what happened before that was found so, when an old journal was read, and is no news."""


def changes(before: View | None, view: View) -> list[Alert]:
    """What became so since the picture before. The first picture is no news: it is how things were found; nor is what
    the journal tells of times long past."""
    if before is None:
        return []
    alerts: list[Alert] = []
    what = f"{view.unit} @ {view.target}"
    load = view.load
    another = (before.load.number if before.load else 0) != (load.number if load else 0)
    if load is not None and (view.state != before.state or another):
        if view.state == "ready" and _recent(view, _ready_at(load)):
            alerts.append(Alert("ready", f"{what}: ready"))
        elif view.state == "failed" and _recent(view, load.ended):
            alerts.append(Alert("failed", f"{what}: failed. {view.headline}"))
        elif view.state == "stalled" and before.state == "loading":
            alerts.append(Alert("stalled", f"{what}: stalled in {view.phase}. {view.headline}"))
    lost_before, lost = (picture.link is not None and picture.link.state in _LOST for picture in (before, view))
    if lost and not lost_before and view.link is not None:
        alerts.append(Alert("link-lost", f"{what}: link lost. {view.link.reason}"))
    elif lost_before and not lost and view.link is not None and view.link.state == "up":
        alerts.append(Alert("link-back", f"{what}: the link is back"))
    return alerts


def _ready_at(load: LoadView) -> float | None:
    return next((phase.started for phase in load.phases if phase.name == "ready"), None)


def _recent(view: View, at: float | None) -> bool:
    """Whether it happened just now; so also where nobody knows when."""
    return at is None or view.now - at <= _RECENT


_LOST: Final = ("down", "refused")


def sequence(alert: Alert, alerts: Alerts) -> str:
    """The escape sequence of a desktop notification; "" if none is wanted.

    The text is made safe first: what a server prints never ends our sequence and starts its own. It always begins with
    our own name: OSC 9 with a digit first means a progress bar to some terminals.
    """
    text = clip(safe(alert.text), _LONGEST)
    if alerts.desktop == "osc9":
        drawn = f"\x1b]9;firstlight: {text}\x07"
    elif alerts.desktop == "osc777":
        drawn = f"\x1b]777;notify;firstlight;{text.replace(';', ',')}\x07"
    else:
        return ""
    if alerts.tmux:
        return "\x1bPtmux;" + drawn.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return drawn


def speak(alert: Alert, alerts: Alerts, write: Callable[[str], None], bell: Callable[[], None]) -> None:
    """Be loud about it. ``write`` goes to the terminal."""
    if alerts.bell and alert.kind != "link-back":
        bell()
    drawn = sequence(alert, alerts)
    if drawn:
        write(drawn)
