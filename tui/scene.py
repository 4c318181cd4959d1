"""What every pane is shown: the picture, how its source is doing, and the zone of times."""

from __future__ import annotations

from dataclasses import dataclass, field

from tui.source import SourceStatus
from tui.units import Zone, elapsed
from watch.view import View

GPU_INTERVAL = 1.0
IO_INTERVAL = 1.0
METRICS_INTERVAL = 2.0
LINK_INTERVAL = 5.0
"""Seconds between two readings of a source, as the probes take them."""


@dataclass(frozen=True, slots=True)
class Scene:
    view: View
    status: SourceStatus = field(default_factory=SourceStatus)
    zone: Zone = field(default_factory=Zone)
    fault: str = ""
    """why the watch itself broke off, one sentence"""

    def age(self, at: float, interval: float) -> str:
        """ "" while a value is fresh; how old it is once it is older than two of its intervals.

        A demo or a replay that runs faster than time is fresh for as long as the operator's own two intervals.
        """
        age = self.view.now - at
        return f"{elapsed(age)} old" if age > 2 * interval * max(1.0, self.status.speed) + 0.5 else ""

    def troubles(self, *probes: str) -> list[str]:
        """What these sources themselves say is wrong with them, with the remedy, one sentence or two each."""
        return [
            " ".join(part.rstrip(".") + "." for part in (source.reason, source.remedy) if part)
            for source in self.view.sources
            if source.probe in probes and source.state != "up" and source.reason
        ]

    @property
    def link_lost(self) -> bool:
        return self.view.link is not None and self.view.link.state in ("down", "refused")
