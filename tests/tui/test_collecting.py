"""The garbage collector waits while the program starts, and then works as ever."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, weakref
from tui import collecting

usual = gc.get_threshold()
collecting.after_start()
done = []
gc.callbacks.append(lambda phase, about: done.append(about["generation"]) if phase == "stop" else None)
kept = [[] for _ in range(collecting.START // 2)]
print(done == [])
kept += [[] for _ in range(collecting.START)]
print(gc.get_threshold() == usual)

class Ring: ...
ring = Ring()
ring.itself, gone = ring, weakref.ref(ring)
del ring
kept += [[] for _ in range(usual[0] * 2)]
print(gone() is None)
"""


def test_a_start_is_not_searched_for_garbage_and_what_comes_after_it_is() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 3
