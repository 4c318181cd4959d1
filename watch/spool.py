"""Pipes, which can be read once, as files, which can be read again: ``explain <(journalctl …)``, ``… | explain -``."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

STANDARD_INPUT = Path("-")


@contextmanager
def spooled(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """The same paths, with pipes and ``-`` copied into files that are gone afterwards. Waits, as ``cat`` does, until
    whoever writes into a pipe has ended; one that nobody writes to is empty. Raises OSError where a pipe cannot be read
    or there is no room for a copy."""
    with tempfile.TemporaryDirectory(prefix="firstlight-") as folder:
        out = []
        for number, path in enumerate(paths):
            standard = path == STANDARD_INPUT
            if standard or _is_pipe(path):
                place = Path(folder, str(number))
                place.mkdir()
                copy = place / ("standard input" if standard else f"pipe {path.name}")
                with copy.open("wb") as into:
                    if standard:
                        shutil.copyfileobj(sys.stdin.buffer, into, 1 << 20)
                    else:
                        with _opened(path) as pipe:
                            shutil.copyfileobj(pipe, into, 1 << 20)
                out.append(copy)
            else:
                out.append(path)
        yield out


def _is_pipe(path: Path) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _opened(path: Path) -> BinaryIO:
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # does not wait for somebody who writes
    os.set_blocking(number, True)
    return os.fdopen(number, "rb")
