"""What a benchmark gives: figures, each beside a floor that was measured in the same run on the same machine."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Figure(Struct, frozen=True, kw_only=True):
    """``value`` and ``floor`` in ``unit``. ``goal``: what is aimed at, in words; ``good``: whether it was reached.

    ``must``: no clock is in it, a busy machine changes nothing about it, and missing it is a failure.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    floor_name: str = ""
    goal: str = ""
    good: bool | None = None
    must: bool = False

    @property
    def failed(self) -> bool:
        return self.must and not self.good

    @property
    def ratio(self) -> str:
        return f"{self.value / self.floor:.2f} ×" if self.floor else ""


class Unable(Exception):
    """Why a benchmark cannot run on this machine, as one sentence."""


def table(figures: Iterable[Figure]) -> str:
    """Plain text, one line a figure."""
    rows = [("figure", "value", "floor", "ratio", "goal")]
    for one in figures:
        floor = f"{number(one.floor)} {one.unit}  {one.floor_name}" if one.floor is not None else ""
        reached = "  FAILED" if one.failed else "" if one.good is None else "  reached" if one.good else "  MISSED"
        rows.append((one.name, f"{number(one.value)} {one.unit}", floor, one.ratio, one.goal + reached))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
