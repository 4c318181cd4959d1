"""The report of a recording: its text, and the file beside the recording that holds it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import tzinfo
from pathlib import Path

from tui.playing import folded
from watch.history import History, HistoryError
from watch.session import SessionReader
from watch.session.shelf import RANGE, stem_of
from watch.telling import gather, html, markdown


def of_stretch(recording: Path, since: float, until: float, zone: tzinfo | None) -> Path:
    """Make the report of a stretch, beside the recording, on behalf of a screen: it lets others have their turn. Where
    it is. Raises SessionError, OSError."""
    with SessionReader(recording) as reader:
        path = beside(recording, False, since, until)
        write(path, told(reader, False, zone, since, until, every=lambda: time.sleep(0.01)))
    return path


def beside(recording: Path, as_markdown: bool, since: float | None = None, until: float | None = None) -> Path:
    """Where the report of a recording, or of a stretch of it, lies."""
    end = "md" if as_markdown else "html"
    if since is not None or until is not None:
        end = f"{RANGE}{since or 0:.0f}s-{f'{until:.0f}s' if until is not None else 'end'}.{end}"
    return recording.with_name(f"{stem_of(recording)}.{end}")


def write(path: Path, text: str) -> None:
    """All of it or nothing, for its owner alone. Raises OSError."""
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise


def told(
    reader: SessionReader,
    as_markdown: bool,
    zone: tzinfo | None,
    since: float | None = None,
    until: float | None = None,
    every: Callable[[], None] = lambda: None,
) -> str:
    history: History | None = None
    with suppress(HistoryError):
        history = History.open()
    try:
        tale = gather(reader, lambda: folded(reader), history, since=since, until=until, every=every)
    finally:
        if history is not None:
            history.close()
    return markdown(tale, zone) if as_markdown else html(tale, zone)
