"""Folders for sockets, which only we may enter. They go with us; those of processes that were killed go with the next
that is made."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "firstlight-link-"


class OwnFolder:
    """Made at once, mode 0700, in ``parent``. It is locked while its process lives: one that nobody locks is left."""

    def __init__(self, parent: str | Path) -> None:
        _sweep(Path(parent))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            with suppress(FileNotFoundError):  # another's sweep came between
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                if self.path.exists():
                    return
                os.close(self._lock)

    def remove(self) -> None:
        """Once."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(parent: Path) -> None:
    for path in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another's, or gone, or in use
            if path.lstat().st_uid != os.getuid():
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
