"""Progress bars: tqdm's two shapes, as vLLM, SGLang and their loaders print them, and prefetch counts."""

from __future__ import annotations

import re

from msgspec import Struct


class Bar(Struct, frozen=True):
    """One moment of a bar. ``done`` and ``total`` in units (bytes where the figures carry k, M, G, T: ``12.3G/1.03T``,
    1024 each). ``elapsed`` and ``left`` in seconds, None where the bar says ``?``. ``rate`` in units a second, as the
    bar smooths it; None where it does not say. ``percent`` as printed."""

    label: str
    done: float
    total: float
    unit: str
    elapsed: float | None
    left: float | None
    rate: float | None
    percent: int


def parse_bar(message: str) -> Bar | None:
    """The last bar in the text, or None. Of several updates joined by carriage returns the last one counts."""
    raise NotImplementedError(re.__name__)
