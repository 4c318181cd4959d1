"""Memory: Python's garbage collector while the program starts, and what a flood leaves free.

A start makes some two hundred thousand objects (modules, classes, style rules) of which hardly any is garbage, and the
collector would go through them again and again. It goes through them once, when the first screen is there.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Any

START = 200_000
"""Objects that a start makes; a command that makes fewer is over before it leaves any garbage worth a search."""


def after_start() -> None:
    """Collect nothing until ``START`` objects are there; from then on as always."""
    usual = gc.get_threshold()

    def begun(phase: str, about: dict[str, Any]) -> None:
        gc.callbacks.remove(begun)
        gc.set_threshold(*usual)

    gc.callbacks.append(begun)
    gc.set_threshold(START)


def give_back() -> None:
    """Give free memory back to the system: glibc keeps what a flood of lines took for its moment, some tens of
    megabytes, for as long as something small lies above it. Takes some ten milliseconds; other C libraries have no
    need of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
