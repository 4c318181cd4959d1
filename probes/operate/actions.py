"""Acts on a unit: puts the steps on the host, has them run there, and follows them.

The steps (``steps.sh``) run from a file in a folder of their own, by the host's service manager, so that they end
whether or not the link lives. The transient unit's name is the lock: while it exists, no second action can begin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from probes.clock import SYSTEM, Clock
from probes.host import Host
from probes.operate.orders import Order, Rights, UnderWay
from probes.readings import OperatorAction


def operate(host: Host, rights: Rights, order: Order, *, clock: Clock = SYSTEM) -> AsyncIterator[OperatorAction]:
    """Have it done, step by step; never raises but for cancellation.

    Readings as ``OperatorAction`` describes them, the last with step ``end``: outcome done, failed (``detail``: in what
    state the host is, ``undo``: what would undo it), refused (nothing was done: another's action is under way, say) or
    unknown. A lost link is waited for; what was said meanwhile is read then. Leaving the iterator leaves the action
    running on the host: ``follow_on`` finds it again.
    """
    raise NotImplementedError


def follow_on(host: Host, rights: Rights, going: UnderWay, *, clock: Clock = SYSTEM) -> AsyncIterator[OperatorAction]:
    """The same for an action that runs already, from its first step on."""
    raise NotImplementedError


async def under_way(host: Host, rights: Rights, unit: str) -> UnderWay | None:
    """The action that runs on the unit now, by whomever. Raises what ``Host.run`` does."""
    raise NotImplementedError


async def kill_now(host: Host, rights: Rights, going: Order | UnderWay) -> str:
    """Do not wait any longer for the unit to stop: SIGKILL. Why that could not be asked; empty when it was."""
    raise NotImplementedError
