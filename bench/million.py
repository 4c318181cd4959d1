"""Memory of the program with a million lines of journal, over the same with none, and the time to take them in."""

from __future__ import annotations

import re
import time

from bench.figures import Figure
from bench.terminal import Terminal
from bench.watched import cpu_share, host, resident, start, unit, watching

LINES = 1_000_000
LIMIT = 300.0


def figures() -> list[Figure]:
    with host() as (machine, home):
        quiet = unit(machine, "ExecStart=/bin/sleep 600\n")
        start(quiet)
        with watching(quiet, home) as terminal:
            cpu_share(terminal, 8)
            empty = resident(terminal.process.pid)
        text = "(Worker_TP0 pid=77) INFO 11-30 01:55:00 [gpu_worker.py:290] number %%.0f of many, as lines are"
        service = unit(machine, f"Type=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/seq -f '{text}' {LINES}\n")
        machine.run("systemctl", "start", service.name)
        began = time.monotonic()
        machine.run("sh", "-c", f"journalctl -u {service.name} -o export --output-fields=MESSAGE >/dev/null")
        floor = time.monotonic() - began
        with watching(service, home) as terminal:
            first = terminal.until(f"number {LINES} of", limit=LIMIT)
            terminal.until("reading back-log")
            behind = _settled(terminal)
            full = resident(terminal.process.pid)
    more = (full - empty) / 1e6
    return [
        Figure(
            name="a million lines, memory over the empty program",
            value=more,
            unit="MB",
            floor=empty / 1e6,
            floor_name="the program with no line",
            goal="≤ 80 MB",
            good=more <= 80,
        ),
        Figure(
            name="a million lines, until the newest is on the screen",
            value=first,
            unit="s",
            floor=floor,
            floor_name="journalctl -o export there",
            goal="≤ 2 s",
            good=first <= 2,
        ),
        Figure(
            name="a million lines, until all of them are read",
            value=behind,
            unit="s",
            floor=floor,
            floor_name="journalctl -o export there",
        ),
    ]


def _settled(terminal: Terminal) -> float:
    """Seconds from the start until the journal's title says that all lines are there."""
    wanted = re.compile(rb"following[^\x1b]* 1,000,\d{3} lines")
    end = time.monotonic() + LIMIT
    while not wanted.search(terminal.seen[-1_000_000:]):
        if time.monotonic() > end:
            raise TimeoutError("the back-log was never read to its end")
        terminal.read(0.5)
    return time.monotonic() - terminal.began
