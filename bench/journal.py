"""Entries a second through decoding and folding, beside journalctl producing the very same bytes.

What a journal of 200,000 entries holds in life: a server's ordinary lines and requests, and one in fifty a step of a
loading bar, which costs the fold many times an ordinary line. (bench.catalogue folds a recorded load over and over.)
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, Unable
from probes.entry import FIELDS
from probes.export import ExportDecoder
from watch.state import WatchState

ENTRIES = 200_000
UNIT = "vllm-bench.service"
BAR_EACH = 50
PIECE = 1 << 16
"""bytes handed over at once, as they come from the link"""
REMOTE = Path("/lib/systemd/systemd-journal-remote")

LINES = (
    "(EngineCore pid=4100) INFO 11-30 01:55:%02d [core.py:112] Initializing a V1 LLM engine, step %d of many, and well",
    "(Worker_TP0 pid=4101) INFO 11-30 01:55:%02d [gpu_worker.py:290] a line of the ordinary kind, number %d",
    '(APIServer pid=4099) INFO:     10.1.2.3:5%04d - "POST /v1/chat/completions HTTP/1.1" 200 OK %d',
    "\rLoading safetensors checkpoint shards:  %d%% Completed | %d/200000 [00:01<00:01, 23.63it/s]",
)


def figures() -> list[Figure]:
    if not REMOTE.exists() or shutil.which("journalctl") is None:
        raise Unable("it needs systemd-journal-remote: apt-get install systemd-journal-remote")
    with tempfile.TemporaryDirectory(prefix="firstlight-bench-") as folder:
        journal = Path(folder, "bench.journal")
        _write(journal)
        command = [
            "journalctl",
            f"--file={folder}/*.journal",
            "-o",
            "export",
            f"--output-fields={','.join(FIELDS)}",
            "--no-pager",
        ]
        began = time.monotonic()
        exported = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
        floor = time.monotonic() - began
    decoding = _decode(exported)
    both = _decode_and_fold(exported)
    speed = ENTRIES / floor
    return [
        Figure(
            name="journal, decoded and folded",
            value=ENTRIES / both,
            unit="entries/s",
            floor=speed,
            floor_name="journalctl -o export",
            goal="≥ 3 ×",
            good=ENTRIES / both >= 3 * speed,
        ),
        Figure(
            name="journal, decoded only",
            value=ENTRIES / decoding,
            unit="entries/s",
            floor=speed,
            floor_name="journalctl -o export",
        ),
    ]


def _write(path: Path) -> None:
    start = 1_796_000_000_000_000
    with subprocess.Popen(
        [REMOTE, f"--output={path}", "-"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as remote:
        assert remote.stdin is not None
        for number in range(ENTRIES):
            bar = number % BAR_EACH == 0
            text = (LINES[-1] if bar else LINES[number % (len(LINES) - 1)]) % (number % 60, number)
            message = text.encode()
            head = (
                f"__REALTIME_TIMESTAMP={start + number * 250}\n__MONOTONIC_TIMESTAMP={number * 250 + 1}\n"
                f"_BOOT_ID={'0' * 31}1\n_TRANSPORT=stdout\n_PID={4099 + number % 3}\n_COMM=vllm\nPRIORITY=6\n"
                f"SYSLOG_IDENTIFIER=vllm\n_SYSTEMD_UNIT={UNIT}\n_SYSTEMD_INVOCATION_ID={'a' * 32}\n_UID=0\n"
                f"_MACHINE_ID={'b' * 32}\n_HOSTNAME=llm-two\n_SYSTEMD_CGROUP=/system.slice/{UNIT}\n"
                f"_STREAM_ID={'c' * 32}\n"
            ).encode()
            if message.startswith(b"\r"):
                field = b"MESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\n\n"
            else:
                field = b"MESSAGE=" + message + b"\n\n"
            remote.stdin.write(head + field)
        remote.stdin.close()
    if remote.returncode:
        raise Unable("systemd-journal-remote could not write a journal")


def _decode(exported: bytes) -> float:
    began = time.monotonic()
    decoder = ExportDecoder(UNIT)
    lines = sum(len(decoder.feed(exported[at : at + PIECE])) for at in range(0, len(exported), PIECE))
    lines += len(decoder.close())
    took = time.monotonic() - began
    assert lines == ENTRIES, f"{lines} lines of {ENTRIES}"
    return took


def _decode_and_fold(exported: bytes) -> float:
    began = time.monotonic()
    decoder = ExportDecoder(UNIT)
    state = WatchState("llm-two", UNIT)
    for at in range(0, len(exported), PIECE):
        state.apply_lines(decoder.feed(exported[at : at + PIECE]))
    state.apply_lines(decoder.close())
    return time.monotonic() - began
