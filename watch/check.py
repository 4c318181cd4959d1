"""What a check found."""

from __future__ import annotations

from msgspec import Struct


class Check(Struct, frozen=True):
    """``verdict``: good, warning, bad, unknown. ``text``: one sentence; ``remedy``: what to do, empty where it is good.
    ``topic``: reach, clock, rights, journal, gpu, disk, endpoint, unit."""

    topic: str
    verdict: str
    text: str
    remedy: str = ""
