"""Hostile text made safe to show. Everything that comes from a server passes through ``safe`` before it is drawn.

A terminal obeys control bytes, and a reader is misled by marks that reorder or hide text. So each of them is shown as
something visible instead: C0 controls as their Unicode pictures (ESC is ``␛``), C1 controls and lone surrogates as
``\\x9b`` and ``\\udc80``, marks for direction, of no width or no shape as ``<U+202E>``. Square brackets stay what they
are: nothing here is ever read as markup.
"""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category

from rich.cells import cell_len, set_cell_size
from textual.content import Content

_TAB = "    "
_MOST_MARKS = 2
"""Combining marks kept on one character; what is piled on top of them is shown as marks of its own."""

_SELECTORS = "\ufe0e\ufe0f"
"""Text and emoji presentation: terminals disagree about the width that follows, so they are left out."""

_SHAPELESS = "\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u2800"
"""Letters and marks that draw nothing: fillers, the grapheme joiner, the empty braille cell."""

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


@lru_cache(maxsize=4096)
def _shown(char: str) -> str:
    """One character as it may be drawn."""
    code = ord(char)
    if code < 0x20:
        return _TAB if char == "\t" else chr(0x2400 + code)
    if code < 0x7F:
        return char
    if code == 0x7F:
        return "\u2421"
    if code < 0xA0:
        return f"\\x{code:02x}"
    if char in _SELECTORS:
        return ""
    kind = category(char)
    if kind == "Cs":
        return f"\\u{code:04x}"
    if kind in ("Cf", "Cc", "Zl", "Zp") or char in _SHAPELESS or 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:
        return f"<U+{code:04X}>"
    return char


@lru_cache(maxsize=4096)
def _joins(char: str) -> bool:
    return category(char) in ("Mn", "Me")


def safe(text: str) -> str:
    """``text`` with every character that a terminal would obey, or that draws nothing, shown as something visible.

    The result holds no control characters, no line breaks, no lone surrogates. Idempotent.
    """
    if text.isascii():
        if text.isprintable():
            return text
        return "".join([_shown(char) for char in text])
    pieces: list[str] = []
    marks = _MOST_MARKS + 1 if text and _joins(text[0]) else 0
    for char in text:
        if char < "\u0300":
            marks = 0
            pieces.append(_shown(char))
        elif _joins(char) and (drawn := _shown(char)) == char:
            marks += 1
            pieces.append(drawn if marks <= _MOST_MARKS else f"<U+{ord(char):04X}>")
        else:
            drawn = _shown(char)
            if drawn:
                marks = 0
            pieces.append(drawn)
    return "".join(pieces)


def uncoloured(text: str) -> str:
    """The text without the sequences that only set colours (SGR); all others stay, to be shown."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def content(text: str) -> Content:
    """Safe text as Textual's own type, for the places that take one (notices, labels)."""
    return Content(safe(text))


def clip(text: str, width: int) -> str:
    """Safe text in at most ``width`` cells; what does not fit ends in ``…``."""
    if width <= 0:
        return ""
    if (text.isascii() and len(text) <= width) or cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"


def crop(text: str, width: int) -> str:
    """Safe text in exactly ``width`` cells, cut without a mark or filled on the right."""
    return set_cell_size(text, max(0, width))


def pad(text: str, width: int) -> str:
    """Safe text in exactly ``width`` cells: clipped, or filled on the right."""
    text = clip(text, width)
    return text + " " * (width - cell_len(text))


def right(text: str, width: int) -> str:
    """Safe text in exactly ``width`` cells: clipped, or filled on the left."""
    text = clip(text, width)
    return " " * (width - cell_len(text)) + text


def wrap(text: str, width: int) -> list[str]:
    """Safe text in lines of at most ``width`` cells, broken at blanks where possible. At least one line."""
    width = max(1, width)
    lines: list[str] = []
    line, used = "", 0
    for word in re.findall(r" *[^ ]+| +$", text):
        size = cell_len(word)
        if used and used + size > width:
            lines.append(line)
            word = word.lstrip(" ")
            line, used, size = "", 0, cell_len(word)
        if size > width:
            *full, word = chop(word, width)
            lines.extend(full)
            size = cell_len(word)
        line += word
        used += size
    if line or not lines:
        lines.append(line)
    return lines


def chop(text: str, width: int) -> list[str]:
    """Safe text in lines of exactly ``width`` cells (one fewer before a wide character that would not fit), the last
    one shorter. At least one line."""
    width = max(1, width)
    if text.isascii():
        return [text[at : at + width] for at in range(0, len(text), width)] or [""]
    lines: list[str] = []
    piece: list[str] = []
    used = 0
    for char in text:
        size = cell_len(char)
        if used + size > width and piece:
            lines.append("".join(piece))
            piece, used = [], 0
        piece.append(char)
        used += size
    lines.append("".join(piece))
    return lines
