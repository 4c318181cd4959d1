"""The files of a unit as they were before an action changed them, kept beside the history as well as on the host."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from probes.operate.orders import File
from watch.revisions import joined


def default_folder() -> Path:
    return platformdirs.user_state_path("firstlight") / "before"


def keep_aside(target: str, unit: str, id: str, files: Sequence[File], *, folder: Path | None = None) -> Path:
    """Write one file, ``TARGET/UNIT/ID.txt``, as ``systemctl cat`` would print them; for its owner alone, as it may
    hold secrets. Raises OSError."""
    parts = [re.sub(r"[^A-Za-z0-9._@-]", "-", part).lstrip(".") or "-" for part in (target, unit, id)]
    path = (folder or default_folder()).joinpath(*parts[:2], f"{parts[2]}.txt")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(joined(files).encode("utf-8", "surrogateescape"))
        out.flush()
        os.fsync(out.fileno())
    return path


def exact_folder(history: Path) -> Path:
    """Where the exact texts of revisions lie whose units hold secrets, beside the history of that path."""
    return history.parent / "before" / "revisions"


def keep_exact(folder: Path, digest: str, text: str) -> None:
    """The text of a revision as it was, secrets and all: it is what a roll-back writes. For its owner alone. Raises
    OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = os.open(folder / f"{digest}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(text.encode("utf-8", "surrogateescape"))


def exact(folder: Path, digest: str) -> str | None:
    """What ``keep_exact`` kept; None where it is not there any more."""
    try:
        return (folder / f"{digest}.txt").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return None
