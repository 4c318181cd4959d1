"""The process of ``watch --daemon``: a live watch without a terminal, for those who attach.

It is begun by ``tui.handover.daemon.launch`` with its order on standard input, says once on standard output how it
began, and from then on writes to its log alone. SIGTERM, ``attach --stop``, or a host that refuses us end it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec

from tui.commands.live import first_answer, live
from tui.commands.reach import open_target
from tui.commands.wait import Teller
from tui.exits import Ending
from tui.handover.daemon import Began, Order, claim, handed_over, tell
from tui.handover.place import Claim
from tui.settings import choose, configuration


async def _watch(order: Order, claimed: Claim) -> None:
    choose(Path(order.config) if order.config else None)
    config = configuration()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    host = open_target(order.deployment.target)
    async with live(host, order.deployment, config, name=order.name, record=order.record, since=order.since) as desk:
        await first_answer(desk.watching)
        async with handed_over(desk, claimed, stop) as hub:
            _say(Began(daemon=claimed.daemon))
            _only_log()
            await tell(desk.watching, hub, stop, Teller(claimed.daemon.title, as_json=False))
            print("ended on request" if stop.is_set() else "ended: the host refuses us", flush=True)


def main() -> None:
    """The process: the order on standard input, how it began on standard output."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    try:
        with claim(order.deployment, order.name, log=order.log) as claimed:
            asyncio.run(_watch(order, claimed))
    except Ending as ending:
        ending.tell()
        _say(Began(status=int(ending.status), reason=ending.reason, remedy=ending.remedy))
        sys.exit(int(ending.status))


def _say(began: Began) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(began) + b"\n")
    sys.stdout.flush()


def _only_log() -> None:
    """From now on there is nobody on standard input and output: what is said goes where errors go."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)


if __name__ == "__main__":
    main()
