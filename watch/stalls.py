"""Whether a load that says nothing has stopped: judged on every signal at once, against what is usual for its phase."""

from __future__ import annotations

from msgspec import Struct

from watch.pieces import Point
from watch.view import StallView
from watch.words import Phase


class Signals(Struct, frozen=True, kw_only=True):
    """What is known about a load's movement at ``now``. Times are UTC seconds; None: no such source, or nothing yet.

    ``phase_since``: first mark of the running phase. ``line_at``: last line of this load, of any process;
    ``telling_at``: last line of it that is not one of the notices that repeat while nothing moves.
    ``last_line``: message of the last telling line. ``points``: updates of the running phase's newest bar, oldest
    first (counters inside, so that the usual interval can be seen). ``gpu_mib``: memory used on the fullest GPU;
    ``gpu_moved_at``: when the memory of any GPU last changed by more than noise; ``gpu_since``: first GPU reading of
    the load. ``gpu_busy``: mean utilisation 0–100. ``read_moved_at``: when bytes read last grew; ``read_rate``: bytes
    a second. ``cpu_rate``: cores in use; ``cpu_since``: first such reading.
    ``heard_at``: last reading of any kind; ``link_up``: False while the link is down or silent; ``gap``: the journal
    has lost lines since the last telling line. ``compilers``: nvcc, cicc, ptxas … run on the host.
    ``weights_bytes``, ``bytes_read``: as in a forecast.
    """

    now: float
    phase: Phase
    phase_since: float
    engine: str = ""
    line_at: float | None = None
    telling_at: float | None = None
    last_line: str = ""
    points: tuple[Point, ...] = ()
    gpu_mib: float | None = None
    gpu_moved_at: float | None = None
    gpu_since: float | None = None
    gpu_busy: float | None = None
    read_moved_at: float | None = None
    read_rate: float | None = None
    cpu_rate: float | None = None
    cpu_since: float | None = None
    heard_at: float | None = None
    link_up: bool = True
    gap: bool = False
    compilers: bool = False
    weights_bytes: float | None = None
    bytes_read: float | None = None


def judge(signals: Signals) -> StallView | None:
    """The stall, or None while the load moves, is silent in a known way, or cannot be judged (link down).

    ``since``: when the last signal moved. Pure; never raises.
    """
    raise NotImplementedError


def quiet(signals: Signals) -> str:
    """What goes on where nothing is printed, in words for the phase's note ("compiling kernels for the first time:
    silent for up to 10 min"); empty where lines are due and come."""
    raise NotImplementedError
