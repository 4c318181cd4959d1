"""Lines over time as SVG that needs nothing else, with words for who cannot see it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from watch.series import Series
from watch.telling.words import length, scaled

WIDTH, HEIGHT = 920, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 14, 26, 34
_COLOURS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#0f766e", "#a16207", "#4b5563")
_DASHES = ("", "7 3", "2 3", "9 3 2 3")
_LEGEND = 16
_MOST = 1e30
"""A figure beyond it is none."""


class Band(Struct, frozen=True):
    """A stretch of time with a name: a phase."""

    start: float
    end: float
    name: str


def plot(title: str, series: Sequence[Series], bands: Sequence[Band], start: float, end: float, ident: str) -> str:
    """One ``<svg>``. ``ident``: unique in its page. ``start``, ``end``: of the axis, UTC seconds; it counts from
    ``start``."""
    unit = series[0].unit if series else ""
    values = [value for one in series for _, value in one.points if math.isfinite(value)]
    top = min(max(values, default=0.0), _MOST)
    ticks = _ticks(top)
    high = max(top, ticks[-1]) or 1.0
    end = max(end, start + 1.0)

    def x(at: float) -> float:
        share = min(1.0, max(0.0, (at - start) / (end - start)))
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - value / high * (HEIGHT - _TOP - _BOTTOM)

    rows = (len(series) + 7) // 8 if len(series) > 1 else 0
    whole = HEIGHT + rows * _LEGEND
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole}" width="{WIDTH}" height="{whole}"'
        f' role="img" aria-labelledby="{ident}-t {ident}-d" font-family="system-ui, sans-serif" font-size="11">',
        f'<title id="{ident}-t">{_text(title)}</title>',
        f'<desc id="{ident}-d">{_text(described(series, start, end))}</desc>',
        f'<rect x="{_LEFT}" y="{_TOP}" width="{WIDTH - _LEFT - _RIGHT}" height="{HEIGHT - _TOP - _BOTTOM}"'
        ' fill="none" stroke="currentColor" stroke-opacity="0.3"/>',
    ]
    out += _bands(bands, x, start, end)
    for tick in ticks:
        at = y(tick)
        out.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="currentColor"'
            ' stroke-opacity="0.15"/>'
            f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end" fill="currentColor">'
            f"{_text(scaled(tick, unit) if tick else '0')}</text>"
        )
    for at in _times(end - start):
        out.append(
            f'<text x="{x(start + at):.1f}" y="{HEIGHT - _BOTTOM + 15}" text-anchor="middle" fill="currentColor">'
            f"{length(at)}</text>"
        )
    for number, one in enumerate(series):
        out.append(_line(one, number, x, y))
    if rows:
        out += _legend(series)
    out.append("</svg>")
    return "\n".join(out)


def described(series: Sequence[Series], start: float, end: float) -> str:
    """The plot in words."""
    if not series:
        return "No figures."
    parts = []
    for one in series[:16]:
        values = [value for _, value in one.points]
        label = ", ".join(f"{name} {value}" for name, value in one.labels) or one.name
        parts.append(
            f"{label}: from {scaled(values[0], one.unit)} to {scaled(values[-1], one.unit)},"
            f" highest {scaled(max(values), one.unit)}"
        )
    return f"Over {length(end - start)}. " + "; ".join(parts) + "."


def _bands(bands: Sequence[Band], x: Callable[[float], float], start: float, end: float) -> list[str]:
    out = []
    taken = 0.0
    for number, band in enumerate(bands):
        if band.end < start or band.start > end:
            continue
        first, last = x(band.start), x(band.end)
        if number % 2 == 0:
            out.append(
                f'<rect x="{first:.1f}" y="{_TOP}" width="{max(0.0, last - first):.1f}"'
                f' height="{HEIGHT - _TOP - _BOTTOM}" fill="currentColor" fill-opacity="0.05"/>'
            )
        wide = 6.2 * len(band.name)
        if last - first >= wide and first >= taken:
            out.append(f'<text x="{first + 2:.1f}" y="{_TOP - 6}" fill="currentColor">{_text(band.name)}</text>')
            taken = first + wide
    return out


def _line(one: Series, number: int, x: Callable[[float], float], y: Callable[[float], float]) -> str:
    points = " ".join(
        f"{x(at):.1f},{y(min(max(0.0, value), _MOST)):.1f}" for at, value in one.points if math.isfinite(value)
    )
    return (
        f'<polyline points="{points}" fill="none" stroke="{_COLOURS[number % len(_COLOURS)]}" stroke-width="1.6"'
        f" {_dash(number)}><title>{_text(one.title)}</title></polyline>"
    )


def _dash(number: int) -> str:
    dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    return f"stroke-dasharray={quoteattr(dash)}" if dash else ""


def _legend(series: Sequence[Series]) -> list[str]:
    out = []
    for number, one in enumerate(series):
        left = _LEFT + number % 8 * (WIDTH - _LEFT - _RIGHT) / 8
        top = HEIGHT + number // 8 * _LEGEND
        label = " ".join(f"{name} {value}" for name, value in one.labels) or one.name
        out.append(
            f'<line x1="{left:.0f}" x2="{left + 18:.0f}" y1="{top}" y2="{top}"'
            f' stroke="{_COLOURS[number % len(_COLOURS)]}" stroke-width="2" {_dash(number)}/>'
            f'<text x="{left + 23:.0f}" y="{top + 4}" fill="currentColor">{_text(label[:16])}</text>'
        )
    return out


_LEAST = 1e-290
"""Below it there is no room between two numbers for a scale."""


def _ticks(top: float) -> list[float]:
    """0 and up to five round values, the last at or above ``top``."""
    if top < _LEAST or not math.isfinite(top):
        return [0.0, 1.0]
    rough = top / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    return [step * number for number in range(math.ceil(top / step) + 1)]


def _times(span: float) -> list[float]:
    """Round times on the axis, from 0."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
    step = next((one for one in steps if span / one <= 8), 86_400 * math.ceil(span / 86_400 / 8))
    return [float(number * step) for number in range(int(span / step) + 1)]


def _text(text: str) -> str:
    return escape(text.encode("utf-8", "replace").decode())
