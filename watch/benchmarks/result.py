"""The result of one `vllm bench serve` run, read from the JSON that ``--save-result`` writes (0.8.5 to 0.33).

Its exit status says nothing: it is 0 and a result is saved whatever failed (recorded: no server, a wrong model name, a
server killed half-way, whose rates look healthy since they count only what completed). So a result is judged by
``completed`` and ``failed`` before any figure of it is believed.

``max_output_tokens_per_s`` ("Peak output token throughput") counts stream chunks when the server speculates (recorded
below its own mean): it is never shown as tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from probes.readings import UNDECODABLE

MAX_FAILED_SHARE = 0.01
"""Above this share of failed requests a run gets no verdict: the rates count only what completed."""

LATENCIES = ("ttft", "tpot", "itl", "e2el")


class Latency(Struct, frozen=True):
    """Milliseconds. None: not selected with --percentile-metrics, or not in this version."""

    mean: float | None = None
    median: float | None = None
    p99: float | None = None


class Speculation(Struct, frozen=True):
    """``rate`` 0–1 of drafted tokens, ``length`` tokens a step (1 = nothing accepted)."""

    rate: float | None = None
    length: float | None = None
    positions: tuple[float, ...] = ()


class BadResult(ValueError):
    """Not a result of `vllm bench serve`; the text is one sentence."""


class BenchResult(Struct, frozen=True, kw_only=True):
    """One run at one load level. Rates per second, ``duration`` seconds; ``raw`` is the JSON, whole."""

    model: str
    completed: int
    failed: int | None
    """None before 0.11.2, which did not count failures: then asked minus completed is what is known"""
    asked: int
    duration: float
    input_tokens: int
    output_tokens: int
    requests_per_second: float
    output_tps: float
    total_tps: float
    concurrency: int | None
    rate: float | None
    """requests a second asked for; None: all at once"""
    burstiness: float
    backend: str
    dataset: Mapping[str, str]
    ttft: Latency
    tpot: Latency
    itl: Latency
    e2el: Latency
    speculation: Speculation | None
    request_seconds: tuple[float, ...]
    """end-to-end seconds of each request that completed, where saved (0.30+, or --save-detailed)"""
    request_tokens: tuple[int, ...]
    """output tokens of the same requests, where saved"""
    first_error: str
    date: str
    raw: Mapping[str, Any]
    joules_per_token: float | None = None
    """of all GPUs by output token; measured beside it, no part of vLLM's JSON"""

    @property
    def failures(self) -> int:
        return self.failed if self.failed is not None else max(0, self.asked - self.completed)

    @property
    def unusable(self) -> str:
        """Why no verdict may rest on this run, as one sentence; empty when it may."""
        if not self.completed:
            return f"none of its {self.asked} requests completed" + self._error
        share = self.failures / max(1, self.completed + self.failures)
        if share > MAX_FAILED_SHARE:
            return (
                f"{self.failures} of its {self.asked} requests failed, and the rates count only the others{self._error}"
            )
        if not self.output_tokens:
            return "it generated no tokens"
        if not all(
            math.isfinite(rate) and rate > 0 for rate in (self.output_tps, self.requests_per_second, self.duration)
        ):
            return "its rates are no figures"
        return ""

    @property
    def _error(self) -> str:
        return f" (first error: {self.first_error})" if self.first_error else ""


def read_result(data: bytes | Mapping[str, Any]) -> BenchResult:
    """A result from its JSON. With ``--append-result`` several objects follow one another: the last one is meant.

    Raises BadResult, with one sentence, for anything else: an empty or cut file, another tool's JSON.
    """
    raw = data if isinstance(data, Mapping) else _parse(data)
    try:
        return _read(raw)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadResult(f"This is no result of `vllm bench serve`: {_missing(error)}") from None


def _parse(data: bytes) -> Mapping[str, Any]:
    text = data.strip()
    if not text:
        raise BadResult("The result file is empty: the benchmark ended before it wrote one")
    for candidate in (text, text.splitlines()[-1]):
        try:
            value = msgspec.json.decode(candidate)
        except UNDECODABLE:
            continue
        if isinstance(value, dict):
            return value
        break
    raise BadResult(
        "The result file is cut short or is not JSON: the benchmark ended, or the disk was full, while writing it"
    )


def _read(raw: Mapping[str, Any]) -> BenchResult:
    completed = int(raw["completed"])
    failed = raw.get("failed")
    errors = [str(error) for error in raw.get("errors") or () if error]
    seconds, tokens = _requests(raw, completed)
    rate = raw.get("request_rate")
    return BenchResult(
        model=str(raw.get("model_id", "")),
        completed=completed,
        failed=None if failed is None else int(failed),
        asked=int(raw.get("num_prompts") or completed),
        duration=float(raw["duration"]),
        input_tokens=int(raw["total_input_tokens"]),
        output_tokens=int(raw["total_output_tokens"]),
        requests_per_second=float(raw["request_throughput"]),
        output_tps=float(raw["output_throughput"]),
        total_tps=float(raw.get("total_token_throughput") or 0.0),
        concurrency=None if raw.get("max_concurrency") is None else int(raw["max_concurrency"]),
        rate=None if rate in (None, "inf") or math.isinf(float(rate)) else float(rate),
        burstiness=float(raw.get("burstiness") or 1.0),
        backend=str(raw.get("backend") or raw.get("endpoint_type") or ""),
        dataset={key: str(raw[key]) for key in ("preset", "dataset", "input_len", "output_len", "seed") if key in raw},
        ttft=_latency(raw, "ttft"),
        tpot=_latency(raw, "tpot"),
        itl=_latency(raw, "itl"),
        e2el=_latency(raw, "e2el"),
        speculation=_speculation(raw),
        request_seconds=seconds,
        request_tokens=tokens,
        first_error=errors[0].strip().splitlines()[-1][:300] if errors else "",
        date=str(raw.get("date", "")),
        raw=raw,
    )


def _latency(raw: Mapping[str, Any], name: str) -> Latency:
    values = [raw.get(f"{kind}_{name}_ms") for kind in ("mean", "median", "p99")]
    return Latency(*(None if value is None or not math.isfinite(float(value)) else float(value) for value in values))


def _speculation(raw: Mapping[str, Any]) -> Speculation | None:
    rate, length = raw.get("spec_decode_acceptance_rate"), raw.get("spec_decode_acceptance_length")
    if rate is None and length is None:
        return None
    return Speculation(
        rate=None if rate is None else float(rate) / 100,
        length=None if length is None else float(length),
        positions=tuple(float(value) for value in raw.get("spec_decode_per_position_acceptance_rates") or ()),
    )


def _requests(raw: Mapping[str, Any], completed: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Seconds and output tokens of the requests that completed; a failed one has a latency of 0 and no tokens."""
    seconds = [float(value) for value in raw.get("latencies") or ()]
    lens = [int(value) for value in raw.get("output_lens") or ()]
    if not seconds and lens:
        firsts, gaps = raw.get("ttfts") or (), raw.get("itls") or ()
        if len(firsts) == len(gaps) == len(lens):
            seconds = [float(first) + math.fsum(gap) for first, gap in zip(firsts, gaps, strict=True)]
    if lens and len(lens) == len(seconds):
        kept = [(s, n) for s, n in zip(seconds, lens, strict=True) if math.isfinite(s) and s > 0 and n > 0]
        return tuple(s for s, _ in kept), tuple(n for _, n in kept)
    kept_seconds = tuple(value for value in seconds if math.isfinite(value) and value > 0)
    return (kept_seconds if len(kept_seconds) == completed else ()), ()


def _missing(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)
