"""``firstlight explain``: saved files in, one reading of them out."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tui.catalogue import operators
from tui.exits import Ending, Exit
from tui.json import inert
from watch.explain import CannotExplain, explain, render_text, report_json
from watch.spool import STANDARD_INPUT, spooled


def run(files: Sequence[Path], *, as_json: bool, at: float | None, unit: str = "") -> Exit:
    """Print the report. FAILED where the load failed. Raises Ending for files that cannot be read."""
    if STANDARD_INPUT in files and sys.stdin.isatty():
        raise Ending(Exit.USAGE, "- is standard input, and that is this terminal", "Pipe a journal into it.")
    try:
        with spooled(files) as kept:
            report = explain(kept, at=at, unit=unit, catalogue=operators())
    except CannotExplain as error:
        raise Ending(Exit.UNREADABLE, str(error)) from None
    except OSError as error:
        raise Ending(Exit.UNREADABLE, f"A pipe could not be read: {error.strerror or error}") from None
    if as_json:
        sys.stdout.buffer.write(inert(report_json(report)))
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        width = min(shutil.get_terminal_size((100, 24)).columns, 120)
        sys.stdout.write(render_text(report, width=width, colour=colour))
    sys.stdout.flush()
    return Exit.FAILED if report.state == "failed" else Exit.OK
