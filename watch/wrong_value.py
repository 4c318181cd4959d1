"""What is wrong with a value of the configuration, in plain words: msgspec's own name types of Python."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

_KINDS: Final = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
"""What msgspec expects or got, as TOML's readers know it."""
_GOT: Final = {"bool": "true or false", "int": "a number", "float": "a number with a point", "str": "text"}
_BOUNDS: Final = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_EXPECTED = re.compile(r"Expected `(?P<kinds>[^`]+)`(?: (?P<sign>[<>]=?) (?P<bound>[-\d.]+))?(?:, got `(?P<got>\w+)`)?")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]+)`")


def plainly(error: str, key: str, kind: Any = None) -> str:
    """One sentence about the key. ``error``: msgspec's, without its place. ``kind``: what the key may hold, where that
    is known: words are listed then."""
    if found := _MISSING.match(error):
        return f"{key} needs {found['name']}"
    if get_origin(kind) is Literal and error.startswith("Invalid enum value"):
        words = _or([str(word) for word in get_args(kind)])
        return f"{key} must be {words}, not {error.removeprefix('Invalid enum value ')}"
    found = _EXPECTED.match(error)
    if found is None:
        return f"{key}: {error}"
    if found["sign"]:
        return f"{key} must be {_BOUNDS[found['sign']]} {found['bound'].removesuffix('.0')}"
    wanted = _or([_KINDS.get(word, word) for word in found["kinds"].split(" | ") if word != "null"])
    got = found["got"] or ""
    return f"{key} must be {wanted}, not {_GOT.get(got) or _KINDS.get(got, got)}" if got else f"{key} must be {wanted}"


def kind_at(kind: Any, names: list[str]) -> Any:
    """What the key below a structure may hold; None where it is not known."""
    for name in names:
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            return None
        kind = next((field.type for field in msgspec.structs.fields(kind) if field.name == name), None)
    return kind


def _or(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
