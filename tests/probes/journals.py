"""Journals for tests: an encoder of the export format of its own, and real journal files made with it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

JOURNAL_REMOTE = Path("/lib/systemd/systemd-journal-remote")
"""From Debian's systemd-journal-remote: turns export text into a real journal file."""

HAS_JOURNALCTL = shutil.which("journalctl") is not None
SEQUENCE = "fabaeb6149194778984fe67ec38efd27"
BOOT = "f40198bc513746248dff58a426b6622f"
INVOCATION = "136a8d0552214b43b85894d8cf6d0b51"


def plain(value: bytes) -> bool:
    """Whether journald writes it as ``NAME=value``: valid UTF-8, no control character but the tab."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return all(char == "\t" or (char >= " " and char != "\x7f") for char in text)


def record(fields: Iterable[tuple[str, bytes]], *, binary: bool = False) -> bytes:
    """One record. ``binary``: every field in the form with a length."""
    out = b""
    for name, value in fields:
        if not binary and plain(value):
            out += name.encode() + b"=" + value + b"\n"
        else:
            out += name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"
    return out + b"\n"


def head(number: int, at: float = 0.0, *, sequence: str = SEQUENCE) -> list[tuple[str, bytes]]:
    micros = round((at or 1796009895 + number / 1000) * 1e6)
    cursor = f"s={sequence};i={number:x};b={BOOT};m={number:x};t={micros:x};x=1c9a028ffe406b12"
    return [
        ("__CURSOR", cursor.encode()),
        ("__REALTIME_TIMESTAMP", str(micros).encode()),
        ("__MONOTONIC_TIMESTAMP", str(1080756121 + number).encode()),
        ("__SEQNUM", str(number).encode()),
        ("__SEQNUM_ID", sequence.encode()),
        ("_BOOT_ID", BOOT.encode()),
    ]


def said(number: int, message: bytes, *, at: float = 0.0, binary: bool = False, **fields: str) -> bytes:
    """A line of vllm.service, as journald 257 orders it (message in the middle)."""
    named = {
        "PRIORITY": "6",
        "_SYSTEMD_UNIT": "vllm.service",
        "_SYSTEMD_INVOCATION_ID": INVOCATION,
        "_TRANSPORT": "stdout",
        "SYSLOG_IDENTIFIER": "vllm",
        "_STREAM_ID": "f6a9e0f21a462f7c3a3ebf0f2721885c",
        "MESSAGE": "",
        "_PID": "117",
        "_COMM": "vllm",
    } | fields
    return record(
        [
            *head(number, at),
            *(
                (name, message if name == "MESSAGE" else value.encode())
                for name, value in named.items()
                if value or name == "MESSAGE"
            ),
        ],
        binary=binary,
    )


def from_json(lines: str) -> list[dict[str, bytes]]:
    """``journalctl -o json`` records as bytes, whichever way JSON had to say them."""
    return [{name: as_bytes(value) for name, value in json.loads(line).items()} for line in lines.splitlines()]


def as_bytes(value: object) -> bytes:
    if isinstance(value, list):
        if all(isinstance(part, int) for part in value):
            return bytes(value)
        return b"\n".join(as_bytes(part) for part in value)
    return b"" if value is None else str(value).encode()


def export_of(records: Sequence[Mapping[str, bytes]]) -> bytes:
    return b"".join(record(fields.items()) for fields in records)


def write_journal(path: Path, export: bytes) -> None:
    """Appends to (or makes) a real journal file."""
    subprocess.run([JOURNAL_REMOTE, "-o", path, "-"], input=export, check=True, capture_output=True)


BOOTED = f'case "$1" in /proc/sys/kernel/random/boot_id) echo {BOOT} ;; *) exec /bin/cat "$@" ;; esac'
"""A ``cat`` on a host that is in the boot of these journals."""
