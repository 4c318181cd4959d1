"""Make the demo's data from recordings: ``python -m bench.make_demo [--check]``.

The load is ``gpu-h200x2/b1-ngram-cold-cache``: vLLM 0.25.1 on two H200s, from a cold page cache to ready, then a
benchmark against it. That server was started by hand; the lines of systemd before it are those of a unit with the same
unset variable, recorded on a real host (``host-systemd-ngram``), with this unit's name in them. Numbers of processes,
times and text of the load are as recorded; what the machine's disk read stands for what the unit read.

``--check`` writes nothing and fails when the data in the package is not what this makes.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from probes.export import ExportDecoder
from probes.rehearsal import HOST, UNIT
from probes.rehearsal.story import (
    Gpu,
    GpuFacts,
    GpuMoment,
    HostMoment,
    JournalRecord,
    MetricsPage,
    Process,
    Story,
)

ROOT = Path(__file__).parent.parent
LOAD = ROOT / "tests/recordings/gpu-h200x2/b1-ngram-cold-cache"
SYSTEMD = ROOT / "tests/recordings/host-systemd-ngram"
DATA = ROOT / "probes/rehearsal/data/h200x2.json.gz"

DESCRIPTION = "vLLM demo-30b-a3b, n-gram speculation"
INVOCATION = "3f0c7b9d2a6e4c5f8b1d0e9a7c6b5d4e"
BOOT = "560cde5435a24bcb8fb38fcf1cb945f2"
CHECK = (
    '/bin/bash -c "free=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits | sort -n | head -n 1);'
    ' test \\"${free}\\" -gt 120000 || true"'
)
MODEL_BYTES = 40 * 1_502_149_632  # 55.96 GiB in 40 shards on EXT4, as the log says; the size of each is not recorded
ENVIRONMENT = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS", "PYTHONUNBUFFERED", "NCCL_NVLS_ENABLE")
IDLE = 5.0
"""Seconds kept after the benchmark; the recording goes on to its end by SIGTERM, the demo stays ready."""


def main() -> int:
    story = make()
    data = msgspec.json.encode(story)
    if "--check" in sys.argv[1:]:
        same = DATA.exists() and gzip.decompress(DATA.read_bytes()) == data
        print(f"{DATA.name} is {'as made' if same else 'not what the recordings give: run python -m bench.make_demo'}")
        return 0 if same else 1
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{DATA}: {DATA.stat().st_size} bytes, {len(story.journal)} lines, {story.length:.0f} s")
    return 0


def make() -> Story:
    events = list(_rows(LOAD / "events.jsonl"))
    zero = events[0]
    moments = {event["ev"]: event["t"] for event in events}
    fields: list[dict[str, str]] = []
    systemd, started = _systemd(fields)
    shift = started - moments["server_start"]
    end = moments["bench_end"] + IDLE + shift
    facts, gpus = _gpus(shift, end)
    environment = " ".join(f"{name}={zero['env'][name]}" for name in ENVIRONMENT)
    argv = ["/opt/vllm/bin/vllm", *zero["argv"][1:]]
    lines = list(_server_lines(shift, end, fields))
    opened = next(line.at for line in lines if line.message.endswith("Application startup complete."))
    written = " ".join(_written(argument) for argument in argv)
    return Story(
        title="demo-30b-a3b on 2 × NVIDIA H200, vLLM 0.25.1",
        host=HOST,
        unit=UNIT,
        fragment=f"/etc/systemd/system/{UNIT}",
        unit_file=(
            f"[Unit]\nDescription={DESCRIPTION}\n[Service]\nEnvironment={environment}\nLimitNOFILE=20000\n"
            f"TimeoutStartSec=infinity\nExecStartPre={CHECK}\nExecStart={written}\n"
        ),
        properties={
            "Type": "simple",
            "ExecStartPre": _shown(shlex.split(CHECK)),
            "ExecStart": _shown(argv),
            "Environment": environment,
            "MemoryMax": "infinity",
            "TimeoutStartUSec": "infinity",
            "TimeoutStopUSec": "1min 30s",
            "NRestarts": "0",
            "NeedDaemonReload": "no",
        },
        argv=("/opt/vllm/bin/python3", *argv),
        invocation=INVOCATION,
        boot=BOOT,
        main_pid=moments_pid(events),
        started=started,
        opened=opened,
        length=end,
        port=8000,
        driver="580.159.04",
        memory=next(_rows(LOAD / "host.jsonl.gz"))["mem_kb"]["MemTotal"] * 1024,
        control_group=f"/system.slice/{UNIT}",
        model="/opt/models/demo-30b-a3b",
        model_bytes=MODEL_BYTES,
        model_files=40,
        model_mount="ext4",
        gpu_facts=facts,
        gpus=gpus,
        hosts=tuple(_hosts(shift, end)),
        pages=tuple(
            MetricsPage(_r(row["t"] + shift), row["text"])
            for row in _rows(LOAD / "metrics.jsonl.gz")
            if row.get("code") == 200 and row["t"] + shift <= end
        ),
        journal=(*systemd, *lines),
        fields=tuple(fields),
    )


def moments_pid(events: list[dict[str, object]]) -> int:
    return next(int(str(event["pid"])) for event in events if event["ev"] == "server_start")


def _systemd(fields: list[dict[str, str]]) -> tuple[list[JournalRecord], float]:
    """The first four lines of the recorded unit, and when it was started."""
    decoder = ExportDecoder("vllm-tiny-ngram.service")
    lines = decoder.feed(gzip.decompress((SYSTEMD / "journal.export.gz").read_bytes()))[:4]
    out = []
    for line in lines:
        record = {
            "PRIORITY": str(line.priority),
            "SYSLOG_IDENTIFIER": line.ident,
            "_PID": str(line.pid),
            "_COMM": line.comm,
            "MESSAGE_ID": line.message_id,
        }
        if line.source == "systemd":
            record |= {"UNIT": UNIT, "INVOCATION_ID": INVOCATION, "_TRANSPORT": "journal"}
        else:
            record |= _own("7c1e0e5b3a7d4f0f9b0c6f1d2e3a4b5c")
        text = line.text.replace("vllm-tiny-ngram.service", UNIT).replace("vLLM tiny n-gram", DESCRIPTION)
        out.append(JournalRecord(_r(line.at - lines[0].at), _index(fields, record), text))
    return out, out[-1].at


def _own(stream: str) -> dict[str, str]:
    return {
        "_SYSTEMD_UNIT": UNIT,
        "_SYSTEMD_INVOCATION_ID": INVOCATION,
        "_TRANSPORT": "stdout",
        "_STREAM_ID": stream,
    }


def _server_lines(shift: float, end: float, fields: list[dict[str, str]]) -> Iterator[JournalRecord]:
    """What the server printed, in records as journald makes them: one a newline, at the moment of the newline."""
    waiting = ""
    for row in _rows(LOAD / "server.jsonl"):
        if "data" not in row or row["t"] + shift > end:
            continue
        *lines, waiting = (waiting + row["data"]).split("\n")
        for line in lines:
            message = line.rstrip()
            if not message:
                continue
            found = re.match(r"\((\w+) pid=(\d+)\)", message)
            name, pid = (found[1], found[2]) if found else ("APIServer", "1793")
            comm = {"APIServer": "vllm", "EngineCore": "VLLM::EngineCor"}.get(name, "VLLM::Worker_TP")
            record = {"PRIORITY": "6", "SYSLOG_IDENTIFIER": "vllm", "_PID": pid, "_COMM": comm}
            record |= _own("0f6a4f0c6f0e4b0d8a4e5c1b2d3f4a5b")
            yield JournalRecord(_r(row["t"] + shift), _index(fields, record), message)


def _index(fields: list[dict[str, str]], record: dict[str, str]) -> int:
    record = {name: value for name, value in record.items() if value}
    if record not in fields:
        fields.append(record)
    return fields.index(record)


def _gpus(shift: float, end: float) -> tuple[tuple[GpuFacts, ...], tuple[GpuMoment, ...]]:
    first, *rows = _rows(LOAD / "nvml.jsonl.gz")
    facts = tuple(
        GpuFacts(
            name=gpu["name"],
            uuid=gpu["uuid"],
            bus=gpu["pci"],
            total=rows[0]["gpus"][index]["m2"]["total"] / 2**20,
            power_limit=gpu["power_limit_mw"] / 1000,
            pcie_gen=gpu["pcie_gen"],
            pcie_width=gpu["pcie_width"],
        )
        for index, gpu in enumerate(first["static"])
    )
    moments = []
    for row in rows:
        if "gpus" not in row or row["t"] + shift > end:
            continue
        gpus = tuple(
            Gpu(
                used=gpu["m2"]["used"] // 2**20,
                reserved=gpu["m2"]["reserved"] // 2**20,
                free=gpu["m2"]["free"] // 2**20,
                utilization=gpu["util"]["gpu"],
                memory_utilization=gpu["util"]["mem"],
                power=round(gpu["power_mw"] / 1000, 2),
                temperature=gpu["temp_c"],
                sm=gpu["sm_mhz"],
                mem=gpu["mem_mhz"],
                reasons=gpu["reasons"],
                pid=gpu["procs"][0]["pid"] if gpu["procs"] else 0,
                pid_used=(gpu["procs"][0]["used"] or 0) // 2**20 if gpu["procs"] else 0,
            )
            for gpu in row["gpus"]
        )
        moments.append(GpuMoment(_r(row["t"] + shift), gpus))
    return facts, tuple(moments)


def _hosts(shift: float, end: float) -> Iterator[HostMoment]:
    begin: int | None = None
    for row in _rows(LOAD / "host.jsonl.gz"):
        read = row["disk"]["vda"]["rd_sect"] * 512
        begin = read if begin is None else begin
        if row["t"] + shift > end:
            return
        yield HostMoment(
            _r(row["t"] + shift),
            row["mem_kb"]["MemAvailable"] * 1024,
            row["mem_kb"]["Cached"] * 1024,
            read - begin,
            tuple(
                Process(p["pid"], p["comm"], p["state"], int(p["rss_mb"] * 2**20), p["cpu_s"])
                for p in row["server_procs"]
            ),
        )


def _shown(argv: list[str]) -> str:
    """As ``systemctl show`` prints a command."""
    return f"{{ path={argv[0]} ; argv[]={' '.join(argv)} ; ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }}"  # noqa: E501


def _written(argument: str) -> str:
    """As one writes it in a unit."""
    return argument if re.fullmatch(r"[\w./:=-]+", argument) else "'" + argument + "'"


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    for line in text.decode("utf-8", "surrogateescape").split("\n"):
        if line:
            yield json.loads(line)


def _r(seconds: float) -> float:
    return round(seconds, 3)


if __name__ == "__main__":
    sys.exit(main())
