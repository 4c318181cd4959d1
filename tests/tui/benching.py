"""Pictures of benchmarks made by hand, results of real runs in a history, measuring that a test leads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from probes.bench.orders import BenchOrder
from probes.readings import BenchReading
from tests.tui import acting, views
from tests.tui.showing import QUIET, Showing
from tui.app import Firstlight
from tui.benchmarks.bencher import Bencher
from tui.desk import Desk
from tui.operations.conductor import Conductor
from watch.benchmarks.fold import Benchmarks
from watch.benchmarks.measure import order_for
from watch.config import Config, Preset
from watch.history import Benchmark, History
from watch.view import BenchLevelView, BenchView, View

RECORDINGS = Path(__file__).parent.parent / "recordings"
WHO = "ann@laptop"
RUN = "ab12cd"
T = views.ready().now


def level(part: int, concurrency: int, tps: float, **more: Any) -> BenchLevelView:
    values: dict[str, Any] = {
        "part": part,
        "level": f"concurrency {concurrency}",
        "concurrency": concurrency,
        "repeat": 1,
        "began": T - 400 + 60 * part,
        "ended": T - 345 + 60 * part,
        "completed": 8 * concurrency,
        "failed": 0,
        "unusable": "",
        "output_tps": tps,
        "requests_per_second": tps / 256,
        "ttft": (124.0 + 9 * concurrency, 341.0 + 30 * concurrency),
        "tpot": (11.3 + concurrency / 4, 14.2 + concurrency / 3),
        "itl": (27.4, 58.1),
        "e2el": (3010.0 + 60 * concurrency, 4200.0 + 90 * concurrency),
        "acceptance_length": 2.43,
        "acceptance_rate": 0.36,
        "joules_per_token": 9.4 / concurrency**0.5,
        "watts": 2610.0,
        **more,
    }
    return BenchLevelView(**values)


LEVELS = (level(1, 1, 84.1), level(2, 4, 262.0), level(3, 16, 702.0), level(4, 64, 1_412.0))


def bench(**more: Any) -> BenchView:
    values: dict[str, Any] = {
        "run": RUN,
        "unit": views.UNIT,
        "preset": "sweep",
        "who": WHO,
        "state": "running",
        "text": "measuring",
        "started": T - 400,
        "part": 3,
        "parts": 4,
        "concurrency": 16,
        "level_began": T - 40,
        "done": 52,
        "total": 128,
        "generation_tps": 688.4,
        "levels": LEVELS[:2],
        **more,
    }
    return BenchView(**values)


def at(view: View, made: BenchView) -> View:
    """The picture with it; its times are those of ``T``."""
    return replace(view, benchmark=made, now=T, serving=serving_now(), gpu=powered())


def serving_now() -> object:
    return replace(views.serving_figures(T), running=16.0, waiting=3.0, kv_cache=0.43)


def powered() -> object:
    gpu = views.gpus(88.6, at=T)
    devices = tuple(views.device(number, 88.0, power=310.0 + 7 * number, busy=91.0 + number) for number in range(8))
    return replace(gpu, devices=devices)


def running(**more: Any) -> View:
    return at(acting.serving(), bench(**more))


def failing() -> View:
    """Requests fail, and others were at work when it began."""
    return running(
        failed=7,
        first_error="aiohttp.ClientPayloadError: [bold]Response payload[/] is not completed \x1b[31m",
        warnings=("3 requests of others were at work when it began",),
    )


WORSE = (
    "n-gram: 0.87 × baseline output tokens per second (over the levels 0.84–0.90), acceptance length 1.2;"
    " worse at every concurrency"
)
DIFFERS = (
    ("--speculative-config", "–", '{"method": "ngram", "num_speculative_tokens": 5}'),
    ("async scheduling", "on", "off"),
    ("compile cache", "warm", "cold"),
    ("vLLM", "0.31.0", "0.32.0"),
)


def done(word: str = "worse", verdict: str = WORSE, **more: Any) -> View:
    values = {"state": "done", "text": "measured", "ended": T - 20, "levels": LEVELS, "word": word,
              "verdict": verdict, "baseline": "1", "differs": DIFFERS, **more}  # fmt: skip
    return running(**values)


def broken() -> View:
    """It ended with failures, and gives no verdict."""
    why = "38 of its 40 requests failed, and the rates count only the others (first error: Connection refused)"
    one = level(1, 16, 0.0, unusable=why, failed=38)
    return done("refused", f"no verdict: {why}", levels=(one,), failed=38, first_error="Connection refused", differs=())


def armed(view: View | None = None) -> View:
    text = "armed: quick begins by itself when the load is ready"
    made = bench(state="armed", text=text, preset="quick", levels=(), part=0, parts=1, total=0, done=0)
    return replace(view or replace(views.loading(), unit_reading=acting.unit()), benchmark=made)


# ----- results in a history


def raw(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDINGS / path).read_bytes())
    return found


def sweep(method: str, factors: dict[int, float], *, preset: str = "sweep", **facts: str) -> dict[str, Any]:
    """A result of several loads: the recorded one, its speeds by concurrency as given."""
    base = raw("cpu-baseline/bench-c4-result.json")
    runs = []
    for number, (concurrency, tps) in enumerate(factors.items()):
        per = concurrency / tps * 1000
        one = {
            **base, "max_concurrency": concurrency, "output_throughput": tps, "request_throughput": tps / 64,
            "median_ttft_ms": 90.0 + 6 * concurrency, "p99_ttft_ms": 300.0 + 11 * concurrency,
            "median_tpot_ms": per, "p99_tpot_ms": per * 1.3, "median_e2el_ms": per * 64, "p99_e2el_ms": per * 80,
        }  # fmt: skip
        runs.append(one if not number else {"result": one})
    first, *others = runs
    added = {
        "runs": [{}, *others],
        "facts": {"speculation": method, "vLLM": "0.32.0", **facts},
        "marks": [],
    }
    return {**first, "preset": preset, "firstlight": added}


BASELINE = {1: 96.0, 4: 301.0, 16: 802.0, 64: 1630.0}
NGRAM = {1: 84.1, 4: 262.0, 16: 702.0, 64: 1412.0}


def filled(path: Path) -> History:
    """The baseline, n-gram that loses, one that failed, and one of another preset."""
    history = History.open(path)
    dies = raw("cpu-bench-server-killed/bench-dies-result.json")
    rows = [
        ("sweep", sweep("none", BASELINE, **{"async scheduling": "on", "compile cache": "warm"}), True),
        ("sweep", sweep("ngram", NGRAM, **{"async scheduling": "off", "compile cache": "cold"}), False),
        ("quick", {**dies, "preset": "quick"}, False),
        ("standard", sweep("ngram", {32: 1011.0}, preset="standard"), False),
    ]
    for number, (preset, result, first) in enumerate(rows):
        history.record_benchmark(
            Benchmark(
                target=views.TARGET, unit=views.UNIT, at=T - 90_000 + 20_000 * number, run=f"r{number}",
                preset=preset, result=result, baseline=first,
            )
        )  # fmt: skip
    return history


# ----- measuring led by a test


class Led:
    """Measures nothing; what a benchmark would say a test says: ``say``. ``begun``, ``cancelled``: what was asked."""

    def __init__(self, source: views.Fixed) -> None:
        self._source = source
        self._fold = Benchmarks(views.UNIT)
        self.begun: list[BenchOrder] = []
        self.cancelled = 0
        self.there = asyncio.Event()
        self.ended = asyncio.Event()
        self.error: Exception | None = None
        self.theirs: BenchView | None = None
        """another operator's, which runs already: it is followed instead"""

    def order_of(self, desk: Desk, preset: str = "", *, id: str = "") -> BenchOrder:
        made = order_for(desk.config, desk.deployment, who=WHO, preset_name=preset)
        return replace(made, id=id) if id else made

    def say(self, order: BenchOrder, stage: str, outcome: str, text: str = "", **more: Any) -> None:
        values = {"unit": views.UNIT, "who": order.who, "preset": order.preset, "parts": len(order.levels), **more}
        at = self._source.now()
        self._fold.apply(BenchReading(at=at, run=order.id, stage=stage, outcome=outcome, text=text, **values))
        self._source.look(replace(self._source.picture, benchmark=self._fold.view()))

    async def arm(self, desk: Desk, order: BenchOrder, *, off: bool = False) -> None:
        self.say(order, "arm", "cancelled" if off else "begun", "armed")

    async def refuse(self, desk: Desk, order: BenchOrder, why: str) -> None:
        self.say(order, "end", "refused", why)

    async def measured(self, desk: Desk, order: BenchOrder, say: Callable[[str], None]) -> BenchView | None:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if self.theirs is not None:
            theirs, self.theirs = self.theirs, None
            return theirs
        self.begun.append(order)
        self.say(order, "begin", "begun")
        await self.ended.wait()
        return self._fold.view()

    async def show_running(self, desk: Desk) -> None:
        return None

    async def cancel(self, desk: Desk) -> str:
        self.cancelled += 1
        return ""


