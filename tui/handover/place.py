"""The runtime folder: which watches go on without a terminal, and where they are to be reached.

It is ``firstlight-UID`` in the temporary folder, as tmux has it, and not in ``/run/user``: logind takes that one away
with the last login, and a watch without a terminal is there to outlive logins. Mode 0700, and refused where it is not
ours alone. A daemon holds a lock on its file as long as it lives, so that what a killed one left is known for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from probes.readings import UNDECODABLE

_LONGEST = 100
"""Bytes of a socket's path: the kernel takes 107."""


class PlaceError(Exception):
    """The runtime folder cannot be used. One sentence."""


class Daemon(Struct, frozen=True, kw_only=True):
    """What is known of a watch without a terminal. ``since``: UTC seconds."""

    pid: int
    target: str
    unit: str
    user: bool = False
    """a unit of the user's own service manager"""
    name: str = ""
    since: float = 0.0
    log: str = ""
    what: str = "watch --daemon"
    """the command that it is"""
    socket: str = ""

    @property
    def title(self) -> str:
        """How it is called: by its deployment's name, else by its unit."""
        return self.name or bare(self.unit)

    def meant(self, words: Sequence[str]) -> bool:
        """Whether ``NAME``, a unit, or ``TARGET UNIT`` means this one. No words mean any."""
        if len(words) == 2:
            return (self.target, bare(self.unit)) == (words[0], bare(words[1]))
        return not words or (len(words) == 1 and words[0] in (self.name, self.unit, bare(self.unit)))


class Taken(Exception):
    """Somebody else watches this unit already."""

    def __init__(self, by: Daemon | None) -> None:
        super().__init__("watched already")
        self.by = by


def bare(unit: str) -> str:
    return unit.removesuffix(".service")


def folder() -> Path:
    """The runtime folder, made where it is not there. Raises PlaceError."""
    path = Path(tempfile.gettempdir()) / f"firstlight-{os.getuid()}"
    try:
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
    except OSError as error:
        raise PlaceError(f"{path} cannot be used: {(error.strerror or str(error)).lower()}") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PlaceError(f"{path} is not a folder of this user alone (mode 0700): somebody else made it, or opened it")
    return path


class Claim:
    """The right to be the daemon of a unit, until ``release()`` or the end of the process. Raises Taken, PlaceError."""

    def __init__(self, daemon: Daemon) -> None:
        self._path = folder() / f"{_stem(daemon)}.lock"
        socket = self._path.with_suffix(".sock")
        if len(os.fsencode(socket)) > _LONGEST:
            raise PlaceError(f"{socket.parent} is too long a path for a socket: set TMPDIR to a shorter one")
        self._file = _locked(self._path)
        self.daemon = msgspec.structs.replace(daemon, socket=str(socket))
        self.update(self.daemon)
        with suppress(FileNotFoundError):
            socket.unlink()  # of one that was killed

    def update(self, daemon: Daemon) -> None:
        """Say more about it."""
        self.daemon = daemon
        data = msgspec.json.encode(daemon)
        os.pwrite(self._file, data, 0)
        os.ftruncate(self._file, len(data))

    def release(self) -> None:
        for path in (Path(self.daemon.socket), self._path):
            with suppress(FileNotFoundError):
                path.unlink()
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def daemons() -> list[Daemon]:
    """Those that live, by their titles; what killed ones left is removed. Raises PlaceError."""
    found = []
    for path in folder().glob("*.lock"):
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if (daemon := _read(file)) is not None:
                found.append(daemon)
        else:
            for left in (path.with_suffix(".sock"), path):
                with suppress(OSError):
                    left.unlink()
        finally:
            os.close(file)
    return sorted(found, key=lambda daemon: (daemon.title, daemon.target))


def _stem(daemon: Daemon) -> str:
    exact = "\0".join((daemon.target, bare(daemon.unit), "user" if daemon.user else ""))
    short = re.sub(r"[^A-Za-z0-9._@-]+", "_", bare(daemon.unit))[:24]
    return f"{short}-{hashlib.sha256(exact.encode()).hexdigest()[:10]}"


def _locked(path: Path) -> int:
    """A new lock file, or one that a killed daemon left. Raises Taken."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            by = _read(file)
            os.close(file)
            raise Taken(by) from None
        with suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file).st_ino:
                return file
        os.close(file)  # removed between the two: once more


def _read(file: int) -> Daemon | None:
    try:
        return msgspec.json.decode(os.pread(file, 1 << 16, 0), type=Daemon)
    except (*UNDECODABLE, OSError):
        return None  # it is just being written
