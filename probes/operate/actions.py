"""Acts on a unit: puts the steps on the host, has them run there, and follows them.

The steps (``steps.sh``) run from a file in a folder of their own, by the host's service manager, so that they end
whether or not the link lives. The transient unit's name is the lock: while it exists, no second action can begin.
Where a login may only run systemctl, they run as a process of its own, detached from the link.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from probes.clock import SYSTEM, Clock
from probes.host import Host, HostError
from probes.operate.asked import ask, going
from probes.operate.begin import Load, begin
from probes.operate.follow import Trail, follow
from probes.operate.orders import Order, Rights, UnderWay, new_id
from probes.operate.scripts import GOING, KILL, STEPS
from probes.probe import words
from probes.readings import OperatorAction
from probes.unit import full_name, is_name

__all__ = ["follow_on", "kill_now", "new_id", "operate", "under_way"]


def operate(host: Host, rights: Rights, order: Order, *, clock: Clock = SYSTEM) -> AsyncGenerator[OperatorAction, None]:
    """Have it done, step by step; never raises but for cancellation.

    Readings as ``OperatorAction`` describes them, the last with step ``end``: outcome done, failed (``detail``: what
    went wrong; in what state the host is was said before with outcome state; ``undo``: what would undo it), refused
    (nothing was done: another's action is under way, say) or unknown. A lost link is waited for; what was said
    meanwhile is read then. Leaving the iterator leaves the action running on the host: ``follow_on`` finds it again.
    """
    return _operate(host, rights, replace(order, unit=full_name(order.unit), who=plain_who(order.who)), clock)


def follow_on(
    host: Host, rights: Rights, going: UnderWay, *, clock: Clock = SYSTEM
) -> AsyncGenerator[OperatorAction, None]:
    """The same for an action that runs already, from its first step on."""
    return follow(host, rights, going, Trail(going), clock)


async def under_way(host: Host, rights: Rights, unit: str) -> UnderWay | None:
    """The action that runs on the unit now, by whomever. Raises what ``Host.run`` does."""
    done = await ask(host, rights, GOING, unit)
    return going(done.stdout.decode("utf-8", "backslashreplace"), full_name(unit))


async def kill_now(host: Host, rights: Rights, going: Order | UnderWay) -> str:
    """Do not wait any longer for the unit to stop: SIGKILL. Why that could not be asked; empty when it was."""
    try:
        done = await ask(host, rights, KILL, going.unit, id=going.id)
    except HostError as error:
        return error.reason
    return "" if done.status == 0 else words(done.stderr) or f"systemctl kill ended with {done.status}"


def plain_who(who: str) -> str:
    """A name that is no shell word and no field of a line: what else stands in it becomes ``-``."""
    return re.sub(r"[^A-Za-z0-9@._+-]", "-", who)[:80].lstrip("-") or "somebody"


def refusal(rights: Rights, order: Order) -> str:
    """Why this cannot be ordered; empty: it can."""
    if not rights.may(order.action):
        return rights.reason or "This login may not do that"
    names = [order.unit, *([order.fallback] if order.action == "fallback" else [])]
    for name in names:
        if not is_name(name):
            return f"{name!r} is no unit's name"
    if order.action == "fallback" and full_name(order.fallback) == full_name(order.unit):
        return "The fallback is the unit itself"
    if order.action in ("rollback", "undo") and not order.edits:
        return "There is nothing to change: the files are as they were then"
    for path in [edit.path for edit in order.edits] + [f"/{name}" for name, _ in order.verify]:
        if not path.startswith("/") or not path.isprintable() or ".." in path.split("/"):
            return f"{path!r} is no path of a unit's file"
    return ""


async def _operate(host: Host, rights: Rights, order: Order, clock: Clock) -> AsyncGenerator[OperatorAction, None]:
    trail = Trail(order)
    why = refusal(rights, order)
    if why:
        yield trail.reading(clock.now(), "end", "refused", why, undo="")
        return
    async with aclosing(begin(host, rights, order, _load(order), f"action on {order.unit}")) as words:
        async for word in words:
            yield trail.reading(clock.now(), *word, undo="")
            if word.step == "end":
                return
    async with aclosing(follow(host, rights, order, trail, clock)) as steps:
        async for reading in steps:
            yield reading


def _load(order: Order) -> Load:
    files: list[tuple[str, bytes]] = [("steps.sh", STEPS.encode())]
    listed = []
    for number, edit in enumerate(order.edits):
        if edit.text is None:
            listed.append(f"remove\t{edit.path}\t-\n")
        else:
            listed.append(f"write\t{edit.path}\t{number}\n")
            files.append((f"new/{number}", edit.text.encode("utf-8", "surrogateescape")))
    if listed:
        files.append(("files.txt", "".join(listed).encode("utf-8", "surrogateescape")))
    files += [(f"verify/{name}", text.encode("utf-8", "surrogateescape")) for name, text in order.verify]
    settings = [f"FL_WAIT_STOP={order.wait_stop}", f"FL_WAIT_MEMORY={order.wait_memory}"]
    settings += ["FL_RELOAD=1"] if order.reload else []
    settings += ["FL_ACCEPT_HELD=1"] if order.accept_held else []
    settings += [f"FL_EXPECT={order.expect}"] if order.expect else []
    settings += [f"FL_RESULT={order.result}"] if order.result else []
    return Load(
        action=order.action,
        other=full_name(order.fallback) if order.fallback else "-",
        who=order.who,
        settings=tuple(settings),
        files=tuple(files),
    )
