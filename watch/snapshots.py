"""Copies of a fold, taken on the way through a recording, so that any moment of it is near one of them."""

from __future__ import annotations

import copy

from watch.state import WatchState


def duplicate(state: WatchState) -> WatchState:
    """The same state, which goes its own way from here. What never changes (tables, machines made of them, readings)
    is shared; milliseconds and some hundred kilobytes for a load of hours."""
    catalogue, marks = state.findings.catalogue, state.marks
    shared: list[object] = [marks, catalogue, state.matcher, state._steady, state._numbers, state._outlook._history]
    shared += list(catalogue.by_id.values())
    past, state._past = state._past, {}  # pictures of loads that are over, made anew when they are asked for
    try:
        return copy.deepcopy(state, {id(one): one for one in shared})
    finally:
        state._past = past
