"""Leads an operator through benchmarks: what is chosen and asked, what is armed, what runs; and comparing results.

One a watch. What the screens show comes from the picture; measuring itself is ``tui.measuring``.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from probes.bench.orders import BenchOrder
from probes.host import HostError, LinkDown
from tui import measuring
from tui.benchmarks.choose import AskMeasure, PresetScreen
from tui.benchmarks.compare import CompareScreen
from tui.benchmarks.results import ResultsScreen
from tui.desk import Desk
from tui.operations.confirm import Confirm, warning
from tui.operations.core import sentence
from tui.source import SourceStatus
from tui.stage import Stage
from tui.text import safe
from tui.words.benchmarks import STATES, VERDICTS
from watch.benchmarks.cost import Cost, cost
from watch.benchmarks.presets import BadPreset, presets
from watch.config import Preset
from watch.history import Benchmark, HistoryError
from watch.view import BenchView, View

AGAIN = 5.0
"""Real seconds between two tries to begin what is armed, or to find what runs, over a link that is not there."""

WHAT = ("measure", "arm", "cancel", "compare")


class Work(Protocol):
    """What is really done: ``tui.measuring``, which says what each raises."""

    def order_of(self, desk: Desk, preset: str = "", *, id: str = "") -> BenchOrder: ...

    async def arm(self, desk: Desk, order: BenchOrder, *, off: bool = False) -> None: ...

    async def refuse(self, desk: Desk, order: BenchOrder, why: str) -> None: ...

    async def measured(self, desk: Desk, order: BenchOrder, say: Callable[[str], None]) -> BenchView | None: ...

    async def show_running(self, desk: Desk) -> BenchView | None: ...

    async def cancel(self, desk: Desk) -> str: ...


class Bencher:
    """``what`` is one of ``WHAT`` everywhere."""

    def __init__(self, app: Stage, desk: Desk, *, work: Work = measuring) -> None:
        self._app = app
        self._desk = desk
        self._work = work
        self._before: View | None = None
        self._armed: BenchOrder | None = None
        self._busy = False
        self._looked = False
        self._not_before = 0.0
        self._asking = False
        self._offered: object = None

    @property
    def armed(self) -> BenchOrder | None:
        return self._armed

    def attach(self) -> None:
        """Find what runs on the host already, or has ended there unseen."""
        self._app.run_worker(self._look(), group="benchmarks")

    async def _look(self) -> None:
        if self._busy:
            return
        self._busy = True
        self._not_before = time.monotonic() + AGAIN
        try:
            await self._desk.host.up()
            await self._desk.first_lines()
            await self._work.show_running(self._desk)
            self._looked = True
        except HostError:
            pass  # looked for again once the host is there
        finally:
            self._busy = False

    def see(self, view: View, status: SourceStatus) -> None:
        """The picture has changed."""
        before, self._before = self._before, view
        if self._free and status.backlog is None:
            if self._armed is not None and view.state == "ready" and not self._lost:
                self._start(self._armed)
            elif not self._looked and not self._lost:
                self.attach()
        bench = view.benchmark
        offered = (self._lost, view.state, self._armed is not None, bench and (bench.run, bench.state))
        if offered != self._offered:
            self._offered = offered
            self._app.screen.refresh_bindings()
            self._app.watching.refresh_bindings()
        was = before.benchmark if before is not None else None
        if was is not None and bench is not None and was.run == bench.run and was.state == "running" != bench.state:
            self._told(view)

    def _told(self, view: View) -> None:
        bench = view.benchmark
        if bench is None or self._app.shows_benchmark:
            return
        words = f"Benchmark {bench.preset}: {STATES[bench.state].word.lower()}"
        if bench.state == "done" and bench.word in VERDICTS:
            words = f"Benchmark {bench.preset}: {VERDICTS[bench.word].word}"
        elif bench.state != "done":
            words += f". {bench.text}"
        self._say(words, error=bench.state in ("failed", "refused", "unknown"))

    @property
    def _free(self) -> bool:
        return not self._busy and time.monotonic() >= self._not_before

    # ----- what can be done

    @property
    def _view(self) -> View | None:
        """What is on the screen now: that is what a key answers to."""
        return self._app.watching.picture

    @property
    def _lost(self) -> bool:
        link = self._view.link if self._view is not None else None
        return link is not None and link.state in ("down", "refused", "connecting")

    @property
    def _runs(self) -> bool:
        bench = self._view.benchmark if self._view is not None else None
        return bench is not None and bench.state == "running"

    def may(self, what: str) -> bool | None:
        view = self._view
        if what == "compare":
            return self._desk.history is not None
        if self._desk.read_only or view is None:  # a benchmark is work for the server
            return False
        if what == "measure" and (view.state != "ready" or self._runs or self._armed is not None):
            return False
        if what == "arm" and self._armed is None and (view.state == "ready" or self._runs or view.unit_reading is None):
            return False
        if what == "cancel" and not self._runs:
            return False
        return None if self._lost and what != "arm" else True

    def conduct(self, what: str) -> None:
        """Begin it, unless something is being asked already."""
        works: dict[str, Callable[[], Awaitable[None]]] = {
            "measure": self._measure,
            "arm": self._arm,
            "cancel": self._cancel,
            "compare": self._compare,
        }
        if what in works and not self._asking and self.may(what):
            self._app.run_worker(self._once(works[what]), group="benchmarks")

    async def _once(self, work: Callable[[], Awaitable[None]]) -> None:
        self._asking = True
        try:
            await work()
        finally:
            self._asking = False

    # ----- asking

    async def _measure(self) -> None:
        chosen = await self._chosen(arming=False)
        if chosen is not None:
            self._start(chosen)
            self._app.show_benchmark()

    async def _arm(self) -> None:
        if self._armed is not None:
            await self._disarm()
            return
        chosen = await self._chosen(arming=True)
        if chosen is not None:
            self._armed = chosen
            self._not_before = 0.0
            await self._work.arm(self._desk, chosen)
            self._app.flush()

    async def _disarm(self) -> None:
        armed, self._armed = self._armed, None
        if armed is not None:
            await self._work.arm(self._desk, armed, off=True)
            self._app.flush()

    async def _chosen(self, *, arming: bool) -> BenchOrder | None:
        known = presets(self._desk.config)
        costs = self._costs(known)
        deployment = self._desk.deployment
        start = deployment.preset or self._desk.config.defaults.preset
        what = "Which benchmark begins when it is ready?" if arming else "How is it to be measured?"
        while True:
            name = await self._app.push_screen_wait(PresetScreen(what, known, costs, start))
            view = self._view
            if name is None or view is None:
                return None
            start = name
            found = costs[name]
            try:
                order = self._work.order_of(self._desk, name)
            except BadPreset as error:
                self._say(str(error), error=True)
                continue
            assert isinstance(found, Cost)  # one that cannot be measured cannot be chosen
            ask = AskMeasure(order, known[name], found, self._app.watching, view, arming=arming)
            if await self._app.push_screen_wait(ask):
                return order

    def _costs(self, known: dict[str, Preset]) -> dict[str, Cost | str]:
        kept = self._kept()
        out: dict[str, Cost | str] = {}
        for name, one in known.items():
            try:
                out[name] = cost(name, one, kept)
            except BadPreset as error:
                out[name] = str(error)
        return out

    def _kept(self) -> tuple[Benchmark, ...]:
        """The results of this deployment, newest first."""
        desk = self._desk
        if desk.history is None:
            return ()
        try:
            return desk.history.benchmarks(desk.host.name, desk.deployment.unit)
        except HistoryError as error:
            self._say(str(error), error=True)
            return ()

    async def _cancel(self) -> None:
        bench = self._view.benchmark if self._view is not None else None
        if bench is None:
            return
        words = (
            f"{bench.who or 'Somebody'}'s benchmark {bench.preset} is ended now. What it has measured so far is kept;"
            " the server goes on serving."
        )
        title = f"Cancel the benchmark of {bench.unit or self._desk.deployment.unit} on {self._desk.host.name}?"
        if not await self._app.push_screen_wait(Confirm(title, "Cancel the benchmark", warning(words))):
            return
        try:
            why = await self._work.cancel(self._desk)
        except HostError as error:
            why = sentence(error)
        self._say(f"It could not be cancelled: {why}" if why else "It is being ended", error=bool(why))

    async def may_leave(self) -> bool:
        """Ask where something is armed: it would not begin once firstlight is closed."""
        if self._armed is None:
            return True
        unit, preset = self._desk.deployment.unit, self._armed.preset
        words = (
            f"The benchmark {preset} of {unit} is armed, and it is this watch that begins it: once firstlight is closed"
            f" it does not begin. Without a screen it waits with: firstlight bench run {self._desk.host.name} {unit}"
            f" --preset {preset} --wait-ready"
        )
        if not await self._app.push_screen_wait(
            Confirm("A benchmark is armed: leave all the same?", "Leave", warning(safe(words)))
        ):
            return False
        await self._disarm()
        return True

    async def leave_behind(self) -> None:
        """The watch goes on with another unit."""
        if self._armed is not None:
            self._say(f"The benchmark {self._armed.preset} is no longer armed: another unit is watched now")
            await self._disarm()

    # ----- comparing

    async def _compare(self) -> None:
        history = self._desk.history
        if history is None:
            return
        screen = ResultsScreen(history, self._desk.host.name, self._desk.deployment.unit, self._app.zone)
        while True:
            chosen = await self._app.push_screen_wait(screen)
            if not chosen:
                return
            try:
                whole = CompareScreen.of(history, chosen)
            except HistoryError as error:
                self._say(str(error), error=True)
                return
            await self._app.push_screen_wait(whole)
            screen = screen.again()

    # ----- doing

    def _start(self, order: BenchOrder) -> None:
        if not self._busy:
            self._busy = True
            self._app.run_worker(self._run(order), group="benchmarks")

    async def _run(self, order: BenchOrder) -> None:
        """To its end. What is armed stays so while the host cannot be reached."""
        armed = self._armed is not None
        try:
            fresh = self._work.order_of(self._desk, order.preset, id=order.id)
            self._armed = None
            shown = await self._work.measured(self._desk, fresh, self._say)
            if armed and shown is not None and (shown.run != order.id or shown.state == "armed"):
                self._armed = order  # another operator's ran, and was followed: ours comes after it
        except LinkDown as error:
            if armed:
                self._armed = order
                self._not_before = time.monotonic() + AGAIN
            else:
                await self._refused(order, sentence(error))
        except HostError as error:
            await self._refused(order, sentence(error))
        except BadPreset as error:
            await self._refused(order, str(error))
        finally:
            self._busy = False

    async def _refused(self, order: BenchOrder, why: str) -> None:
        self._armed = None
        await self._work.refuse(self._desk, order, why)
        self._say(f"Nothing was measured: {why}", error=True)

    def _say(self, text: str, *, error: bool = False) -> None:
        self._app.notify(safe(text), severity="error" if error else "information", timeout=10, markup=False)
