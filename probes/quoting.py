"""Argument lists to one command line, and back: the only place where anything is quoted for a shell.

A server hands the command line to the user's login shell, which may be bash, zsh, fish or csh and may print anything
before it looks at the command. So the line is ``exec /bin/sh -c '…' firstlight TOKEN '…'`` with nothing between the
quotes that any of these shells reads in a way of its own: other bytes than plain ASCII, quotes, backslashes and ``!``
stand as octal escapes, which our own ``sh`` turns back (``printf %b``, POSIX). The token, printed first, marks where
start-up noise ends.

That ``sh`` stays beside the command and watches its standard input, which stays open as long as we and the link do.
At its end it ends the command and all that the command started: a channel that is closed kills nothing by itself, and
a command that waits without writing would wait for ever.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 120_000
"""bytes of a command line. Linux takes 131,072 for one argument of a program, and the login shell is given one."""

GRACE = 2
"""seconds from SIGTERM to SIGKILL."""

NAME = "firstlight"
"""What ``ps`` on the host calls the shell beside a command."""

_BOOT = r'LC_ALL=C;export LC_ALL;printf "\036%s\n" "$1";printf "\036%s\n" "$1">&2;eval "$(printf %b "$2")"'

# $$ is the shell itself also in its subshells, and the process group where the server makes one for each session (as
# OpenSSH does); pkill is for servers that do not. The trap keeps the watcher alive while it signals its own group.
_END = f"kill -TERM -$$||pkill -TERM -P $$;kill -0 $$&&sleep {GRACE};kill -KILL -$$||pkill -KILL -P $$"
_WATCH = f"while read -r x;do :;done;{_END}"

# Foreground and in a subshell: `exec` finds programs only, never a word of the shell's own language; the command gets
# default signals (a background job would ignore SIGINT) and none of our descriptors. The shell's own error stream is
# nowhere: a word of it ("Terminated") into a closed channel would end it before it has ended the rest.
_COMMAND = (
    "(exec 3<&- 2>&4 4>&-;exec ",
    ');s=$?;[ "$g" ]&&kill -KILL -$$;',
)
_ALONE = (
    "exec 3<&0 4>&2 </dev/null 2>/dev/null;trap g=1 TERM;"
    f'(exec <&3 3<&- 4>&- >/dev/null;trap : TERM;{_WATCH})& w=$!;[ "$g" ]||{_COMMAND[0]}',
    f"{_COMMAND[1]}kill -KILL $w;exit $s",
)
# The feeder is put in the background inside the pipe's first part, because a shell waits for every part of a pipe: it
# is the watcher too, and ends when the channel is closed after the command.
_FED = (
    "exec 3<&0 4>&2 2>/dev/null;trap g=1 TERM;"
    "{{ (exec <&3 3<&- 4>&-;trap : TERM;{source};exec >/dev/null;{after})& }}|" + _COMMAND[0],
    f"{_COMMAND[1]}exit $s",
)

_HOSTILE = re.compile(rb"[^ -~]|['!\\]")
_ESCAPE = re.compile(rb"\\0([0-7]{3})")
_LINE = re.compile(rf"exec /bin/sh -c '{re.escape(_BOOT)}' {NAME} (?P<token>\w+) '(?P<script>[^'!]*)'")
_HEAD = re.compile(r"head -c (\d+)")


@dataclass(frozen=True)
class Wrapped:
    """What a command line of ours asks for: the command, the token to print first, and its standard input
    (False: nothing; an int: so many bytes, then nothing more; True: all that comes)."""

    argv: tuple[str, ...]
    token: str
    stdin: int | bool = False


def shell(argv: Sequence[str], token: str, *, stdin: int | bool = False) -> tuple[str, ...]:
    """The argument list of the ``sh`` that runs ``argv`` and ends it; standard input must stay open meanwhile.

    ``token``: random letters and digits. ``stdin``: as in ``Wrapped``. Standard output and error begin with
    ``opening(token)``. The exit status is the command's, 128 and more for a signal, 127 where there is no such
    program, 126 where it may not be run. Raises ValueError where no system could run ``argv``.
    """
    if not argv or not argv[0] or argv[0].startswith("-"):
        raise ValueError(f"no program is named in {list(argv)!r}")
    if any("\0" in argument for argument in argv):
        raise ValueError("an argument holds a NUL, which no program can be given")
    if not re.fullmatch(r"[A-Za-z0-9]+", token):
        raise ValueError("a token is letters and digits")
    before, after = _parts(stdin)
    script = before + shlex.join(argv) + after
    return ("/bin/sh", "-c", _BOOT, NAME, token, _encode(script))


def command_line(argv: Sequence[str], token: str, *, stdin: int | bool = False) -> str:
    """The same as one line for a server, ASCII only, read alike by every login shell.

    Raises ValueError as ``shell`` does, and when the line is too long for a server to pass on.
    """
    *start, boot, name, token, script = shell(argv, token, stdin=stdin)
    line = f"exec {' '.join(start)} '{boot}' {name} {token} '{script}'"
    if len(line) > LONGEST:
        raise ValueError(f"the command is {len(line)} bytes long, more than the {LONGEST} that a server passes on")
    return line


def opening(token: str) -> bytes:
    """What stands before a command's own output on stdout and on stderr; all up to its end is start-up noise.

    It is nowhere in the command line in this form, so that a shell which echoes its commands does not fake it.
    """
    return b"\x1e" + token.encode("ascii") + b"\n"


def unwrap(command: str) -> Wrapped:
    """What a ``command_line`` asks for: for a server that plays a host instead of being one. Else ValueError."""
    found = _LINE.fullmatch(command)
    script = _decode(found["script"]) if found else ""
    head = _HEAD.search(script)
    for stdin in (False, True, int(head[1]) if head else 0):
        before, after = _parts(stdin)
        if found and script.startswith(before) and script.endswith(after):
            argv = shlex.split(script[len(before) : len(script) - len(after)])
            return Wrapped(tuple(argv), found["token"], stdin)
    raise ValueError("not a command line of ours")


def _parts(stdin: int | bool) -> tuple[str, str]:
    """What stands before and after the command in the script."""
    if stdin is False:
        return _ALONE
    source, then = ("cat", f"sleep 1;{_END}") if stdin is True else (f"head -c {stdin}", _WATCH)
    return _FED[0].format(source=source, after=then), _FED[1]


def _encode(script: str) -> str:
    raw = script.encode("utf-8", "surrogateescape")
    return _HOSTILE.sub(lambda byte: b"\\0%03o" % byte[0][0], raw).decode("ascii")


def _decode(script: str) -> str:
    raw = _ESCAPE.sub(lambda escape: bytes((int(escape[1], 8),)), script.encode("ascii"))
    return raw.decode("utf-8", "surrogateescape")
