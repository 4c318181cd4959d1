"""``firstlight bench run`` and ``bench cancel``: a server is measured, with or without anybody looking on."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from probes.bench.orders import MEASURED
from probes.bench.run import bench_under_way, cancel_bench
from probes.command import plain
from probes.host import Host, HostError
from probes.operate.rights import ask_rights
from tui.commands.bench_kept import colour, status_of, width
from tui.commands.bench_text import compared, figures
from tui.commands.live import live, need_unit
from tui.commands.named import Named, named
from tui.commands.reach import open_target
from tui.desk import Desk
from tui.exits import Benched, Ending, Exit
from tui.measuring import arm, measured, order_of
from tui.pictures import Pictures
from tui.settings import configuration
from tui.units import about
from watch.benchmarks.compare import Comparison
from watch.benchmarks.keep import compare_kept
from watch.benchmarks.measure import order_for
from watch.benchmarks.presets import BadPreset
from watch.benchmarks.told import comparison_json, kept_json, summaries
from watch.config import Config
from watch.history import Benchmark, HistoryError
from watch.view import BenchView, View

SETTLE = 60.0
"""Seconds to wait for what the journal holds of the load, so that its version and arguments stand beside the result."""

PATIENCE = 60.0
"""Seconds to wait for the host."""


def run(
    words: Sequence[str],
    *,
    preset: str,
    wait_ready: bool,
    repeats: int | None,
    worse_by: float | None,
    endpoint: str | None,
    user: bool | None,
    record: bool | None,
    as_json: bool,
) -> Benched:
    """Raises Ending for what only the operator can mend."""
    config = configuration()
    one = named(config, words, endpoint=endpoint, user=user)
    if one.deployment.read_only or config.defaults.read_only:
        raise Ending(Exit.USAGE, f"{one.title} is read_only in the configuration: a benchmark is work for its server")
    _checked(config, one, preset, repeats)
    limit = config.defaults.worse_by if worse_by is None else worse_by
    return asyncio.run(_run(one, config, wait_ready, preset, repeats, limit, record, as_json))


def _checked(config: Config, one: Named, preset: str, repeats: int | None) -> None:
    """Before the host is reached. Raises Ending."""
    try:
        order_for(config, one.deployment, who="", preset_name=preset, repeats=repeats)
    except BadPreset as error:
        raise Ending(Exit.USAGE, str(error), "firstlight bench presets lists them.") from None


async def _run(
    one: Named,
    config: Config,
    wait_ready: bool,
    preset: str,
    repeats: int | None,
    worse_by: float,
    record: bool | None,
    as_json: bool,
) -> Benched:
    host = open_target(one.deployment.target)
    async with live(host, one.deployment, config, name=one.name, record=record) as desk:
        looking = _Looking(desk)
        try:
            order = order_of(desk, preset, repeats=repeats)
            if wait_ready:
                await arm(desk, order)
            if not await looking.until_ready(wait_ready):
                return Benched.NO_RESULT
            shown = await measured(desk, order_of(desk, preset, repeats=repeats, id=order.id), looking.say)
        except HostError as error:
            raise Ending(Exit.UNREACHABLE, error.reason, error.remedy) from None
        except asyncio.CancelledError:
            bench = looking.view.benchmark
            if bench is not None and bench.state == "running":
                goes_on = "it goes on on the host: the same command finds it again, firstlight bench cancel ends it"
                ended = "it is ended: it was measured from this machine"
                print(ended if MEASURED in bench.facts else goes_on, file=sys.stderr)
            raise
        finally:
            await looking.close()
        return _told(desk, shown, worse_by, as_json)


class _Looking:
    """Takes in the watch beside the benchmark, and says on standard error what becomes of both."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._pictures = Pictures(desk.watching)
        self._said = ""
        self._step = -1
        self._changed = asyncio.Condition()
        self._ended = False
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        views = aiter(self._pictures)
        try:
            async for view in views:
                if view.benchmark is not None:
                    self._bench(view.benchmark)
                async with self._changed:
                    self._changed.notify_all()
        finally:
            self._ended = True
            await views.aclose()
            async with self._changed:
                self._changed.notify_all()

    @property
    def view(self) -> View:
        return self._desk.watching.view(self._desk.watching.now())

    async def until_ready(self, wait: bool) -> bool:
        """True once the server is ready (or may be: with nothing to wait for, its own answer will tell). Raises
        Ending."""
        self.say(f"reaching {self._desk.host.name} …")
        loop = asyncio.get_running_loop()
        began = loop.time()
        loading = False
        async with self._changed:
            while True:
                view = self.view
                need_unit(view)
                up = view.link is not None and view.link.state == "up"
                waited = loop.time() - began
                if not up and waited > PATIENCE and not wait:
                    why = view.link.reason if view.link is not None else "no answer"
                    raise Ending(Exit.UNREACHABLE, f"the host could not be reached for {about(waited)}: {why}")
                settled = self._pictures.settled
                if up and settled and view.state == "ready":
                    return True
                loading = loading or (settled and view.state in ("loading", "stalled"))
                if up and wait and loading and _given_up(view):
                    self.say(f"the load failed: {view.headline}")
                    return False
                if up and not wait and (settled or waited > SETTLE):
                    return True
                if self._ended:
                    raise Ending(Exit.UNREACHABLE, "the watch ended")
                if wait and settled:
                    self.say(f"armed: {view.state}, {view.phase}; it begins by itself when the load is ready")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 2.0)

    def _bench(self, bench: BenchView) -> None:
        where = f"run {bench.part} of {bench.parts}, {bench.concurrency} at a time" if bench.part else ""
        if bench.total and bench.text == "measuring":
            step = bench.done * 10 // bench.total
            if (bench.part, step) != (self._step >> 8, self._step & 255):
                self._step = bench.part << 8 | step
                speed = f", {bench.generation_tps:,.0f} tokens/s" if bench.generation_tps else ""
                self.say(f"{where}: {bench.done} of {bench.total} requests{speed}")
            return
        self.say(bench.text)
        for warning in bench.warnings:
            self.say(f"warning: {warning}", once=True)

    _told: frozenset[str] = frozenset()

    def say(self, text: str, *, once: bool = False) -> None:
        if text == self._said or (once and text in self._told):
            return
        if once:
            self._told |= {text}
        else:
            self._said = text
        print(plain(text, 1000), file=sys.stderr, flush=True)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _given_up(view: View) -> bool:
    """Whether the load failed and systemd does not start it again by itself."""
    unit = view.unit_reading
    return view.state == "failed" and (unit is None or unit.active in ("failed", "inactive"))


