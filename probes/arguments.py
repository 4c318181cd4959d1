"""What a model server was told: its command line, from the process itself or from its unit, and its options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from probes import unitfile
from probes.readings import UnitReading

_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_PREFIX = re.compile(r"^[@\-:+!|]*")
_SERVERS = ("vllm", "sglang")
_SUBCOMMANDS = {"serve", "launch_server"}


def arguments(unit: UnitReading, text: str = "") -> tuple[str, ...]:
    """The server's arguments: of the running process where it is known; else of the unit's text, where quotes still
    stand; else as systemd shows them, split at blanks. Variables are filled in from the unit's environment.
    ``text``: ``systemctl cat``."""
    if unit.server_argv:
        return unit.server_argv
    shown = unit.exec_start
    written = exec_start(text)
    argv = written if " ".join(written).split() == list(shown) else shown
    known = dict(entry.split("=", 1) for entry in unit.environment if "=" in entry)
    return tuple(_VARIABLE.sub(lambda found: known.get(found[1] or found[2], found[0]), argument) for argument in argv)


def exec_start(text: str) -> tuple[str, ...]:
    """The arguments of the last ExecStart= in a unit's text, without its prefixes and with variables as written; empty
    where there is none or systemd would refuse its quotes."""
    found = unitfile.effective(unitfile.settings(text), "ExecStart")
    if not found:
        return ()
    try:
        written = [word.text for word in unitfile.words(found[-1].value)]
    except unitfile.BadQuoting:
        return ()
    return (_PREFIX.sub("", written[0]), *written[1:]) if written else ()


def words(argv: Iterable[str]) -> list[str]:
    """Arguments, and the words of those that are a shell's (``bash -c 'exec vllm serve …'``), without quotes."""
    out: list[str] = []
    for argument in argv:
        if any(char.isspace() for char in argument) and is_server(argument.split()):
            out += [part.strip("\"';") for part in argument.split()]
        else:
            out.append(argument)
    return out


def is_server(argv: Sequence[str]) -> bool:
    """Whether these arguments start a model server: the ``vllm`` or ``sglang`` command or module is named."""
    return any(_names(argument, server) for argument in argv for server in _SERVERS)


def _names(argument: str, server: str) -> bool:
    name = argument.strip("\"';").rpartition("/")[2]
    return name == server or name.startswith(server + ".")


def option(argv: Iterable[str], *names: str) -> str | None:
    """The value of an option, the last one given: ``--port 8001``, ``--port=8001``, ``--root_path x``; "" for a flag
    without a value; None where it is not given."""
    value: str | None = None
    listed = words(argv)
    for at, word in enumerate(listed):
        if not word.startswith("-"):
            continue
        name, equals, given = word.partition("=")
        if (name.replace("_", "-") if name.startswith("--") else name) in names:
            if equals:
                value = given
            else:
                after = listed[at + 1] if at + 1 < len(listed) else ""
                value = "" if after.startswith("--") else after
    return value


def model(argv: Sequence[str]) -> str:
    """The model: ``--model``, ``--model-path``, or what follows ``serve``; "" where none is named."""
    named = option(argv, "--model", "--model-path")
    if named:
        return named
    listed = words(argv)
    for at, word in enumerate(listed[:-1]):
        if word in _SUBCOMMANDS and not listed[at + 1].startswith("-"):
            return listed[at + 1]
    return ""
