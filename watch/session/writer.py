"""Writes session files: flushed, locked while written, compressed when closed."""

from __future__ import annotations

import errno
import fcntl
import gzip
import itertools
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TypeVar

from probes.readings import AnyReading, Reading
from watch.redact import Redactor
from watch.session.header import Header, words_of
from watch.session.reader import decode_reading
from watch.session.tape import BUFFER, Tape, nameless_file

FLUSH_SECONDS = 1.0
"""A killed run loses at most what came in this time."""

MEMBER = 1 << 20
"""Bytes of text, and the rest of a line, that are packed by themselves: what is damaged costs no more than that."""

R = TypeVar("R", bound=Reading)
P = TypeVar("P")


class SessionWriter:
    """Records one watch; whatever is written can be read back at once by its place.

    ``where``: the folder; None: nothing is kept (``--no-record``, demo), lines go to a nameless temporary file. What
    goes wrong with the disk stops the recording, never the watch: ``stopped`` then says why, what was written so far
    stays whole, and later readings go to a temporary file, else to memory, so that they can still be read back.
    """

    def __init__(self, header: Header, *, where: Path | None, redactor: Redactor | None = None) -> None:
        self.path: Path | None = None
        self.stopped = ""
        self._redactor = redactor or Redactor()
        self._file: int | None = None
        self._full: list[Tape] = []
        first = self._redactor.encode(header)[0]
        if where is not None:
            try:
                self.path, self._file = _create(where, header)
            except OSError as error:
                self.stopped = _why(error, where)
        self._tape = Tape(self._file if self._file is not None else nameless_file())
        self._tape.append(first)
        self.flush()

    @property
    def recording(self) -> bool:
        """Whether what comes now is kept."""
        return self._file is not None and not self.stopped

    def write(self, reading: Reading) -> int:
        """Append one reading without its secrets. Returns its place, for ``read``."""
        return self.keep(reading)[0]

    def keep(self, reading: R) -> tuple[int, R]:
        """Append one reading. Returns its place, and the reading as it was kept: without its secrets."""
        line, kept = self._redactor.encode(reading)
        return self.append(line), kept

    def keep_all(self, readings: Sequence[R]) -> tuple[list[int], Sequence[R]]:
        """``keep`` of each: their places, and the readings as they were kept."""
        lines, kept = self._redactor.encode_all(readings)
        return self.append_all(lines), kept

    def append(self, line: bytes) -> int:
        """Append one line as it stands; its place."""
        return self._placed(self._tape.append(line))

    def append_all(self, lines: bytes) -> list[int]:
        """Append many lines as they stand, each with a newline at its end; their places."""
        return self._placed(self._tape.append_all(lines))

    def _placed(self, place: P) -> P:
        if self._tape.waiting > BUFFER:
            self.flush()
        return place

    def clean(self, reading: R) -> R:
        """A reading as it would be kept, and not kept."""
        return self._redactor.encode(reading)[1]

    def read(self, place: int) -> AnyReading:
        """The reading at a place that ``write`` gave.

        Raises ValueError where no reading is (any more), OSError where the disk does not give it back.
        """
        tape = next((tape for tape in self._full if place < tape.end), self._tape)
        return decode_reading(tape.line(place))

    @property
    def end(self) -> int:
        """The place of the line to come."""
        return self._tape.end

    def chunk(self, place: int, most: int = 256 << 10) -> bytes:
        """Whole lines from a place on (0: the header), as they are written; about ``most`` bytes, empty at the end.

        Raises ValueError where they are no longer kept, OSError where the disk does not give them back.
        """
        tape = next((tape for tape in self._full if place < tape.end), self._tape)
        return tape.chunk(place, most)

    def flush(self) -> None:
        """Hand to the system what was written so far. To be called each ``FLUSH_SECONDS``."""
        while True:
            try:
                return self._tape.flush()
            except OSError as error:
                if self.recording and self.path is not None:
                    self.stopped = _why(error, self.path)
                self._change_tape()

    def close(self) -> Path | None:
        """Write the rest and compress. Returns where the recording is, None if there is none. Safe to call twice."""
        self.flush()
        for tape in (*self._full, self._tape):
            if tape.file is not None and tape.file != self._file:
                os.close(tape.file)
                tape.file = None
        if self._file is None or self.path is None:
            return self.path
        try:
            self.path = _compress(self.path)
        except OSError as error:
            self.stopped = self.stopped or f"the recording is whole, but could not be compressed: {words_of(error)}"
        finally:
            self._tape = Tape(None, self._tape.end)
            os.close(self._file)
            self._file = None
        return self.path

    def discard(self) -> None:
        """Close, and keep nothing: the watch never came about."""
        if self._file is not None and self.path is not None:
            with suppress(OSError):
                self.path.unlink()
            os.close(self._file)
            self._file = self.path = None
            self._tape = Tape(None, self._tape.end)

    def _change_tape(self) -> None:
        """Go on in a nameless file; in memory where that is what has failed."""
        old = self._tape
        rest = old.take_waiting()
        first = old.file == self._file
        self._full.append(old)
        self._tape = Tape(nameless_file() if first else None, old.end)
        for line in rest.split(b"\n")[:-1]:
            self._tape.append(line)


