"""The operator's own rows of the catalogue, from beside the configuration; what is wrong with one of them is shown
beside the other sources, and the rest work."""

from __future__ import annotations

from probes.readings import ProbeReading
from tui import settings
from watch.catalogue import Catalogue, load
from watch.state import WatchState


def operators() -> Catalogue:
    """What ships, with ``findings.toml`` and ``findings/*.toml`` beside the configuration."""
    return load(settings.path().parent)


def tell(catalogue: Catalogue, state: WatchState, at: float) -> None:
    """Say on the screen which rows could not be used. ``at``: the watch's own time."""
    if catalogue.problems:
        more = len(catalogue.problems) - 1
        reason = catalogue.problems[0] + (f" (and {more} more)" if more else "")
        remedy = "Correct the row; it counts from the next start."
        state.apply(ProbeReading(at=at, probe="catalogue", state="failed", reason=reason, remedy=remedy))
