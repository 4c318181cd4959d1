"""Text for a terminal or a pipe: rows that are wrapped below themselves, and colours that only repeat words."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

_CODES = {"green": "32", "yellow": "33", "red": "31", "dim": "2", "bold": "1"}


@dataclass(frozen=True, slots=True)
class Tint:
    """Colours a piece of text, where colour is wanted."""

    colour: bool

    def __call__(self, text: str, hue: str) -> str:
        return f"\x1b[{_CODES[hue]}m{text}\x1b[0m" if self.colour and hue else text


def hanging(text: str, width: int, indent: int) -> list[str]:
    """A line, wrapped; what follows the first begins at ``indent``. Commands are not broken at their hyphens."""
    lead = text[: len(text) - len(text.lstrip(" "))]
    return textwrap.wrap(
        text.lstrip(" "),
        max(width, indent + 20),
        initial_indent=lead,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [lead]
