"""Texts of the catalogue with the values of a finding filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_PLACE = re.compile(r"\{([a-z_][a-z0-9_]*)(>|\+(?:[ ,])?)?(?:\|([^{}]*))?\}")
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_BLANKS = re.compile(r"[ \t]{2,}")
_LOOSE = re.compile(r" +([.,;)])(?=\s|$)")

Values = Mapping[str, Sequence[str]]


def fill(template: str, values: Values) -> str:
    """``{name}`` first value, ``{name>}`` last, ``{name+}`` all (``{name+ }``, ``{name+,}``: joined by that),
    ``{name|else}`` with a default; ``[[…]]`` vanishes where something in it is not known."""

    def known(place: re.Match[str]) -> str | None:
        found = values.get(place[1])
        if not found:
            return place[3]
        how = place[2] or ""
        if how == ">":
            return found[-1]
        if how.startswith("+"):
            ordered = sorted(found, key=int) if all(value.isdecimal() for value in found) else found
            return (how[1:] or ", ").join(ordered)
        return found[0]

    def optional(part: re.Match[str]) -> str:
        if any(known(place) is None for place in _PLACE.finditer(part[1])):
            return ""
        return part[1]

    text = _PLACE.sub(lambda place: known(place) or "…", _OPTIONAL.sub(optional, template))
    return _LOOSE.sub(r"\1", _BLANKS.sub(" ", text)).strip()


def places(template: str) -> set[str]:
    """The names a template cannot do without: those outside of ``[[…]]`` that have no default."""
    return {place[1] for place in _PLACE.finditer(_OPTIONAL.sub("", template)) if place[3] is None}


def short(text: str, most: int) -> str:
    """The text, or its beginning and its end where it is longer: what is wrong often stands last."""
    if len(text) <= most:
        return text
    head = most // 3
    return f"{text[:head].rstrip()} … {text[-(most - head) :].lstrip()}"


def sentence(text: str) -> str:
    """With a capital at its beginning and no full stop at its end."""
    text = text.strip().rstrip(".")
    return text[:1].upper() + text[1:]


def duration(seconds: float) -> str:
    """12 s, 3 min, 1 h 05 min."""
    whole = max(0, round(seconds))
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{round(whole / 60)} min"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
