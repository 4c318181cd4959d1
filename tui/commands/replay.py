"""``firstlight replay``: a recorded watch again, through the same fold and on the same screen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from probes.command import plain
from tui.commands.screen import configuration, in_loop, need_terminal, show
from tui.exits import Ending, Exit
from tui.playing import player
from watch.session import SessionError, SessionReader, folder


def run(file: Path, speed: float) -> Exit:
    """Show a recording until the operator leaves. Raises Ending where it is none."""
    reader = open_recording(file)
    try:
        need_terminal("firstlight replay")
        return in_loop(_run(reader, speed))
    finally:
        reader.close()


def open_recording(file: Path) -> SessionReader:
    """A file, or the name of one in the folder of recordings. Raises Ending with what is wrong with it."""
    if not os.path.exists(file) and len(file.parts) == 1:
        ends = ("", ".jsonl.gz", ".jsonl")
        file = next((path for end in ends if os.path.isfile(path := folder() / f"{file}{end}")), file)
    try:
        return SessionReader(file)
    except SessionError as error:
        raise Ending(Exit.UNREADABLE, error.reason, error.remedy) from None


async def _run(reader: SessionReader, speed: float) -> Exit:
    config = configuration()
    await show(player(reader, speed), config)
    for note in reader.notes():
        print(f"firstlight: {plain(str(reader.path))}: {plain(note)}", file=sys.stderr)
    return Exit.OK
