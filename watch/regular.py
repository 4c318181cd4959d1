"""Opens files that somebody names or that lie in a folder of the operator's: whatever turns out to lie there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def opened(path: Path) -> BinaryIO:
    """A regular file, for reading. Raises OSError, whose ``strerror`` can be put into a sentence, also for a folder, a
    pipe (which may never have a writer), a socket and a device (which may never end)."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
        if not stat.S_ISREG(mode):
            what = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
            raise OSError(errno.EINVAL, f"it is a {what}, no file", str(path))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def whole(path: Path, most: int) -> bytes:
    """All of a regular file. Raises OSError as ``opened`` does, and for one of more than so many bytes."""
    with opened(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB", str(path))
    return data
