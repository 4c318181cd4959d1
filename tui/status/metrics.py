"""Statuses as metrics, written by Prometheus' own client: OpenMetrics, or its older text where that is asked for.

Every name begins with ``firstlight_``; every series has the label ``deployment``; target, unit, model, engine and
version are in ``firstlight_deployment_info``, to be joined where they are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from probes.version import __version__
from watch.benchmarks.result import BenchResult, Latency
from watch.status import Status
from watch.words import PHASES, SEVERITIES, State

STATES: Final[tuple[State, ...]] = ("loading", "stalled", "ready", "failed", "stopped", "unknown")


class Measured(Struct, frozen=True, kw_only=True):
    """A benchmark's latest result at one level. ``at``: UTC seconds."""

    deployment: str
    preset: str
    at: float
    result: BenchResult


def exposition(statuses: Sequence[Status], measured: Sequence[Measured], accept: str = "") -> tuple[bytes, str]:
    """The page and its content type, as the Accept header has it."""
    registry = CollectorRegistry()
    registry.register(_Page(statuses, measured))
    encode, kind = choose_encoder(accept)
    page: bytes = encode(registry)
    return page, kind


class _Page(Collector):
    def __init__(self, statuses: Sequence[Status], measured: Sequence[Measured]) -> None:
        self._statuses = statuses
        self._measured = measured

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily("firstlight_build", "This firstlight.", {"version": __version__})
        yield from self._deployments()
        yield from self._loads()
        yield from self._benchmarks()

    def _gauge(self, name: str, help: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"firstlight_{name}", help, labels=("deployment", *labels))

    def _deployments(self) -> Iterator[Metric]:
        info = InfoMetricFamily("firstlight_deployment", "What is watched.", labels=("deployment",))
        state = StateSetMetricFamily("firstlight_state", "What the deployment is doing.", labels=("deployment",))
        phase = StateSetMetricFamily("firstlight_phase", "The phase of its load.", labels=("deployment",))
        ready = self._gauge("ready", "1 where it serves and can be seen to.")
        stalled = self._gauge("stalled", "1 while its load has stopped moving.")
        link = self._gauge("link_up", "1 while the host can be reached; what else is told may be old while it is 0.")
        findings = self._gauge("findings", "What was found wrong in its load, by severity.", "severity")
        for one in self._statuses:
            name = [one.deployment]
            facts = {"target": one.target, "unit": one.unit, "model": one.model, "engine": one.engine}
            info.add_metric(name, {**facts, "version": one.version})
            state.add_metric(name, {word: word == one.state for word in STATES})
            phase.add_metric(name, {word: word == one.phase for word in PHASES})
            ready.add_metric(name, float(one.ready))
            stalled.add_metric(name, float(one.state == "stalled"))
            link.add_metric(name, float(one.link == "up"))
            for severity in SEVERITIES:
                count = sum(finding.severity == severity for finding in one.findings)
                findings.add_metric([*name, severity], float(count))
        yield from (info, state, phase, ready, stalled, link, findings)

    def _loads(self) -> Iterator[Metric]:
        number = self._gauge("load_number", "Which start of the unit it is, counted since the watch began.")
        since = self._gauge("load_start_time_seconds", "When the load began, Unix time.")
        seconds = self._gauge("load_seconds", "How long it has been loading; once it is over, how long it took.")
        ratio = self._gauge("load_progress_ratio", "How much of the load is done, by its forecast; 1 when ready.")
        part = self._gauge("phase_progress_ratio", "How much of the running phase is done, by the server's own bar.")
        left = self._gauge("seconds_to_ready", "Seconds until it is ready: low to high holds 8 times in 10.", "bound")
        took = self._gauge("phase_duration_seconds", "How long each phase of the load took, or takes so far.", "phase")
        for one in self._statuses:
            name = [one.deployment]
            number.add_metric(name, one.load)
            if one.since is not None:
                since.add_metric(name, one.since)
            if one.seconds is not None:
                seconds.add_metric(name, one.seconds)
            if one.ratio is not None:
                ratio.add_metric(name, one.ratio)
            if one.progress is not None and one.progress.ratio is not None:
                part.add_metric(name, one.progress.ratio)
            if one.forecast is not None:
                for bound, at in (
                    ("low", one.forecast.low),
                    ("middle", one.forecast.middle),
                    ("high", one.forecast.high),
                ):
                    left.add_metric([*name, bound], max(0.0, at - one.at))
            for phase in one.phases:
                took.add_metric([*name, phase.name], phase.seconds)
        yield from (number, since, seconds, ratio, part, left, took)

    def _benchmarks(self) -> Iterator[Metric]:
        labels = ("preset", "concurrency")
        at = self._gauge("benchmark_time_seconds", "When the latest benchmark at this level ended, Unix time.", *labels)
        tokens = self._gauge("benchmark_output_tokens_per_second", "Output tokens a second.", *labels)
        requests = self._gauge("benchmark_requests_per_second", "Requests a second.", *labels)
        failed = self._gauge("benchmark_failed_requests", "Requests that failed.", *labels)
        latencies = {
            name: self._gauge(f"benchmark_{name}_seconds", help, *labels, "statistic")
            for name, help in (
                ("ttft", "Time to first token."),
                ("tpot", "Time per output token."),
                ("itl", "Latency between tokens."),
                ("e2el", "End-to-end latency."),
            )
        }
        for one in self._measured:
            result = one.result
            level = "unlimited" if result.concurrency is None else str(result.concurrency)
            which = [one.deployment, one.preset, level]
            at.add_metric(which, one.at)
            tokens.add_metric(which, result.output_tps)
            requests.add_metric(which, result.requests_per_second)
            failed.add_metric(which, float(result.failures))
            for name, family in latencies.items():
                latency: Latency = getattr(result, name)
                for statistic, value in (("mean", latency.mean), ("median", latency.median), ("p99", latency.p99)):
                    if value is not None:
                        family.add_metric([*which, statistic], value / 1000.0)
        yield from (at, tokens, requests, failed, *latencies.values())
