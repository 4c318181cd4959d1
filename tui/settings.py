"""Which configuration counts: the operator's own, or the file of ``--config``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path

from tui.exits import Ending, Exit
from watch.config import Config, ConfigError, default_path, load_config, near, place

_chosen: ContextVar[Path | None] = ContextVar("config", default=None)


def choose(path: Path | None) -> None:
    """Take this file from now on; None: the one in the configuration folder. Raises Ending where it is wrong: a file
    that was asked for is read also by commands that would not have looked at any."""
    _chosen.set(Path(os.path.expanduser(path)) if path is not None else None)
    if path is not None:
        configuration()


def configuration() -> Config:
    """The operator's. Raises Ending where it is wrong, in what only a screen needs as well."""
    asked = _chosen.get()
    try:
        config = load_config(asked)
    except ConfigError as error:
        remedy = "Correct that line, or remove the file." if asked is None else "Correct it, or give another --config."
        raise Ending(Exit.USAGE, str(error), remedy) from None
    _looks(config)
    return config


def chosen() -> Path | None:
    """The file of ``--config``, None where it was not given."""
    return _chosen.get()


def path() -> Path:
    """The file that counts, whether it exists or not."""
    return _chosen.get() or default_path()


def _looks(config: Config) -> None:
    """Raises Ending for keys or a theme of the configuration that cannot be used, with the line: before any host is
    asked."""
    if config.keys:
        from tui.keys import BadKey, keymap

        try:
            keymap(config.keys)
        except BadKey as error:
            raise Ending(Exit.USAGE, f"{place(config, 'keys', error.name)}: {error}") from None
    if wanted := config.defaults.theme:
        from textual.theme import BUILTIN_THEMES

        import themes

        names = [theme.name for theme in themes.themes()]
        if wanted not in names and wanted not in BUILTIN_THEMES:
            reason = f'there is no theme "{wanted}"{near(wanted, dict.fromkeys(names))}'
            raise Ending(
                Exit.USAGE, f"{place(config, 'defaults', 'theme')}: {reason}", f"The themes are: {', '.join(names)}."
            )


def hoisted(words: Sequence[str]) -> list[str]:
    """A command line with ``--config FILE`` in front, wherever it stood before ``--``: it is an option of every
    command."""
    front: list[str] = []
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            rest += [word, *left]
            break
        if word == "--config" and left:
            front += [word, left.pop(0)]
        elif word.startswith("--config="):
            front.append(word)
        else:
            rest.append(word)
    return [*front, *rest]
