"""What is kept of each journal line while a screen or a replay runs: where it stands, how loud it is, who speaks.

Fourteen bytes a line with the index of those shown, so that a million lines cost 14 MB; their text is read back from
the session file when it is wanted.
"""

from __future__ import annotations

import copy
from array import array
from collections.abc import Sequence

from probes.readings import JournalLine
from watch.lines import LineMarker

OWN = 0x80
"""Set in ``loud`` for an access line of firstlight's own requests."""

LOUD = 0x7F

OTHERS = 255
"""Index of every process after the 255th name: the column has one byte."""


class Columns:
    """``offsets``: places in the session file. ``loud``: loudness of ``watch.lines``, with ``OWN``. ``process``: index
    into ``names``, which are in the order of their first line."""

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.loud = bytearray()
        self.process = bytearray()
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._marker = LineMarker()

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, lines: Sequence[JournalLine], offsets: Sequence[int]) -> None:
        """Append; each line with its place."""
        if len(lines) != len(offsets):
            raise ValueError(f"{len(lines)} lines and {len(offsets)} places")
        loud, own, processes = self._marker.mark_all(lines)
        self.offsets.extend(offsets)
        self.loud.extend([level | OWN if ours else level for level, ours in zip(loud, own, strict=True)])
        known = self._numbers
        self.process.extend([known[name] if name in known else self._number(name) for name in processes])

    def marker(self) -> LineMarker:
        """What is remembered of the lines so far, for ``upto``."""
        return copy.deepcopy(self._marker)

    def upto(self, count: int, marker: LineMarker) -> Columns:
        """A copy of the first ``count`` lines, to be gone on with. ``marker``: as it was after them."""
        out = Columns()
        out.offsets, out.loud, out.process = self.offsets[:count], self.loud[:count], self.process[:count]
        known = max(out.process.replace(bytes((OTHERS,)), b""), default=-1) + 1
        out.names = self.names[:known]
        out._numbers = {name: number for number, name in enumerate(out.names)}
        out._marker = copy.deepcopy(marker)
        return out

    def counts(self) -> list[int]:
        """Lines of each name."""
        return [self.process.count(number) for number in range(len(self.names))]

    def number(self, name: str) -> int:
        """Index of a process; ``OTHERS`` for one that has none of its own."""
        return self._numbers.get(name, OTHERS)

    def _number(self, name: str) -> int:
        """The number of a new name."""
        if len(self.names) >= OTHERS:
            return OTHERS
        number = self._numbers[name] = len(self.names)
        self.names.append(name)
        return number
