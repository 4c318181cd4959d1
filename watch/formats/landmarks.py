"""Where the last loads of a large log begin. A log of a thousand restarts is not read from its first one on: what
counts is the last of them, and the fold remembers no more than some dozens."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec import Struct

LOADS = 66
"""Loads at the end of a log that are read: more than the fold remembers, so that the first of them may be a part."""
_ONCE_A_LOAD = (b"LLM engine (v", b"non-default args: ", b"server_args=ServerArgs(", b"Scheduled restart job")
"""What is printed once in every load, or once in every failed one."""
_LONGEST = max(map(len, _ONCE_A_LOAD))


class Landmark(Struct, frozen=True):
    """``offset``: of the first byte to be read, the beginning of a line; ``lines``: how many come before it;
    ``loads``: how many were seen in all."""

    offset: int = 0
    lines: int = 0
    loads: int = 0


def last_loads(chunks: Iterable[bytes]) -> Landmark:
    """The place from which the last loads of a log can be read; its beginning where there are not more."""
    found: list[deque[Landmark]] = [deque(maxlen=LOADS) for _ in _ONCE_A_LOAD]
    counts = [0] * len(_ONCE_A_LOAD)
    offset = lines = 0
    rest = b""
    for chunk in chunks:
        buffer = rest + chunk
        cut = buffer.rfind(b"\n") + 1
        block, rest = (buffer[:cut], buffer[cut:]) if cut else (b"", buffer)
        if len(rest) > 16 << 20:  # no line at all: nothing to be found
            return Landmark()
        for index, literal in enumerate(_ONCE_A_LOAD):
            at = block.find(literal)
            before, counted = 0, 0
            while at >= 0:
                start = block.rfind(b"\n", 0, at) + 1
                counted += block.count(b"\n", before, start)
                before = start
                counts[index] += 1
                found[index].append(Landmark(offset + start, lines + counted, counts[index]))
                at = block.find(literal, at + _LONGEST)
        lines += block.count(b"\n")
        offset += len(block)
    best = max(range(len(counts)), key=counts.__getitem__)
    if counts[best] < LOADS:
        return Landmark()
    first = found[best][0]
    return Landmark(first.offset, first.lines, counts[best])
