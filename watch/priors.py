"""What is known about loads before one has been seen: ``priors.toml``, and the shape it has."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from watch.pieces import Piece

PRIORS_FILE = Path(__file__).with_name("priors.toml")


class PieceTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Durations of one piece: ``median`` and ``scale`` of log(1 + seconds) - size · log(1 + GiB / unit), over ``loads``
    loads that show it whole."""

    median: float
    scale: float
    size: float
    loads: int


class SizeTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``unit``: GiB of weights below which size hardly matters. ``median`` and ``scale`` of log(1 + GiB / unit), for
    loads whose size is not known."""

    unit: float
    median: float
    scale: float


class FeatureTable(Struct, frozen=True, forbid_unknown_fields=True):
    """One property of a load, brought to mean 0 and deviation 1. ``least``..``most``: what was seen; nothing is
    concluded from values beyond it."""

    mean: float
    deviation: float
    least: float
    most: float
    loads: int


class BarTable(Struct, frozen=True, forbid_unknown_fields=True):
    """How far the total time worked out from a bar is off: deviation of its logarithm at each share of the bar."""

    share: tuple[float, ...]
    deviation: tuple[float, ...]


class CompileTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Shift of the logarithm of the compile piece when the state of its cache is known."""

    warm: float
    cold: float


class EagerTable(Struct, frozen=True, forbid_unknown_fields=True):
    """What is left of a piece with ``enforce_eager``, as a factor."""

    capture: float


class CpuTable(Struct, frozen=True, forbid_unknown_fields=True):
    """What is left of pieces where vLLM runs on processors, as factors: no graphs are captured, and without
    torch.compile no memory is measured."""

    capture: float
    profile: float


class Silent(Struct, frozen=True, forbid_unknown_fields=True):
    """What no log shows, because it comes before the first line: ``median`` seconds and ``scale`` of the logarithm."""

    median: float
    scale: float


class HistoryTable(Struct, frozen=True, forbid_unknown_fields=True):
    """How much a piece differs between two loads of one key: deviation of log(1 + seconds) by piece, the share of it
    that all pieces have in common (the machine's pace that day), seconds by which short pieces differ anyway, and the
    shift of the compile piece when the earlier load had to fill the cache."""

    deviation: dict[Piece | str, float]
    together: float
    seconds: float
    after_cold: float
    weights: tuple[float, ...]
    """of the earlier loads, most recent first"""


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """How futures become a range.

    ``low``, ``middle``, ``high``: quantiles. ``by_total``, ``by_rest``: possible futures count in proportion to
    total^-by_total · rest^-by_rest, so that the middle is the value with the least relative error, not the least
    absolute one (on a first load only). ``range_by_total``: the same for the range, which has to hold the real time
    and not to be near it. ``early``, ``late``: factor on the spread before and after the end of the first
    bar; ``history``: where there are earlier loads.
    """

    low: float
    middle: float
    high: float
    by_total: float
    by_rest: float
    range_by_total: float
    early: float
    late: float
    history: float


class Priors(Struct, frozen=True, forbid_unknown_fields=True):
    """The file. ``correlation``: of the latent values, pieces first, then features, in the order of their tables."""

    source: str
    loads: int
    correlation: tuple[tuple[float, ...], ...]
    size: SizeTable
    pieces: dict[Piece, PieceTable]
    features: dict[str, FeatureTable]
    bar: BarTable
    compile: CompileTable
    eager: EagerTable
    cpu: CpuTable
    boot: Silent
    pre_start: Silent
    history: HistoryTable
    calibration: Calibration


def parse_priors(text: str) -> Priors:
    """Raises tomllib.TOMLDecodeError or msgspec.ValidationError on a file that is none."""
    return msgspec.convert(tomllib.loads(text), Priors)


@functools.cache
def shipped_priors() -> Priors:
    """The priors that come with firstlight."""
    return parse_priors(PRIORS_FILE.read_text(encoding="utf-8"))
