"""The files of a unit, read exactly, and those that earlier actions kept on the host."""

from __future__ import annotations

from probes.host import Host
from probes.operate.orders import Rights, Saved, UnitFiles


async def read_files(host: Host, rights: Rights, unit: str) -> UnitFiles:
    """As they are now. Raises what ``Host.run`` does."""
    raise NotImplementedError


async def saved(host: Host, rights: Rights, unit: str) -> tuple[Saved, ...]:
    """What actions on this unit have kept before they changed files, newest first. Raises what ``Host.run`` does."""
    raise NotImplementedError
