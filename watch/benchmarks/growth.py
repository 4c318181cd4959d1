"""What a server counted while a run went on: differences of its /metrics before and after."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from probes.readings import Sample
from watch.metrics import COUNT, SUM, read_page


class Growth(Struct, frozen=True, kw_only=True):
    """None: the page does not say, or there is none. ``positions``: share of the drafts accepted at each position."""

    acceptance_rate: float | None = None
    acceptance_length: float | None = None
    positions: tuple[float, ...] = ()
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    preemptions: float | None = None
    queue_mean: float | None = None
    """seconds that a request waited, on average"""
    requests: float | None = None
    """that ended, whoever sent them"""
    prefix_hit: float | None = None
    """share of prompt tokens that came from the prefix cache"""


def growth(before: Iterable[Sample], after: Iterable[Sample]) -> Growth | None:
    """None where a page is missing, or the server was started anew in between."""
    old, new = read_page(before).series, read_page(after).series
    if not old or not new:
        return None
    grown: dict[tuple[str, float], float] = {}
    for series, value in new.items():
        more = value - old.get(series, 0.0)
        if more < 0:
            return None
        at = series[0], series[2]
        grown[at] = grown.get(at, 0.0) + more
    drafts, drafted = grown.get(("drafts", 0.0)), grown.get(("draft tokens", 0.0))
    accepted = grown.get(("accepted tokens", 0.0))
    places = sorted(part for key, part in grown if key == "accepted by position")
    waited, waiting = grown.get(("queue", SUM)), grown.get(("queue", COUNT))
    hits, queries = grown.get(("prefix hits", 0.0)), grown.get(("prefix queries", 0.0))
    return Growth(
        acceptance_rate=accepted / drafted if accepted is not None and drafted else None,
        acceptance_length=1 + accepted / drafts if accepted is not None and drafts else None,
        positions=tuple(grown["accepted by position", place] / drafts for place in places) if drafts else (),
        prompt_tokens=grown.get(("prompt tokens", 0.0)),
        generation_tokens=grown.get(("generation tokens", 0.0)),
        preemptions=grown.get(("preemptions", 0.0)),
        queue_mean=waited / waiting if waited is not None and waiting else None,
        requests=grown.get(("end to end", COUNT)),
        prefix_hit=hits / queries if hits is not None and queries else None,
    )
