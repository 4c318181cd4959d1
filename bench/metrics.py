"""One /metrics page of the largest size recorded: parsed and folded, beside Prometheus' own Python parser."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bench.figures import Figure
from probes.metrics import PageParser
from probes.readings import MetricsReading
from watch.serving import Serving

RECORDED = Path("tests/recordings/gpu-h200x2/b1-ngram-cold-cache/metrics.jsonl.gz")
TIMES = 30


def figures() -> list[Figure]:
    rows = map(json.loads, gzip.decompress(RECORDED.read_bytes()).splitlines())
    page = max((row["text"] for row in rows if row.get("code") == 200), key=len)
    lines = page.splitlines()
    engines = [line.replace('engine="0"', f'engine="{n}"') for n in range(16) for line in lines if "{" in line]
    return [*_of("largest recorded", page), *_of("the same of 16 engines", "\n".join(engines) + "\n")]


def _of(name: str, page: str) -> list[Figure]:
    data = page.encode()
    parser = PageParser()
    samples = parser.parse(data)
    serving = Serving()
    turn = iter(range(1_000_000))

    def fold() -> None:
        serving.apply(MetricsReading(at=float(next(turn)), status=200, samples=samples))
        serving.view()

    fold()
    parse, kept = best(lambda: parser.parse(data)), best(fold)
    theirs = best(lambda: [sample for family in text_string_to_metric_families(page) for sample in family.samples])
    whole = f"metrics page, {name} ({len(data) / 1000:.0f} kB)"
    return [
        Figure(name=whole, value=(parse + kept) * 1e3, unit="ms", floor=theirs * 1e3, floor_name="prometheus_client"),
        Figure(name="  of that the fold and its picture", value=kept * 1e3, unit="ms"),
    ]


def best(work: Callable[[], object]) -> float:
    """The shortest of several runs, seconds of CPU."""
    taken = []
    for _ in range(TIMES):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)
