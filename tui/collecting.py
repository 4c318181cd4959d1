"""Python's garbage collector while the program starts.

A start makes some two hundred thousand objects (modules, classes, style rules) of which hardly any is garbage, and the
collector would go through them again and again. They are set aside for good instead, and from then on it does as it
always does: what it goes through later is what the watch made.
"""

from __future__ import annotations

import gc
from typing import Any

START = 200_000
"""Objects that a start makes; a command that makes fewer is over before it leaves any garbage worth a search."""


def after_start() -> None:
    """Collect nothing until ``START`` objects are there, and never go through those."""
    usual = gc.get_threshold()

    def begun(phase: str, about: dict[str, Any]) -> None:
        gc.callbacks.remove(begun)
        gc.freeze()
        gc.set_threshold(*usual)

    gc.callbacks.append(begun)
    gc.set_threshold(START)
