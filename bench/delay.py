"""Delay from a line's writing on the host to its place on the screen, lines coming singly.

journald itself tells its readers of a change up to 250 ms late: what counts is what is added to ``journalctl -f``.
"""

from __future__ import annotations

import re
import statistics
import time

from bench.figures import Figure
from bench.terminal import Terminal
from bench.watched import ALIAS, host, start, unit, watching
from tests.host.machine import Machine
from tests.host.service import Service

TICKS = 40
SCRIPT = """
import random, time
for _ in range({ticks}):
    time.sleep(random.uniform(0.2, 0.4))
    print(f"tick {{time.time():.6f}} tock", flush=True)
time.sleep(600)
"""
TICK = re.compile(rb"tick (\d+\.\d{6}) tock")


def figures() -> list[Figure]:
    with host() as (machine, home):
        service = ticking(machine)
        with watching(service, home) as terminal:
            start(service)
            ours = _delays(terminal)
        service = ticking(machine)
        command = ["ssh", "-F", str(home / ".ssh/config"), ALIAS, "journalctl", "-f", "-o", "cat", "-u", service.name]
        with Terminal(command) as terminal:
            start(service)
            plain = _delays(terminal)
    floor = "ssh … journalctl -f"
    middle, late = statistics.median(ours) * 1000, statistics.quantiles(ours, n=100, method="inclusive")[98] * 1000
    added = middle - statistics.median(plain) * 1000
    return [
        Figure(
            name="delay added to journalctl -f over ssh, median",
            value=added,
            unit="ms",
            goal="≤ 100 ms",
            good=added <= 100,
        ),
        Figure(
            name="delay from write to screen, median",
            value=middle,
            unit="ms",
            floor=statistics.median(plain) * 1000,
            floor_name=floor,
        ),
        Figure(
            name="delay from write to screen, 99 of 100",
            value=late,
            unit="ms",
            floor=statistics.quantiles(plain, n=100, method="inclusive")[98] * 1000,
            floor_name=floor,
        ),
    ]


def ticking(machine: Machine, ticks: int = TICKS) -> Service:
    machine.write("/opt/ticks.py", SCRIPT.format(ticks=ticks))
    return unit(machine, "ExecStart=/usr/bin/python3 /opt/ticks.py\n")


def _delays(terminal: Terminal) -> list[float]:
    """Both clocks are one: the host is a container of this machine."""
    seen: dict[bytes, float] = {}
    rest = b""
    end = time.monotonic() + TICKS
    while len(seen) < TICKS and time.monotonic() < end:
        rest = rest[-100:] + terminal.read(0.5)
        now = time.time()
        for written in TICK.findall(rest):
            seen.setdefault(written, now - float(written))
    return list(seen.values())
