"""What makes two loads alike, so that one tells how long the other will take."""

from __future__ import annotations

import functools
import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

ARGUMENTS_FILE = Path(__file__).with_name("load_arguments.toml")


class Key(Struct, frozen=True, kw_only=True):
    """What makes two loads alike: the unit on its host, the model, and the arguments that change how long a load takes
    (see ``load_key``)."""

    target: str
    unit: str
    model: str
    arguments: str
    """short hash over the arguments that matter"""


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    """``load_arguments.toml``."""

    matter: frozenset[str]
    ignored: frozenset[str]
    same: dict[str, str]
    default: dict[str, bool | int | float | str]


@functools.cache
def shipped_arguments() -> Arguments:
    return msgspec.convert(tomllib.loads(ARGUMENTS_FILE.read_text(encoding="utf-8")), Arguments)


def load_key(target: str, unit: str, model: str, arguments: Mapping[str, object]) -> Key:
    """The key of a load.

    ``arguments``: vLLM's non-default args (a dictionary in a dictionary for JSON values), those of ExecStart (JSON as
    text, ``True`` or empty for a switch), or parts of JSON values under dotted names; with ``-`` or ``_`` in the names,
    with or without leading dashes. Each gives the same key for the same arguments.
    """
    text = json.dumps(mattering(arguments), sort_keys=True, separators=(",", ":"))
    return Key(target=target, unit=unit, model=model, arguments=hashlib.sha256(text.encode()).hexdigest()[:12])


def mattering(arguments: Mapping[str, object]) -> dict[str, str]:
    """The arguments that matter, by their one name, with values in one spelling."""
    table = shipped_arguments()
    out: dict[str, str] = {}
    for name, value in _flat(arguments):
        name = table.same.get(name, name)
        root = name.partition(".")[0]
        if (name not in table.matter and root not in table.matter) or name in table.ignored:
            continue
        spelled = _spelled(value)
        if spelled in ("", "null") or spelled == _spelled(table.default.get(name)):
            continue
        out[name] = spelled
    return out


def _flat(arguments: Mapping[str, object], above: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    for key, value in arguments.items():
        name = str(key).lstrip("-").replace("-", "_") if not above else str(key)
        root = shipped_arguments().same.get(name, name) if not above else name
        full = f"{above}.{root}" if above else root
        if isinstance(value, str) and value.lstrip()[:1] == "{" and depth < 4:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = value.strip()
        if isinstance(value, Mapping) and depth < 4:
            yield from _flat(value, full, depth + 1)
        else:
            yield full, value


def _spelled(value: object) -> str:
    """One spelling for a value, wherever it comes from: ``8`` for 8 and "8", ``true`` for True, "True" and a bare
    switch (an empty text)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        text = value.strip().strip("'\"")
        return {"none": "null", "": "true"}.get(
            text.lower(), text.lower() if text.lower() in ("true", "false") else text
        )
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return json.dumps([_spelled(item) for item in value])
    return str(value)
