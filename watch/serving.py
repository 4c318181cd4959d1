"""What /metrics says once the server is up: rates, shares and percentiles of what happened within a moving window.

Counters and histogram buckets are differences of two pages, each series by itself as Prometheus' ``increase`` takes
them (a value that falls has begun again at zero), then added over engines; percentiles are never averaged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from msgspec import Struct

from probes.readings import HealthReading, MetricsReading
from watch.metrics import COUNT, SUM, Page, Series, averaged, figures, read_page
from watch.quantiles import quantile
from watch.view import EngineView, ServingView

WINDOW = 60.0
MOST_SERIES = 50_000
"""Series that are remembered, though the page of now has them no more."""


def barred(reading: HealthReading) -> str:
    """Why what answers there is not to be asked by us; "" where it may be, or where it does not answer at all. Such an
    answer says nothing of how the server is."""
    if reading.status is not None and 300 <= reading.status < 500:
        return f"/health: {reading.error or f'HTTP status {reading.status}'}"
    told = reading.status is None and ("certificate" in reading.error or "this login" in reading.error)
    return reading.error if told else ""


class _At(Struct, frozen=True):
    """A page and when it was read; ``grown``: its series with what they had before their resets added."""

    at: float
    page: Page
    grown: dict[Series, float]


class Serving:
    """The fold of MetricsReading."""

    def __init__(self) -> None:
        self.error = ""
        self.at: float | None = None
        self.barred = ""
        """why the server is not to be asked"""
        self._cut = False
        self._pages: deque[_At] = deque()
        self._before: dict[Series, float] = {}
        """what a series had counted before it began again"""
        self._last: dict[Series, float] = {}
        self._view: ServingView | None = None

    def new_load(self) -> None:
        self._pages.clear()
        self._before.clear()
        self._last.clear()
        self.error, self.at, self._view, self._cut, self.barred = "", None, None, False, ""

    def apply(self, reading: MetricsReading) -> Page | None:
        """What stands in the reading, for whoever else takes it; None where that was not looked at."""
        if self.at is not None and reading.at < self.at:
            return None
        self.at, self.error, self._view = reading.at, reading.error, None
        if not reading.samples:
            return None
        page = read = read_page(reading.samples)
        torn = reading.truncated or self._cut
        first = not self._pages
        self._cut = reading.truncated
        grown: dict[Series, float] = {}
        for series, value in page.series.items():
            last = self._last.get(series)
            if last is None and torn and not first:
                self._before[series] = -value  # it stood in the half that did not come: no growth that anybody saw
            elif last is not None and value < last:
                self._before[series] = self._before.get(series, 0.0) + last
            self._last[series] = value
            grown[series] = value + self._before.get(series, 0.0)
        if reading.truncated and not first:  # what the lost half would have said stands as it was
            known = self._pages[-1]
            grown = {**known.grown, **grown}
            page = Page(gauges={**known.page.gauges, **page.gauges}, series={**known.page.series, **page.series})
        if len(self._last) > MOST_SERIES:
            self._last = {series: self._last[series] for series in page.series}
            self._before = {series: self._before[series] for series in page.series if series in self._before}
        self._pages.append(_At(reading.at, page, grown))
        while len(self._pages) > 2 and reading.at - self._pages[1].at >= WINDOW:
            self._pages.popleft()
        return read

    def health(self, reading: HealthReading) -> None:
        """What /health says of whether there is anything to ask."""
        self.barred = barred(reading)
        if self.barred and self.at is None:
            self._view = ServingView(at=reading.at, error=f"There are no figures: {self.barred}")

    def up(self) -> bool:
        """Whether the last page was a page."""
        return bool(self._pages) and not self.error

    def busy(self) -> bool:
        """Whether requests run or tokens have been made."""
        if not self._pages:
            return False
        page = self._pages[-1].page
        running = any(value > 0 for (key, _), value in page.gauges.items() if key == "running")
        return running or any(value > 0 for (key, _, _), value in page.series.items() if key == "generation tokens")

    def view(self) -> ServingView | None:
        if self.at is None:
            return self._view if self.barred else None
        if not self._pages:
            return ServingView(at=self.at, error=self.error)
        if self._view is None:
            self._view = self._made()
        return self._view

    def _made(self) -> ServingView:
        new, old = self._pages[-1], self._pages[0]
        window = _Window(new, old)
        by_engine: dict[str, dict[Series, float]] = {}
        for series, value in new.grown.items():
            by_engine.setdefault(series[1], {})[series] = value
        page = new.page
        names = {engine for _, engine in page.gauges} | {engine for _, engine, _ in page.series}
        engines = sorted((name for name in names if name), key=lambda name: (len(name), name))
        have = {key for key, _ in page.gauges} | {key for key, _, _ in page.series}
        drafts, drafted = window.growth("drafts"), window.growth("draft tokens")
        accepted = window.growth("accepted tokens")
        rate = _share(accepted, drafted)
        if rate is None and drafted is None:
            rate = window.gauge("acceptance rate")
        optional = {"acceptance rate"}
        return ServingView(
            at=new.at,
            running=window.gauge("running"),
            waiting=window.gauge("waiting"),
            prompt_tps=window.rate("prompt tokens"),
            generation_tps=window.rate("generation tokens"),
            kv_cache=window.gauge("KV cache"),
            prefix_hit=_share(window.growth("prefix hits"), window.growth("prefix queries")),
            preemptions=window.now("preemptions"),
            ttft=window.percentiles("TTFT"),
            itl=window.percentiles("ITL"),
            queue=window.percentiles("queue"),
            e2e=window.percentiles("end to end"),
            itl_mean=_share(window.growth("ITL", SUM), window.growth("ITL", COUNT)),
            acceptance_rate=rate,
            acceptance_length=1 + accepted / drafts if drafts and accepted is not None else None,
            per_position=window.positions("accepted by position", drafts),
            engines=tuple(engines),
            each=tuple(_engine(name, _Window(new, old, name, by_engine.get(name, {}))) for name in engines)
            if len(engines) > 1
            else (),
            window=new.at - old.at,
            error=self.error,
            cut=self._cut,
            missing=tuple(figure.key for figure in figures() if figure.key not in have | optional),
        )


class _Window:
    """What happened between two pages; of the whole life of the server where they are the same one. ``engine``: of
    this one only, whose series are ``of_engine``, else of all together."""

    def __init__(
        self, new: _At, old: _At, engine: str | None = None, of_engine: Mapping[Series, float] | None = None
    ) -> None:
        self._seconds = new.at - old.at
        self._gauges = {at: v for at, v in new.page.gauges.items() if engine is None or at[1] == engine}
        self._now: dict[str, float] = {}
        self._parts: dict[str, dict[float, float]] = {}
        alone = new is old
        for series, value in (new.grown if of_engine is None else of_engine).items():
            key, _, part = series
            grown = new.page.series.get(series, 0.0) if alone else value - old.grown.get(series, 0.0)
            parts = self._parts.setdefault(key, {})
            parts[part] = parts.get(part, 0.0) + max(0.0, grown)
            self._now[key] = self._now.get(key, 0.0) + (new.page.series.get(series, 0.0) if not part else 0.0)

    def gauge(self, key: str) -> float | None:
        values = [value for (name, _), value in self._gauges.items() if name == key]
        if not values:
            return None
        return sum(values) / (len(values) if key in averaged() else 1)

    def now(self, key: str) -> float | None:
        """A counter as it stands."""
        return self._now.get(key)

    def growth(self, key: str, part: float = 0.0) -> float | None:
        return self._parts.get(key, {}).get(part)

    def rate(self, key: str) -> float | None:
        """Growth a second; None while there is only one page."""
        grown = self.growth(key)
        return grown / self._seconds if grown is not None and self._seconds > 0 else None

    def percentiles(self, key: str) -> tuple[float, float, float] | None:
        """p50, p90, p99; None where nothing was observed."""
        buckets = {bound: count for bound, count in self._parts.get(key, {}).items() if bound >= 0}
        p50, p90, p99 = (quantile(q, buckets) for q in (0.5, 0.9, 0.99))
        return None if p50 is None or p90 is None or p99 is None else (p50, p90, p99)

    def positions(self, key: str, drafts: float | None) -> tuple[float, ...]:
        """Share of the drafts whose token at each position was accepted."""
        parts = self._parts.get(key, {})
        return tuple(parts[position] / drafts for position in sorted(parts)) if drafts else ()


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _engine(name: str, window: _Window) -> EngineView:
    return EngineView(
        name=name,
        running=window.gauge("running"),
        waiting=window.gauge("waiting"),
        generation_tps=window.rate("generation tokens"),
        kv_cache=window.gauge("KV cache"),
        ttft=window.percentiles("TTFT"),
        itl=window.percentiles("ITL"),
    )
