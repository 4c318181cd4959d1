"""firstlight beside what people use to follow a journal: ``journalctl -f``, lnav, toolong. ``make bench-peers``.

Every program runs under tmux, 200 × 50, on this machine, and is given the same journal of the same real host over the
same SSH server: firstlight by itself, the others by ``ssh HOST journalctl -f`` (into a pipe, for the full-screen
ones). What is on the screen is asked of tmux every few milliseconds. CPU and memory are those of all processes in the
pane, ssh included.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.delay import ticking
from bench.figures import Unable, number
from bench.watched import ALIAS, cpu_seconds, host, resident, start, unit
from tests.host.machine import Machine
from tests.host.service import Service
from tests.host.terminal import PROGRAM

TOOLONG = Path(".venv/toolong")
POLL = 0.004
"""Seconds between two looks at the screen."""
LIMIT = 180.0
ATTACHED = 6.0
"""Seconds that each has to attach before anything is said, on a busy machine too."""
LINE = "(Worker_TP0 pid=77) INFO 11-30 01:55:00 [gpu_worker.py:290] number %%.0f of many, as lines are"
TICK = re.compile(r"tick (\d+\.\d{6}) tock")


@dataclass(frozen=True)
class Peer:
    """``command``: a shell command line; ``{unit}`` and ``{ssh}`` are filled in. ``keys``: sent once it shows lines, so
    that it goes to the newest and follows. ``full``: it has a screen of its own and keeps all lines."""

    name: str
    command: str
    keys: tuple[str, ...] = ()
    full: bool = True


@dataclass
class Row:
    """What was measured of one program; None: it did not come to it within the limit."""

    name: str
    full: bool
    values: dict[str, float | None] = field(default_factory=dict)


FIGURES = {
    "first": ("s", "first lines on the screen, {lines} in the journal"),
    "newest": ("s", "newest line on the screen, {lines} in the journal"),
    "memory": ("MB", "memory with {lines} lines"),
    "idle": ("%", "share of a core, nothing new"),
    "p50": ("ms", "write to screen, median"),
    "p99": ("ms", "write to screen, 99 of 100"),
    "flood": ("lines/s", "a flood, until its last line is on the screen"),
}


class Pane:
    """A tmux server of its own with one pane; one client that asks it, so that a look costs no process."""

    def __init__(self, command: str, env: dict[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="firstlight-peers-")
        socket = str(Path(self._folder.name, "tmux"))
        self._tmux = ["tmux", "-S", socket, "-f", "/dev/null"]
        self.began = time.monotonic()
        full = {**os.environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **env}
        made = [*self._tmux, "new-session", "-d", "-x", "200", "-y", "50", f"exec sh -c {shlex.quote(command)}"]
        subprocess.run(made, env=full, check=True)
        self._client = subprocess.Popen(
            [*self._tmux, "-C", "attach", "-f", "no-output"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=full,
        )  # fmt: skip
        self._ask("refresh-client -C 200x50")
        self.pid = int(self._ask("display-message -p '#{pane_pid}'").strip())

    def _ask(self, command: str) -> str:
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        token = f"asked{time.monotonic_ns()}"
        self._client.stdin.write(f"{command}\ndisplay-message -p {token}\n".encode())
        self._client.stdin.flush()
        out: list[str] = []
        while True:
            line = self._client.stdout.readline().decode("utf-8", "replace").rstrip("\n")
            if line == token:
                return "\n".join(out)
            if not line and self._client.poll() is not None:
                raise TimeoutError("tmux has ended: the program did not run")
            if not line.startswith("%"):
                out.append(line)

    def screen(self) -> str:
        return self._ask("capture-pane -p")

    def keys(self, *keys: str) -> None:
        for key in keys:
            self._ask(f"send-keys {key}")

    def until(self, true: Callable[[str], object], limit: float = LIMIT) -> float | None:
        """Seconds from the program's start; None if it never came."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if true(self.screen()):
                return time.monotonic() - self.began
            time.sleep(POLL)
        return None

    def processes(self) -> list[int]:
        """Of the pane: its first process and all below it."""
        parents: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    parents.setdefault(parent, []).append(int(entry.name))
        found, rest = [], [self.pid]
        while rest:
            found.append(one := rest.pop())
            rest += parents.get(one, [])
        return found

    def memory(self) -> float:
        total = 0
        for pid in self.processes():
            with contextlib.suppress(OSError):
                total += resident(pid)
        return total / 1e6

    def cpu(self, seconds: float) -> float:
        """Percent of a core over this time, nobody looking."""
        before = {pid: _cpu(pid) for pid in self.processes()}
        began = time.monotonic()
        time.sleep(seconds)
        used = sum(_cpu(pid) - spent for pid, spent in before.items())
        return used / (time.monotonic() - began) * 100

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)
        self._client.wait(10)
        self._folder.cleanup()


