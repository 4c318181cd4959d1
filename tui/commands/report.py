"""``firstlight report``: what a recording shows, to be handed on; and the report that a watch leaves by itself."""

from __future__ import annotations

import shlex
import sys
from datetime import UTC
from pathlib import Path

from tui.commands.replay import open_recording
from tui.exits import Ending, Exit
from tui.reporting import beside, told, write
from watch.session import SessionError, SessionReader

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
        text = told(reader, as_markdown, UTC if utc else None, since, until)
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
            write(path, told(reader, kind == "markdown", None))
    except (SessionError, OSError) as error:
        return f"no report was written ({error}); it is made by: {later}"
    return ""
