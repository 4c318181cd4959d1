"""One watch of one deployment: the host's link and every probe, as tasks that fail and come back alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

from probes.clock import SYSTEM, Clock
from probes.host import Host
from probes.readings import Reading


class Supervisor:
    """Runs ``host.links()`` and the probes of one deployment and merges what they yield.

    ``unit``: name as systemd knows it (``.service`` is added where no suffix is given). ``endpoint``: URL of the
    server; None: read from the unit's own arguments, else http://127.0.0.1:8000. ``since``: UTC seconds, or anything
    ``journalctl --since`` takes; None: from the current invocation's first line. ``api_key``: sent to the server,
    never recorded. ``gpu``: ``auto`` (NVML in process for ``local``; else the NVML agent, then ``nvidia-smi``),
    ``nvidia-smi``, or ``none``.

    The host stays the caller's: it is not closed here.
    """

    def __init__(
        self,
        host: Host,
        unit: str,
        *,
        endpoint: str | None = None,
        user: bool = False,
        since: float | str | None = None,
        clock: Clock = SYSTEM,
        api_key: str = "",
        gpu: str = "auto",
    ) -> None:
        raise NotImplementedError

    def batches(self) -> AsyncIterator[list[Reading]]:
        """Readings as they come, until the host refuses us for good (a ``LinkReading`` says so) or ``close()``.

        A probe that fails says so as a ``ProbeReading`` and is tried again; nothing but cancellation escapes. To be
        iterated once.
        """
        raise NotImplementedError

    def poke(self) -> None:
        """Ask the unit, the storage and the server now rather than at their next turn."""
        raise NotImplementedError

    async def close(self) -> None:
        """End every probe and wait for it; nothing of ours is left on the host. May be called twice."""
        raise NotImplementedError