def _cpu(pid: int) -> float:
    try:
        return cpu_seconds(pid)
    except OSError:
        return 0.0


def peers() -> Iterator[Peer]:
    """Those that can run here, the first is our own; a word on each that cannot."""
    yield Peer("firstlight", f"{PROGRAM} watch {ALIAS} {{unit}}")
    yield Peer("journalctl -f", "{ssh} journalctl -f -o cat -u {unit}", full=False)
    everything = "{ssh} journalctl -f --no-tail -o short-iso -u {unit}"
    if shutil.which("lnav"):
        yield Peer("lnav", f"{everything} | lnav -q", keys=("G",))
    else:
        print("lnav: left out: apt-get install lnav", file=sys.stderr)
    if (program := _toolong()) is not None:
        yield Peer("toolong", f"{everything} | {program}", keys=("End",))
    print("lazyjournal: left out: it is in no registry of packages that installs here", file=sys.stderr)


def _toolong() -> Path | None:
    program = TOOLONG / "bin" / "tl"
    if not program.exists():
        made = [[sys.executable, "-m", "venv", str(TOOLONG)], [str(TOOLONG / "bin/pip"), "install", "-q", "toolong"]]
        for argv in made:
            if subprocess.run(argv, capture_output=True, check=False).returncode:
                print("toolong: left out: pip could not install it", file=sys.stderr)
                return None
    return program.absolute()


@dataclass(frozen=True)
class Sizes:
    lines: int
    """of the back-log"""
    flood: int
    """lines"""
    ticks: int
    """lines that come singly"""
    idle: float
    """seconds"""


WHOLE = Sizes(1_000_000, 200_000, 40, 10.0)
SHORT = Sizes(100_000, 50_000, 15, 4.0)


def measure(peer: Peer, machine: Machine, home: Path, big: Service, sizes: Sizes) -> Row:
    row = Row(peer.name, peer.full)
    env = {"HOME": str(home)}
    ssh = f"ssh -F {home}/.ssh/config {ALIAS}"

    @contextlib.contextmanager
    def running(service: Service) -> Iterator[Pane]:
        pane = Pane(peer.command.format(unit=service.name, ssh=ssh), env)
        try:
            yield pane
        finally:
            pane.close()

    with running(big) as pane:
        row.values["first"] = pane.until(lambda screen: " of many" in screen)
        pane.keys(*peer.keys)
        row.values["newest"] = pane.until(lambda screen: f"number {sizes.lines} of" in screen)
        quiet = 0
        end = time.monotonic() + LIMIT
        while quiet < 3 and time.monotonic() < end:  # what is read behind the screen is read to its end
            still = pane.cpu(1.0) < 10 and "reading back-log" not in pane.screen()
            quiet = quiet + 1 if still else 0
        row.values["memory"] = pane.memory()
        row.values["idle"] = pane.cpu(sizes.idle)

    service = ticking(machine, sizes.ticks)
    with running(service) as pane:
        time.sleep(ATTACHED)
        start(service)
        pane.until(lambda screen: TICK.search(screen), 20)
        pane.keys(*peer.keys)
        seen: dict[str, float] = {}
        end = time.monotonic() + sizes.ticks * 0.4 + 5
        while len(seen) < sizes.ticks and time.monotonic() < end:
            screen, now = pane.screen(), time.time()
            for written in TICK.findall(screen):
                seen.setdefault(written, now - float(written))
            time.sleep(POLL)
        delays = list(seen.values())[1:]
        if len(delays) > sizes.ticks // 2:
            row.values["p50"] = statistics.median(delays) * 1000
            row.values["p99"] = statistics.quantiles(delays, n=100, method="inclusive")[98] * 1000

    text = LINE.replace("many", "a flood")
    begin = "/bin/echo 'number 0 of a flood'"
    service = unit(
        machine, f"Type=oneshot\nRemainAfterExit=yes\nExecStart={begin}\nExecStart=/bin/sleep 4\n"
        f"ExecStart=/usr/bin/seq -f '{text}' {sizes.flood}\n",
    )  # fmt: skip
    with running(service) as pane:
        time.sleep(ATTACHED)
        start(service)
        pane.until(lambda screen: "of a flood" in screen, 20)
        pane.keys(*peer.keys)
        pane.until(lambda screen: re.search(r"number [1-9]\d* of a flood", screen), 60)
        began = time.monotonic()
        if pane.until(lambda screen: f"number {sizes.flood} of" in screen) is not None:
            row.values["flood"] = sizes.flood / (time.monotonic() - began)
    return row


