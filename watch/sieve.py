"""Which lines of a large log are read one by one: those that say something, and of those that a running server repeats
all day (answers, refusals, throughput) one at each end of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from watch.catalogue import Catalogue
from watch.marks import Mark, Marks
from watch.matching import Matcher
from watch.standstill import NO_TOKENS

TAIL = 64 << 10
"""Bytes at the end of a block in which the last repeated line is looked for."""


class Sieve:
    """``marks``, ``catalogue``: of the fold and of its findings."""

    def __init__(self, marks: Marks, catalogue: Catalogue) -> None:
        steady = [row.pattern for row in marks.rows if isinstance(row, Mark) and row.phase == "serving"]
        steady += catalogue.by_id["client-errors"].pattern[:1] if "client-errors" in catalogue.by_id else ()
        patterns = (*marks.patterns, *catalogue.patterns, NO_TOKENS)
        self._telling = Matcher([pattern for pattern in patterns if pattern not in steady])
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

    def pick(self, texts: Sequence[str]) -> set[int]:
        """The same for texts that are lines already: which of them."""
        block = "\n".join([text.replace("\n", "\r") for text in texts]).encode("utf-8", "replace")
        out: set[int] = set()
        number = at = 0
        for start, _ in self.lines(block):
            number += block.count(b"\n", at, start)
            at = start
            out.add(number)
        return out
