"""Amounts of bytes as they are typed: ``2G``, ``500M``, ``1.5 GiB``; a bare number is bytes."""

from __future__ import annotations

import re
from typing import Final

_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?")
_POWER: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def amount(text: str) -> int:
    """Bytes; units are binary. Raises ValueError, with one sentence, for what is no amount."""
    found = _AMOUNT.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is no amount of bytes: write 2G, 500M or 1.5GiB")
    return int(float(found[1]) * (1 << _POWER[found[2]]))
