"""Pieces of styled text in as many rows as they need, broken at blanks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.cells import cell_len

from tui.text import chop, safe
from tui.widgets.rows import Row

_WORD = re.compile(r"\S+ *| +")


def flow(pieces: Iterable[tuple[str, str]], width: int, *, indent: int = 0) -> list[Row]:
    """``indent``: cells before every row but the first, which the caller's first piece begins. What is foreign is made
    safe here; a word that is longer than a row is cut between characters."""
    rows = [Row()]
    used = 0
    room = max(1, width - indent)
    for text, style in pieces:
        for word in _WORD.findall(safe(text)):
            bare = cell_len(word.rstrip(" "))
            if used and used + bare > width:
                rows.append(Row()(" " * indent, ""))
                used = indent
            if used + bare > width:
                first, *rest = chop(word, room)
                rows[-1](first, style)
                for piece in rest:
                    rows.append(Row()(" " * indent, "")(piece, style))
                used = (indent if rest else used) + cell_len(rest[-1] if rest else first)
                continue
            rows[-1](word, style)
            used += cell_len(word)
    return rows
