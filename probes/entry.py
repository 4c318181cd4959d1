"""One record of the journal as its fields, whatever format they came in: what it becomes as a reading.

Fields are systemd's (``systemd.journal-fields(7)``); values are bytes, as journald keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping

from probes.readings import JournalLine, Source


def text_of(value: bytes) -> str:
    """UTF-8; bytes that are not stand as ``\\xNN``."""
    return value.decode("utf-8", "backslashreplace")


def source_of(fields: Mapping[str, bytes], unit: str = "") -> Source:
    """Who speaks. ``unit``: the unit that is watched, "" for whichever the record is about."""
    raise NotImplementedError


def line_of(fields: Mapping[str, bytes], unit: str = "") -> JournalLine:
    """The reading of one record. Total: what is missing or malformed takes the reading's default, and ``at`` 0.

    Several MESSAGE fields come joined by newlines by whoever made the mapping.
    """
    raise NotImplementedError


class Joiner:
    """Joins what journald split at LineMax: a record with ``_LINE_BREAK=line-max`` goes on in the next of its stream and pid.

    A joined line has the time, cursor and fields of its first record and the ``line_break`` of its last. Above
    ``limit`` bytes of text a line is given out in pieces, each but the last with ``line_break`` ``line-max``.
    """

    def __init__(self, limit: int = 8 << 20) -> None:
        raise NotImplementedError

    def add(self, line: JournalLine) -> list[JournalLine]:
        """The lines that this one completes: none while its line goes on, more than one when it ends another."""
        raise NotImplementedError

    def flush(self) -> list[JournalLine]:
        """What is still waiting for its rest, as it is (``line_break`` ``line-max``)."""
        raise NotImplementedError
