"""The hosts that an operator's ssh_config names, to be offered."""

from __future__ import annotations

import glob
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

DEEPEST = 16
"""Files that include one another, as OpenSSH has it."""

_LINE = re.compile(r"\s*(host|include)(?:\s*=\s*|\s+)(.*?)\s*$", re.IGNORECASE)


def aliases(config: Path | None = None) -> tuple[str, ...]:
    """Names of ``Host`` lines that are no patterns, in their order, each once; those of included files too. What cannot
    be read is left out: whoever offers these lets other names be typed as well."""
    file = config or Path("~/.ssh/config").expanduser()
    return tuple(dict.fromkeys(_names(file, file.parent, 0)))


def _names(file: Path, folder: Path, depth: int) -> Iterator[str]:
    try:
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        found = _LINE.match(line)
        if not found:
            continue
        try:
            words = shlex.split(found[2], comments=True)
        except ValueError:
            words = found[2].split()
        if found[1].lower() == "host":
            yield from (word for word in words if not re.search(r"[*?!\s\x00-\x1f]", word) and not word.startswith("-"))
        elif depth < DEEPEST:
            for word in words:
                pattern = str(folder / Path(word).expanduser())
                for path in sorted(glob.glob(pattern)):
                    yield from _names(Path(path), folder, depth + 1)
