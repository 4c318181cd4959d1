"""One finding while it is being gathered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from watch.catalogue import Row
from watch.tracebacks import Frame
from watch.view import FindingView
from watch.words import Phase

REFS_FIRST, REFS_LAST = 8, 4
VALUES = 16
TEXTS = 3
TEXT_LENGTH = 2000
DETAIL = 12
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_RANK = re.compile(r"(?:TP|rank=|Worker-|PP|DP)(\d+)")


def shape(text: str) -> str:
    """The text without its figures: the same line from several ranks has the same shape."""
    return _NUMBERS.sub("#", text[:400])


def rank_of(process: str) -> str:
    """The rank in a worker's name; empty where it names none."""
    found = _RANK.search(process)
    return found[1] if found is not None else ""


@dataclass
class Entry:
    """``load``: its number, 0 for the host. ``order``: place in the order in which findings were first seen.
    ``sure``: not the sort of exception that may be caught further up. ``spoken``: whose words it was found in."""

    key: tuple[int, str, str]
    row: Row
    load: int
    order: int
    phase: Phase
    first: float
    last: float
    sure: bool = False
    settled: bool = False
    """the load was ready afterwards: it did no harm"""
    cleared: bool = False
    count: int = 0
    chain: int = 0
    frame: Frame | None = None
    ranks: dict[str, None] = field(default_factory=dict)
    values: dict[str, list[str]] = field(default_factory=dict)
    spoken: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    _shapes: set[str] = field(default_factory=set)
    _head: list[str] = field(default_factory=list)
    _tail: list[str] = field(default_factory=list)

    def add(self, at: float, ref: str, text: str, values: Mapping[str, str], process: str = "") -> None:
        self.count += 1
        self.first = min(self.first, at)
        self.last = max(self.last, at)
        self.show(ref, text)
        self.learn(values)
        if process:
            if len(self.ranks) < 1024:
                self.ranks.setdefault(process)
            self.learn({"process": process, "rank": rank_of(process)})

    def learn(self, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            if not value:
                continue
            known = self.values.setdefault(name, [])
            if value not in known:
                if len(known) >= VALUES:
                    del known[-1]
                known.append(value)

    def show(self, ref: str, text: str = "") -> None:
        """Name one more line."""
        if ref and ref not in self._head and ref not in self._tail:
            if len(self._head) < REFS_FIRST:
                self._head.append(ref)
            else:
                self._tail.append(ref)
                if len(self._tail) > REFS_LAST:
                    del self._tail[0]
        if text and len(self.texts) < TEXTS:
            like = shape(text)
            if like not in self._shapes:
                self._shapes.add(like)
                self.texts.append(text[:TEXT_LENGTH])

    def detail(self, text: str) -> None:
        """One more line of an exception's message."""
        known = self.values.setdefault("_detail", [])
        if len(known) < DETAIL:
            known.append(text.strip()[:400])

    @property
    def refs(self) -> tuple[str, ...]:
        return (*self._head, *self._tail)


def merged(views: Iterable[FindingView]) -> FindingView:
    """The same fact of several loads as one: the newest, with what the earlier ones add."""
    ordered = sorted(views, key=lambda view: view.load)
    newest = ordered[-1]
    lines: dict[str, None] = {}
    ranks: dict[str, None] = {}
    for view in ordered:
        lines.update(dict.fromkeys(view.lines))
        ranks.update(dict.fromkeys(view.ranks))
    return msgspec.structs.replace(
        newest,
        lines=tuple(lines),
        ranks=tuple(ranks),
        count=sum(view.count for view in ordered),
        first=min(view.first for view in ordered),
    )
