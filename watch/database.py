"""One SQLite file shared by several watches: opened with care, brought up to date, every failure one sentence."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

BUSY_SECONDS = 5.0
"""How long a write waits for another's."""


class HistoryError(Exception):
    """The history cannot be used. The text is one sentence with a remedy; the product goes on without history."""


class Database:
    """The file, for several processes (write-ahead log, writers wait for each other) and several threads (a lock).

    ``migrations``: one tuple of statements a step; ``PRAGMA user_version`` counts the steps that a file has been
    through. Every method raises HistoryError where the file cannot be read or written.
    """

    def __init__(self, path: Path, migrations: Sequence[Sequence[str]]) -> None:
        """Open or make the file. The folder is made for its owner alone (0700), the file too (0600). Raises
        HistoryError where it is damaged, made by a newer version, or cannot be written."""
        self.path = path
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _make_private(path)
        except OSError as error:
            why = error.strerror or str(error)
            raise HistoryError(
                f"the history {path} cannot be written ({why}): make it yours, or point XDG_STATE_HOME to such a folder"
            ) from None
        try:
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise self._told(error) from None
        self._connection.row_factory = sqlite3.Row
        try:
            self._write_ahead()
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._migrate(migrations)
        except sqlite3.Error as error:
            self._connection.close()
            raise self._told(error) from None
        except HistoryError:
            self._connection.close()
            raise

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction that holds the right to write from its first statement on; undone where anything raises."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._told(error) from None

    def run(self, statement: str, values: Sequence[object] = ()) -> None:
        """One statement, within ``writing``."""
        self._connection.execute(statement, tuple(values))

    def all(self, query: str, values: Sequence[object]) -> list[sqlite3.Row]:
        return self._asked(lambda: self._connection.execute(query, tuple(values)).fetchall())

    def one(self, query: str, values: Sequence[object]) -> sqlite3.Row | None:
        found: sqlite3.Row | None = self._asked(lambda: self._connection.execute(query, tuple(values)).fetchone())
        return found

    def put(self, table: str, id: int, values: dict[str, object]) -> int:
        """Insert (``id`` 0), or overwrite the row with that id, within ``writing``. ``table`` and the names are written
        by us, the values are bound. Returns the id."""
        # Text that is not quite Unicode (a lone surrogate) cannot be bound: it is kept escaped.
        values = {
            name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
            for name, value in values.items()
        }
        names = list(values)
        if id:
            assigned = ", ".join(f"{name} = :{name}" for name in names)
            self._connection.execute(f"UPDATE {table} SET {assigned} WHERE id = :id", {**values, "id": id})
            return id
        places = ", ".join(f":{name}" for name in names)
        done = self._connection.execute(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})", values)
        return int(done.lastrowid or 0)

    def _asked(self, ask: Callable[[], T]) -> T:
        with self._lock:
            try:
                return ask()
            except sqlite3.Error as error:
                raise self._told(error) from None

    def _write_ahead(self) -> None:
        """Readers and a writer side by side. SQLite does not wait where another process makes the same change at the
        same moment (a new file, two watches started together): we do. Where the file system cannot do it, the mode
        stays."""
        deadline = time.monotonic() + BUSY_SECONDS
        while self._connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _migrate(self, migrations: Sequence[Sequence[str]]) -> None:
        """Bring the file to the present shape, one step after the other, all or nothing."""
        newest, found = len(migrations), self._version()
        if found > newest:
            raise HistoryError(
                f"the history {self.path} was made by a newer firstlight (shape {found}, this one knows {newest}): "
                "use that version, or move the file away"
            )
        if found == newest:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for step in migrations[self._version() :]:
                for statement in step:
                    self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {newest}")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def _told(self, error: sqlite3.Error) -> HistoryError:
        """One sentence for what SQLite says."""
        said, path = str(error), self.path
        if "locked" in said or "busy" in said:
            return HistoryError(f"the history {path} is held by another program ({said}): close that, then try again")
        if "full" in said:
            return HistoryError(f"the history {path} cannot grow ({said}): make room on its file system")
        if "readonly" in said or "read-only" in said or "unable to open" in said:
            return HistoryError(f"the history {path} cannot be written ({said}): make it and its folder yours")
        if isinstance(error, sqlite3.ProgrammingError):
            return HistoryError(f"the history {path} is closed ({said}): open it again")
        return HistoryError(f"the history {path} is damaged ({said}): move it away, and a new one is begun")


def _make_private(path: Path) -> None:
    """Make the file, or make it its owner's alone; never anything else that stands or is linked there, a device say.
    Raises OSError."""
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK, 0o600)
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if mode & 0o077:
            os.fchmod(number, 0o600)
    finally:
        os.close(number)
