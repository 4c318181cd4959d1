"""50,000 lines a second for a minute: nothing lost, keys answered, the pane says that it draws only some.

FIRSTLIGHT_DELUGE_SECONDS shortens it. What journald does not take in time is its writer's wait, not a loss.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from bench.figures import Figure
from bench.flood import ANSWER
from bench.terminal import Terminal
from bench.watched import cpu_share, host, start, unit, watching
from probes.readings import JournalLine
from watch.session import SessionReader

SECONDS = float(os.environ.get("FIRSTLIGHT_DELUGE_SECONDS", "60"))
RATE = 50_000
LIMIT = 900.0
SCRIPT = """
import sys, time
seconds, rate = float(sys.argv[1]), int(sys.argv[2])
began, n = time.monotonic(), 0
while n < seconds * rate:
    due = min(int((time.monotonic() - began) * rate), n + 5000)
    print("\\n".join(f"(Worker_TP0 pid=77) INFO 11-30 01:55:00 [x.py:1] line {i}" for i in range(n, due)), flush=True)
    n = max(n, due)
    time.sleep(0.005)
print(f"that was {n} lines in {time.monotonic() - began:.1f} s", flush=True)
time.sleep(600)
"""


def figures() -> list[Figure]:
    with host() as (machine, home):
        machine.write("/opt/deluge.py", SCRIPT)
        service = unit(
            machine, f"LogRateLimitIntervalSec=0\nExecStart=/usr/bin/python3 /opt/deluge.py {SECONDS} {RATE}\n"
        )
        with watching(service, home) as terminal:
            cpu_share(terminal, 5)
            start(service)
            began = time.monotonic()
            cpu_share(terminal, min(3.0, SECONDS / 3))
            took: list[float] = []
            said = False
            while b"that was" not in terminal.seen[-20_000:] and time.monotonic() < began + LIMIT:
                took += _answer(terminal)
                said = said or b"not each is drawn" in terminal.seen
            done = time.monotonic() - began
            terminal.until("that was", LIMIT)
            terminal.send("q")
            terminal.process.wait(120)
        held = int(machine.run("sh", "-c", f"journalctl -u {service.name} -o cat --no-pager | wc -l").text)
        recorded = _recorded(home)
    slow = statistics.quantiles(took, n=20)[18] * 1000
    return [
        Figure(name="50,000 lines/s: lines recorded", value=recorded, unit="lines", floor=held,
               floor_name="held by the host", goal="all of them", good=recorded == held),
        Figure(name="… until its last line was on the screen", value=done, unit="s", floor=SECONDS,
               floor_name="as written"),
        Figure(name="… a key answered, median", value=statistics.median(took) * 1000, unit="ms",
               goal="≤ 100 ms", good=statistics.median(took) <= 0.1),
        Figure(name="… a key answered, 95 of 100", value=slow, unit="ms"),
        Figure(name="… the pane says that not each line is drawn", value=float(said), unit="", goal="1", good=said),
    ]  # fmt: skip


def _answer(terminal: Terminal) -> list[float]:
    terminal.seen = terminal.seen[-50_000:]
    at = len(terminal.seen)
    began = time.monotonic()
    terminal.send("/")
    while ANSWER not in terminal.seen[at:]:
        if time.monotonic() > began + 10:
            return [10.0]
        terminal.read(0.5)
    took = time.monotonic() - began
    terminal.send("\x1b")
    cpu_share(terminal, 0.4)
    return [took]


def _recorded(home: Path) -> int:
    """Lines of the unit and about it in the one recording, each cursor counted once."""
    (path,) = (home / ".local/state/firstlight/sessions").glob("*.jsonl*")
    with SessionReader(path) as reader:
        lines = [one.cursor for _, one in reader if isinstance(one, JournalLine) and one.source in ("unit", "systemd")]
    assert len(set(lines)) == len(lines)
    return len(lines)
