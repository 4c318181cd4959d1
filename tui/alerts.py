"""What an operator must notice from another window: failed, stalled, ready, link lost, a benchmark that is done.

The terminal's bell, and a desktop notification by OSC 9 or OSC 777, which many terminals pass on (also over SSH).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from tui.text import clip, safe
from watch.events import Kind, events
from watch.view import View

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
    kind: Kind
    text: str


def changes(before: View | None, view: View) -> list[Alert]:
    """What became so since the picture before, by ``watch.events``."""
    return [Alert(event.kind, event.message) for event in events(before, view)]


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
    if alerts.bell and alert.kind != "link_back":
        bell()
    drawn = sequence(alert, alerts)
    if drawn:
        write(drawn)
