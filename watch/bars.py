"""Progress bars: tqdm's two shapes, as vLLM, SGLang and their loaders print them, and prefetch counts."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct


class Bar(Struct, frozen=True):
    """One moment of a bar.

    ``done`` and ``total`` in ``unit``: ``it`` where the bar names none, ``bytes`` where its figures are bytes
    (``12.3G/1.03T``, 1024 each). ``elapsed`` and ``left`` in seconds, None where the bar says ``?``. ``rate`` in units
    a second as the bar smooths it, None where it does not say. ``percent`` as printed.
    """

    label: str
    done: float
    total: float
    unit: str
    elapsed: float | None
    left: float | None
    rate: float | None
    percent: int


_FIGURE = r"\d{1,18}(?:\.\d{1,9})?[kMGTPE]?"
_TIMES = (
    r"\[(?P<elapsed>\d{1,7}(?::\d\d){1,2})<(?P<left>\d{1,7}(?::\d\d){1,2}|\?)"
    r"(?:, *(?P<rate>\d{1,12}(?:\.\d{1,9})?|\?)(?P<scale>(?:[kMGTPE](?=B/|it/))?)"
    r"(?P<unit>[A-Za-z]{1,20}/s|s/[A-Za-z]{1,20}))?"
)
_BAR = re.compile(
    r"(?:(?P<label>[A-Za-z\[][^\r\n|%]{0,200}?): {1,3})?(?<![\d.])(?P<percent>\d{1,3})%"
    rf"(?: Completed \| ?|\|[^|\r\n]{{0,300}}\| ?)(?P<done>{_FIGURE})/(?P<total>{_FIGURE}) {_TIMES}"
)
_COUNT = re.compile(
    r"(?P<label>[A-Za-z][^\r\n|%:]{0,100}): {1,3}(?P<percent>\d{1,3})% \((?P<done>\d{1,9})/(?P<total>\d{1,9})\)"
)
_POWERS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def parse_bar(message: str) -> Bar | None:
    """The last bar in the text, or None. Of several updates joined by carriage returns the last whole one counts.
    Takes any text."""
    if "%" not in message:
        return None
    if "\r" in message:
        for piece in reversed(message.split("\r")):
            bar = _parse(piece)
            if bar is not None:
                return bar
        return None
    return _parse(message)


def _parse(text: str) -> Bar | None:
    found: re.Match[str] | None = None
    for bar in _BAR.finditer(text):  # the last one counts
        found = bar
    if found is None:
        count = _COUNT.search(text)
        if count is None:
            return None
        return Bar(
            count["label"], float(count["done"]), float(count["total"]), "it", None, None, None, int(count["percent"])
        )
    label, percent, done, whole, elapsed, left, pace, scale, per = found.groups()
    unit, rate = "it", None
    if per is not None:
        inverse = per.startswith("s/") and not per.endswith("/s")
        unit = per[2:] if inverse else per[:-2]
        if pace != "?":
            rate = _amount(pace + scale, 1024 if unit == "B" else 1000)
            if inverse:
                rate = 1 / rate if rate else None
    base = 1000
    if unit == "B":
        unit, base = "bytes", 1024
    return Bar(
        label=(label or "").strip(),
        done=_amount(done, base),
        total=_amount(whole, base),
        unit=unit,
        elapsed=_clock(elapsed),
        left=_clock(left),
        rate=rate,
        percent=int(percent),
    )


def _amount(figure: str, base: int) -> float:
    if figure.isdigit():
        return float(figure)
    suffix = figure[-1] if figure[-1] in _POWERS else ""
    return float(figure[: len(figure) - len(suffix)]) * float(base ** _POWERS[suffix])


@lru_cache(maxsize=1024)
def _clock(text: str) -> float | None:
    if text == "?":
        return None
    seconds = 0.0
    for part in text.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds
