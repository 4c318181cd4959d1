"""What a configuration lets happen on an event: which hooks there are, and what they are given. Pure.

A hook is a command (a list of words, run without a shell), an ``http(s)://`` address (JSON is POSTed to it), or
``desktop`` (a notification of this machine's desktop); several of them are a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final, Literal

from msgspec import Struct

from watch.events import Event
from watch.redact import Redactor

Value = str | list[str | list[str]] | None
"""As it stands in the configuration. None: not said; an empty list: nothing happens."""

DESKTOP: Final = "desktop"

PLACEHOLDERS: Final = ("event", "deployment", "unit", "target", "state", "phase", "message", "time")

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")
_URL = re.compile(r"https?://[^\s/?#]+", re.IGNORECASE)
_READS_WORDS: Final = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "fish", "python", "python3", "perl", "ruby", "node",
})  # fmt: skip
_LONGEST: Final = 1000
"""Characters of a message: what a server prints has no end of its own."""


class Hook(Struct, frozen=True, kw_only=True):
    """One thing to do. ``words``: of a command, with placeholders; ``url``: of a webhook."""

    kind: Literal["command", "webhook", "desktop"]
    words: tuple[str, ...] = ()
    url: str = ""

    @property
    def title(self) -> str:
        """How it is called when it fails. An address' path and query may be a secret, and stay away."""
        if self.kind == "command":
            return self.words[0]
        found = _URL.match(self.url)
        return found[0].partition("://")[2].rpartition("@")[2] if found else "desktop notification"


def parse(value: Value) -> tuple[Hook, ...]:
    """The hooks of one event. Raises ValueError with one sentence for what is none."""
    if value is None or value == []:
        return ()
    if isinstance(value, str):
        return (_single(value),)
    words = [item for item in value if isinstance(item, str)]
    if len(words) == len(value) and not (_URL.match(words[0]) or words[0] == DESKTOP):
        return (_command(words),)
    return tuple(_single(item) if isinstance(item, str) else _command(item) for item in value)


def _single(text: str) -> Hook:
    if text == DESKTOP:
        return Hook(kind="desktop")
    if _URL.match(text) and not re.search(r"\s", text):
        return Hook(kind="webhook", url=text)
    raise ValueError(f'{text!r} is no hook: give a list of words (a command), an http(s):// address, or "desktop"')


def _command(words: Sequence[str]) -> Hook:
    if not words or not words[0].strip():
        raise ValueError("a command has at least one word")
    if any("\x00" in word for word in words):
        raise ValueError("a word of a command cannot hold a NUL")
    for at, word in enumerate(words):
        for escaped, name in _PLACEHOLDER.findall(word):
            if escaped:
                continue
            if name not in PLACEHOLDERS:
                near = get_close_matches(name, PLACEHOLDERS, n=1, cutoff=0.5)
                hint = f'did you mean "{{{near[0]}}}"?' if near else f"known: {', '.join(PLACEHOLDERS)}"
                raise ValueError(
                    f"{{{name}}} is filled in by nothing ({hint}; write {{{{{name}}}}} for the word itself)"
                )
            if at and _is_script(words, at):
                raise ValueError(
                    f"{{{name}}} inside a script would run what a server prints: write"
                    f' "$FIRSTLIGHT_{name.upper()}" there, which the script is given'
                )
    return Hook(kind="command", words=tuple(words))


def _is_script(words: Sequence[str], at: int) -> bool:
    """Whether this word is read as a program by an interpreter (``sh -c …``), or by a shell far away (``ssh``)."""
    names = [word.rpartition("/")[2] for word in words[:at]]
    if names[0] == "ssh":
        return True
    return any(name in _READS_WORDS for name in names) and bool(re.fullmatch(r"-\w*[ce]", words[at - 1]))


def facts(event: Event, deployment: str, redactor: Redactor) -> dict[str, str]:
    """What placeholders, variables and JSON tell. Without secrets and control characters."""
    told = {
        "event": event.kind,
        "deployment": deployment or event.unit,
        "unit": event.unit,
        "target": event.target,
        "state": event.state,
        "phase": event.phase,
        "message": event.message,
        "time": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
    }
    return {name: _plain(redactor.text(value)) for name, value in told.items()}


def _plain(text: str) -> str:
    """One line that nothing obeys. Lone surrogates (bytes that were no UTF-8) go too."""
    shown = "".join(" " if not char.isprintable() else char for char in text)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def filled(words: Sequence[str], told: Mapping[str, str]) -> tuple[str, ...]:
    """A command's words with what is told in the place of ``{name}``, each still one word."""

    def one(found: re.Match[str]) -> str:
        return f"{{{found[1]}}}" if found[1] else told[found[2]]

    return tuple(_PLACEHOLDER.sub(one, word) for word in words)


def variables(told: Mapping[str, str]) -> dict[str, str]:
    """What a command finds in its environment: ``FIRSTLIGHT_MESSAGE`` …"""
    return {f"FIRSTLIGHT_{name.upper()}": value for name, value in told.items()}
