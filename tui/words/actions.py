"""Words and signs for actions and their steps."""

from __future__ import annotations

from typing import Final

from tui.signs import Sign
from tui.units import elapsed
from watch.actions import ActionView

SIGNS: Final = {
    "pending": Sign("·", "to come", "faint"),
    "running": Sign("▶", "now", "strong accent"),
    "done": Sign("✔", "done", "ok"),
    "skipped": Sign("–", "left out", "muted"),
    "failed": Sign("✖", "failed", "strong error"),
    "unknown": Sign("?", "unknown", "warn"),
}
STEPS: Final = {
    "check": "files as shown",
    "verify": "systemd verify",
    "save": "files kept",
    "write": "files written",
    "reload": "daemon-reload",
    "stop": "stop",
    "leftovers": "leftovers",
    "memory": "GPU memory",
    "start": "start",
}
"""What a step is called, in at most 14 cells."""

NAMES: Final = {
    "start": "Start of",
    "stop": "Stop of",
    "restart": "Restart of",
    "rollback": "Roll back of",
    "undo": "Undo on",
    "fallback": "Fallback of",
}
OUTCOMES: Final = {
    "done": Sign("✔", "Done", "strong ok"),
    "failed": Sign("✖", "Failed", "strong error"),
    "refused": Sign("✖", "Refused", "strong error"),
    "unknown": Sign("?", "Not known how it ended", "strong warn"),
    "cancelled": Sign("■", "Cancelled", "strong"),
}
RECENT: Final = 900.0
"""Seconds for which a failed action stands in the header."""


def in_a_line(action: ActionView, now: float) -> tuple[str, str]:
    """The action for one line, and its style; empty: nothing worth saying any more."""
    name = {"rollback": "roll back"}.get(action.action, action.action)
    step = action.step
    if action.running:
        if action.link:
            return f"▶ {name} goes on unseen", "warn"
        words = (
            f": {STEPS.get(step.name, step.name)} {elapsed(now - (step.started or now))}" if step is not None else ""
        )
        return f"▶ {name}{words}", "strong accent"
    if action.outcome in ("failed", "unknown") and action.ended is not None and now - action.ended < RECENT:
        sign = OUTCOMES[action.outcome]
        return f"{sign.sign} {name} {'failed' if action.outcome == 'failed' else 'of unknown outcome'}", sign.style
    return "", ""
