"""Readings of every kind with whatever their fields may hold: what a host, or a recording, could make us think."""

from __future__ import annotations

import random
import typing
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from probes.readings import Reading

TIMES = (0.0, -1.0, 1.0, 1.79e9, 1.79e9 + 60, 253402300799.9, 253402300800.0, 1e12, 1e18, 1e300, -1e300)
FLOATS = (*TIMES, 0.5, 1e-300, 100.0, -5.0, 1e6)
INTEGERS = (0, 1, 2, 7, -1, 100, 10**9, 2**31, 2**53, 2**62, -(2**62))
TEXTS = (
    *(
        "",
        "vllm.service",
        "0",
        "active",
        "failed",
        "a" * 5000,
        "\x1b]0;EVIL\x07",
        "\u202eevil",
        "[red]x[/nope]",
        "\x00",
    ),
    *("\x00", "\u200b\u0301\u0301", "日本\U0001f468\u200d\U0001f469", "--help", "$(touch /tmp/taken)", "\n\n", "%n"),
)


def kinds() -> list[type[Reading]]:
    """Every reading there is."""
    found: list[type[Reading]] = []
    waiting: list[type[Reading]] = [Reading]
    while waiting:
        below = waiting.pop().__subclasses__()
        found += below
        waiting += below
    return sorted(found, key=lambda kind: kind.__name__)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def wild(kind: Any, dice: random.Random, words: Sequence[str]) -> Any:
    """A value of this type."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        return dice.choice(inside)
    if origin in (Union, UnionType):
        return wild(dice.choice(inside), dice, words)
    if origin is tuple:
        if inside[1:] == (...,):
            return tuple(wild(inside[0], dice, words) for _ in range(dice.choice((0, 1, 2, 3, 40))))
        return tuple(wild(one, dice, words) for one in inside)
    if origin is dict:
        return {wild(inside[0], dice, words): wild(inside[1], dice, words) for _ in range(dice.choice((0, 1, 4)))}
    if isinstance(kind, type) and issubclass(kind, Struct):
        return of_kind(kind, dice, words)
    made: dict[Any, Callable[[], object]] = {
        str: lambda: dice.choice(words),
        float: lambda: dice.choice(FLOATS),
        int: lambda: dice.choice(INTEGERS),
        bool: lambda: dice.random() < 0.5,
        type(None): lambda: None,
        object: lambda: dice.choice((None, 1, "x", [1, {"a": None}])),
    }
    return made[object if kind is Any else kind]()


def of_kind(kind: type[Struct], dice: random.Random, words: Sequence[str]) -> Struct:
    """About half of its fields are filled in."""
    hints = _hints(kind)
    values = {
        field.name: wild(hints[field.name], dice, words)
        for field in msgspec.structs.fields(kind)
        if field.required or dice.random() < 0.5
    }
    return kind(**values)


def readings(data: bytes, cuts: Sequence[int]) -> Iterator[Reading]:
    """Up to forty, in random order; their texts hold pieces of ``data``."""
    dice = random.Random(f"{data[:64]!r} {list(cuts)}")
    text = data.decode("utf-8", "backslashreplace")
    words = [*TEXTS, *text.split("\n")[:20]]
    every = kinds()
    at = 1.79e9
    for _ in range(dice.randint(1, 40)):
        reading = of_kind(dice.choice(every), dice, words)
        assert isinstance(reading, Reading)
        at += dice.choice((0.0, 0.5, 5.0, 100.0))
        yield reading if dice.random() < 0.2 else msgspec.structs.replace(reading, at=at)
