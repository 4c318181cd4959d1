"""A recording, to be played: the fold that it had, with what this machine's history and operator know."""

from __future__ import annotations

from tui.catalogue import operators, tell
from watch.history import History, HistoryError
from watch.keeping import Recall
from watch.player import Player
from watch.session import SessionReader
from watch.state import WatchState


def player(reader: SessionReader, speed: float) -> Player:
    """Plays a recording. The reader stays the caller's."""
    return Player(reader, lambda: folded(reader), speed, label=f"recorded as {reader.path.name}")


def folded(reader: SessionReader) -> WatchState:
    """An empty fold for a recording. It knows the loads before it that this machine's history has, as the watch did."""
    header = reader.header
    rows = operators()
    state = WatchState(
        header.target or "unknown host",
        header.unit or "unknown unit",
        endpoint=header.endpoint,
        catalogue=rows,
        history=_recall(),
    )
    tell(rows, state, header.started)
    return state


def _recall() -> Recall | None:
    """Asked once a load, for loads that began before it: what it answers stays the same."""
    try:
        return Recall(History.open())
    except HistoryError:
        return None
