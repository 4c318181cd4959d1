"""The cost of one GPU sample on the server: the NVML agent against nvidia-smi, in CPU and in bytes over the link.

For a machine with an NVIDIA GPU and nothing but Python ≥ 3.10 and nvidia-ml-py (and torch, to fill memory)::

    python3 bench/gpu_agent.py [--seconds 20]

Both sample once a second, at the same time, while a process takes 8 GiB on each GPU and gives them back. The table
ends with how far their figures of memory in use lie apart. Exit status 1 when that is more than 64 MiB, 2 where there
is no GPU to ask.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

QUERY = (
    "index,name,uuid,pci.bus_id,memory.used,memory.total,memory.reserved,utilization.gpu,power.draw,power.limit,"
    "temperature.gpu,clocks.sm,clocks.mem,pstate,clocks_event_reasons.active,ecc.errors.uncorrected.volatile.total,"
    "pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max"
)
FILL = """
import sys, time, torch
held = [torch.empty(8 << 30, dtype=torch.uint8, device=f"cuda:{i}") for i in range(torch.cuda.device_count())]
torch.cuda.synchronize()
print("full", flush=True)
sys.stdin.readline()
"""
TICKS = os.sysconf("SC_CLK_TCK")


class Sampler:
    """A command that prints samples: how much CPU it used, how many bytes it wrote, and its lines with their times."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.lines: list[tuple[float, str]] = []
        self.bytes = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.bytes += len(line)
            self.lines.append((time.time(), line.decode(errors="replace")))

    def cpu(self) -> float:
        """CPU seconds so far, of all its threads, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def close(self) -> int:
        """End it as the product does (its input ends; nvidia-smi needs a signal); its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            return self.process.wait(10)


def agent_memory(line: str) -> dict[int, float]:
    """GPU → MiB in use, of one line of the agent; empty for a line that is no sample."""
    record: dict[str, Any] = json.loads(line)
    from probes.nvml_agent import FIELDS

    used = 1 + FIELDS.index("used")
    return {row[0]: row[used] for row in record.get("g", ()) if row[used] is not None}


def smi_memory(line: str) -> dict[int, float]:
    """The same of one row of nvidia-smi."""
    cells = [cell.strip() for cell in line.split(",")]
    return {int(cells[0]): float(cells[4])} if len(cells) > 4 and cells[0].isdigit() else {}


def compare(agent: Sampler, smi: Sampler) -> tuple[list[float], float, float]:
    """Differences in MiB between each sample of the agent and nvidia-smi's nearest one of the same GPU (within half a
    second, away from the moments when memory changes), and the highest and lowest figure that the agent saw."""
    rows = [(at, gpu, used) for at, line in smi.lines for gpu, used in smi_memory(line).items()]
    apart, seen = [], []
    for at, line in agent.lines:
        for gpu, used in agent_memory(line).items():
            seen.append(used)
            near = [(abs(t - at), value) for t, g, value in rows if g == gpu and abs(t - at) < 1.5]
            if len(near) >= 2 and max(value for _, value in near) - min(value for _, value in near) < 16:
                apart.append(abs(min(near)[1] - used))
    return apart, max(seen, default=0.0), min(seen, default=0.0)


def main() -> int:
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--seconds", type=float, default=20.0)
    args = asked.parse_args()
    root = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(root))
    agent = Sampler([sys.executable, str(root / "probes" / "nvml_agent.py"), "1.0"])
    try:
        smi = Sampler(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits", "-lms", "1000"])
    except FileNotFoundError:
        agent.close()
        print("no nvidia-smi on this machine", file=sys.stderr)
        return 2
    time.sleep(3)
    if not agent.lines or '"error"' in agent.lines[0][1]:
        print(f"the agent says: {agent.lines[0][1] if agent.lines else 'nothing'}", file=sys.stderr)
        agent.close()
        smi.close()
        return 2
    counted = [(s, s.cpu(), s.bytes, len(s.lines)) for s in (agent, smi)]
    began = time.monotonic()
    filler = subprocess.Popen([sys.executable, "-c", FILL], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert filler.stdout is not None
    assert filler.stdin is not None
    filler.stdout.readline()
    time.sleep(args.seconds / 2)
    filler.stdin.close()
    filler.wait()
    time.sleep(max(0.0, args.seconds - (time.monotonic() - began)))
    passed = time.monotonic() - began
    gpus = len({gpu for _, line in agent.lines for gpu in agent_memory(line)})
    print(f"{gpus} GPUs, one sample a second, {passed:.0f} s; {json.loads(agent.lines[0][1])}")
    print(f"{'':12} {'samples':>8} {'CPU ms a sample':>16} {'bytes a sample':>15}")
    figures = []
    for sampler, cpu, size, lines in counted:
        samples = (len(sampler.lines) - lines) / (1 if sampler is agent else gpus)
        spent, sent = (sampler.cpu() - cpu) * 1000 / samples, (sampler.bytes - size) / samples
        figures.append((spent, sent))
        name = "NVML agent" if sampler is agent else "nvidia-smi"
        print(f"{name:12} {samples:8.0f} {spent:16.2f} {sent:15.0f}")
    print(f"agent : nvidia-smi  CPU 1 : {figures[1][0] / max(figures[0][0], 0.01):.1f}, "
          f"bytes 1 : {figures[1][1] / figures[0][1]:.2f}")  # fmt: skip
    statuses = agent.close(), smi.close()
    apart, most, least = compare(agent, smi)
    print(f"memory in use, agent: {least:.0f} to {most:.0f} MiB; {len(apart)} pairs of samples, "
          f"apart by {statistics.median(apart):.1f} MiB (median), {max(apart):.1f} (most)")  # fmt: skip
    print(f"ended with {statuses[0]} and {statuses[1]}; left behind: {os.path.exists(f'/proc/{agent.process.pid}')}")
    return 0 if max(apart) <= 64 and most - least > 8000 else 1


if __name__ == "__main__":
    sys.exit(main())
