"""Benchmarks from a desk: what the command line and the screen both do to have a server measured.

::

    order = order_of(desk, "sweep")                 # BadPreset
    await arm(desk, order)                          # B: shown as armed; begin it when the view is ready
    shown = await measured(desk, order)             # to its end; HostError before it began
    why = await cancel(desk)                        # ends what runs, whoever began it
    await show_running(desk)                        # follows what runs on the host already, at the start of a watch
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from probes.bench.orders import BenchOrder
from probes.bench.run import bench_under_way, cancel_bench, left
from probes.operate.actions import plain_who
from probes.operate.orders import Rights
from probes.operate.rights import ask_rights
from probes.readings import BenchReading
from probes.unit import full_name
from tui.desk import Desk, whoami
from watch.benchmarks.measure import measure, order_for
from watch.view import BenchView

Say = Callable[[str], None]


def order_of(desk: Desk, preset: str = "", *, repeats: int | None = None, id: str = "") -> BenchOrder:
    """By preset: the one given, else the deployment's, else the default; for the load that is there now. ``id``: of an
    earlier order that was armed. Raises BadPreset."""
    unit = desk.watching.view(desk.watching.now()).unit_reading
    order = order_for(
        desk.config,
        desk.deployment,
        who=whoami(),
        preset_name=preset,
        repeats=repeats,
        history=desk.history,
        target=desk.host.name,
        invocation=unit.invocation if unit is not None else "",
    )
    return replace(order, id=id) if id else order


async def arm(desk: Desk, order: BenchOrder, *, off: bool = False) -> None:
    """Show that it will begin by itself when the load is ready, or that it will not any more."""
    await desk.watching.put(
        BenchReading(
            at=desk.watching.now(),
            run=order.id,
            stage="arm",
            outcome="cancelled" if off else "begun",
            text="no longer armed" if off else f"armed: {order.preset} begins by itself when the load is ready",
            unit=full_name(order.unit),
            who=order.who,
            preset=order.preset,
            parts=len(order.levels),
        )
    )


async def refuse(desk: Desk, order: BenchOrder, why: str) -> None:
    """Show that it came to nothing before anything was begun."""
    await desk.watching.put(
        BenchReading(
            at=desk.watching.now(),
            run=order.id,
            stage="end",
            outcome="refused",
            text=why,
            unit=full_name(order.unit),
            who=order.who,
            preset=order.preset,
            parts=len(order.levels),
        )
    )


async def measured(desk: Desk, order: BenchOrder, say: Say = lambda _: None) -> BenchView | None:
    """To its end. What lies on the host of our earlier ones is fetched first; one that runs there, whoever began it,
    is followed instead of another begun. Raises HostError where the host cannot be asked; after that all that happens
    is in the view. Cancelling leaves it running on the host."""
    rights = await _rights(desk)
    shown = await _found(desk, rights, say)
    if shown is not None:
        return shown
    return await _one(desk, rights, order)


async def show_running(desk: Desk) -> BenchView | None:
    """Follow what runs on the host already, and fetch what has ended there unseen. None where nothing runs. Raises
    HostError."""
    return await _found(desk, await _rights(desk), lambda _: None)


async def cancel(desk: Desk) -> str:
    """End what runs, whoever began it. Why that is not to be had; empty when it was asked for. Raises HostError."""
    rights = await _rights(desk)
    going = await bench_under_way(desk.host, rights, desk.deployment.unit)
    if going is None:
        return f"no benchmark of {desk.title} is under way"
    return await cancel_bench(desk.host, rights, replace(going, unit=desk.deployment.unit))


async def _rights(desk: Desk) -> Rights:
    return await ask_rights(desk.host, desk.deployment.unit, user=desk.deployment.user)


async def _found(desk: Desk, rights: Rights, say: Say) -> BenchView | None:
    going = await bench_under_way(desk.host, rights, desk.deployment.unit)
    for old in await left(desk.host, rights, full_name(desk.deployment.unit)):
        runs = going is not None and going.id == old.id
        others = old.who != plain_who(whoami()) or desk.read_only  # a watch that may change nothing takes nothing away
        if others and not runs:
            continue  # it lies there for whoever began it
        say(f"{old.who}'s benchmark {old.preset} {'runs already: following it' if runs else 'has ended: fetching it'}")
        shown = await _one(desk, rights, old, again=True, leave=others)
        if runs:
            return shown
    return None


async def _one(
    desk: Desk, rights: Rights, order: BenchOrder, *, again: bool = False, leave: bool = False
) -> BenchView | None:
    return await measure(
        desk.watching,
        desk.host,
        rights,
        order,
        target=desk.host.name,
        unit=desk.deployment.unit,
        history=desk.history,
        no_history=desk.no_history,
        clock=desk.clock,
        redactor=desk.redactor,
        again=again,
        leave=leave,
    )