def bench_app(
    picture: View | None = None, *, history: History | None = None, presets: dict[str, Preset] | None = None, **how: Any
) -> Firstlight:
    """The app on a desk whose measuring is ``Led`` and whose operations are ``Still``."""
    options = {name: how.pop(name) for name in ("theme", "keys") if name in how}
    source = views.Fixed(picture or replace(acting.serving(), benchmark=None), views.LIVE)
    source.feed(views.lines())
    desk = replace_desk(acting.desk_of(source, **how), history=history, config=Config(presets=presets or {}))
    app = Firstlight(source, desk=desk, zone=UTC, alerts=QUIET, **options)
    app.conductor = Conductor(app, desk, operations=acting.Still(desk))
    app.bencher = Bencher(app, desk, work=Led(source))
    return app


def replace_desk(desk: Desk, **more: Any) -> Desk:
    from dataclasses import replace as replaced

    return replaced(desk, **more)


@asynccontextmanager
async def benching(size: tuple[int, int] = (120, 35), **how: Any) -> AsyncIterator[tuple[Showing, Led]]:
    app = bench_app(**how)
    async with app.run_test(size=size) as pilot:
        shown = Showing(app, pilot, app.source)  # type: ignore[arg-type]
        await shown.until(lambda: shown.journal.shown_lines == 60 and app.watching.picture is not None)
        assert app.bencher is not None
        led = app.bencher._work
        assert isinstance(led, Led)
        yield shown, led
