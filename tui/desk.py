"""What a live watch gives to whoever acts on its host: operations, benchmarks, a diagnosis, notes.

A replay and the demo have none: what needs a desk hides there.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from probes.clock import Clock
from probes.host import Host
from watch.config import Config, Deployment
from watch.history import History
from watch.redact import Redactor
from watch.watching import Watching

__all__ = ["Desk", "whoami"]


async def _at_once() -> None:
    return


@dataclass(frozen=True, slots=True)
class Desk:
    """``name``: of the deployment in the configuration, "" for one given by target and unit. ``history``: None where
    it cannot be opened; ``no_history`` says why. ``read_only``: nothing may be changed on the host. ``elsewhere``:
    opens a watch of another unit of the same host; it raises ``Ending``. ``first_lines``: returns once the watch has
    told its first lines, or none are to be waited for: what is asked for later acts is asked after them. ``drawn``: to
    be set when the screen shows lines."""

    host: Host
    watching: Watching
    config: Config
    deployment: Deployment
    clock: Clock
    redactor: Redactor
    name: str = ""
    history: History | None = None
    no_history: str = ""
    read_only: bool = False
    elsewhere: Callable[[str], Awaitable[Desk]] | None = None
    first_lines: Callable[[], Awaitable[object]] = _at_once
    drawn: asyncio.Event | None = None

    @property
    def title(self) -> str:
        """How the deployment is called: by its name, else by its unit."""
        return self.name or self.deployment.unit


def whoami() -> str:
    """How this operator is named to others: ``user@machine``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = "somebody"
    return f"{user}@{socket.gethostname().partition('.')[0]}"
