"""What the service manager says about the unit in the journal: its own lines, by message id where there is one, else
by their text (both from systemd 252 to 257)."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from probes.readings import JournalLine

What = Literal[
    "starting",
    "started",
    "stopping",
    "stopped",
    "gone",
    "failed",
    "start-failed",
    "exited",
    "restarting",
    "timed-out",
    "refused",
]


class UnitEvent(Struct, frozen=True):
    """``unit``: whom it is about, "" where the line does not say. ``detail``: the result, the exit, the restart
    counter. ``main``: for an exit, whether it was the main process (else a control process such as ExecStartPre)."""

    what: What
    unit: str = ""
    detail: str = ""
    main: bool = True


_IDS: dict[str, What] = {
    "7d4958e842da4a758f6c1cdc7b36dcc5": "starting",
    "39f53479d3a045ac8e11786248231fbf": "started",
    "be02cf6855d2428ba40df7e9d022f03d": "start-failed",
    "de5b426a63be47a7b6ac3eaac82e2f6f": "stopping",
    "9d1aaa27d60140bd96365438aad20286": "stopped",
    "7ad2d189f7e94e70a38c781354912448": "gone",
    "d9b373ed55a64feb8242e02dbe79a49c": "failed",
    "98e322203f7a4ed290d09fe03c09fe15": "exited",
    "5eb03494b6584870a536b337290809b3": "restarting",
}
_UNIT = r"(?P<unit>[\w@.:\\-]{1,255}\.(?:service|scope))"
_TEXTS: tuple[tuple[What, re.Pattern[str]], ...] = (
    ("starting", re.compile(rf"^Starting {_UNIT} - ")),
    ("started", re.compile(rf"^Started {_UNIT} - ")),
    ("stopping", re.compile(rf"^Stopping {_UNIT} - ")),
    ("stopped", re.compile(rf"^Stopped {_UNIT} - ")),
    ("start-failed", re.compile(rf"^Failed to start {_UNIT} - ")),
    ("gone", re.compile(rf"^{_UNIT}: (?:Deactivated successfully|Succeeded)\.")),
    ("failed", re.compile(rf"^{_UNIT}: Failed with result '(?P<detail>[\w-]+)'\.")),
    ("exited", re.compile(rf"^{_UNIT}: (?P<who>Main|Control) process exited, (?P<detail>code=\w+, status=\S+)")),
    ("restarting", re.compile(rf"^{_UNIT}: Scheduled restart job, restart counter is at (?P<detail>\d+)\.")),
    ("timed-out", re.compile(rf"^{_UNIT}: [Ss]tart operation timed out\. Terminating\.")),
    ("refused", re.compile(rf"^{_UNIT}: Start request repeated too quickly\.")),
)
_CONTROL = re.compile(r": Control process exited")
_OLD = re.compile(r"^(?P<verb>Starting|Started|Stopping|Stopped|Failed to start) (?P<name>.{1,300}?)\.*$")
"""systemd up to 248 names the description only."""
_VERBS: dict[str, What] = {
    "Starting": "starting",
    "Started": "started",
    "Stopping": "stopping",
    "Stopped": "stopped",
    "Failed to start": "start-failed",
}


def unit_event(line: JournalLine) -> UnitEvent | None:
    """What a line of the service manager says, or None. Only for lines with source ``systemd``."""
    by_id = _IDS.get(line.message_id)
    for what, pattern in _TEXTS:
        found = pattern.match(line.text)
        if found is not None:
            parts = found.groupdict()
            return UnitEvent(
                by_id or what, line.unit or parts["unit"], parts.get("detail") or "", parts.get("who") != "Control"
            )
    if by_id is not None:
        return UnitEvent(by_id, line.unit, "", _CONTROL.search(line.text) is None)
    old = _OLD.match(line.text) if line.unit else None
    return UnitEvent(_VERBS[old["verb"]], line.unit) if old is not None else None


def same_unit(one: str, other: str) -> bool:
    """Whether two names mean the same unit (``.service`` may be left out); an empty one means any."""
    if not one or not other:
        return True
    return one.removesuffix(".service") == other.removesuffix(".service")
