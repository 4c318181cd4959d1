"""The fold of findings: journal lines and other readings in; what is wrong, why, and what to do about it, out.

One fact is one finding, however many ranks print it. The cause of a failure is the first exception in time that is
not a consequence; consequences point to it. No clock and no I/O: everything comes with the readings.
"""

from __future__ import annotations

from collections.abc import Sequence

from probes.readings import JournalLine, Reading
from watch.catalogue import Catalogue
from watch.heads import Head
from watch.view import FindingView, GpuView, StallView
from watch.words import Phase, State


class Findings:
    """All findings of one deployment. ``catalogue``: None takes the one that ships.

    ``load`` is the number of the load a reading belongs to (1, 2, …; 0 before any), ``phase`` where that load stands.
    """

    def __init__(self, catalogue: Catalogue | None = None, *, unit: str = "") -> None: ...

    @property
    def patterns(self) -> tuple[str, ...]:
        """What the combined matcher must look for; ``rows`` given to ``see`` are indices into this."""
        raise NotImplementedError

    @property
    def hungry(self) -> bool:
        """While true, ``see`` wants every line, also those without any match: a traceback is open, say."""
        raise NotImplementedError

    def see(
        self, line: JournalLine, head: Head, rows: Sequence[int], *, load: int, phase: Phase, ready: bool = False
    ) -> bool:
        """Take in a line in which ``rows`` of ``patterns`` occur. Call it for every line with a match, for every
        line that is a bar or a mark, for every line with ``truncated`` or a ``line_break`` of ``line-max``, and for
        all lines while ``hungry``. ``ready``: this load has been ready. True: a finding changed."""
        raise NotImplementedError

    def judge(self, reading: Reading, *, load: int, phase: Phase, state: State = "unknown") -> bool:
        """Take in any other reading. True: a finding changed."""
        raise NotImplementedError

    def views(
        self, load: int, *, stall: StallView | None = None, phase: Phase = "n/a", gpu: GpuView | None = None
    ) -> tuple[FindingView, ...]:
        """What is known about this load and the host, most severe first; earlier loads' findings that are the same
        are counted in. With ``stall``, its own finding is among them (with what the GPUs say about the reason)."""
        raise NotImplementedError

    def cause(self, load: int) -> FindingView | None:
        """Why this load cannot go on: its first fatal finding that is not a consequence. None: nothing says so."""
        raise NotImplementedError

    def fatal(self, load: int) -> bool:
        """Whether something was seen after which this load cannot become ready any more."""
        raise NotImplementedError
