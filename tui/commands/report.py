"""``firstlight report``: what a recording shows, to be handed on; and the report that a watch leaves by itself."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, tzinfo
from pathlib import Path

from tui.commands.replay import folded, open_recording
from tui.exits import Ending, Exit
from watch.history import History, HistoryError
from watch.session import SessionError, SessionReader
from watch.session.shelf import RANGE, stem_of
from watch.telling import gather, html, markdown

LARGEST = 256 << 20
"""Bytes of a recording, unpacked, up to which a watch that ends makes its report at once: ten seconds of reading."""
_LONG = 32 << 20
"""Bytes from which on whoever waits is told what for."""


def run(
    file: Path,
    *,
    html: bool,
    markdown: bool,
    output: Path | None,
    utc: bool,
    since: float | None = None,
    until: float | None = None,
) -> Exit:
    """Write the report; beside the recording, where nothing else is said. ``since``, ``until``: seconds after its
    beginning. Raises Ending."""
    if until is not None and until <= (since or 0.0):
        raise Ending(Exit.USAGE, "--to is not after --from", "firstlight report --help has an example.")
    if html and markdown:
        raise Ending(Exit.USAGE, "a report is HTML or Markdown, not both", "Leave one of --html and --markdown away.")
    as_markdown = markdown or (not html and output is not None and output.suffix == ".md")
    with open_recording(file) as reader:
        text = _text(reader, as_markdown, UTC if utc else None, since, until)
        path = output or beside(reader.path, as_markdown, since, until)
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
    """After a watch: make the report of its recording. Why there is none and how it is made, where that is so, else
    nothing. Never raises for what goes wrong with it: the recording is what counts."""
    if kind == "none":
        return ""
    later = f"firstlight report {shlex.quote(str(recording))}"
    try:
        with SessionReader(recording) as reader:
            if reader.size > LARGEST:
                long = f"reading {reader.size >> 20:,} MiB takes a while"
                return f"no report was written, since {long}; it is made by: {later}"
            if reader.size > _LONG:
                print("firstlight: writing the report …", file=sys.stderr)
            path = beside(recording, kind == "markdown")
            write(path, _text(reader, kind == "markdown", None))
    except (SessionError, OSError) as error:
        return f"no report was written ({error}); it is made by: {later}"
    return ""


def of_stretch(recording: Path, since: float, until: float, zone: tzinfo | None) -> Path:
    """Make the report of a stretch, beside the recording, on behalf of a screen: it lets others have their turn. Where
    it is. Raises SessionError, OSError."""
    with SessionReader(recording) as reader:
        path = beside(recording, False, since, until)
        write(path, _text(reader, False, zone, since, until, every=lambda: time.sleep(0.01)))
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


def _text(
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
