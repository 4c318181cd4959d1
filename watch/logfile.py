"""Saved files to readings: what a file is, is found from its content, not from its name alone.

Large logs are streamed: chunks of 1 MiB are searched as bytes, and only lines that mean something become readings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from probes.readings import Reading
from watch.matching import Matcher


class NotReadable(Exception):
    """One clear sentence: the file is empty, cannot be opened, or is nothing that we know."""


def read_file(path: Path, *, name: str = "", matcher: Matcher | None = None) -> Iterator[list[Reading]]:
    """Batches of readings of one saved file, in its order. ``name``: how ``ref`` calls it (default: its file name).
    ``matcher``: only lines in which it finds something become readings, and their neighbours where they matter; None:
    every line does. Raises NotReadable."""
    raise NotImplementedError


def read_chunks(chunks: Iterable[bytes], *, name: str, matcher: Matcher | None = None) -> Iterator[list[Reading]]:
    """The same for bytes from anywhere; however they are cut, the readings are the same."""
    raise NotImplementedError
