"""A unit's text as systemd reads it: sections, continuation lines, drop-ins, words and quotes.

``systemctl show`` prints ExecStart with its quotes gone, so that a value lost to a missing quote cannot be told from a
right one; the text of the unit (``systemctl cat``) still shows it. The rules are those of systemd.syntax(7),
systemd.service(5) and systemd.exec(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct


class BadQuoting(ValueError):
    """systemd refuses this line: a quote is not closed, or an escape does not exist. The text says which."""


class Setting(Struct, frozen=True):
    """``key=value`` of a section. ``line``: number of its first line in the text; ``path``: the file it stands in, as
    ``systemctl cat`` names it, else empty."""

    section: str
    key: str
    value: str
    line: int
    path: str = ""


class Command(Struct, frozen=True):
    """One command line of the unit. ``argv``: what the program is given, with variables expanded where their values
    are known; ``raw``: as written; ``problem``: why systemd would not run it, else empty."""

    argv: tuple[str, ...]
    raw: str
    line: int
    path: str = ""
    prefix: str = ""
    problem: str = ""


class Word(Struct, frozen=True):
    """A word of a command line. ``quoted``: it was written with quotes (a lone unquoted ``;`` separates commands)."""

    text: str
    quoted: bool


_WHITE = " \t\n\r"
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "s": " ",
}
_NUMERIC = {"x": 2, "u": 4, "U": 8}
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WHOLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_PATH = re.compile(r"^# (/\S+)$")


def settings(text: str) -> tuple[Setting, ...]:
    """All settings of a unit's text, drop-ins after it, in order. Takes any text; lines that are none are passed
    over, as systemd does."""
    return tuple(_settings(text))


def _settings(text: str) -> Iterator[Setting]:
    section = path = ""
    pending, begun = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        stripped = line.strip(_WHITE)
        if stripped.startswith(("#", ";")):
            named = _PATH.match(stripped)
            if named is not None and not pending:
                path, section = named[1], ""
            continue  # also within a continued line
        if not pending:
            begun = number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        whole, pending = (pending + line).strip(_WHITE), ""
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
        elif "=" in whole:
            key, _, value = whole.partition("=")
            yield Setting(section, key.strip(_WHITE), value.strip(_WHITE), begun, path)
    if pending and "=" in pending:
        key, _, value = pending.partition("=")
        yield Setting(section, key.strip(_WHITE), value.strip(_WHITE), begun, path)


def stray(text: str) -> tuple[tuple[int, str], ...]:
    """Lines that systemd passes over though they hold options, with their numbers: the line before one of them lacks
    its backslash, so what it asks for is lost without a word."""
    out: list[tuple[int, str]] = []
    continued = False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip(_WHITE)
        if stripped.startswith(("#", ";")):
            continue
        if not continued and stripped.startswith("--"):
            out.append((number, stripped))
        continued = line.rstrip("\r").endswith("\\") and (continued or not stripped.startswith("--"))
    return tuple(out)


def effective(found: tuple[Setting, ...], key: str, section: str = "Service") -> tuple[Setting, ...]:
    """The settings of a list-like key that count: an empty assignment clears those before it."""
    out: list[Setting] = []
    for setting in found:
        if setting.section == section and setting.key == key:
            if setting.value:
                out.append(setting)
            else:
                out.clear()
    return tuple(out)


def words(text: str) -> tuple[Word, ...]:
    """Split like systemd: at blanks; quotes join and vanish, wherever in a word they stand; backslash escapes are
    read within and without quotes. Raises BadQuoting."""
    out: list[Word] = []
    piece: list[str] = []
    started = quoted = False
    quote = ""
    index = 0
    while index < len(text):
        char = text[index]
        if char == "\\":
            if not started and text[index + 1 : index + 2] == ";":  # a semicolon that separates nothing
                piece, started, quoted, index = [";"], True, True, index + 2
                continue
            found, index = _escape(text, index + 1)
            piece.append(found)
            started = True
            continue
        index += 1
        if quote:
            if char == quote:
                quote = ""
            else:
                piece.append(char)
        elif char in "'\"":
            quote, quoted, started = char, True, True
        elif char in _WHITE:
            if started:
                out.append(Word("".join(piece), quoted))
            piece, started, quoted = [], False, False
        else:
            piece.append(char)
            started = True
    if quote:
        raise BadQuoting(f"a quote ({quote}) is not closed")
    if started:
        out.append(Word("".join(piece), quoted))
    return tuple(out)


def _escape(text: str, index: int) -> tuple[str, int]:
    if index >= len(text):
        raise BadQuoting("a backslash stands at the end")
    char = text[index]
    if char in _SIMPLE:
        return _SIMPLE[char], index + 1
    digits, base, after = "", 16, index + 1
    if char in _NUMERIC:
        digits = text[after : after + _NUMERIC[char]]
        whole = len(digits) == _NUMERIC[char]
        after += len(digits)
    else:
        digits, base, after = text[index : index + 3], 8, index + 3
        whole = len(digits) == 3
    if whole and re.fullmatch(r"[0-9A-Fa-f]+" if base == 16 else r"[0-3][0-7]{2}", digits):
        code = int(digits, base)
        if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000:
            return chr(code), after
    raise BadQuoting(f"\\{char} is no escape that systemd knows")


def environment(found: tuple[Setting, ...]) -> dict[str, str]:
    """Values of ``Environment=``; those of EnvironmentFile= are not known here."""
    out: dict[str, str] = {}
    for setting in effective(found, "Environment"):
        try:
            parts = words(setting.value)
        except BadQuoting:
            continue
        for word in parts:
            name, equals, value = word.text.partition("=")
            if equals:
                out[name] = value.replace("%%", "%")
    return out


def commands(found: tuple[Setting, ...], key: str = "ExecStart") -> tuple[Command, ...]:
    """The command lines of ``ExecStart=``, ``ExecStartPre=`` …, with ``%%`` and what is known of variables expanded.
    A lone ``;`` separates two commands of one line."""
    values = environment(found)
    out: list[Command] = []
    for setting in effective(found, key):
        try:
            parts = words(setting.value)
        except BadQuoting as error:
            out.append(Command((), setting.value, setting.line, setting.path, problem=str(error)))
            continue
        part: list[str] = []
        for word in (*parts, Word(";", False)):
            if word.text != ";" or word.quoted:
                part.append(word.text)
            elif part:
                out.append(_command(part, setting, values))
                part = []
    return tuple(out)


def _command(part: list[str], setting: Setting, values: Mapping[str, str]) -> Command:
    program = part[0].lstrip("@-:+!|")
    prefix = part[0][: len(part[0]) - len(program)]
    argv = [program]
    rest = part[1:]
    if "@" in prefix and rest:  # the next word is only what the program is told to be called
        rest = rest[1:]
    for word in rest:
        word = word.replace("%%", "%")
        if ":" in prefix:
            argv.append(word)
            continue
        whole = _WHOLE.fullmatch(word)
        if whole is not None:
            argv.extend(values[whole[1]].split() if whole[1] in values else [word])
        else:
            argv.append(_VARIABLE.sub(lambda found: _value(found, values), word))
    return Command(tuple(argv), setting.value, setting.line, setting.path, prefix)


def _value(found: re.Match[str], values: Mapping[str, str]) -> str:
    if found[0] == "$$":
        return "$"
    return values.get(found[1], found[0])
