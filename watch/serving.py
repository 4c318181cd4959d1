"""What /metrics says once the server is up, under all names that vLLM has given it from 0.6 on, and SGLang's.

Rates and percentiles are of what happened within a moving window: differences of counters and of histogram buckets,
added over engines, never averages of percentiles.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from probes.readings import MetricsReading
from watch.quantiles import added, grown, quantile
from watch.view import ServingView

WINDOW = 60.0

_SUMS: dict[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
    "prompt tokens": ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total"),
    "generation tokens": ("vllm:generation_tokens_total", "sglang:generation_tokens_total"),
    "preemptions": ("vllm:num_preemptions_total",),
    "prefix queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "drafts": ("vllm:spec_decode_num_drafts_total",),
    "draft tokens": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted tokens": ("vllm:spec_decode_num_accepted_tokens_total",),
}
_MEANS: dict[str, tuple[str, ...]] = {
    "KV cache": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
}
_HISTOGRAMS: dict[str, tuple[str, ...]] = {
    "TTFT": ("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"),
    "ITL": (
        "vllm:inter_token_latency_seconds",
        "vllm:time_per_output_token_seconds",
        "sglang:inter_token_latency_seconds",
        "sglang:time_per_output_token_seconds",
    ),
    "queue": ("vllm:request_queue_time_seconds",),
    "end to end": ("vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds"),
}
_POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_COUNTERS = ("prompt tokens", "generation tokens", "prefix queries", "prefix hits", "drafts", "draft tokens")


class _Page(Struct, frozen=True):
    at: float
    values: dict[str, float]
    buckets: dict[str, dict[float, float]]
    sums: dict[str, tuple[float, float]]
    positions: dict[int, float]
    engines: tuple[str, ...]


class Serving:
    """The fold of MetricsReading."""

    def __init__(self) -> None:
        self.error = ""
        self.at: float | None = None
        self._pages: deque[_Page] = deque()

    def new_load(self) -> None:
        self._pages.clear()
        self.error, self.at = "", None

    def apply(self, reading: MetricsReading) -> None:
        if self.at is not None and reading.at < self.at:
            return
        self.at, self.error = reading.at, reading.error
        if not reading.samples:
            return
        page = _page(reading)
        if self._pages and any(
            page.values.get(name, 0.0) < self._pages[-1].values.get(name, 0.0) for name in _COUNTERS
        ):
            self._pages.clear()  # the server is another one
        self._pages.append(page)
        while len(self._pages) > 2 and page.at - self._pages[1].at >= WINDOW:
            self._pages.popleft()

    def up(self) -> bool:
        """Whether the last page was a page."""
        return bool(self._pages) and not self.error

    def busy(self) -> bool:
        """Whether requests run or tokens have been made."""
        if not self._pages:
            return False
        values = self._pages[-1].values
        return values.get("running", 0.0) > 0 or values.get("generation tokens", 0.0) > 0

    def view(self) -> ServingView | None:
        if self.at is None:
            return None
        if not self._pages:
            return ServingView(at=self.at, error=self.error)
        new, old = self._pages[-1], self._pages[0]
        seconds = new.at - old.at
        known = (*_SUMS, *_MEANS, *_HISTOGRAMS)
        have = {*new.values, *new.sums, *new.buckets}
        drafted, accepted = self._delta("draft tokens"), self._delta("accepted tokens")
        drafts = self._delta("drafts")
        queries, hits = self._delta("prefix queries"), self._delta("prefix hits")
        return ServingView(
            at=new.at,
            running=new.values.get("running"),
            waiting=new.values.get("waiting"),
            prompt_tps=self._rate("prompt tokens"),
            generation_tps=self._rate("generation tokens"),
            kv_cache=new.values.get("KV cache"),
            prefix_hit=hits / queries if queries and hits is not None else None,
            preemptions=new.values.get("preemptions"),
            ttft=self._percentiles("TTFT"),
            itl=self._percentiles("ITL"),
            queue=self._percentiles("queue"),
            e2e=self._percentiles("end to end"),
            itl_mean=self._mean("ITL"),
            acceptance_rate=accepted / drafted if drafted and accepted is not None else None,
            acceptance_length=1 + accepted / drafts if drafts and accepted is not None else None,
            per_position=self._per_position(drafts),
            engines=new.engines,
            window=seconds,
            error=self.error,
            missing=tuple(name for name in known if name not in have),
        )

    def _delta(self, name: str) -> float | None:
        """Growth within the window; of the whole life while there is only one page or nothing happened since."""
        new, old = self._pages[-1].values.get(name), self._pages[0].values.get(name)
        if new is None:
            return None
        return new - old if old is not None and new > old else new

    def _rate(self, name: str) -> float | None:
        new, old = self._pages[-1], self._pages[0]
        if name not in new.values or name not in old.values or new.at <= old.at:
            return None
        return max(0.0, new.values[name] - old.values[name]) / (new.at - old.at)

    def _percentiles(self, name: str) -> tuple[float, float, float] | None:
        buckets = self._pages[-1].buckets.get(name)
        if not buckets:
            return None
        if len(self._pages) > 1:
            buckets = grown(buckets, self._pages[0].buckets.get(name, {}))
        p50, p90, p99 = (quantile(q, buckets) for q in (0.5, 0.9, 0.99))
        return None if p50 is None or p90 is None or p99 is None else (p50, p90, p99)

    def _mean(self, name: str) -> float | None:
        new, old = self._pages[-1].sums.get(name), self._pages[0].sums.get(name)
        if new is None or new[1] <= 0:
            return None
        if old is not None and new[1] > old[1]:
            return (new[0] - old[0]) / (new[1] - old[1])
        return new[0] / new[1]

    def _per_position(self, drafts: float | None) -> tuple[float, ...]:
        new, old = self._pages[-1].positions, self._pages[0].positions
        if not drafts or not new:
            return ()
        grew = any(new[position] > old.get(position, 0.0) for position in new) and len(self._pages) > 1
        return tuple((new[p] - (old.get(p, 0.0) if grew else 0.0)) / drafts for p in sorted(new))


_NAMES = {name: (key, rank) for key, names in {**_SUMS, **_MEANS}.items() for rank, name in enumerate(names)}
_HISTOGRAM_NAMES = {name: (key, rank) for key, names in _HISTOGRAMS.items() for rank, name in enumerate(names)}


def _page(reading: MetricsReading) -> _Page:
    """A page's samples under our names. Where a page carries an old and a new name of one figure, the first listed
    name counts, so that nothing is added twice."""
    best: dict[str, int] = {}
    values: dict[str, list[float]] = {}
    parts: dict[str, dict[str, dict[float, float]]] = {}
    sums: dict[str, tuple[float, float]] = {}
    positions: dict[int, float] = {}
    engines: dict[str, None] = {}
    for sample in reading.samples:
        engine = sample.labels.get("engine", "")
        known = _NAMES.get(sample.name)
        if known is not None:
            key, rank = known
            if rank < best.get(key, 99):
                best[key], values[key] = rank, []
            if rank == best[key]:
                values[key].append(sample.value)
                engines.setdefault(engine)
            continue
        base, _, kind = sample.name.rpartition("_")
        known = _HISTOGRAM_NAMES.get(base)
        if known is not None:
            key, rank = known
            if rank < best.get(key, 99):
                best[key] = rank
                parts.pop(key, None)
                sums.pop(key, None)
            if rank > best[key]:
                continue
            total = sums.get(key, (0.0, 0.0))
            if kind == "sum":
                sums[key] = (total[0] + sample.value, total[1])
            elif kind == "count":
                sums[key] = (total[0], total[1] + sample.value)
            elif kind == "bucket":
                bound = _bound(sample.labels.get("le", ""))
                if bound is not None:
                    parts.setdefault(key, {}).setdefault(engine, {})[bound] = sample.value
        elif sample.name == _POSITIONS:
            position = sample.labels.get("position", "")
            if position.isascii() and position.isdigit():
                positions[int(position[:4])] = positions.get(int(position[:4]), 0.0) + sample.value
    return _Page(
        at=reading.at,
        values={key: sum(found) / (len(found) if key in _MEANS else 1) for key, found in values.items()},
        buckets={key: added(by_engine.values()) for key, by_engine in parts.items()},
        sums=sums,
        positions=positions,
        engines=tuple(sorted(name for name in engines if name)),
    )


def _bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
