"""How two texts of a unit differ, in rows: arguments, other settings, then the text. Signs and brackets say what
colours repeat: ``+`` added, ``−`` removed, ``~`` changed, ``[-gone-]{+come+}`` within a line."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from tui.text import pad, safe
from tui.widgets.flow import flow
from tui.widgets.rows import Row
from watch.revisions import Change, word_pieces

SIGNS: Final = {"added": ("+", "ok"), "removed": ("−", "error"), "changed": ("~", "accent")}
CONTEXT: Final = 2
_KEY: Final = 34


def change_rows(
    title: str, changes: Sequence[Change], width: int, *, failed: Collection[Change] = (), nothing: str = ""
) -> list[Row]:
    """A table: sign, key, value. ``failed``: those that the last load failed with."""
    if not changes:
        return [Row()(f" {nothing}", "muted"), Row()] if nothing else []
    rows = [Row()(f" {title}", "title")]
    bad = {(change.key, change.new) for change in failed}
    longest = max(cell_len(safe(change.key)) for change in changes)
    column = min(_KEY, longest, max(12, width // 3))
    for change in changes:
        sign, style = SIGNS[change.kind]
        key = safe(change.key)
        pieces: list[tuple[str, str]] = [(f" {sign} ", f"strong {style}")]
        pieces.append((pad(key, column) + "  " if cell_len(key) <= column else key + " ", "text"))
        pieces += _value(change)
        if (change.key, change.new) in bad:
            pieces.append(("  ⚠ the last load failed with it", "warn"))
        rows += flow(pieces, width - 1, indent=5 + column)
    return [*rows, Row()]


def _value(change: Change) -> list[tuple[str, str]]:
    if change.old is None:
        return [(change.new or "(set)", "ok")]
    if change.new is None:
        return [(change.old or "(set)", "error")]
    if not change.old or not change.new:
        return [(f"[-{change.old or 'set'}-]", "error"), (f"{{+{change.new or 'set'}+}}", "ok")]
    return list(words_of(change.old, change.new))


def words_of(old: str, new: str) -> Iterator[tuple[str, str]]:
    """One line turned into another, word by word."""
    for piece in word_pieces(old, new):
        if piece.kind == "same":
            yield piece.text, "text"
            continue
        text = piece.text.rstrip(" ")
        blank = " " * (len(piece.text) - len(text))
        yield (f"[-{text}-]{blank}", "error") if piece.kind == "removed" else (f"{{+{text}+}}{blank}", "ok")


def text_rows(old: str, new: str, width: int) -> list[Row]:
    """The text itself: lines that differ with what stands around them."""
    before, after = old.splitlines(), new.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    rows: list[Row] = []
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if rows:
            rows.append(Row()(" ⋯", "faint"))
        for tag, a, b, c, d in group:
            if tag == "equal":
                for line in before[a:b]:
                    rows += _line(" ", line, "muted", width)
                continue
            paired = min(b - a, d - c)
            for one, other in zip(before[a : a + paired], after[c : c + paired], strict=True):
                rows += flow([(" ~ ", "strong accent"), *words_of(one, other)], width - 1, indent=3)
            for line in before[a + paired : b]:
                rows += _line("−", line, "error", width)
            for line in after[c + paired : d]:
                rows += _line("+", line, "ok", width)
    return rows


def _line(sign: str, line: str, style: str, width: int) -> list[Row]:
    return flow([(f" {sign} ", f"strong {style}" if sign != " " else style), (line or " ", style)], width - 1, indent=3)
