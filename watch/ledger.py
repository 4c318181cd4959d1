"""What a watch leaves in the history: its load, whenever that has come further, with the text of its unit."""

from __future__ import annotations

from probes.readings import GpuReading, Reading, UnitFile
from watch.keeping import Keeper
from watch.load_key import load_key
from watch.state import WatchState


class Ledger:
    """Looks on while ``state`` is folded and hands its load to ``keeper``. Never raises (see ``Keeper``)."""

    def __init__(self, state: WatchState, keeper: Keeper) -> None:
        self._state = state
        self._keeper = keeper
        self._text = ""
        self._versions: dict[str, str] = {}

    @property
    def reason(self) -> str:
        """Why nothing can be kept; empty while it can."""
        return self._keeper.reason

    def see(self, reading: Reading) -> None:
        """A reading that the fold has taken in."""
        if isinstance(reading, UnitFile):
            self._text = reading.text
        elif isinstance(reading, GpuReading) and reading.driver:
            self._versions["driver"] = reading.driver

    def keep(self) -> None:
        """The load has changed."""
        state = self._state
        attempt = state.attempts.current
        if attempt is None:
            return
        load = attempt.load
        arguments = state.asked.arguments()
        model = load.facts.get("model", "") or arguments.get("model", "")
        if not model:
            return  # without it, nothing says which later load this one is like
        cause = state.findings.cause(load.number)
        self._keeper.keep(
            load,
            load_key(state.target, state.unit, model, arguments),
            unit_text=self._text,
            versions=self._versions,
            cause=cause.title if cause is not None else "",
        )
