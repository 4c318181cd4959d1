"""``firstlight watch --daemon``: begins a watch that goes on without this terminal, and says where it is."""

from __future__ import annotations

import sys

from probes.command import plain
from tui.commands.named import Named
from tui.exits import Ending, Exit
from tui.handover.daemon import Order, launch, taken
from tui.handover.place import PlaceError, daemons
from tui.settings import chosen


def begin(one: Named, *, record: bool | None = None, since: str | None = None) -> Exit:
    """Returns when it watches. Raises Ending where it does not."""
    deployment = one.deployment
    try:  # said before anything is begun; the daemon's own lock decides
        for living in daemons():
            if living.meant([deployment.target, deployment.unit]) and living.user == deployment.user:
                raise taken(living)
    except PlaceError as error:
        raise Ending(Exit.USAGE, str(error)) from None
    file = chosen()
    order = Order(
        deployment=deployment,
        name=one.name,
        record=record,
        since=since,
        config=str(file.absolute()) if file is not None else "",
    )
    print(f"reaching {plain(deployment.target)} …", file=sys.stderr)
    daemon = launch(order)
    print(
        f"watching {plain(daemon.unit)} on {plain(daemon.target)} in the background: process {daemon.pid}, "
        f"log {daemon.log}\nfirstlight attach {plain(daemon.title)} shows it; with --stop it ends",
        file=sys.stderr,
    )
    return Exit.OK
