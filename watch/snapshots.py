"""Copies of a fold, taken on the way through a recording, so that any moment of it is near one of them.

Pickled and unpickled within this process: several times as fast as ``copy.deepcopy``, and a copy that only waits is one
string of bytes instead of thousands of objects.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from probes import readings
from watch.state import WatchState

_NEVER_CHANGES: Final = frozenset(
    kind for kind in vars(readings).values() if isinstance(kind, type) and issubclass(kind, Struct)
)
"""Readings and their parts: frozen, all of them."""


class Snapshot:
    """A state as it is now. What never changes (tables, machines made of them, readings) is not copied, only pointed
    at. Some milliseconds and some hundred kilobytes for a load of hours."""

    __slots__ = ("_pickled", "_shared")

    def __init__(self, state: WatchState) -> None:
        catalogue = state.findings.catalogue
        self._shared: list[object] = [state.marks, catalogue, state.matcher, state._steady, state._numbers]
        self._shared += [state._outlook._history, *catalogue.by_id.values()]
        out = io.BytesIO()
        _Pickler(out, self._shared).dump(state)
        self._pickled = out.getvalue()

    def state(self) -> WatchState:
        """The same state, which goes its own way from here."""
        state: WatchState = _Unpickler(io.BytesIO(self._pickled), self._shared).load()
        return state


def duplicate(state: WatchState) -> WatchState:
    """The same state, which goes its own way from here."""
    return Snapshot(state).state()


def _shared(number: int) -> object:
    """Stands in a pickle for what is not copied; see ``_Unpickler.find_class``."""
    raise pickle.UnpicklingError(f"{number} of what was shared is not here")


class _Pickler(pickle.Pickler):
    """Adds to ``shared`` what it meets that never changes."""

    def __init__(self, out: io.BytesIO, shared: list[object]) -> None:
        super().__init__(out, protocol=pickle.HIGHEST_PROTOCOL)
        self._shared = shared
        self._places = {id(one): place for place, one in enumerate(shared) if one is not None}

    def reducer_override(self, obj: object) -> Any:
        place = self._places.get(id(obj))
        if place is None:
            if type(obj) not in _NEVER_CHANGES:
                return NotImplemented
            place = self._places[id(obj)] = len(self._shared)
            self._shared.append(obj)
        return _shared, (place,)


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: io.BytesIO, shared: Sequence[object]) -> None:
        super().__init__(pickled)
        self._found = shared

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == _shared.__name__:
            return self._found.__getitem__
        return super().find_class(module, name)
