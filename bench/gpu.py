"""On a machine with an NVIDIA GPU: share of a core while watching it and a serving model for a minute, beside nvitop.

The machine needs no systemd: ``systemctl`` and ``journalctl`` are played, the GPUs are real and read through NVML in
process, as for ``firstlight watch local``; nvitop reads the same NVML from the same kind of terminal.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, Unable
from bench.machine import SECONDS, SERVE, SETTLED
from bench.metrics import RECORDED
from bench.terminal import Terminal
from bench.watched import cpu_share

ROOT = Path(__file__).resolve().parent.parent
INVOCATION = "0" * 31 + "1"
SYSTEMCTL = """#!/bin/sh
case "$*" in
*" show "*) cat <<'END'
Id=bench.service
LoadState=loaded
ActiveState=active
SubState=running
Result=success
Type=simple
InvocationID={invocation}
MainPID={pid}
ExecStart={{ path=/usr/bin/vllm ; argv[]=/usr/bin/vllm serve model --port {port} ; ignore_errors=no }}
InactiveExitTimestamp={started}
ActiveEnterTimestamp={started}
END
;;
*" cat "*) printf '[Service]\\nExecStart=/usr/bin/vllm serve model --port {port}\\n' ;;
esac
"""
JOURNALCTL = """#!/bin/sh
case "$*" in *--follow*) ;; *) exit 0 ;; esac
cat <<'END'
__CURSOR=s=1;i=1
__REALTIME_TIMESTAMP={micros}
_SYSTEMD_UNIT=bench.service
_SYSTEMD_INVOCATION_ID={invocation}
_PID={pid}
_TRANSPORT=stdout
PRIORITY=6
MESSAGE=INFO:     Application startup complete.

END
exec sleep 3600
"""


def figures() -> list[Figure]:
    if shutil.which("nvidia-smi") is None:
        raise Unable("no NVIDIA GPU here (no nvidia-smi on the path)")
    with _scene() as env:
        program = [sys.executable, "-c", "from tui.cli import main; main()", "watch", "local", "bench", "--no-record"]
        with Terminal(program, env=env) as terminal:
            for word in ("READY", "tok/s", "°C"):
                terminal.until(word)
            cpu_share(terminal, SETTLED)
            ours = cpu_share(terminal, SECONDS) * 100
    theirs, top = _nvitop(), _top()
    rows = [("nvitop, one second", theirs), ("top -d 1", top)]
    return [
        Figure(
            name="GPUs and a serving model, local, share of a core",
            value=ours,
            unit="%",
            floor=floor,
            floor_name=name if floor is not None else f"{name}: not here",
            goal="≤ nvitop's" if number == 0 else "",
            good=ours <= floor if number == 0 and floor is not None else None,
        )
        for number, (name, floor) in enumerate(rows)
    ]


@contextlib.contextmanager
def _scene() -> Iterator[dict[str, str]]:
    """A serving model on a free port and the played tools; the environment in which they are found."""
    rows = map(json.loads, gzip.decompress(RECORDED.read_bytes()).splitlines())
    page = max((row["text"] for row in rows if row.get("code") == 200), key=len)
    with tempfile.TemporaryDirectory(prefix="firstlight-bench-") as name:
        folder = Path(name)
        (folder / "page.txt").write_text(page)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(folder / "page.txt"), str(port)], stdout=subprocess.DEVNULL
        )
        now = time.time()
        facts = {
            "invocation": INVOCATION,
            "pid": server.pid,
            "port": port,
            "micros": int(now * 1e6),
            "started": time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(now - 60)),
        }
        for tool, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
            (folder / tool).write_text(text.format_map(facts))
            (folder / tool).chmod(0o755)
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        try:
            yield {
                "PATH": f"{folder}:{os.environ['PATH']}",
                "HOME": name,
                "LANG": "C.UTF-8",
                "PYTHONPATH": os.pathsep.join(paths),
            }
        finally:
            server.terminate()
            server.wait()


def _nvitop() -> float | None:
    """Its share in percent at its own pace of a second; None where it is not installed or does not run."""
    if importlib.util.find_spec("nvitop") is None:
        return None
    with Terminal([sys.executable, "-m", "nvitop", "--interval", "1"]) as terminal:
        try:
            terminal.until("NVITOP", 20)
        except TimeoutError as reason:
            print(f"nvitop does not show its screen: {reason}", file=sys.stderr)
            return None
        cpu_share(terminal, SETTLED)
        return cpu_share(terminal, SECONDS) * 100


def _top() -> float | None:
    if shutil.which("top") is None:
        return None
    with Terminal(["top", "-d", "1"]) as terminal:
        cpu_share(terminal, SETTLED)
        return cpu_share(terminal, SECONDS) * 100
