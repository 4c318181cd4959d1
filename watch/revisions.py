"""Revisions of a unit: its files at the time of a load, and what differs between two of them.

``systemctl cat`` prints every file below a line ``# /its/path``; a comment that looks like one is told apart by the
paths that systemd itself names (FragmentPath, DropInPaths). A unit's ExecStart is one very long line, so differences
are shown by argument, and by word within any other line.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct

from probes.operate.orders import File
from probes.unitfile import BadQuoting, commands, effective, settings, words

__all__ = [
    "Change",
    "File",
    "Piece",
    "argument_changes",
    "arguments_of",
    "digest",
    "environment_changes",
    "failed_before",
    "joined",
    "setting_changes",
    "split_files",
    "version_changes",
    "word_pieces",
]


class Change(Struct, frozen=True):
    """One argument or setting that differs. ``old``/``new`` None: not there. ``key``: an option or Section.Key."""

    key: str
    old: str | None
    new: str | None

    @property
    def kind(self) -> str:
        return "added" if self.old is None else "removed" if self.new is None else "changed"


class Piece(Struct, frozen=True):
    """A stretch of words of a line. ``kind``: same, removed, added."""

    kind: str
    text: str


def split_files(cat: str, paths: Sequence[str]) -> tuple[File, ...]:
    """The files of ``systemctl cat``'s output. ``paths``: the unit's FragmentPath and DropInPaths, in that order; where
    they are not known, every line ``# /…`` that stands first or after an empty line begins a file."""
    known = set(paths)
    out: list[tuple[str, list[str]]] = []
    blank = True
    for line in cat.splitlines(keepends=True):
        path = line[2:].rstrip("\n")
        begins = line.startswith("# /") and (path in known if known else blank)
        if begins:
            out.append((path, []))
        elif out:
            out[-1][1].append(line)
        blank = not line.strip()
    files = []
    for index, (path, lines) in enumerate(out):
        # systemctl puts one empty line between two files, which is in neither
        if index < len(out) - 1 and lines and not lines[-1].strip():
            lines = lines[:-1]
        files.append(File(path, "".join(lines)))
    return tuple(files)


def joined(files: Iterable[File]) -> str:
    """The files as ``systemctl cat`` would print them: what a revision's text is kept as."""
    return "\n".join(f"# {file.path}\n{file.text}" for file in files)


