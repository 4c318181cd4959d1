"""One line of the journal in one row: time, process, level, and the part of its message that is in the window."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len

from probes.readings import JournalLine
from tui.lines import Search
from tui.signs import LEVELS
from tui.text import crop, pad, safe, uncoloured
from tui.units import Zone
from tui.widgets.rows import Row
from watch.heads import Head, parse_head
from watch.lines import WARNING

_LONG: Final = 1 << 16
_HEAD: Final = 4096
"""Of a line longer than 64 KiB only the beginning is taken apart: a head stands nowhere else."""

_WIDE: Final = 100
"""From this width on, times have milliseconds and levels whole words."""

_BEYOND: Final = 200
"""Characters after the window that are searched too: a text found may begin in it and end behind it."""


def take_apart(text: str) -> Head:
    """Head and message of a line as it is shown: colours left out, every other escape sequence visible."""
    if len(text) <= _LONG:
        return parse_head(_visible(text))
    head = parse_head(_visible(text[:_HEAD]))
    return Head(head.process, head.pid, head.level, head.place, head.message + text[_HEAD:])


def _visible(text: str) -> str:
    return uncoloured(text).replace("\x1b", "␛") if "\x1b" in text else text


def line_row(
    line: JournalLine,
    loudness: int,
    process: str,
    *,
    width: int,
    names: int,
    start: int,
    zone: Zone,
    search: Search | None = None,
    base: str = "",
) -> Row:
    """``names``: cells of the column of processes; ``start``: characters of the message to the left of the window.

    Of a line of a megabyte only what is in the window is made safe and measured.
    """
    level = LEVELS[loudness]
    wide = width >= _WIDE
    clock = zone.clock(line.at, millis=wide) if line.timed else ""
    row = Row(base=base)
    row(" " + pad(clock, 12 if wide else 8) + " ", "muted")
    row(pad(safe(process), names if wide else min(names, 11)) + " ", "accent" if line.source != "unit" else "muted")
    row(pad(level.word, 5) + " " if wide else level.sign + " ", level.style)
    room = max(1, width - cell_len(row.text))
    message = take_apart(line.text).message
    start = min(start, len(message))
    if start:
        row("‹", "accent")
        room -= 1
    end = min(len(message), start + room)
    _window(row, message, start, end, search, level.style if loudness >= WARNING else "text")
    if end < len(message) or cell_len("".join(safe(text) for text, _ in row)) > width:
        return _marked(row, width)
    return row


def _window(row: Row, message: str, start: int, end: int, search: Search | None, style: str) -> None:
    at = start
    for first, last in search.spans(message[start : end + _BEYOND]) if search is not None else ():
        first, last = first + start, min(last + start, end)
        if first >= end:
            break
        row(message[at:first], style)(message[first:last], "find")
        at = last
    row(message[at:end], style)


def _marked(row: Row, width: int) -> Row:
    """Cut to the width, with the mark of more in the last cell."""
    cut = Row(base=row.base)
    for text, style in row:
        text = safe(text)
        room = width - 1 - cell_len(cut.text)
        if cell_len(text) > room:
            cut(crop(text, room), style)
            break
        cut(text, style)
    return cut("›", "accent")
