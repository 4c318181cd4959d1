"""Time until a key is answered while 5,000 lines a second arrive."""

from __future__ import annotations

import re
import statistics
import time

from bench.figures import Figure
from bench.terminal import Terminal
from bench.watched import cpu_share, host, start, unit, watching

PRESSES = 20
LIMIT = 60.0
ANSWER = b"empty ends the search"
"""what ``/`` brings to the screen"""
SCRIPT = """
import time
began, n = time.monotonic(), 0
while time.monotonic() < began + 120:
    due = int((time.monotonic() - began) * 5000)
    print("\\n".join(f"(Worker_TP0 pid=77) INFO 11-30 01:55:00 [x.py:1] line {i}" for i in range(n, due)), flush=True)
    n = max(n, due)
    time.sleep(0.02)
"""


def figures() -> list[Figure]:
    with host() as (machine, home):
        machine.write("/opt/flood.py", SCRIPT)
        service = unit(machine, "ExecStart=/usr/bin/python3 /opt/flood.py\n")
        with watching(service, home) as terminal:
            cpu_share(terminal, 3)
            calm = _answers(terminal)
            start(service)
            while not re.search(rb"line \d{4,}", terminal.seen):  # the screen samples a flood: any of them will do
                terminal.read(0.5)
                if time.monotonic() > terminal.began + LIMIT:
                    raise TimeoutError("the flood never reached the screen")
            flooded = _answers(terminal)
            share = cpu_share(terminal, 5)
    middle = statistics.median(flooded) * 1000
    return [
        Figure(
            name="a key answered at 5,000 lines/s, median",
            value=middle,
            unit="ms",
            floor=statistics.median(calm) * 1000,
            floor_name="the same with no line",
            goal="≤ 50 ms",
            good=middle <= 50,
        ),
        Figure(name="share of a core at 5,000 lines/s", value=share * 100, unit="%"),
    ]


def _answers(terminal: Terminal) -> list[float]:
    """Seconds from ``/`` to the search line on the screen."""
    took = []
    for _ in range(PRESSES):
        while terminal.read(0):
            pass
        terminal.seen = b""
        began = time.monotonic()
        terminal.send("/")
        while ANSWER not in terminal.seen and time.monotonic() < began + 5:
            terminal.read(0.5)
        took.append(time.monotonic() - began)
        terminal.send("\r")  # escape and the next "/" read together would be another key
        cpu_share(terminal, 0.5)
    return took