def _told(desk: Desk, shown: BenchView | None, worse_by: float, as_json: bool) -> Benched:
    """The figures, the verdict, the status."""
    kept, found, why = _kept(desk, shown)
    if kept is None or shown is None:
        for level in shown.levels if shown is not None else ():  # measured all the same
            print(f"{level.level}: {level.unusable or f'{level.output_tps:,.1f} output tokens/s'}")
        text = shown.text if shown is not None else "nothing was measured"
        print(f"firstlight: {plain(f'{why}{text}', 1500)}", file=sys.stderr)
        return Benched.NO_RESULT
    if as_json:
        out = {**kept_json(kept), "comparison": comparison_json(found, worse_by) if found is not None else None}
        print(json.dumps(out, indent=1))
    else:
        print(f"run {kept.id}: {plain(kept.preset)} of {plain(kept.unit)} @ {plain(kept.target)}")
        sys.stdout.write(figures(summaries(kept)))
        if found is not None:
            sys.stdout.write("\n" + compared(found, width=width(), colour=colour()))
        elif shown.verdict:
            print(plain(shown.verdict, 1000))
    sys.stdout.flush()
    if shown.state != "done":
        print(f"firstlight: {plain(shown.text, 1500)}", file=sys.stderr)
        return Benched.NO_RESULT
    if found is not None:
        return status_of([found], worse_by)
    return Benched.OK if kept.baseline else Benched.NO_VERDICT


def _kept(desk: Desk, shown: BenchView | None) -> tuple[Benchmark | None, Comparison | None, str]:
    """The row of the history and its comparison with the baseline, and why there is none."""
    if shown is None or desk.history is None:
        return None, None, f"not kept: {desk.no_history}. " if desk.no_history else ""
    try:
        rows = desk.history.benchmarks(desk.host.name, desk.deployment.unit)
        kept = next((row for row in rows if row.run == shown.run), None)
        base = desk.history.baseline(desk.host.name, desk.deployment.unit)
        if kept is None or base is None or base.id == kept.id:
            return kept, None, ""
        return kept, compare_kept(desk.history, base, kept), ""
    except HistoryError as error:
        return None, None, f"{error}. "


def cancel(words: Sequence[str], *, user: bool | None) -> Benched:
    config = configuration()
    one = named(config, words, user=user)
    return asyncio.run(_cancel(open_target(one.deployment.target), one))


async def _cancel(host: Host, one: Named) -> Benched:
    links = asyncio.create_task(_linked(host))
    try:
        async with asyncio.timeout(PATIENCE):
            await host.up()
        rights = await ask_rights(host, one.deployment.unit, user=one.deployment.user)
        going = await bench_under_way(host, rights, one.deployment.unit)
        if going is None:
            print(f"no benchmark of {one.title} is under way", file=sys.stderr)
            return Benched.NO_RESULT
        why = await cancel_bench(host, rights, replace(going, unit=one.deployment.unit))
        print(why or f"{going.who}'s {going.action} of {one.title} is being ended", file=sys.stderr)
        return Benched.NO_RESULT if why else Benched.OK
    except TimeoutError:
        raise Ending(Exit.UNREACHABLE, f"{host.name} could not be reached within {about(PATIENCE)}") from None
    except HostError as error:
        raise Ending(Exit.UNREACHABLE, error.reason, error.remedy) from None
    finally:
        links.cancel()
        await asyncio.gather(links, return_exceptions=True)
        await host.close()


async def _linked(host: Host) -> None:
    async for _ in host.links():
        continue
