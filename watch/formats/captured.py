"""Small files beside a log: results of commands, probes and connections, metrics pages, meminfo, units.

They carry no time of their own; the caller gives one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from probes.readings import (
    BenchReading,
    CommandReading,
    HealthReading,
    IoReading,
    LinkReading,
    MetricsReading,
    ProbeReading,
    ProcessIo,
    Reading,
    Sample,
    UnitFile,
    UnitReading,
)
from probes.systemd import unit_reading
from watch.texts import duration

_ENGINE = ("vllm:", "sglang:", "vllm_", "sglang_")
METRIC = re.compile(rb"^(?:# (?:HELP|TYPE) \S|[a-zA-Z_:][\w:]*(?:\{[^\n]*\})? [-+\d.NaInfe]+\s*$)", re.MULTILINE)
SECTION = re.compile(rb"^\[(?:Unit|Service|Install|Socket|Timer)\]\s*$", re.MULTILINE)
MEMINFO = re.compile(rb"^MemTotal:\s+\d+ kB", re.MULTILINE)
SHOW = re.compile(rb"^(?:ActiveState|LoadState|MainPID)=", re.MULTILINE)
_UNITS_NAMED = re.compile(r"^# (/\S+/)?([\w@:.\\-]+\.(?:service|socket))\b", re.MULTILINE)


def unit_file(data: bytes, name: str, at: float) -> list[Reading]:
    text = data.decode("utf-8", "backslashreplace")
    named = _UNITS_NAMED.search(text)
    unit = named[2] if named is not None else ""
    return [UnitFile(at=at, unit=unit, text=text, ref=f"{name}:1")]


def shown(data: bytes, name: str, at: float) -> list[Reading]:
    """``systemctl show``."""
    reading = unit_reading(data, at=at, unit="")
    return [_with_ref(reading, f"{name}:1")]


def _with_ref(reading: UnitReading, ref: str) -> UnitReading:
    return replace(reading, ref=ref)


def meminfo(data: bytes, name: str, at: float) -> list[Reading]:
    """/proc/meminfo, or a part of it."""
    found = {
        key.decode(): int(kb) * 1024
        for key, kb in re.findall(rb"^(MemTotal|MemAvailable|Cached):\s+(\d{1,15}) kB", data, re.MULTILINE)
    }
    number = data[: data.index(b"MemTotal:")].count(b"\n") + 1
    return [
        IoReading(
            at=at,
            mem_total=found.get("MemTotal"),
            mem_available=found.get("MemAvailable"),
            page_cache=found.get("Cached"),
            ref=f"{name}:{number}",
        )
    ]


def metrics(data: bytes, name: str, at: float) -> list[Reading]:
    """A /metrics page, thinned to the engine's own samples. Lines that the parser refuses are passed over. A page ends
    with a newline: one that does not is cut short, and what its last line says may be half a figure."""
    cut = not data.endswith(b"\n") and b"\n" in data
    text = data[: data.rfind(b"\n") + 1 if cut else None].decode("utf-8", "replace")
    samples: list[Sample] = []
    error = ""
    try:
        samples = _samples(text)
    except (ValueError, KeyError, IndexError):
        kept = []
        for line in text.split("\n"):
            try:
                kept += _samples(line + "\n")
            except (ValueError, KeyError, IndexError):
                error = "parts of the page are no metrics"
        samples = kept
    page = MetricsReading(at=at, samples=tuple(samples), status=200, error=error, bytes=len(data), ref=f"{name}:1")
    return [replace(page, truncated=cut)]


def _samples(text: str) -> list[Sample]:
    return [
        Sample(sample.name, dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(_ENGINE)
    ]


def line_of_key(text: str, key: str) -> int:
    """The line on which a JSON key stands; 1 where it does not."""
    at = text.find(f'"{key}"')
    return 1 if at < 0 else text.count("\n", 0, at) + 1


class Meta:
    """What ``*.meta.json`` says about a moment: a command and how it ended, or how things stood then."""

    def __init__(self, values: Mapping[str, Any], text: str, name: str) -> None:
        self.values = values
        self.name = name
        self._text = text

    def ref(self, key: str) -> str:
        return f"{self.name}:{line_of_key(self._text, key)}"

    @property
    def silence(self) -> float | None:
        """Seconds since the last line, at the moment of capture."""
        value = self.values.get("seconds_since_last_record", self.values.get("seconds_since_last_line"))
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def command(self) -> str:
        value = self.values.get("command", self.values.get("argv", ""))
        return " ".join(map(str, value)) if isinstance(value, list) else str(value or "")

    def readings(self, at: float) -> list[Reading]:
        out: list[Reading] = []
        values = self.values
        if self.command or "exit_code" in values:
            code = values.get("exit_code")
            limit = values.get("timed_out_after_s", values.get("timeout_s"))
            seconds = values.get("seconds", limit)
            timed_out = limit is not None and code is None
            key = "timed_out_after_s" if "timed_out_after_s" in values else "command"
            out.append(
                CommandReading(
                    at=at,
                    command=self.command,
                    exit_code=code if isinstance(code, int) else None,
                    seconds=float(seconds) if isinstance(seconds, (int, float)) else None,
                    timed_out=timed_out or bool(values.get("timed_out")),
                    stderr=str(values.get("stderr") or ""),
                    stdout=str(values.get("stdout") or ""),
                    ref=self.ref(key),
                )
            )
        active = values.get("unit_active_state", values.get("active_state"))
        if active:
            out.append(
                UnitReading(
                    at=at,
                    unit=str(values.get("unit", "")),
                    load="loaded",
                    active=str(active),
                    sub=str(values.get("sub_state", "")),
                    result=str(values.get("result", "")),
                    type=str(values.get("type", values.get("unit_type", ""))),
                    ref=self.ref("unit_active_state"),
                )
            )
        status = values.get("health_http_status", values.get("health_status"))
        if isinstance(status, int):
            out.append(HealthReading(at=at, status=status, ref=self.ref("health_http_status")))
        names = values.get("host_processes")
        if isinstance(names, list):
            running = tuple(ProcessIo(pid=index, name=str(each)[:64], state="R") for index, each in enumerate(names, 1))
            out.append(IoReading(at=at, processes=running, ref=self.ref("host_processes")))
        return out


def ssh(values: Mapping[str, Any], text: str, name: str, at: float) -> list[Reading]:
    """``*.ssh.json``: an exception of the connection, its message and the moment."""
    message = str(values.get("message") or "")
    exception = str(values.get("exception") or "").rpartition(".")[2]
    alive = bool(values.get("connection_alive"))
    reached = values.get("server_reached")
    stage = str(values.get("stage") or "")
    key = "message" if message else "exception"
    reason = message if not exception or message.startswith(exception) else f"{message} ({exception})"
    ref = f"{name}:{line_of_key(text, key)}"
    if stage == "connect" and exception in ("ConnectionLost", "ConnectionResetError", "IncompleteReadError"):
        reason = f"closed before login: {reason}"
    if alive:  # the way is fine, one command on it was refused
        open_channels = values.get("open_channels")
        words = f"{open_channels}" if isinstance(open_channels, int) else ""
        return [ProbeReading(at=at, probe="ssh", state="failed", reason=reason, remedy=words, ref=ref)]
    refused = stage == "connect" and reached is not False
    return [LinkReading(at=at, state="refused" if refused else "down", reason=reason, ref=ref)]


def age(values: Mapping[str, Any]) -> dict[str, str]:
    """How old what is known is, and what it was: for a link that is gone."""
    out = {}
    seconds = values.get("seconds_since_last_bytes")
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
        out["age"] = duration(seconds)
    if values.get("last_state"):
        out["last"] = str(values["last_state"])
    return out


def probes(items: list[Any], text: str, name: str, at: float) -> list[tuple[str, Reading]]:
    """``*.probes.json``: answers of the server, as (path, reading)."""
    lines = text.split("\n")
    out: list[tuple[str, Reading]] = []
    for item in items:
        if not isinstance(item, dict) or "path" not in item:
            continue
        path = str(item["path"])
        status = item.get("status")
        number = next((n for n, line in enumerate(lines, 1) if f'"{path}"' in line), 1)
        error = str(item.get("error") or "")
        reading = HealthReading(
            at=at,
            status=status if isinstance(status, int) else None,
            error=error,
            endpoint=path,
            ref=f"{name}:{number}",
        )
        out.append((path, reading))
    return out


def bench_result(values: dict[str, Any], name: str, at: float) -> list[Reading]:
    completed, failed = values.get("completed"), values.get("failed")
    return [
        BenchReading(
            at=at,
            run=name,
            stage="result",
            done=completed if isinstance(completed, int) else None,
            failed=failed if isinstance(failed, int) else None,
            result=values,
            ref=f"{name}:1",
        )
    ]


def loads(data: bytes) -> tuple[Any, str] | None:
    """JSON and its text; None where it is none."""
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text), text
    except (ValueError, RecursionError):
        return None
