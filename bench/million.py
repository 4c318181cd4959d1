"""Memory of the program with a million lines of journal, over the same with none, and the time to take them in."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time

from bench.figures import Figure
from bench.terminal import Terminal
from bench.watched import cpu_seconds, cpu_share, host, resident, start, unit, watching

LINES = 1_000_000
MEMORY = 80.0
SHORT = 200_000
SHORT_MEMORY = 40.0
"""MB; each of these lines kept in memory would take more."""
LIMIT = 300.0


def figures() -> list[Figure]:
    return _figures(LINES, "a million lines", MEMORY)


def short() -> list[Figure]:
    return _figures(SHORT, f"{SHORT:,} lines", SHORT_MEMORY)


def _figures(lines: int, words: str, allowed: float) -> list[Figure]:
    with host() as (machine, home):
        quiet = unit(machine, "ExecStart=/bin/sleep 600\n")
        start(quiet)
        with watching(quiet, home) as terminal:
            cpu_share(terminal, 8)
            empty = resident(terminal.process.pid)
        text = "(Worker_TP0 pid=77) INFO 11-30 01:55:00 [gpu_worker.py:290] number %%.0f of many, as lines are"
        service = unit(machine, f"Type=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/seq -f '{text}' {lines}\n")
        machine.run("systemctl", "start", service.name)
        began = time.monotonic()
        machine.run("sh", "-c", f"journalctl -u {service.name} -o export --output-fields=MESSAGE >/dev/null")
        floor = time.monotonic() - began
        with watching(service, home) as terminal:
            first = terminal.until(f"number {lines} of", limit=LIMIT)
            spent = cpu_seconds(terminal.process.pid)
            terminal.until("reading back-log")
            behind = _settled(terminal, lines)
            cpu_share(terminal, 3)  # memory is given back once it is quiet
            full = resident(terminal.process.pid)
    more = (full - empty) / 1e6
    return [
        Figure(
            name=f"{words}, memory over the empty program",
            value=more,
            unit="MB",
            floor=empty / 1e6,
            floor_name="the program with no line",
            goal=f"≤ {allowed:g} MB",
            good=more <= allowed,
            must=True,
        ),
        Figure(
            name=f"{words}, until the newest is on the screen",
            value=first,
            unit="s",
            floor=floor,
            floor_name="journalctl -o export there",
            goal="≤ 2 s",
            good=first <= 2,
        ),
        Figure(
            name=f"{words}, CPU time until the newest is on the screen",
            value=spent,
            unit="s",
            floor=_bare_import(),
            floor_name="python -c 'import asyncssh, textual.app'",
        ),
        Figure(
            name=f"{words}, until all of them are read",
            value=behind,
            unit="s",
            floor=floor,
            floor_name="journalctl -o export there",
        ),
    ]


def _settled(terminal: Terminal, lines: int) -> float:
    """Seconds from the start until the journal's title says that all lines are there: a thousand at most are those
    that systemd says about the unit."""
    wanted = re.compile(rb"following[^\x1b]* %b,\d{3} lines" % f"{lines // 1000:,}".encode())
    end = time.monotonic() + LIMIT
    while not wanted.search(terminal.seen[-1_000_000:]):
        if time.monotonic() > end:
            raise TimeoutError("the back-log was never read to its end")
        terminal.read(0.5)
    return time.monotonic() - terminal.began


def _bare_import() -> float:
    """CPU seconds: what any such program spends before its first line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import asyncssh, textual.app"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
