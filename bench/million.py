"""Memory of the program with a million lines of journal, over the same with none, and the time to take them in."""

from __future__ import annotations

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
            _settle(terminal)
            took = time.monotonic() - terminal.began
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
            value=took,
            unit="s",
            floor=floor,
            floor_name="journalctl -o export there",
        ),
    ]


def _settle(terminal: Terminal) -> None:
    terminal.until(f"number {LINES} of", limit=LIMIT)
