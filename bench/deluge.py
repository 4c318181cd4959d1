"""50,000 lines a second for a minute: nothing lost, keys answered, the pane says that it draws only some.

FIRSTLIGHT_DELUGE_SECONDS shortens it. What journald does not take in time is its writer's wait, not a loss.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from pathlib import Path

from bench.figures import Figure
from bench.flood import ANSWER
from bench.terminal import Terminal
from bench.watched import cpu_share, host, start, unit, watching
from probes.readings import JournalLine
from watch.session import SessionReader

SHORT = 10.0
SECONDS = float(os.environ.get("FIRSTLIGHT_DELUGE_SECONDS", "60"))
RATE = 50_000
LIMIT = 900.0
LEAVE = 120.0
PATIENCE = 10.0
SAMPLED = b"not each is drawn"
LAST = b"that was"
NUMBER = re.compile(r" line (\d+)$")
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
    return _figures(SECONDS)


def short() -> list[Figure]:
    return _figures(SHORT)


def _figures(seconds: float) -> list[Figure]:
    with host() as (machine, home):
        machine.write("/opt/deluge.py", SCRIPT)
        service = unit(
            machine, f"LogRateLimitIntervalSec=0\nExecStart=/usr/bin/python3 /opt/deluge.py {seconds} {RATE}\n"
        )
        with watching(service, home) as terminal:
            cpu_share(terminal, 5)
            start(service)
            began = time.monotonic()
            cpu_share(terminal, min(3.0, seconds / 3))
            said = SAMPLED in terminal.seen
            took: list[float] = []
            while len(took) < 2 or (LAST not in terminal.seen and time.monotonic() < began + LIMIT):
                took.append(_answer(terminal))
                said = said or SAMPLED in terminal.seen
            done = time.monotonic() - began
            if LAST not in terminal.seen:
                raise TimeoutError(f"its last line was not on the screen {LIMIT:g} s after its first")
            _leave(terminal)
        held = int(machine.run("sh", "-c", f"journalctl -u {service.name} -o cat --no-pager | wc -l").text)
        recorded, wrong = _recorded(home)
    slow = statistics.quantiles(took, n=20, method="inclusive")[18] * 1000
    return [
        Figure(name=f"50,000 lines/s for {seconds:g} s: lines recorded", value=recorded, unit="lines", floor=held,
               floor_name="held by the host", goal="all of them", good=recorded == held, must=True),
        Figure(name="… lines recorded twice or out of order", value=wrong, unit="lines", goal="0", good=not wrong,
               must=True),
        Figure(name="… the pane says that not each line is drawn", value=float(said), unit="", goal="1", good=said,
               must=True),
        Figure(name="… until its last line was on the screen", value=done, unit="s", floor=seconds,
               floor_name="as written"),
        Figure(name="… a key answered, median", value=statistics.median(took) * 1000, unit="ms",
               goal="≤ 100 ms", good=statistics.median(took) <= 0.1),
        Figure(name="… a key answered, 95 of 100", value=slow, unit="ms"),
    ]  # fmt: skip


def _answer(terminal: Terminal) -> float:
    terminal.seen = terminal.seen[-50_000:]
    at = len(terminal.seen)
    began = time.monotonic()
    terminal.send("/")
    while ANSWER not in terminal.seen[at:] and time.monotonic() < began + PATIENCE:
        terminal.read(0.5)
    took = time.monotonic() - began
    terminal.send("\r")  # escape and the next "/" read together would be another key
    cpu_share(terminal, 0.4)
    return took


def _leave(terminal: Terminal) -> None:
    """It is read to its end: what is drawn until then would not be taken, and it would wait."""
    terminal.send("q")
    end = time.monotonic() + LEAVE
    while terminal.process.poll() is None:
        if time.monotonic() > end:
            raise TimeoutError("it was not left by q")
        terminal.read(0.5)


def _recorded(home: Path) -> tuple[int, int]:
    """Lines of the unit and about it in the one recording, each cursor counted once; how many of all are there again,
    or after one that was written later."""
    (path,) = (home / ".local/state/firstlight/sessions").glob("*.jsonl*")
    seen: set[int] = set()
    wrong, newest = 0, -1
    with SessionReader(path) as reader:
        for _, one in reader:
            if not isinstance(one, JournalLine) or one.source not in ("unit", "systemd"):
                continue
            number = int(found[1]) if (found := NUMBER.search(one.text)) else newest
            cursor = hash(one.cursor)  # as text they would take a gigabyte
            wrong += cursor in seen or number < newest
            newest = max(newest, number)
            seen.add(cursor)
    return len(seen), wrong
