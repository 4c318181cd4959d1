"""Hands the files of some work over to the host and has it begun there, once, over lost links."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import NamedTuple

from msgspec import Struct

from probes.host import Completed, Host, HostError, LinkDown, LinkRefused
from probes.operate.asked import ACTION, Duty, ask, going
from probes.operate.follow import Work
from probes.operate.orders import Rights
from probes.operate.scripts import BEGUN, LAUNCH
from probes.probe import words

PATIENCE = 60.0
"""Real seconds within which work whose beginning was cut off is begun once more. Later the operator's yes no longer
counts: the host may be another than the one that was looked at."""

OTHERS = 72
CUT_OFF = 71


class Load(Struct, frozen=True, kw_only=True):
    """What is handed over. ``action``, ``other``, ``who``: words of the steps' command line after the unit, none of
    them with a blank. ``settings``: NAME=VALUE for the steps' environment, or an option of systemd-run's (left out
    where it does not run them), without blanks. ``files``: name and bytes, the steps among them; they lie in a folder
    that only whoever runs them can enter."""

    action: str
    other: str = "-"
    who: str = ""
    settings: tuple[str, ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()


class Word(NamedTuple):
    """As ``follow.Teller.word`` takes it, after the time."""

    step: str
    outcome: str
    detail: str


async def begin(
    host: Host, rights: Rights, order: Work, load: Load, what: str, duty: Duty = ACTION
) -> AsyncGenerator[Word, None]:
    """Ends without a word of step ``end`` once it runs; else that word says why not. ``what``: as a sentence names
    it."""
    asked = time.monotonic()
    lost = False
    while True:
        try:
            await host.up()
            if lost and await _begun(host, rights, order, duty):
                return
            if lost and time.monotonic() - asked > PATIENCE:
                yield Word("end", "refused", "The link was lost before it began: nothing was done; decide again")
                return
            done = await _launch(host, rights, order, load, duty)
        except LinkRefused as error:
            yield Word("end", "refused" if not lost else "unknown", error.reason)
            return
        except LinkDown:
            if not lost:
                lost = True
                yield Word("link", "wait", "the link was lost while the steps were handed over; waiting for it")
            continue
        except (HostError, ValueError) as error:
            yield Word("end", "refused", f"It could not be begun: {error}")
            return
        if done.status == 0 or (done.status == OTHERS and _is_ours(done, order)):
            return
        if done.status == CUT_OFF:
            lost = True
            await asyncio.sleep(0.5)
            continue
        yield Word("end", "refused", _why(done, order, what))
        return


async def _begun(host: Host, rights: Rights, order: Work, duty: Duty) -> bool:
    done = await ask(host, rights, BEGUN, order.unit, id=order.id, duty=duty)
    return b"Begun=yes" in done.stdout.splitlines() or _is_ours(done, order)


def _is_ours(done: Completed, order: Work) -> bool:
    other = going(done.stdout.decode("utf-8", "backslashreplace"), order.unit)
    return other is not None and other.id == order.id


async def _launch(host: Host, rights: Rights, order: Work, load: Load, duty: Duty) -> Completed:
    given = [load.action, load.other, load.who, *load.settings, "--"]
    given += [word for name, data in load.files for word in (name, str(len(data)))]
    sent = b"".join(data for _, data in load.files)
    return await ask(host, rights, LAUNCH, order.unit, *given, id=order.id, duty=duty, stdin=sent, timeout=60.0)


def _why(done: Completed, order: Work, what: str) -> str:
    other = going(done.stdout.decode("utf-8", "backslashreplace"), order.unit)
    if done.status == OTHERS:
        if other is None:
            return f"Another {what} was under way: nothing was done; try again"
        return f"{other.who} is at it: {other.action} of {order.unit} is under way. Nothing was done"
    said = words(done.stderr) or f"exit status {done.status}"
    return f"It could not be begun, and nothing was done: {said}"
