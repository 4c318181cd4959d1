"""Time from the command to the first screen of the demo, beside the bare import of its toolkit."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.figures import Figure, Unable
from bench.terminal import Terminal

RUNS = 5
FIRST = "Journal"
"""a word of the first screen"""


def figures() -> list[Figure]:
    program = Path(sys.executable).with_name("firstlight")
    if not program.exists():
        raise Unable("firstlight is not installed beside this Python")
    floor = min(_import() for _ in range(RUNS))
    first = min(_paint(program) for _ in range(RUNS))
    return [
        Figure(
            name="demo, first screen", value=first, unit="s", floor=floor, floor_name="python -c 'import textual.app'"
        )
    ]


def _import() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import textual.app"], check=True)
    return time.monotonic() - began


def _paint(program: Path) -> float:
    with Terminal([str(program), "demo"]) as terminal:
        return terminal.until(FIRST)
