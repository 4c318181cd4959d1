"""Which Python runs the server: read from the unit's own command, tried before the host's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

PYTHON = re.compile(r"^python(\d+(\.\d+)?)?$")
SCRIPTS = {"vllm", "sglang"}
"""Commands that pip puts beside the interpreter they belong to."""


def interpreters(argv: Sequence[str]) -> tuple[str, ...]:
    """Interpreters to try, the most likely first, the host's ``python3`` last.

    ``argv`` is the unit's ExecStart as systemd shows it. Also found inside ``sh -c '…'``: any word that is the path of
    a Python or of a ``vllm`` command in a virtual environment.
    """
    found: list[str] = []
    for argument in argv:
        for word in argument.split():
            path = PurePosixPath(word.strip("'\";"))
            if not path.is_absolute():
                continue
            if PYTHON.match(path.name):
                found.append(str(path))
            elif path.name in SCRIPTS and path.parent.name == "bin":
                found += [str(path.parent / "python3"), str(path.parent / "python")]
    return (*dict.fromkeys(found), "python3")
