"""serve-status for 10 and for 100 deployments: share of a core, memory, time of a scrape, and how they grow.

The hosts are rehearsals at the pace of life, in a process of their own; what is measured is the process that watches
them all and answers Prometheus every five seconds.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import asyncssh
import httpx
import msgspec
from msgspec import Struct

from bench.figures import Figure
from bench.status_hosts import Way
from probes.rehearsal.story import load_story
from probes.ssh import Access, SshHost
from tui.commands.live import live
from tui.commands.serve_status import GPU_INTERVAL, Results, drain
from tui.status.board import Board, Entry
from tui.status.metrics import exposition
from tui.status.server import Address, serving
from watch.config import Config, Deployment
from watch.status import status

FEW, MANY = 10, 100
SETTLED = 35.0
"""Seconds until all links are up and the journals are read."""
SECONDS = 30.0
SCRAPE = 5.0


class Measured(Struct, frozen=True):
    """``share`` of a core, ``memory`` in bytes, ``scrape``: processor seconds for one, ``answered``: seconds until it
    was there, ``late``: seconds that the event loop was late at the median. Where ``late`` is much, the machine had no
    processor to give, and the share is what it was given, not what was wanted."""

    share: float
    memory: int
    scrape: float
    answered: float
    late: float
    loading: int


def figures() -> list[Figure]:
    nothing, few, many = (_measured(count) for count in (0, FEW, MANY))
    each = (many.memory - few.memory) / (MANY - FEW)
    rows = [
        Figure(name=f"{MANY} deployments, share of a core", value=many.share * 100, unit="%", floor=few.share * 100,
               floor_name=f"{FEW} deployments", goal="≤ 12 × that of 10",
               good=many.share <= 12 * few.share),
        Figure(name=f"{MANY} deployments, memory", value=many.memory / 2**20, unit="MiB", floor=few.memory / 2**20,
               floor_name=f"{FEW} deployments ({nothing.memory / 2**20:.0f} with none)"),
        Figure(name="memory a deployment", value=each / 2**20, unit="MiB", goal="≤ 5 MiB", good=each <= 5 * 2**20),
        Figure(name=f"{MANY} deployments, processor time of a scrape", value=many.scrape * 1000, unit="ms",
               floor=few.scrape * 1000, floor_name=f"{FEW} deployments", goal="≤ 1 s", good=many.scrape <= 1.0),
        Figure(name=f"{MANY} deployments, a scrape until it is answered", value=many.answered * 1000, unit="ms",
               floor=few.answered * 1000, floor_name=f"{FEW} deployments"),
        Figure(name=f"{MANY} deployments, event loop late (0 on an idle machine)", value=many.late * 1000, unit="ms",
               floor=few.late * 1000, floor_name=f"{FEW} deployments"),
    ]  # fmt: skip
    return rows


def _measured(count: int) -> Measured:
    """In processes of their own: the hosts, and the watch."""
    with tempfile.TemporaryDirectory(prefix="firstlight-bench-") as home:
        env = {**os.environ, "HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}
        hosts = subprocess.Popen(
            [sys.executable, "-m", "bench.status_hosts", str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env,
        )  # fmt: skip
        assert hosts.stdout is not None
        assert hosts.stdin is not None
        try:
            ways = hosts.stdout.readline()
            done = subprocess.run(
                [sys.executable, "-m", "bench.status"], input=ways, stdout=subprocess.PIPE, env=env, check=True
            )
        finally:
            hosts.stdin.close()
            hosts.wait(30)
    return msgspec.json.decode(done.stdout, type=Measured)


async def _watch(ways: list[Way]) -> Measured:
    story = load_story()
    config = Config()
    board = Board()
    async with AsyncExitStack() as stack:
        where = await stack.enter_async_context(serving(Address("127.0.0.1", 0), board.answer))
        for number, way in enumerate(ways):
            access = Access(
                config=(),
                known_hosts=way.known_hosts,
                keys=(asyncssh.import_private_key(way.key),),
                socket=Path(way.socket),
            )
            name = f"host-{number}"
            host = SshHost(name, access=access, name=name)
            deployment = Deployment(target=name, unit=story.unit)
            watch = live(host, deployment, config, name=name, keep=False, gpu_interval=GPU_INTERVAL)
            desk = await stack.enter_async_context(watch)
            board.add(Entry(name, desk.watching, Results(desk, name)))
            task = asyncio.create_task(drain(desk.watching, name))
            stack.callback(task.cancel)
        asks = httpx.AsyncClient(base_url=f"http://{where}", trust_env=False, timeout=60.0)
        client = await stack.enter_async_context(asks)
        await asyncio.sleep(SETTLED)
        began, spent = time.monotonic(), time.process_time()
        lags: list[float] = []
        lagging = asyncio.create_task(_lags(lags))
        stack.callback(lagging.cancel)
        took, page = [], ""
        while time.monotonic() < began + SECONDS:
            asked = time.monotonic()
            page = (await client.get("/metrics")).text
            took.append(time.monotonic() - asked)
            await asyncio.sleep(SCRAPE)
        share = (time.process_time() - spent) / (time.monotonic() - began)
        loading = page.count('firstlight_state="loading"} 1.0')
        assert loading == len(ways), f"{loading} of {len(ways)} are loading: the others were not reached"
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        scrape = _scrape(board)
        return Measured(share, memory, scrape, statistics.median(took), statistics.median(lags), loading)


async def _lags(lags: list[float]) -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(0.1)
        lags.append(time.monotonic() - began - 0.1)


def _scrape(board: Board) -> float:
    """Processor seconds of one, by itself: nothing else gets its turn."""
    began = time.thread_time()
    entries = board._entries.values()
    statuses = [status(entry.watched.view(entry.watched.now()), entry.name) for entry in entries]
    exposition(statuses, [one for entry in entries for one in entry.measured()])
    return time.thread_time() - began


if __name__ == "__main__":
    measured = asyncio.run(_watch(msgspec.json.decode(sys.stdin.buffer.read(), type=list[Way])))
    sys.stdout.buffer.write(msgspec.json.encode(measured))
