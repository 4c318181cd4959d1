"""Lines in a row, each of which can be read back by its place: what a recording is written to and read from."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import accumulate

BUFFER = 256 << 10
"""Bytes after which a flood is handed to the system without waiting for the second to be over."""

LONGEST = 64 << 20
"""Bytes; a longer line is none of ours, and is not held in memory."""

MEMORY = 64 << 20
"""Bytes kept where there is no disk to write to; what is older can no longer be read back."""

_BLOCK = 1 << 20
_FIRST = 8 << 10  # most lines are read back with one pread


class Tape:
    """Whole lines, appended and read back. ``file``: open for both, from its byte 0 on; None: kept in memory.

    ``start``: the place of the first line; places count on by bytes, the newline of each line included. The file is
    not closed here.
    """

    def __init__(self, file: int | None, start: int = 0) -> None:
        self.file = file
        self.start = start
        self._written = start
        self._waiting = bytearray()

    @property
    def end(self) -> int:
        """Place of the line to come."""
        return self._written + len(self._waiting)

    @property
    def waiting(self) -> int:
        """Bytes not yet handed to the system."""
        return len(self._waiting)

    def append(self, line: bytes) -> int:
        """Take one line (without its newline); its place."""
        place = self.end
        self._waiting += line
        self._waiting += b"\n"
        self._bound()
        return place

    def append_all(self, lines: bytes) -> list[int]:
        """Take many lines of JSON, each with a newline at its end (and no carriage return in it); their places."""
        places = list(accumulate(map(len, lines.splitlines(keepends=True)), initial=self.end))
        self._waiting += lines
        self._bound()
        return places[:-1]

    def flush(self) -> None:
        """Hand over what waits. OSError: the file then ends with the last line that went in whole, the rest waits."""
        if self.file is None or not self._waiting:
            return
        done = 0
        try:
            with memoryview(self._waiting) as view:
                while done < len(view):
                    done += os.pwrite(self.file, view[done:], self._written - self.start + done)
        except OSError:
            done = self._waiting.rfind(b"\n", 0, done) + 1
            os.ftruncate(self.file, self._written - self.start + done)
            raise
        finally:
            del self._waiting[:done]
            self._written += done

    def _bound(self) -> None:
        """In memory only so much is kept."""
        if self.file is None and len(self._waiting) > MEMORY:
            cut = self._waiting.rfind(b"\n", 0, MEMORY // 2) + 1
            del self._waiting[:cut]
            self._written += cut

    def take_waiting(self) -> bytes:
        """What waits, given away: for the tape that goes on from here."""
        rest = bytes(self._waiting)
        self._waiting.clear()
        return rest

    def line(self, place: int) -> bytes:
        """The line at a place. ValueError: none begins there any more; OSError: the disk does not give it."""
        if not self.start <= place < self.end:
            raise ValueError(f"no line at {place}")
        if place >= self._written:
            at = place - self._written
            return bytes(self._waiting[at : self._waiting.index(b"\n", at)])
        if self.file is None:
            raise ValueError(f"the line at {place} is no longer kept")
        return line_at(self.file, place - self.start)

    def chunk(self, place: int, most: int) -> bytes:
        """Whole lines from a place on, newlines included: about ``most`` bytes, at least one line; empty at the end.
        Raises as ``line`` does."""
        if place >= self.end:
            return b""
        if place < self._written and place >= self.start and self.file is not None:
            data = os.pread(self.file, min(most, self._written - place), place - self.start)
        elif place >= self._written:
            data = bytes(self._waiting[place - self._written : place - self._written + most])
        else:
            data = b""
        end = data.rfind(b"\n") + 1
        return data[:end] if end else self.line(place) + b"\n"


def line_at(file: int, offset: int) -> bytes:
    """The bytes from an offset of a file to the end of their line. ValueError at the end of the file."""
    size = _FIRST
    data = b""
    while True:
        piece = os.pread(file, size, offset + len(data))
        end = piece.find(b"\n")
        if end >= 0:
            return data + piece[:end]
        data += piece
        if not piece:
            if not data:
                raise ValueError(f"no line at {offset}")
            return data
        if len(data) > LONGEST:
            raise ValueError(f"the line at {offset} is longer than any reading")
        size = _BLOCK


def lines_of(file: int, offset: int = 0) -> Iterator[tuple[int, bytes, bool]]:
    """(offset, line, whole) of each line of a file from an offset on; ``whole`` is False for one without a newline at
    the very end, and for one longer than ``LONGEST`` (given empty)."""
    rest = b""
    too_long = False
    at = offset  # of the beginning of rest
    read = offset
    while piece := os.pread(file, _BLOCK, read):
        read += len(piece)
        if b"\n" not in piece:
            rest = b"" if too_long else rest + piece
            if len(rest) > LONGEST:
                too_long, rest = True, b""
            continue
        head, *lines, tail = piece.split(b"\n")
        yield at, b"" if too_long else rest + head, not too_long
        at = read - len(piece) + len(head) + 1
        too_long = False
        for line in lines:
            yield at, line, True
            at += len(line) + 1
        rest = tail
    if rest or too_long:
        yield at, rest, False


def nameless_file() -> int | None:
    """A file without a name, gone with the process; None where the temporary folder gives none."""
    try:
        with tempfile.TemporaryFile(prefix="firstlight-") as file:
            return os.dup(file.fileno())
    except OSError:
        return None
