"""A report as Markdown (CommonMark with tables), for a ticket or a chat: foreign words are never read as markup."""

from __future__ import annotations

import re
from datetime import tzinfo

from watch.telling.gather import Tale
from watch.telling.sections import Block, sections

_MARKUP = re.compile(r"[\\`*\[\]<|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#|[A-Za-z])|#(?=#*\s*$)")
"""What is markup wherever it stands: an underscore only at the edge of a word, an ampersand before a name, signs of a
heading also at its end."""
_AT_START = re.compile(r"(\s*(?:\d{1,9}(?=[.)](?:\s|$)))?)([-+](?=\s|$)|--|#|>|=|(?<=\d)[.)])")
"""What begins a list, a heading, a quotation or a line."""
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def markdown(tale: Tale, zone: tzinfo | None = None) -> str:
    """``zone``: of all times; None: this machine's own."""
    out: list[str] = []
    for number, section in enumerate(sections(tale, zone)):
        out.append(f"{'#' if number == 0 else '##'} {text(section.title)}")
        for block in section.blocks:
            out.append(_block(block))
    return "\n\n".join(out) + "\n"


def _block(block: Block) -> str:
    if block.kind == "table":
        rows = [[text(cell) or " " for cell in row] for row in (block.head, *block.rows)]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines.insert(1, "|" + " --- |" * len(block.head))
        return "\n".join(lines)
    if block.kind == "code":
        lines = [plain(line) for line in block.lines]
        fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
        return "\n".join((fence, *lines, fence))
    if block.kind == "list":
        return "\n".join(f"- {text(line)}" for line in block.lines)
    if block.kind == "heading":
        return f"### {text(block.lines[0])}"
    if block.kind == "plot":
        return text(block.lines[-1])
    return "\n\n".join(text(line) for line in block.lines)


def text(words: str) -> str:
    """Foreign words that stay words."""
    escaped = _MARKUP.sub(r"\\\g<0>", plain(words))
    return _AT_START.sub(r"\1\\\2", escaped, count=1) if _AT_START.match(escaped) else escaped


def plain(words: str) -> str:
    """In one line, with what a terminal would obey made visible."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", words).encode("utf-8", "replace").decode()
