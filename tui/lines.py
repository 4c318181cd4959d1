"""The lines of the journal pane: where each stands in the session file, how loud it is, who speaks. Not their text.

Fourteen bytes a line, so that a million lines cost 14 MB; text is read back when a line is drawn or searched. Filters
work on whole columns at once (``bytes.translate``), which takes about 30 ms for a million lines, in slices.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import neg

from probes.readings import JournalLine
from watch.columns import LOUD, OWN, Columns
from watch.lines import FATAL

_SLICE = 100_000
"""Lines filtered in one go: about 3 ms."""

_SEARCHED = 250
"""Lines searched in one go: about 2 ms."""

_KEPT = 512
"""Lines kept as read: several screens full."""

_LONG = 1 << 16
"""Characters of a line that is read back each time rather than kept."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which lines are shown: at least this loud, from this process (None: all), our own access lines or not."""

    loudness: int = 0
    process: str | None = None
    own: bool = False


class LineStore:
    """All lines, and ``shown``: the indices of those that pass the filter, ascending.

    ``read``: a line back by its place. It may raise OSError or ValueError: the line is then shown as unreadable, with
    the reason.
    """

    def __init__(self, read: Callable[[int], JournalLine]) -> None:
        self._read = read
        self.columns = Columns()
        self._cache: OrderedDict[int, JournalLine] = OrderedDict()
        self.filter = Filter()
        self.shown: array[int] = array("I")

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> list[str]:
        return self.columns.names

    @property
    def counts(self) -> list[int]:
        return self.columns.counts()

    def add(self, lines: Sequence[JournalLine], offsets: Sequence[int]) -> int:
        """Append; how many of them the filter shows."""
        before = len(self.columns)
        self.columns.add(lines, offsets)
        fresh = self._select(before, len(self.columns))
        self.shown.extend(fresh)
        return len(fresh)

    def replace(self, columns: Columns) -> None:
        """Hold these lines instead: a replay has gone to another time. The filter stays."""
        self.columns = columns
        self.shown = self._select(0, len(columns))

    def line(self, index: int) -> JournalLine:
        """The line, whole. One that cannot be read back is a line that says so."""
        line = self._cache.get(index)
        if line is not None:
            self._cache.move_to_end(index)
            return line
        line = self.fetch(index)
        if len(line.text) > _LONG:
            return line
        self._cache[index] = line
        if len(self._cache) > _KEPT:
            self._cache.popitem(last=False)
        return line

    def fetch(self, index: int) -> JournalLine:
        """The same, for one who passes through: nothing is kept."""
        try:
            return self._read(self.columns.offsets[index])
        except (OSError, ValueError) as error:
            return JournalLine(at=0.0, text=f"this line cannot be read back: {error}", source="other", timed=False)

    def loudness(self, index: int) -> int:
        return self.columns.loud[index] & LOUD

    def process(self, index: int) -> str:
        number = self.columns.process[index]
        return self.names[number] if number < len(self.names) else ""

    def row(self, index: int) -> int:
        """Where a line stands among those shown; where it would stand, if it is not."""
        return bisect_left(self.shown, index)

    def refilter(self, wanted: Filter) -> Iterator[None]:
        """Change the filter; yields between slices. ``shown`` changes at the end, all at once."""
        self.filter = wanted
        shown = array("I")
        at = 0
        while at < len(self.columns):
            end = min(at + _SLICE, len(self.columns))
            shown.extend(self._select(at, end, wanted))
            at = end
            yield
        if self.filter == wanted:
            self.shown = shown

    def _select(self, start: int, end: int, wanted: Filter | None = None) -> array[int]:
        wanted = wanted or self.filter
        if end <= start:
            return array("I")
        if wanted == Filter(own=True):
            return array("I", range(start, end))
        passes = self.columns.loud[start:end].translate(_loud_table(wanted.loudness, wanted.own))
        if wanted.process is not None:
            number = self.columns.number(wanted.process)
            table = bytes(1 if code == number else 0 for code in range(256))
            speaks = self.columns.process[start:end].translate(table)
            both = int.from_bytes(passes, "big") & int.from_bytes(speaks, "big")
            passes = bytearray(both.to_bytes(end - start, "big"))
        return array("I", compress(range(start, end), passes))


def _loud_table(least: int, own: bool) -> bytes:
    return bytes(1 if least <= (code & LOUD) <= FATAL and (own or not code & OWN) else 0 for code in range(256))


class Search:
    """Finds a text in the lines shown, newest first, some lines at a time. Upper and lower case count only where the
    wanted text has upper case. What ``step`` has come by is found; a question about it costs no more for a million."""

    def __init__(self, store: LineStore, wanted: str) -> None:
        self.wanted = wanted
        self._store = store
        self._exact = wanted != wanted.lower()
        self._older = len(store.shown)
        self._newer = len(store.shown)
        self._back: list[int] = []
        self._front: list[int] = []

    @property
    def done(self) -> bool:
        return self._older == 0 and self._newer >= len(self._store.shown)

    @property
    def behind(self) -> bool:
        """Whether lines came that were not searched yet."""
        return self._newer < len(self._store.shown)

    def passed(self, row: int) -> bool:
        """Whether everything from this row on has been searched."""
        return self._older <= row and not self.behind

    @property
    def share(self) -> float:
        """How much has been searched, 0 to 1."""
        total = len(self._store.shown)
        return 1.0 if not total else 1.0 - (self._older + max(0, total - self._newer)) / total

    @property
    def count(self) -> int:
        return len(self._back) + len(self._front)

    def matches(self, text: str) -> bool:
        return self.wanted in (text if self._exact else text.lower())

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where it stands in a text: (start, end) in characters."""
        where = text if self._exact else text.lower()
        if len(where) != len(text) or not self.wanted:
            return []
        spans: list[tuple[int, int]] = []
        at = where.find(self.wanted)
        while at >= 0:
            spans.append((at, at + len(self.wanted)))
            at = where.find(self.wanted, at + len(self.wanted))
        return spans

    def step(self) -> bool:
        """Search some more lines: those that came since first, then older ones. False when all were searched."""
        shown = self._store.shown
        store = self._store
        end = min(len(shown), self._newer + _SEARCHED)
        while self._newer < end:
            index = shown[self._newer]
            if self.matches(store.fetch(index).text):
                self._front.append(index)
            self._newer += 1
        end = max(0, self._older - _SEARCHED)
        while self._older > end:
            self._older -= 1
            index = shown[self._older]
            if self.matches(store.fetch(index).text):
                self._back.append(index)
        return not self.done

    def after(self, index: int) -> int | None:
        """The next line found after this one, wrapping round; None if nothing is found (yet)."""
        return self._nth(self._below(index + 1))

    def before(self, index: int) -> int | None:
        """The line found before this one, wrapping round; None if nothing is found (yet)."""
        return self._nth(self._below(index) - 1)

    def place(self, index: int) -> int:
        """Which of the found lines this is, from 1; 0 if it is none."""
        at = self._below(index)
        return at + 1 if at < self.count and self._nth(at) == index else 0

    @property
    def newest(self) -> int | None:
        return self._nth(-1)

    def _below(self, index: int) -> int:
        """How many lines were found before this one. Both halves stay as they are: copying them together for each
        question would make a search with many hits slow."""
        older = len(self._back) - bisect_right(self._back, -index, key=neg)
        return older + bisect_left(self._front, index)

    def _nth(self, number: int) -> int | None:
        """The line found at this place, counted round."""
        if not self.count:
            return None
        number %= self.count
        older = len(self._back)
        return self._back[older - 1 - number] if number < older else self._front[number - older]
