"""The marks of the phases: rows of data that say which line begins, moves or ends a phase. See ``marks.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from watch.matching import BadPattern, Matcher
from watch.words import Phase

_HEAD = 1024
"""Characters of a line in which fields are looked for."""

Event = Literal["start", "progress", "end"]


class MarksError(ValueError):
    """A file of marks cannot be used: one sentence with its name and the row."""


class Mark(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row; the fields are explained at the top of ``marks.toml``."""

    id: str
    phase: Phase
    event: Event
    pattern: str
    examples: tuple[str, ...]
    engine: Literal["vllm", "sglang", "any"] = "vllm"
    versions: str = ""
    unit: str = ""
    note: str = ""
    then: Phase | Literal[""] = ""
    pause: bool = False
    backdate: bool = False
    weak: bool = False
    after: Phase | Literal[""] = ""
    instead: Phase | Literal[""] = ""
    again: Phase | Literal[""] = ""
    unless: tuple[str, ...] = ()
    banner: bool = False
    each: str = ""
    frame: bool = False
    reads: Literal["", "args", "config", "statistics"] = ""


class Sign(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row that is no mark: a notice (``[[notice]]``) or the end of all hope (``[[death]]``)."""

    id: str
    pattern: str
    examples: tuple[str, ...]


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    mark: tuple[Mark, ...] = ()
    notice: tuple[Sign, ...] = ()
    death: tuple[Sign, ...] = ()


class Marks:
    """A table of marks, ready to search with. ``patterns``: of all rows, in the order of ``at``: what a combined
    ``watch.matching.Matcher`` must look for."""

    def __init__(self, marks: Sequence[Mark], notices: Sequence[Sign], deaths: Sequence[Sign]) -> None:
        self.rows: tuple[Mark | Sign, ...] = (*marks, *notices, *deaths)
        self.marks = tuple(marks)
        self.patterns: tuple[str, ...] = tuple(row.pattern for row in self.rows)
        self._notices = range(len(marks), len(marks) + len(notices))
        self._deaths = range(len(marks) + len(notices), len(self.rows))
        self._serving = frozenset(
            index for index, mark in enumerate(marks) if mark.phase == "serving" and not mark.reads
        )
        Matcher(self.patterns)
        self._fields = {index: re.compile(row.pattern) for index, row in enumerate(self.marks) if "(?P<" in row.pattern}

    def __len__(self) -> int:
        return len(self.rows)

    def mark(self, index: int) -> Mark | None:
        """The mark at this index of ``patterns``; None for a notice or a death."""
        return self.marks[index] if index < len(self.marks) else None

    def notice(self, index: int) -> bool:
        return index in self._notices

    def steady(self) -> frozenset[int]:
        """The rows that say nothing new while requests are served."""
        return self._serving | frozenset(self._notices)

    def death(self, index: int) -> bool:
        return index in self._deaths

    def fields(self, index: int, text: str) -> dict[str, str]:
        """The named groups of the row at ``index`` in the text, those that took part.

        The standard library's machine takes them out (a tenth of what RE2's wrapper needs); where the line matches at
        all was decided by RE2, and only its beginning is looked at, so that a hostile line cannot make it slow."""
        pattern = self._fields.get(index)
        found = pattern.search(text, 0, _HEAD) if pattern is not None else None
        if found is None:
            return {}
        return {name: value for name, value in found.groupdict().items() if value is not None}


def read_marks(paths: Sequence[Path]) -> Marks:
    """Read tables of marks, one after another. Raises MarksError."""
    marks: list[Mark] = []
    notices: list[Sign] = []
    deaths: list[Sign] = []
    for path in paths:
        try:
            table = msgspec.toml.decode(path.read_bytes(), type=_File)
        except (OSError, msgspec.MsgspecError) as error:
            raise MarksError(f"{path}: {error}") from error
        marks += table.mark
        notices += table.notice
        deaths += table.death
    rows: list[Mark | Sign] = [*marks, *notices, *deaths]
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise MarksError(f"two rows of marks are called {row.id!r}: ids are unique")
        seen.add(row.id)
    try:
        return Marks(marks, notices, deaths)
    except BadPattern as error:
        raise MarksError(f"mark {rows[error.index].id!r}: the pattern is not understood: {error}") from error
    except re.error as error:
        raise MarksError(f"the pattern {error.pattern!r} is not understood: {error}") from error


@cache
def shipped() -> Marks:
    """The table that ships with firstlight."""
    return read_marks([Path(__file__).with_name("marks.toml")])


def named_phases(mark: Mark) -> Iterator[Phase]:
    """All phases a row speaks of."""
    for phase in (mark.phase, mark.then, mark.instead, mark.again, mark.after):
        if phase and phase in get_args(Phase):
            yield phase
