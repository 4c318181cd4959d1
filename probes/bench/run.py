"""Runs a benchmark on the host and follows it: over any number of lost links, to its results.

``bench`` has it begun and yields all that becomes of it; ``follow_bench`` finds one again that runs already;
``bench_under_way`` asks for it; ``cancel_bench`` ends it. All of them act as ``probes.operate`` does, by a file of
steps (``bench.sh``) in a transient unit whose name is the lock.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from probes.bench.orders import BenchOrder
from probes.clock import SYSTEM, Clock
from probes.host import Host
from probes.operate.orders import Rights, UnderWay
from probes.readings import BenchReading


def bench(
    host: Host, rights: Rights, order: BenchOrder, *, api_key: str = "", clock: Clock = SYSTEM
) -> AsyncGenerator[BenchReading, None]:
    """Have a ready server measured; never raises but for cancellation.

    Readings as ``BenchReading`` describes them, the last with stage ``end``. ``rights``: by ``operate.ask_rights``;
    any will do. ``api_key``: goes into the environment of the run, never on a command line; "" for the unit's own
    where that can be read. Leaving the iterator leaves the benchmark running on the host.
    """
    raise NotImplementedError


def follow_bench(
    host: Host, rights: Rights, going: UnderWay, *, clock: Clock = SYSTEM
) -> AsyncGenerator[BenchReading, None]:
    """The same for a benchmark that runs already, or has ended without its results having been fetched."""
    raise NotImplementedError


async def bench_under_way(host: Host, rights: Rights, unit: str) -> UnderWay | None:
    """The benchmark that runs on the unit now, by whomever. Raises what ``Host.run`` does."""
    raise NotImplementedError


async def cancel_bench(host: Host, rights: Rights, going: BenchOrder | UnderWay) -> str:
    """End it now. Why that could not be asked; empty when it was: its readings then end with outcome cancelled."""
    raise NotImplementedError
