"""``firstlight report``: what a recording shows, to be handed on; and the report that a watch leaves by itself."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, tzinfo
from pathlib import Path

from tui.commands.replay import folded, open_recording
from tui.exits import Ending, Exit
from watch.history import History, HistoryError
from watch.session import SessionError, SessionReader
from watch.telling import gather, html, markdown

LARGEST = 256 << 20
"""Bytes of a recording, unpacked, up to which a watch that ends makes its report at once: a few seconds of reading."""


def run(file: Path, *, html: bool, markdown: bool, output: Path | None, utc: bool) -> Exit:
    """Write the report; beside the recording, where nothing else is said. Raises Ending."""
    if html and markdown:
        raise Ending(Exit.USAGE, "a report is HTML or Markdown, not both", "Leave one of --html and --markdown away.")
    as_markdown = markdown or (not html and output is not None and output.suffix == ".md")
    with open_recording(file) as reader:
        text = _text(reader, as_markdown, UTC if utc else None)
        path = output or beside(reader.path, as_markdown)
    if str(path) == "-":
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
        return Exit.OK
    try:
        write(path, text)
    except OSError as error:
        raise Ending(Exit.UNREADABLE, f"{path} cannot be written: {error.strerror}", "Name another with -o.") from None
    print(path, file=sys.stderr)
    return Exit.OK


def at_end(recording: Path, kind: str) -> str:
    """After a watch: make the report of its recording. What to say about it: where it is, or how it is made; empty for
    none. Never raises for what goes wrong with it: the recording is what counts."""
    if kind == "none":
        return ""
    later = f"firstlight report {recording}"
    try:
        with SessionReader(recording) as reader:
            if reader.size > LARGEST:
                return f"a report of it is made by: {later}"
            path = beside(recording, kind == "markdown")
            write(path, _text(reader, kind == "markdown", None))
    except (SessionError, OSError) as error:
        return f"no report was written ({error}); it is made by: {later}"
    return f"reported in {path}"


def beside(recording: Path, as_markdown: bool) -> Path:
    stem = recording.name.removesuffix(".gz").removesuffix(".jsonl")
    return recording.with_name(f"{stem}.{'md' if as_markdown else 'html'}")


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


def _text(reader: SessionReader, as_markdown: bool, zone: tzinfo | None) -> str:
    history: History | None = None
    with suppress(HistoryError):
        history = History.open()
    try:
        tale = gather(reader, lambda: folded(reader), history)
    finally:
        if history is not None:
            history.close()
    return markdown(tale, zone) if as_markdown else html(tale, zone)
