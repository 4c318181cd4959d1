"""Session files: what a watch saw, one reading a line, to be replayed, searched and handed on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from probes.readings import AnyReading, Reading

FORMAT = 1


class Header(Struct, frozen=True, kw_only=True):
    """The first line of a session file."""

    firstlight: int = FORMAT
    target: str = ""
    unit: str = ""
    endpoint: str = ""
    started: float = 0.0
    version: str = ""
    host: dict[str, str] = {}


class SessionError(Exception):
    """A file that cannot be read as a recording. ``reason``: one sentence; ``remedy``: what to do about it."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class SessionWriter:
    """Records one watch. ``folder`` None: nothing is kept (``--no-record``, demo), yet ``read`` works.

    ``stopped``: why recording ended before the watch did ("" while all is well). ``path``: the file, if one is kept.
    """

    stopped: str
    path: Path | None

    def __init__(self, header: Header, *, folder: Path | None) -> None: ...

    def write(self, reading: Reading) -> int:
        """Append one reading, secrets replaced; its place, for ``read``."""
        raise NotImplementedError

    def read(self, place: int) -> AnyReading:
        """The reading at a place that ``write`` gave."""
        raise NotImplementedError

    def flush(self) -> None: ...

    def close(self) -> Path | None:
        """Write the rest, gzip the file; where it is."""
        raise NotImplementedError


class SessionReader:
    """Reads a session file, plain or gzip, cut or damaged. SessionError if it is none.

    ``notes``: what is wrong with it, one sentence each; complete once it was read to the end.
    """

    header: Header
    notes: list[str]

    def __init__(self, path: Path) -> None: ...

    def __iter__(self) -> Iterator[tuple[int, AnyReading]]:
        """(place, reading), in the order of the file."""
        raise NotImplementedError

    def read(self, place: int) -> AnyReading:
        raise NotImplementedError

    def close(self) -> None: ...
