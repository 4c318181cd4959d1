"""The garbage collector waits while the program starts, and then works as ever; memory of a flood is given back."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

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


FLOOD = """
from tui import collecting

def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024

flood = [bytes(10_000) for _ in range(10_000)]
lies_above = bytes(10_000)
full = resident()
del flood
print(resident() > full - 50)  # megabytes
collecting.give_back()
print(resident() < full - 80)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library gives back by itself")
def test_what_a_flood_took_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", FLOOD], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 2
