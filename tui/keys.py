"""The table of keys (``keys.toml``), and other keys that an operator gives them.

Bindings, footer, help and palette are made from one table, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from textual.binding import Binding, Keymap
from textual.keys import KEY_ALIASES, Keys

_FILE: Final = Path(__file__).with_name("keys.toml")

PLACES: Final = {
    "app": "Everywhere",
    "watch": "The watch",
    "session": "Recordings",
    "replay": "In a replay",
    "recordings": "The list of recordings",
    "pane": "Panes",
    "gpu": "GPUs",
    "findings": "Findings",
    "journal": "Journal",
    "search": "Search line",
    "line": "A line, a finding or a GPU, whole",
    "help": "This help",
    "start": "firstlight alone: what to watch",
    "operate": "Acting on the unit (a live watch)",
    "confirm": "Before anything is done",
    "steps": "Steps of an action",
    "revisions": "Revisions",
    "difference": "A revision's difference",
    "told": "A diagnosis, or commands for somebody else",
    "benchmark": "Benchmarks",
    "bench": "A benchmark as it runs, and its result",
    "presets": "Ways to measure",
    "results": "Results to compare",
    "choice": "Choices",
}
"""Where keys apply, with the titles of the help screen, in its order."""


class Key(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table. ``label``: for the footer, ``command``: for the palette; empty: not shown there."""

    id: str
    keys: str
    action: str
    where: str
    help: str
    label: str = ""
    command: str = ""
    rank: int = 50
    first: bool = False


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    key: tuple[Key, ...]


class BadKey(ValueError):
    """A key map that cannot be used. The text is one sentence that names the entry and what would be right. ``name``:
    the id that was given what cannot be, so that its line can be told."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


@cache
def table() -> tuple[Key, ...]:
    return msgspec.toml.decode(_FILE.read_bytes(), type=_File).key


@cache
def by_id() -> Mapping[str, Key]:
    return {key.id: key for key in table()}


def first_key(name: str, chosen: str = "") -> str:
    """The key that footer and titles name for an id: the first of an operator's own, else of the table."""
    return _textual((chosen or by_id()[name].keys).split(",")[0])


def bindings(where: str) -> list[Binding]:
    """The bindings of one place, for the ``BINDINGS`` of its widget."""
    return [
        Binding(
            key.keys,
            key.action,
            key.label or key.help,
            show=bool(key.label),
            id=key.id,
            tooltip=key.help,
            priority=key.first,
        )
        for key in table()
        if key.where == where
    ]


def keymap(wanted: Mapping[str, str]) -> Keymap:
    """An operator's keys, by id, checked: ``{"journal.follow": "F"}``.

    Raises BadKey for an id that does not exist (naming the nearest), for a key that no terminal sends, and for one key
    given to two things in one place, where the first would silently win.
    """
    known = by_id()
    chosen: dict[str, str] = {}
    for name, keys in wanted.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the ids are {', '.join(sorted(known))}."
            raise BadKey(f"There is no key with the id {name!r}{hint}", name)
        chosen[name] = ",".join(_key(name, key) for key in keys.split(","))
    for together in _TOGETHER:
        taken: dict[str, str] = {}
        for row in table():
            if row.where not in together:
                continue
            for key in chosen[row.id].split(",") if row.id in chosen else map(_textual, row.keys.split(",")):
                other = taken.get(key)
                if other not in (None, row.id) and (row.id in chosen or other in chosen):
                    raise BadKey(
                        f"The key {key!r} cannot be both {other!r} and {row.id!r}: give one of them another.",
                        row.id if row.id in chosen else other,
                    )
                taken[key] = row.id
    return chosen


_TOGETHER: Final = (
    ("app", "watch", "operate", "benchmark", "session", "pane", "gpu"),
    ("app", "watch", "operate", "benchmark", "session", "pane", "findings"),
    ("app", "watch", "operate", "benchmark", "session", "journal"),
    ("app", "watch", "benchmark", "session", "replay"),
    ("line", "pane"),
    ("help", "pane"),
    ("choice",),
    ("confirm", "pane"),
    ("app", "steps", "pane"),
    ("revisions", "pane"),
    ("app", "bench", "pane"),
    ("presets", "pane"),
    ("results", "pane"),
    ("line", "difference", "pane"),
    ("line", "told", "pane"),
    ("search",),
    ("app", "start"),
)
"""Places whose keys apply at the same time. What is shown over the watch may give its keys another meaning."""


def _key(name: str, key: str) -> str:
    key = key.strip()
    if len(key) == 1:
        return _textual(key)
    *modifiers, last = key.split("+")
    plain = len(last) == 1 or last in _NAMES
    if not key or not plain or any(modifier not in ("ctrl", "shift", "alt", "super") for modifier in modifiers):
        near = get_close_matches(key, _NAMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; write it like 'r', 'ctrl+r', 'f5', 'enter'."
        raise BadKey(f"{name!r} is given the key {key!r}, which is none{hint}", name)
    return key


def _textual(key: str) -> str:
    """A key as Textual names it: ``?`` is ``question_mark``."""
    return next(iter(Binding.make_bindings([Binding(key, "")]))).key


_NAMES: Final = frozenset(
    {key.value for key in Keys if not key.value.startswith("<")}
    | set(KEY_ALIASES)
    | {row for key in table() for row in key.keys.split(",")}
)
