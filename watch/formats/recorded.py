"""Recordings of a server's output as it came through a pipe: ``{"t": seconds, "b" or "data": bytes}`` a read.

Lines are cut anywhere between reads; a line's time is that of the read which completed it. Other files of such a
recording: answers of /health (``probe.jsonl``, ``health.jsonl``).
"""

from __future__ import annotations

import json
from typing import Any

from probes.readings import HealthReading, JournalLine, Reading
from watch.formats.records import JsonRecords


class Recorded:
    """Feed it blocks of whole lines. ``zero``: UTC seconds of the recording's clock zero, where it is known."""

    def __init__(self, name: str, *, zero: float = 0.0, bench: bool = False) -> None:
        self.name = name
        self.lines = 0
        self.kind = ""
        self.zero = zero
        self._bench = bench
        self._rest: dict[str, tuple[bytes, int]] = {}
        self._last = 0.0
        self._silent = False
        """its bytes are no log"""
        self._records = JsonRecords(name)

    def block(self, block: bytes) -> list[Reading]:
        out: list[Reading] = []
        for raw in block.split(b"\n"):
            if not raw and self.lines and block.endswith(b"\n"):
                continue
            self.lines += 1
            if not raw.strip():
                continue
            try:
                record = json.loads(raw)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                self._record(record, out)
        return out

    def close(self) -> list[Reading]:
        """What was left without an end of line."""
        out: list[Reading] = []
        for stream in list(self._rest):
            self._bytes(stream, b"\n", self._last, out)
        return out

    def _record(self, record: dict[str, Any], out: list[Reading]) -> None:
        meta = record.get("meta")
        if isinstance(meta, dict):
            started = meta.get("started", meta.get("t0"))
            if isinstance(started, (int, float)) and started > 1e8:
                self.zero = float(started)
            command = meta.get("cmd", meta.get("argv", ""))
            words = [str(word) for word in command] if isinstance(command, list) else str(command).split()
            self._bench = self._bench or "bench" in words
            self._silent = bool(words) and words[0].rpartition("/")[2] == "nvidia-smi"
            return
        t = record.get("t", record.get("dt"))
        if not isinstance(t, (int, float)):
            return
        at = self._last = max(0.0, self.zero + float(t))
        if "b" in record or "data" in record:
            data = _data(record)
            if data and not self._silent:
                self._bytes(str(record.get("s", "")), data, at, out)
        elif record.get("path") == "/health" or (
            "code" in record and "body" in record and len(str(record["body"])) < 400
        ):
            self._health(record, at, out)

    def _bytes(self, stream: str, data: bytes, at: float, out: list[Reading]) -> None:
        before, begun = self._rest.pop(stream, (b"", self.lines))
        pieces = (before + data).split(b"\n")
        rest = pieces.pop()
        for index, piece in enumerate(pieces):
            text = piece.removesuffix(b"\r").decode("utf-8", "backslashreplace")
            number = begun if index == 0 and before else self.lines
            if text.startswith("{") and '"__REALTIME_TIMESTAMP"' in text:  # journalctl -f -o json was recorded
                out.extend(self._records.record(piece, f"{self.name}:{number}"))
            elif text:
                out.append(
                    JournalLine(
                        at=at,
                        text=text,
                        source="other" if self._bench else "unit",
                        ident="vllm-bench" if self._bench else "",
                        ref=f"{self.name}:{number}",
                    )
                )
        if rest:
            self._rest[stream] = (rest, begun if before and not pieces else self.lines)
        elif not pieces and before:
            self._rest[stream] = (before, begun)

    def _health(self, record: dict[str, Any], at: float, out: list[Reading]) -> None:
        status = record.get("status", record.get("code"))
        error = record.get("error", record.get("body") if status is None else "")
        out.append(
            HealthReading(
                at=at,
                status=status if isinstance(status, int) else None,
                error=str(error or "")[:200],
                ref=f"{self.name}:{self.lines}",
            )
        )


def _data(record: dict[str, Any]) -> bytes:
    """``b``: bytes as Latin-1; ``data``: UTF-8 with the bytes that were none escaped."""
    raw = record.get("b")
    if isinstance(raw, str):
        return raw.encode("latin-1", "replace")
    data = record.get("data")
    return data.encode("utf-8", "surrogateescape") if isinstance(data, str) and _encodable(data) else b""


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
