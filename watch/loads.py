"""The pictures of all loads of a unit; those of loads that are over are kept for as long as nothing more is heard."""

from __future__ import annotations

from collections.abc import Sequence

from watch import picture
from watch.attempts import Attempt
from watch.view import LoadView


class Loads:
    """What is kept is made anew wherever it is missing: a copy of the fold goes without it."""

    def __init__(self) -> None:
        self._over: dict[int, tuple[tuple[float | None, ...], LoadView]] = {}

    def __reduce__(self) -> tuple[type[Loads], tuple[()]]:
        return Loads, ()

    def views(self, attempts: Sequence[Attempt], present: LoadView | None) -> tuple[LoadView, ...]:
        """``present``: the picture of the load that goes on, made already."""
        out: list[LoadView] = []
        if len(self._over) > 2 * len(attempts):
            self._over.clear()
        for attempt in attempts:
            load = attempt.load
            if present is not None and load.number == present.number:
                out.append(present)
                continue
            known, stamp = self._over.get(load.number), (load.last_line, load.failed_at, load.stop_at, load.ended)
            if known is None or known[0] != stamp:
                view = picture.load_view(attempt, load.ended or load.started, load.state(probed=False))
                known = self._over[load.number] = (stamp, view)
            out.append(known[1])
        return tuple(out)
