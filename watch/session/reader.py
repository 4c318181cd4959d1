"""Reads session files, whatever has become of them."""

from __future__ import annotations

import fcntl
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from probes.readings import UNDECODABLE, AnyReading, decode
from watch.session.header import FORMAT, Header, SessionError, folder, words_of
from watch.session.tape import line_at, lines_of, nameless_file

_MOST = 16 << 30
"""Bytes; more than this is not unpacked (a day of readings is below 1 GiB)."""


class SessionReader:
    """Reads a session file, plain or gzip, cut or damaged. Raises SessionError where it is none.

    Iterated, it gives (place, reading) in the order of the file, and may be iterated again. ``notes()`` says what is
    wrong with the file, complete once it was read to the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header = Header(firstlight=FORMAT)
        self._packed = ""
        self._live = False
        self._headless = False
        self._damaged: list[int] = []
        self._unknown = 0
        self._cut = False
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not hold us up
        except OSError as error:
            raise SessionError(f"{path}: {words_of(error)}", f"recordings are kept in {folder()}") from None
        try:
            self._open()
        except OSError as error:
            os.close(self._file)
            raise SessionError(f"{path}: {words_of(error)}", f"recordings are kept in {folder()}") from None
        except SessionError:
            os.close(self._file)
            raise

    def _open(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise SessionError(f"{self.path} is no file", f"recordings are kept in {folder()}")
        if os.pread(self._file, 2, 0) == b"\x1f\x8b":
            self._file, packed = self._unpack(), self._file
            os.close(packed)
        else:
            self._live = _held(self._file)
        log = f"a saved log is read by: firstlight explain {self.path}"
        first = next(lines_of(self._file), None)
        if first is None and self._packed:
            raise SessionError(f"{self.path} is damaged: nothing of it can be unpacked", log)
        if first is None:
            raise SessionError(
                f"{self.path} is empty: nothing was recorded in it", f"recordings are kept in {folder()}"
            )
        self._begin = first[0] + len(first[1]) + 1
        try:
            self.header = msgspec.json.decode(first[1], type=Header)
        except UNDECODABLE:
            if not any(_try(line) for _, (_, line, _) in zip(range(100), lines_of(self._file), strict=False)):
                raise SessionError(f"{self.path} is no recording of firstlight", log) from None
            self._headless = True
            if _try(first[1]):
                self._begin = 0
            self.header = Header(firstlight=FORMAT)
        if self.header.firstlight < 1:
            raise SessionError(f"{self.path} is no recording of firstlight", log)

    def __iter__(self) -> Iterator[tuple[int, AnyReading]]:
        self._damaged, self._unknown, self._cut = [], 0, False
        number = 1 if self._begin else 0
        for place, line, whole in lines_of(self._file, self._begin):
            number += 1
            try:
                reading = decode_reading(line)
            except ValueError:
                if not whole and line:
                    self._cut = True
                elif line and _of_unknown_kind(line):
                    self._unknown += 1
                else:
                    self._damaged.append(number)
                continue
            yield place, reading

    @property
    def size(self) -> int:
        """Bytes of its text, unpacked, as it is now."""
        return os.fstat(self._file).st_size

    def read(self, place: int) -> AnyReading:
        """The reading at a place. Raises ValueError where none is, OSError where the disk does not give it."""
        return decode_reading(line_at(self._file, place))

    def notes(self) -> list[str]:
        """What is wrong with the file, one sentence each."""
        notes = []
        if self.header.firstlight > FORMAT:
            by = f" by firstlight {self.header.version}" if self.header.version else ""
            notes.append(
                f"recorded{by} in format {self.header.firstlight}, newer than the {FORMAT} known here:"
                " what it knows more is left out"
            )
        if self._headless:
            notes.append("its first line is damaged: which host and unit it was is not known")
        if self._damaged:
            count, where = len(self._damaged), self._damaged[0]
            notes.append(
                f"line {where} is damaged and left out"
                if count == 1
                else f"{count} damaged lines are left out, the first is line {where}"
            )
        if self._unknown == 1:
            notes.append("1 reading of a kind not known here is left out")
        elif self._unknown:
            notes.append(f"{self._unknown} readings of kinds not known here are left out")
        if self._packed:
            notes.append(self._packed)
        elif self._live:
            notes.append("it is still being recorded: this is what there was when it was opened")
        elif self._cut:
            notes.append("it ends in the middle of a line: the run was ended while it wrote")
        return notes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _unpack(self) -> int:
        """The text of a gzip file as a nameless file: all that can be had of it."""
        out = nameless_file()
        if out is None:
            raise SessionError(
                f"{self.path} cannot be unpacked: the temporary folder takes no file",
                "set TMPDIR to a folder with room",
            )
        try:
            self._packed = _gunzip(self._file, out)
        except OSError as error:
            os.close(out)
            raise SessionError(
                f"{self.path} cannot be unpacked: {words_of(error)}", "set TMPDIR to a folder with more room"
            ) from None
        return out


_YEAR_5138 = 1e11


def decode_reading(line: bytes) -> AnyReading:
    """One line of a session file. ValueError: no reading, or at a time that is none."""
    try:
        reading: AnyReading = decode(line)
    except UNDECODABLE as error:
        raise ValueError(f"no reading: {error}") from None
    if not 0 <= reading.at < _YEAR_5138:
        raise ValueError(f"no time: {reading.at}")
    return reading


def _try(line: bytes) -> AnyReading | None:
    try:
        return decode_reading(line)
    except ValueError:
        return None


class _Kind(Struct):
    at: float
    kind: str


def _of_unknown_kind(line: bytes) -> bool:
    known = {kind.__struct_config__.tag for kind in AnyReading.__args__}
    try:
        return msgspec.json.decode(line, type=_Kind).kind not in known
    except UNDECODABLE:
        return False


def _held(file: int) -> bool:
    """Whether somebody is writing this file."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


