"""Python's way of writing values, as vLLM and SGLang print their arguments and configuration: taken apart without being
evaluated. Objects may nest (``SpeculativeConfig(method='ngram', …)``, ``<CompilationMode.VLLM_COMPILE: 3>``)."""

from __future__ import annotations

import json
import re

LIMIT = 65536
"""Characters of a line that are looked at."""

_STEP = re.compile(r"['\"\[\](){}<>,]")
_CLOSES = {"[": "]", "(": ")", "{": "}", "<": ">"}
_KEY = re.compile(r"\s*(?:'([^']{1,200})'|\"([^\"]{1,200})\"|([A-Za-z_][\w.]{0,200}))\s*([=:])\s*")


def fields(text: str) -> dict[str, str]:
    """``k=v, …`` or ``'k': v, …``, with or without the brackets and the name around it, as raw values by name.

    Takes any text; what has no key is left out. A text cut short gives the fields that are whole, and its last one.
    """
    text = text[:LIMIT].strip()
    opened = re.match(r"(?:[A-Za-z_][\w.]{0,100})?([({])", text)
    if opened is not None:
        text = text[opened.end() :]
    out: dict[str, str] = {}
    for part in _parts(text):
        key = _KEY.match(part)
        if key is not None:
            name = key[1] or key[2] or key[3]
            out.setdefault(name, part[key.end() :].strip())
    return out


def items(text: str) -> list[str]:
    """The elements of a list, tuple or set as plain values; of anything else, the value itself."""
    text = text.strip()
    if text[:1] in ("[", "("):
        return [plain(part) for part in _parts(text[1:LIMIT]) if part.strip()]
    return [plain(text)] if text else []


def plain(text: str) -> str:
    """A raw value without its quotes; an enum member's value; ``None`` stays ``None``."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    member = re.fullmatch(r"<[\w.]{1,100}: ?(.{1,200})>", text)
    return plain(member[1]) if member is not None else text


def _parts(text: str) -> list[str]:
    """Split at commas that stand in no bracket and no string; a closing bracket that was not opened ends the text."""
    out: list[str] = []
    stack: list[str] = []
    begin = at = 0
    while True:
        step = _STEP.search(text, at)
        if step is None:
            break
        char, at = step[0], step.end()
        if char in "'\"":
            closed = _string(text, char, at)
            if closed < 0:
                at = len(text)
                break
            at = closed + 1
        elif char == ",":
            if not stack:
                out.append(text[begin : at - 1])
                begin = at
        elif char in _CLOSES:
            stack.append(_CLOSES[char])
        elif stack:
            if char in stack:
                while stack.pop() != char:
                    pass
        elif char != ">":
            out.append(text[begin : at - 1])
            return out
    out.append(text[begin:])
    return out


def _string(text: str, quote: str, at: int) -> int:
    """Where a string that begins before ``at`` ends, -1 if it does not."""
    while True:
        at = text.find(quote, at)
        if at < 0:
            return -1
        slashes = 0
        while text[at - 1 - slashes] == "\\":
            slashes += 1
        if slashes % 2 == 0:
            return at
        at += 1


def mapping(text: str) -> dict[str, str]:
    """The fields of a JSON object or of a Python dict or object; empty for anything else."""
    text = text.strip()
    try:
        decoded = json.loads(text) if len(text) < LIMIT else None
    except (ValueError, RecursionError):
        decoded = None
    if isinstance(decoded, dict):
        return {str(name): value if isinstance(value, str) else json.dumps(value) for name, value in decoded.items()}
    return {name: plain(value) for name, value in fields(text).items()} if "{" in text or "(" in text else {}
