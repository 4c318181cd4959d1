"""When the present load will be ready: asked of the forecast with what the fold knows, and of earlier loads."""

from __future__ import annotations

import math
from typing import Protocol

import msgspec

from probes.readings import EarlierReading
from watch import picture
from watch.asked import Asked
from watch.forecast import Forecast, LoadSoFar, forecast
from watch.gpu import Gpus
from watch.history import Key, load_key
from watch.io import Io
from watch.load import Load
from watch.pieces import EarlierLoad
from watch.view import ForecastView

_MOST_TOLD = 1000
_FINEST, _COARSEST = 2.0, 10.0
"""Seconds between two forecasts of a short and of a long load while nothing happens."""


class Earlier(Protocol):
    """Where earlier loads come from: ``watch.history.History``."""

    def earlier(self, key: Key, *, before: float | None = None) -> tuple[EarlierLoad, ...]: ...


class Outlook:
    """``history`` is asked once a load for what the unit's text says of its arguments, and once more when the server
    has listed them."""

    def __init__(self, target: str, unit: str, history: Earlier | None) -> None:
        self._target, self._unit, self._history = target, unit, history
        self._earlier: tuple[tuple[int, bool, str], tuple[EarlierLoad, ...]] | None = None
        self._told: dict[tuple[float, str, str], tuple[EarlierLoad, ...]] = {}
        """what a recording says that the history said"""
        self._last: tuple[LoadSoFar, Forecast | None] | None = None

    def earlier(self, load: Load, asked: Asked) -> tuple[EarlierLoad, ...]:
        """Earlier loads of the same key that reached ready, the most recent first."""
        arguments = asked.arguments()
        model = load.facts.get("model", "") or arguments.get("model", "")
        known = (load.number, asked.args is not None, model)
        if not model:
            return ()
        if self._earlier is None or self._earlier[0] != known:
            key = load_key(self._target, self._unit, model, arguments)
            found = self._told.get((load.started, key.model, key.arguments))
            if found is None:
                found = self._history.earlier(key, before=load.started) if self._history is not None else ()
            self._earlier = (known, found)
        return self._earlier[1]

    def told(self, reading: EarlierReading) -> None:
        """What the history of the machine that recorded said goes before what the one of this machine says."""
        try:
            loads = msgspec.convert(reading.loads, tuple[EarlierLoad, ...])
        except msgspec.ValidationError:  # of a version that tells more of a load, or less
            return
        if len(self._told) < _MOST_TOLD:
            self._told[reading.before, reading.model, reading.arguments] = loads
            self._earlier = None

    def forecast(
        self, load: Load, gpus: Gpus, io: Io, asked: Asked, now: float, earlier: tuple[EarlierLoad, ...]
    ) -> Forecast | None:
        """The forecast for this moment, in whole steps of a fifteenth of the load's age (two seconds at least): it
        moves no faster than that. It costs milliseconds, so the last one is kept while nothing it is made from has
        changed; that changes no answer."""
        moment = now
        if math.isfinite(now):
            age = now - load.started
            step = min(_COARSEST, max(_FINEST, age // 15)) if math.isfinite(age) else _FINEST
            moment = math.floor(now / step) * step
        so_far = picture.so_far(load, gpus, io, moment, asked.arguments(), earlier)
        if self._last is None or self._last[0] != so_far:
            self._last = (so_far, forecast(so_far))
        return self._last[1]


def forecast_view(outlook: Forecast | None, now: float) -> ForecastView | None:
    """As seen now: none of it lies in the past."""
    if outlook is None:
        return None
    low = max(outlook.low, now)
    return ForecastView(low=low, middle=max(outlook.middle, low), high=max(outlook.high, low), basis=outlook.basis)
