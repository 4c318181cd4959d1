"""Share of a core while watching eight GPUs and a serving model for a minute, beside nvitop and top."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

from bench.figures import Figure
from bench.metrics import RECORDED
from bench.terminal import Terminal
from bench.watched import cpu_share, host, needs, start, unit, watching

SECONDS = 60.0
SETTLED = 5.0
NVITOP = Path(".venv/nvitop")

SMI = """#!/usr/bin/python3
# Eight GPUs whose figures move each second, asked as nvidia-smi is.
import itertools, sys, time
query = next(a.partition("=")[2] for a in sys.argv if a.startswith("--query-gpu="))
if not any(a.startswith("-lms") for a in sys.argv):
    sys.exit(0)
print(query.replace(",", ", "), flush=True)
for turn in itertools.count():
    for gpu in range(8):
        values = {"index": gpu, "name": "NVIDIA Bench GPU", "uuid": f"GPU-{gpu}", "memory.total": 97887,
                  "memory.used": 88000 + turn % 7 * 300, "utilization.gpu": (turn * 7 + gpu) % 100,
                  "power.draw": 400 + (turn + gpu) % 90, "temperature.gpu": 60 + (turn + gpu) % 9,
                  "enforced.power.limit": 600, "pstate": "P0"}
        print(", ".join(str(values.get(field, "[N/A]")) for field in query.split(",")), flush=True)
    time.sleep(1)
"""
SERVE = r"""
import http.server, re, sys, time
page = open(sys.argv[1]).read()
began = time.time()
def grown(found):
    return found[1] + " " + repr(float(found[2]) * (1 + (time.time() - began) / 60))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = re.sub(r"^(vllm:[^#\n]*) (\S+)$", grown, page, flags=re.M) if "metrics" in self.path else "ok"
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_):
        pass
print("INFO:     Application startup complete.", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""


def figures() -> list[Figure]:
    needs("top", "procps")
    rows = map(json.loads, gzip.decompress(RECORDED.read_bytes()).splitlines())
    page = max((row["text"] for row in rows if row.get("code") == 200), key=len)
    with host() as (machine, home):
        machine.write("/usr/local/bin/nvidia-smi", SMI, 0o755)
        machine.write("/opt/bench/page.txt", page)
        machine.write("/opt/bench/serve.py", SERVE)
        service = unit(machine, "ExecStart=/usr/bin/python3 /opt/bench/serve.py /opt/bench/page.txt 8000\n")
        start(service)
        with watching(service, home) as terminal:
            terminal.until("READY")
            terminal.until("tok/s")
            terminal.until("°C")
            cpu_share(terminal, SETTLED)
            ours = cpu_share(terminal, SECONDS)
    with Terminal(["top", "-d", "1"]) as terminal:
        cpu_share(terminal, SETTLED)
        floor = cpu_share(terminal, SECONDS)
    theirs, why = _nvitop()
    against = f"≤ nvitop's {theirs:.1f} %" if theirs is not None else f"≤ nvitop's, left out: {why}"
    return [
        Figure(
            name="8 GPUs and a serving model, share of a core",
            value=ours * 100,
            unit="%",
            floor=floor * 100,
            floor_name="top -d 1",
            goal=against,
            good=ours * 100 <= theirs if theirs is not None else None,
        )
    ]


def _nvitop() -> tuple[float | None, str]:
    """Its share in percent at its own pace of a second, or why it is left out."""
    if shutil.which("nvidia-smi") is None:
        return None, "it needs NVML, and no NVIDIA GPU is here"
    if not (NVITOP / "bin" / "nvitop").exists():
        made = [[sys.executable, "-m", "venv", str(NVITOP)], [str(NVITOP / "bin" / "pip"), "install", "-q", "nvitop"]]
        for argv in made:
            done = subprocess.run(argv, capture_output=True, text=True)
            if done.returncode:
                return None, "pip could not install it"
    with Terminal([str(NVITOP / "bin" / "nvitop"), "--interval", "1"]) as terminal:
        cpu_share(terminal, SETTLED)
        return cpu_share(terminal, SECONDS) * 100, ""