def figures(sizes: Sizes) -> dict[str, tuple[str, str]]:
    """Unit and words of each figure."""
    lines = "a million" if sizes.lines == 1_000_000 else f"{sizes.lines:,}"
    return {key: (of, words.format(lines=lines)) for key, (of, words) in FIGURES.items()}


def table(rows: list[Row], sizes: Sizes) -> str:
    """Markdown: a line a figure, a column a program; in brackets how many times ours it is."""
    ours = rows[0]
    out = ["| | " + " | ".join(row.name for row in rows) + " |", "|---" * (len(rows) + 1) + "|"]
    for key, (measure_unit, words) in figures(sizes).items():
        cells = []
        for row in rows:
            value, own = row.values.get(key), ours.values.get(key)
            cell = "never" if value is None else f"{number(value)} {measure_unit}"
            if row is not ours and value is not None and own:
                cell += f" ({value / own:.2g} ×)"
            cells.append(cell)
        out.append(f"| {words} | " + " | ".join(cells) + " |")
    return "\n".join(out)


def behind(rows: list[Row], sizes: Sizes) -> list[str]:
    """Where a full-screen peer is ahead of us."""
    ours, out = rows[0], []
    for row in rows[1:]:
        for key, (_, words) in figures(sizes).items():
            own, theirs = ours.values.get(key), row.values.get(key)
            if row.full and own is not None and theirs is not None:
                ahead = theirs > own if key == "flood" else theirs < own
                if ahead:
                    out.append(f"{row.name} is ahead: {words}")
    return out


def never(row: Row, sizes: Sizes) -> list[str]:
    """What the program did not come to: the only thing here that no clock is in."""
    return [words for key, (_, words) in figures(sizes).items() if row.values.get(key) is None]


def main() -> int:
    asked = argparse.ArgumentParser(prog="bench.peers")
    asked.add_argument("--short", action="store_true", help="less of everything")
    sizes = SHORT if asked.parse_args().short else WHOLE
    if shutil.which("tmux") is None:
        print("bench-peers needs tmux: apt-get install tmux", file=sys.stderr)
        return 1
    rows = []
    try:
        with host() as (machine, home):
            text = f"Type=oneshot\nRemainAfterExit=yes\nExecStart=/usr/bin/seq -f '{LINE}' {sizes.lines}\n"
            big = unit(machine, text)
            machine.run("systemctl", "start", big.name)
            for peer in peers():
                began = time.monotonic()
                try:
                    rows.append(measure(peer, machine, home, big, sizes))
                except TimeoutError as reason:
                    if not rows:
                        raise
                    print(f"{peer.name}: left out: {reason}", file=sys.stderr)
                    continue
                print(f"{peer.name} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    except Unable as reason:
        print(f"bench-peers cannot run here: {reason}", file=sys.stderr)
        return 1
    except TimeoutError as reason:
        print(f"FAILED: firstlight: {reason}", file=sys.stderr)
        return 1
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    sizes_said = f"{sizes.lines:,} lines of back-log, a flood of {sizes.flood:,}"
    print(f"{os.cpu_count()} cores, load average {load}; {sizes_said}\n")
    print(table(rows, sizes))
    print("\n".join(["", *behind(rows, sizes)]))
    missing = never(rows[0], sizes)
    if missing:
        print(f"FAILED: firstlight never came to: {', '.join(missing)}")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
