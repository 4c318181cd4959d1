"""When a load will be ready: a range of time, from what this load has shown, its earlier loads and priors."""

from __future__ import annotations

from msgspec import Struct

from watch.pieces import EarlierLoad, PhaseSeen
from watch.words import Phase


class LoadSoFar(Struct, frozen=True, kw_only=True):
    """Everything a forecast is made from. Unknown is None (or empty); any combination is accepted.

    ``started``: UTC seconds of the start attempt (systemd's), or of the first line where that is not known.
    ``first_line``: of the first line that the server itself printed; None before it. ``now``: UTC seconds.
    ``phases``: in order of their first mark, the running one last (``ended`` None). ``params_b``: billions of
    parameters, from the model's name. ``bytes_read``: read from storage by this load until now; ``read_rate``: bytes
    a second lately. ``network``: the checkpoint lies on a network file system. ``draft``: a draft model's weights are
    loaded too. ``earlier``: loads of the same key, most recent first.
    """

    started: float
    now: float
    first_line: float | None = None
    engine: str = ""
    version: str = ""
    phases: tuple[PhaseSeen, ...] = ()
    weights_bytes: float | None = None
    params_b: float | None = None
    bytes_read: float | None = None
    read_rate: float | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    network: bool | None = None
    eager: bool | None = None
    compiled: bool | None = None
    compile_cache_warm: bool | None = None
    draft: bool = False
    earlier: tuple[EarlierLoad, ...] = ()


class PieceForecast(Struct, frozen=True):
    """How long a phase that has not ended will take in all, seconds; ``low``..``high`` holds it 8 times in 10."""

    name: Phase
    low: float
    middle: float
    high: float


class Forecast(Struct, frozen=True, kw_only=True):
    """UTC seconds; ``low`` ≤ ``middle`` ≤ ``high``, none before ``now``; ``low``..``high`` holds the real time of
    ready 8 times in 10. ``basis``: where it comes from, in words for the screen. ``phases``: the phases to come and
    the running one."""

    low: float
    middle: float
    high: float
    basis: str
    phases: tuple[PieceForecast, ...] = ()


def forecast(load: LoadSoFar) -> Forecast | None:
    """When this load will be ready. None: there is nothing to say (times that cannot be, or already ready).

    Pure and deterministic; takes about a millisecond; never raises.
    """
    raise NotImplementedError
