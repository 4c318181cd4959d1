"""Argument lists to one command line, and back: the only place where anything is quoted for a shell."""

from __future__ import annotations

from collections.abc import Sequence


def command_line(argv: Sequence[str], token: str, *, stdin: int | bool = False) -> str:
    """What is sent to the server for ``argv``. ``token``: random, printed before the command's own output.

    ``stdin``: False: the command reads nothing; an int: so many bytes of its input follow; True: all of it does.
    """
    raise NotImplementedError


def arguments(command: str) -> tuple[str, ...]:
    """The argv inside a ``command_line``: for a server that plays a host instead of being one.

    Raises ValueError for any other command.
    """
    raise NotImplementedError


def opening(token: str) -> bytes:
    """What comes before a command's own output on stdout and on stderr; all up to its end is start-up noise."""
    raise NotImplementedError
