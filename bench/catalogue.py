"""Entries a second through the catalogue (empty, whole, ten times over), beside decoding the entries alone."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from bench.figures import Figure
from probes.export import ExportDecoder
from probes.readings import JournalLine
from watch.catalogue import Catalogue, shipped

RECORDED = Path(__file__).parent.parent / "tests/recordings/host-systemd-ngram/journal.export.gz"
TIMES = 400
"""the recorded journal, so many times over"""


def figures() -> list[Figure]:
    data = gzip.decompress(RECORDED.read_bytes()) * TIMES
    lines: list[JournalLine] = []
    decoding = _seconds(lambda: lines.extend(ExportDecoder().feed(data)))
    texts = [line.text for line in lines]
    floor = len(lines) / decoding
    ours = shipped()
    tenfold = [replace(row, id=f"{row.id}-{copy}") for copy in range(10) for row in ours.rows]
    out = []
    for name, catalogue in (
        ("empty", Catalogue(())),
        (f"whole ({len(ours.rows)} rows)", ours),
        ("ten times over", Catalogue(tenfold, ours.facts)),
    ):
        speed = len(texts) / _match(catalogue, texts)
        out.append(
            Figure(
                name=f"catalogue, {name}",
                value=speed,
                unit="entries/s",
                floor=floor,
                floor_name="decoding the entries",
                goal="matching costs less than decoding" if catalogue is ours else "",
                good=speed > floor if catalogue is ours else None,
            )
        )
    return out


def _match(catalogue: Catalogue, texts: Sequence[str]) -> float:
    matcher = catalogue.matcher
    matcher.batch(texts[:1000])
    return _seconds(lambda: matcher.batch(texts))


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