_MAGIC = b"\x1f\x8b\x08"


def _gunzip(source: int, out: int) -> str:
    """Unpack as far as it goes, over damage to where the next part begins; what was wrong, as a sentence, or nothing.
    A part is a member of the file: see ``writer.MEMBER``."""
    at = size = lost = holes = 0
    unpacker = zlib.decompressobj(wbits=31)
    while piece := os.pread(source, 16 << 10, at):
        begun, at = at, at + len(piece)
        while piece:
            try:
                data = unpacker.decompress(piece)
            except zlib.error:
                following = _next_member(source, at - len(piece) + 1)
                if following is None:
                    return "its compressed text is damaged: what comes after is lost"
                lost += max(0, following - begun)
                holes += 1
                os.write(out, b"\n")  # what was being read ends here
                unpacker, at, piece = zlib.decompressobj(wbits=31), following, b""
                continue
            size += len(data)
            if size > _MOST:
                return f"only its first {_MOST >> 30} GiB are read"
            while data:
                data = data[os.write(out, data) :]
            piece = unpacker.unused_data if unpacker.eof else b""
            if unpacker.eof and piece:
                unpacker = zlib.decompressobj(wbits=31)
    if holes:
        places = "one place" if holes == 1 else f"{holes} places"
        return f"its compressed text is damaged in {places}: about {max(1, lost >> 10):,} of {at >> 10:,} KiB are lost"
    if not unpacker.eof:
        return "it is cut: its end is missing"
    return ""


def _next_member(source: int, at: int) -> int | None:
    """Where the next part of a gzip file begins."""
    while data := os.pread(source, 1 << 20, at):
        found = data.find(_MAGIC)
        if found >= 0:
            return at + found
        at += max(1, len(data) - len(_MAGIC) + 1)
        if len(data) < len(_MAGIC):
            return None
    return None