def tidy(where: Path) -> list[Path]:
    """Compress what killed runs have left in a folder; what is being written is left alone. Returns what was made.

    Files that cannot be read or compressed stay as they are.
    """
    done = []
    with suppress(OSError):
        for path in sorted(where.glob("*.jsonl")):
            with suppress(OSError), _locked(path):
                done.append(_compress(path))
        for path in itertools.chain(where.glob(".*.new"), where.glob("*.gz.part")):
            with suppress(OSError), _locked(path):
                path.unlink()
    return done


class _locked:
    """Holds the lock of a file. OSError: somebody else does, or it is gone."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(path).st_ino != os.fstat(self._file).st_ino:
                raise FileNotFoundError(errno.ENOENT, "replaced meanwhile", str(path))
        except OSError:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def _create(where: Path, header: Header) -> tuple[Path, int]:
    """Make a file of a name that is free, locked before it bears that name."""
    where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # a mode is not for those above the last one
    where.mkdir(mode=0o700, exist_ok=True)
    if where.stat().st_mode & 0o077:
        where.chmod(0o700)
    started = datetime.fromtimestamp(header.started, UTC).strftime("%Y%m%dT%H%M%SZ")
    stem = f"{started}-{_plain(header.target)}-{_plain(header.unit.removesuffix('.service'))}"
    for number in itertools.count(1):
        path = where / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        new = where / f".{path.name}.new"
        try:
            file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        try:
            with suppress(OSError):  # a file system without locks: the recording is worth more than they are
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() or path.with_name(path.name + ".gz").exists():
                new.unlink()
                os.close(file)
                continue
            new.rename(path)
        except OSError:
            os.close(file)
            raise
        return path, file
    raise AssertionError("itertools.count ends")


def _compress(path: Path) -> Path:
    """Replace a file by its gzip, which takes its place only when it is complete."""
    done = path.with_name(path.name + ".gz")
    part = path.with_name(path.name + ".gz.part")
    try:
        with path.open("rb") as plain, open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as raw:
            while piece := plain.read(MEMBER):
                piece += plain.readline()
                with gzip.GzipFile(filename=path.name, mode="wb", fileobj=raw, compresslevel=6) as packed:
                    packed.write(piece)
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(done)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise
    path.unlink()
    return done


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._@-]+", "_", name).strip("._")[:64] or "unknown"


def _why(error: OSError, path: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"recording stopped: no room left for {path}"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"not recorded: {path} may not be written ({words_of(error)})"
    return f"recording stopped: {path}: {words_of(error)}"
