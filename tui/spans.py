"""Lengths of time as they are typed: ``90s``, ``15m``, ``2h``, ``1h30m``, ``30d``; a bare number is seconds."""

from __future__ import annotations

import math
import re
from typing import Final

_UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(min|[smhdw])")


def span(text: str) -> float:
    """Seconds. Raises ValueError, with one sentence, for what is no length of time."""
    words = text.strip().lower()
    try:
        seconds = float(words)
    except ValueError:
        parts = _PART.findall(words)
        if not parts or _PART.sub("", words).strip():
            raise ValueError(f"{text!r} is no length of time: write 90s, 15m, 2h, 1h30m or 30d") from None
        seconds = sum(float(count) * _UNITS[unit] for count, unit in parts)
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{text!r} is no length of time: write 90s, 15m, 2h, 1h30m or 30d")
    return seconds
