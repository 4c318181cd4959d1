"""Recordings as tapes: what ``player.py`` and ``nvidia_smi.py`` play on the real host."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parents[1] / "recordings"
_ACCESS = re.compile(rb'^(?:\(APIServer pid=\d+\) )?INFO: +[\d.]+:\d+ - "[A-Z]+ [^"]*" \d{3}[^\n]*\n', re.M)


@dataclass(frozen=True)
class Tape:
    """Pieces of output: (seconds since the start, bytes)."""

    pieces: tuple[tuple[float, bytes], ...]

    @property
    def data(self) -> bytes:
        return b"".join(data for _, data in self.pieces)

    @property
    def seconds(self) -> float:
        return self.pieces[-1][0]

    def until(self, text: bytes, *, after: float = 0.0) -> Tape:
        """The tape up to the piece that completes ``text``, and ``after`` seconds more of it."""
        seen = b""
        for at, data in self.pieces:
            seen += data
            if text in seen:
                return Tape(tuple(piece for piece in self.pieces if piece[0] <= at + after))
        raise AssertionError(f"{text!r} is not on the tape")

    def without_waiting(self, longest: float) -> Tape:
        """The same pieces, no two further apart than ``longest`` seconds."""
        out: list[tuple[float, bytes]] = []
        shift = last = 0.0
        for at, data in self.pieces:
            shift += max(0.0, at - last - longest)
            out.append((at - shift, data))
            last = at
        return Tape(tuple(out))

    def text(self) -> str:
        """As ``player.py`` reads it."""
        return "".join(json.dumps({"t": round(at, 6), "b": data.decode("latin-1")}) + "\n" for at, data in self.pieces)


def server(name: str) -> Tape:
    """The output of a recorded server, without the lines about requests of whoever recorded it.

    ``cpu-…`` and ``gpu-h200x2/…``: their READMEs say what each shows.
    """
    pieces = []
    for record in _records(RECORDINGS / name / "server.jsonl"):
        if "b" in record:
            pieces.append((record["t"], record["b"].encode("latin-1")))
        elif "data" in record:
            pieces.append((record["t"], record["data"].encode("utf-8", "surrogateescape")))
    return Tape(_drop(pieces, _ACCESS))


def smi(name: str) -> Tape:
    """The recorded stream of ``nvidia-smi --query-gpu … -lms``."""
    records = _records(RECORDINGS / name / "smi.query-gpu.jsonl")
    return Tape(tuple((r["t"], r["data"].encode("utf-8", "surrogateescape")) for r in records if r.get("data")))


def _records(path: Path) -> list[dict[str, Any]]:
    packed = path.with_name(path.name + ".gz")
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
    return [json.loads(line) for line in data.splitlines()]


def _drop(pieces: list[tuple[float, bytes]], pattern: re.Pattern[bytes]) -> tuple[tuple[float, bytes], ...]:
    """Take every match out of the joined bytes; what is left keeps its times."""
    whole = b"".join(data for _, data in pieces)
    keep = bytearray(b"\1" * len(whole))
    for match in pattern.finditer(whole):
        keep[match.start() : match.end()] = bytes(match.end() - match.start())
    out, at = [], 0
    for moment, data in pieces:
        left = bytes(byte for byte, kept in zip(data, keep[at : at + len(data)], strict=True) if kept)
        at += len(data)
        if left:
            out.append((moment, left))
    return tuple(out)
