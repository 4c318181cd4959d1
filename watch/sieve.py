"""Which lines of a large log are read one by one: those that say something, and of those that a running server repeats
all day (answers, throughput) one at each end of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from watch.marks import Mark, Marks
from watch.matching import Matcher

TAIL = 64 << 10
"""Bytes at the end of a block in which the last repeated line is looked for."""


class Sieve:
    """``marks``, ``patterns``: of the fold and of the catalogue."""

    def __init__(self, marks: Marks, patterns: Sequence[str]) -> None:
        steady = [row.pattern for row in marks.rows if isinstance(row, Mark) and row.phase == "serving"]
        telling = [pattern for pattern in marks.patterns if pattern not in steady]
        self._telling = Matcher((*telling, *patterns))
        self._steady = Matcher(steady)

    def lines(self, chunk: bytes) -> Iterator[tuple[int, int]]:
        """Spans (start, end without the newline) of the lines to be read, in order."""
        begin = next(self._steady.lines(chunk[:TAIL]), None)
        tail = chunk.rfind(b"\n", 0, max(0, len(chunk) - TAIL)) + 1
        last: tuple[int, int] | None = None
        for start, end in self._steady.lines(chunk[tail:]):
            last = (tail + start, tail + end)
        repeated = [span for span in (begin, last) if span is not None]
        for span in self._telling.lines(chunk):
            while repeated and repeated[0] < span:
                yield repeated.pop(0)
            if repeated and repeated[0] == span:
                repeated.pop(0)
            yield span
        yield from repeated
