"""One benchmark within a watch: begun, followed into the recording, kept in the history, judged by the baseline."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Protocol

from msgspec.structs import replace

from probes.bench.orders import BenchOrder, new_id
from probes.bench.run import bench, follow_bench
from probes.clock import Clock
from probes.host import Host
from probes.operate.orders import Rights
from probes.readings import BenchReading, Reading
from watch.benchmarks.keep import earlier_runs, keep
from watch.benchmarks.presets import levels, preset
from watch.config import Config, Deployment
from watch.history import History, HistoryError
from watch.redact import Redactor
from watch.view import BenchView, View


class Watch(Protocol):
    """Of ``watching.Watching``: takes in what comes from beside its feed, and shows what it knows."""

    async def put(self, reading: Reading) -> None: ...

    def view(self, now: float) -> View: ...

    def now(self) -> float: ...


def order_for(
    config: Config,
    deployment: Deployment,
    *,
    who: str,
    preset_name: str = "",
    repeats: int | None = None,
    history: History | None = None,
    target: str = "",
    invocation: str = "",
) -> BenchOrder:
    """By preset: the one given, else the deployment's, else the default. Raises BadPreset."""
    name = preset_name or deployment.preset or config.defaults.preset
    chosen = preset(config, name)
    earlier = 0
    if history is not None:
        try:
            earlier = earlier_runs(history, target, deployment.unit, invocation)
        except HistoryError:
            earlier = 0  # nothing worse than prompts that the server may have seen
    return BenchOrder(
        id=new_id(),
        unit=deployment.unit,
        preset=name,
        levels=levels(name, chosen, repeats=repeats, earlier=earlier),
        who=who,
        limit=chosen.limit,
        endpoint=deployment.endpoint,
        tls_ca=deployment.tls_ca,
        tls_verify=deployment.tls_verify,
        user=deployment.user,
    )


async def measure(
    watch: Watch,
    host: Host,
    rights: Rights,
    order: BenchOrder,
    *,
    target: str,
    unit: str,
    history: History | None,
    no_history: str = "",
    clock: Clock,
    redactor: Redactor,
    again: bool = False,
    leave: bool = False,
) -> BenchView | None:
    """To its end, and what the watch then shows of it. Never raises but for cancellation, which leaves it running on
    the host: ``again`` follows one that is there already (``probes.bench.run.left``), with ``leave`` somebody else's,
    who is to find it.

    ``target``, ``unit``: as they were written; under these names the history keeps it.
    """
    if again:
        readings = follow_bench(host, rights, order, clock=clock, leave=leave)
    else:
        readings = bench(host, rights, order, clock=clock)
    results: list[BenchReading] = []
    end: BenchReading | None = None
    async with aclosing(readings):
        async for reading in readings:
            if reading.stage == "result":
                results.append(redactor.clean(reading))
            if reading.stage == "end":
                end = reading
                continue
            await watch.put(reading)
    if end is None:
        return watch.view(watch.now()).benchmark
    async for word in _kept(watch, results, end, target, unit, history, no_history):
        await watch.put(word)
    await watch.put(end)
    return watch.view(watch.now()).benchmark


async def _kept(
    watch: Watch,
    results: list[BenchReading],
    end: BenchReading,
    target: str,
    unit: str,
    history: History | None,
    no_history: str,
) -> AsyncIterator[BenchReading]:
    """Kept before its end is shown, so that whoever sees the end finds it in the history."""
    if not any(reading.result for reading in results):
        return
    if history is None:
        yield replace(end, stage="verdict", text=f"not kept: {no_history or 'there is no history'}", facts={})
        return
    try:
        found = keep(history, watch.view(watch.now()), results, target=target, unit=unit, at=end.at)
    except HistoryError as error:
        yield replace(end, stage="verdict", text=f"not kept, and not compared: {error}", facts={})
        return
    if found is not None:
        yield found[1]
