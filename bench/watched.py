"""The program itself in a terminal, watching a unit of the real host: what the benchmarks of the screen stand on."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Unable
from bench.terminal import Terminal
from tests.host.machine import KEY, Machine, obstacle
from tests.host.service import Service, fresh_name
from tests.host.terminal import PROGRAM

ALIAS = "llm-two"


@contextlib.contextmanager
def host() -> Iterator[tuple[Machine, Path]]:
    """A booted host, and a home folder whose ssh_config knows it as ``llm-two``."""
    if reason := obstacle():
        raise Unable(reason)
    with Machine(ALIAS) as machine, tempfile.TemporaryDirectory(prefix="firstlight-bench-") as folder:
        keys = Path(folder, ".ssh")
        keys.mkdir(mode=0o700)
        (keys / "known_hosts").write_text(f"[127.0.0.1]:{machine.port} {machine.host_key}\n")
        (keys / "config").write_text(
            f"Host {ALIAS}\n  HostName 127.0.0.1\n  Port {machine.port}\n  User root\n"
            f"  IdentityFile {KEY}\n  IdentitiesOnly yes\n  UserKnownHostsFile {keys}/known_hosts\n"
        )
        machine.write("/etc/systemd/journald.conf.d/flood.conf", "[Journal]\nSystemMaxUse=4G\nRateLimitIntervalSec=0\n")
        machine.run("systemctl", "restart", "systemd-journald")
        yield machine, Path(folder)


def unit(machine: Machine, text: str) -> Service:
    """A unit of the host with this [Service] section."""
    service = Service(machine, fresh_name("vllm-bench"))
    service.write(f"[Service]\n{text}")
    return service


def start(service: Service) -> None:
    service.machine.run(*service.systemctl("start", "--no-block", service.name))


@contextlib.contextmanager
def watching(service: Service, home: Path) -> Iterator[Terminal]:
    """``firstlight watch`` of it, 200 × 50, with its first screen drawn and the link up."""
    env = {"HOME": str(home), "LANG": "C.UTF-8"}
    with Terminal([str(PROGRAM), "watch", ALIAS, service.name], env=env) as terminal:
        terminal.until(service.name)
        yield terminal


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its threads so far (utime + stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Bytes of memory that are its own (Pss; falls back to VmRSS)."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no memory figures of {pid}")


def cpu_share(terminal: Terminal, seconds: float) -> float:
    """Share of one core that the program takes over this time, its output read meanwhile."""
    pid = terminal.process.pid
    began, before = time.monotonic(), cpu_seconds(pid)
    while time.monotonic() < began + seconds:
        terminal.read(0.2)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began)


def needs(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise Unable(f"it needs {program}: apt-get install {package}")
