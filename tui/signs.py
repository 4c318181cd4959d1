"""Signs and words for states, phases and severities. Colour only repeats what these say."""

from __future__ import annotations

from typing import Final, NamedTuple


class Sign(NamedTuple):
    """``sign``: one cell. ``word``: for the header and titles. ``style``: names of the style sheet (``fl--…``)."""

    sign: str
    word: str
    style: str


STATES: Final = {
    "loading": Sign("▶", "LOADING", "badge"),
    "stalled": Sign("‖", "STALLED", "badge-stalled"),
    "ready": Sign("✔", "READY", "badge-ready"),
    "failed": Sign("✖", "FAILED", "badge-failed"),
    "stopped": Sign("■", "STOPPED", "badge"),
    "unknown": Sign("?", "UNKNOWN", "badge"),
}

PHASES: Final = {
    "done": Sign("✔", "done", "ok"),
    "running": Sign("▶", "running", "strong accent"),
    "failed": Sign("✖", "failed", "strong error"),
    "pending": Sign("·", "to come", "faint"),
}

SEVERITIES: Final = {
    "fatal": Sign("✖", "fatal", "strong error"),
    "error": Sign("✖", "error", "error"),
    "warning": Sign("⚠", "warning", "warn"),
    "info": Sign("i", "info", "muted"),
}

LEVELS: Final = (
    Sign(" ", "", "text"),
    Sign("I", "INFO", "muted"),
    Sign("W", "WARN", "warn"),
    Sign("E", "ERROR", "error"),
    Sign("F", "FATAL", "strong error"),
)
"""By the loudness of ``watch.lines``."""

LINKS: Final = {
    "up": Sign("●", "link", "ok"),
    "connecting": Sign("◌", "connecting", "warn"),
    "down": Sign("✖", "LINK LOST", "lost"),
    "refused": Sign("✖", "NOT CONNECTED", "lost"),
}
