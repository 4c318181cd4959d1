"""``firstlight doctor``: what stands in the way of watching a unit and acting on it, each with its remedy. Pure."""

from __future__ import annotations

from msgspec import Struct

from probes.doctor import Examined


class Check(Struct, frozen=True, kw_only=True):
    """``verdict``: good, warning, bad, unknown. ``text``: one sentence; ``remedy``: what to do, empty where it is good.
    ``topic``: reach, rights, journal, gpu, disk, clock, endpoint, unit."""

    topic: str
    verdict: str
    text: str
    remedy: str = ""


def judge(facts: Examined) -> tuple[Check, ...]:
    """Every check in the order of the topics; the unit's lint last."""
    raise NotImplementedError