def digest(files: Iterable[File]) -> str:
    """SHA-256 over the files' bytes in order: what the host computes before it changes any of them."""
    total = sha256()
    for file in files:
        total.update(file.text.encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def argument_changes(old: str, new: str) -> tuple[Change, ...]:
    """What differs between the ExecStart of two unit texts, by option. A repeated one is numbered from its second on;
    words without an option keep their place: the program, the model. A JSON object on both sides is compared key by
    key, each named as vLLM takes it on the command line: ``--speculative-config.method``."""
    before, after = _arguments(old), _arguments(new)
    for key in [*before, *after]:
        ours, theirs = _dotted(before, key), _dotted(after, key)
        if before.get(key) != after.get(key) and ours and theirs:
            before, after = _opened(before, key, ours), _opened(after, key, theirs)
    return _differing(before, after)


def setting_changes(old: str, new: str) -> tuple[Change, ...]:
    """What differs in all other settings, by ``Section.Key``; Environment= by variable."""
    return _differing(_settings(old), _settings(new))


def environment_changes(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Change, ...]:
    """What differs between two sets of environment files (text by path), by ``PATH NAME``; of files that both have:
    one that is not there may be one that could not be read."""
    both = old.keys() & new.keys()
    return _differing(*(_variables({path: text for path, text in one.items() if path in both}) for one in (old, new)))


def version_changes(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Change, ...]:
    """What differs where both are known."""
    return tuple(change for change in _differing(old, new) if change.old and change.new)


def word_pieces(old: str, new: str) -> tuple[Piece, ...]:
    """One line turned into another, word by word; blanks belong to the word before them."""
    before, after = _words(old), _words(new)
    out: list[Piece] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            out.append(Piece("same", "".join(before[a:b])))
            continue
        if a < b:
            out.append(Piece("removed", "".join(before[a:b])))
        if c < d:
            out.append(Piece("added", "".join(after[c:d])))
    return tuple(out)


def failed_before(changes: Sequence[Change], failed: Mapping[str, str]) -> tuple[Change, ...]:
    """Those changes that bring back a value with which the last load failed. ``failed``: option → that value."""
    return tuple(change for change in changes if change.new is not None and failed.get(change.key) == change.new)


def arguments_of(text: str) -> dict[str, str]:
    """The ExecStart's arguments by option; those of JSON objects by their keys as well, as ``argument_changes`` names
    them."""
    found = _arguments(text)
    return {**found, **{key: value for option in found for key, value in _dotted(found, option).items()}}


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    return tuple(
        Change(key, before.get(key), after.get(key))
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    )


def _dotted(arguments: Mapping[str, str], key: str) -> dict[str, str]:
    """The members of an option's JSON object, by ``key.member``, with those that are options of their own; empty where
    it has neither."""
    under = {name: value for name, value in arguments.items() if name.startswith(f"{key}.")}
    try:
        value = json.loads(arguments.get(key, ""))
    except (ValueError, RecursionError):
        return under
    return {**dict(_members(key, value)), **under} if isinstance(value, dict) and value else under


def _members(key: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _members(f"{key}.{name}", member)
    else:
        yield key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _opened(arguments: Mapping[str, str], key: str, members: Mapping[str, str]) -> dict[str, str]:
    """The same with an option's members in its place."""
    out: dict[str, str] = {}
    for name, value in arguments.items():
        if name == key:
            out |= members
        elif name not in out:
            out[name] = value
    return out


def _arguments(text: str) -> dict[str, str]:
    found = commands(effective(settings(text), "ExecStart"))
    out: dict[str, str] = {}
    for number, command in enumerate(found):
        prefix = "" if not number else f"command {number + 1}: "
        place, option = 0, ""
        for word in command.argv:
            if (word.startswith("--") and len(word) > 2) or (
                word.startswith("-") and len(word) == 2 and word[1].isalpha()
            ):
                option, equals, value = word.partition("=")
                option = _fresh(out, prefix + option.replace("_", "-"))
                out[option] = value if equals else ""
                if equals:
                    option = ""
            elif option:
                out[option] = f"{out[option]} {word}" if out[option] else word
                if not _takes_many(option):
                    option = ""
            else:
                out[f"{prefix}word {place}"] = word
                place += 1
    return out


def _takes_many(option: str) -> bool:
    """Options of `vllm serve` that are followed by several words."""
    return option.rpartition("--")[2].split(" ")[0] in {
        "lora-modules", "middleware", "served-model-name", "allowed-local-media-path", "cudagraph-capture-sizes",
    }  # fmt: skip


def _fresh(taken: Mapping[str, object], name: str) -> str:
    number, fresh = 1, name
    while fresh in taken:
        number += 1
        fresh = f"{name} ({number})"
    return fresh


def _settings(text: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for setting in settings(text):
        if setting.key == "ExecStart" and setting.section == "Service":
            continue
        if setting.key == "Environment":
            try:
                entries = [word.text for word in words(setting.value)]
            except BadQuoting:
                entries = setting.value.split()
            for entry in entries:
                name, equals, value = entry.partition("=")
                if equals:
                    out[f"{setting.section}.Environment {name}"] = value
            continue
        out[_fresh(out, f"{setting.section}.{setting.key}")] = setting.value
    return out


def _variables(files: Mapping[str, str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for path, text in files.items():
        for line in text.splitlines():
            name, equals, value = line.strip().partition("=")
            if equals and not name.startswith(("#", ";")):
                out[f"{path} {name.strip()}"] = value
    return out


_JSON = re.compile(r"""[{}\[\],:"']|[^{}\[\],:"']+""")


def _words(line: str) -> list[str]:
    """At blanks; what is JSON, between its signs too. Joined they are the line."""
    out: list[str] = []
    for part in line.split(" "):
        pieces = _JSON.findall(part) if '":' in part or part.startswith(("{", "'{")) else [part]
        out += [*pieces[:-1], (pieces[-1] if pieces else "") + " "]
    if out:
        out[-1] = out[-1][:-1]
    return out
