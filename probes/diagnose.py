"""What a stuck load is doing now: stacks, wait channels, open files, and the kernel's last lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from probes.clock import SYSTEM, Clock
from probes.host import Host
from probes.operate.orders import Rights
from probes.readings import CommandReading


def diagnose(host: Host, rights: Rights, unit: str, *, clock: Clock = SYSTEM) -> AsyncIterator[CommandReading]:
    """One reading a question, as they are answered; what cannot be asked says why in its ``stderr``. Never raises but
    for cancellation. Changes nothing."""
    raise NotImplementedError


def as_text(readings: Sequence[CommandReading], *, title: str = "") -> str:
    """All of it as one text for people, to be shown and saved. Escape sequences are made visible."""
    raise NotImplementedError
