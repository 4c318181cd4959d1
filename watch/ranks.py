"""The processes of one load: who they are, where each stands, and which of the workers lag.

Keyed by pid, since one worker bears up to three names (``VllmWorker-1``, ``Worker``, ``Worker_TP1``); where a log gives
no pid, by the name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from watch.load import ORDER, Speaker
from watch.view import RankView
from watch.words import Phase

PATIENCE = 5.0
"""Seconds that a worker may come after most of the others before it lags."""

LIMIT = 1024
"""Processes remembered; more than that only a hostile log has."""

_WORKER = re.compile(r"^(?:VllmWorker|Worker|TP\d|DP\d|PP\d)")
_NUMBER = re.compile(r"^(?:VllmWorker[- ](?:rank=)?|Worker_TP|TP)(\d{1,4})$|^(?:VllmWorker-)(\d{1,4})$")


@dataclass(slots=True)
class Rank:
    key: Speaker
    name: str = ""
    rank: int | None = None
    phase: Phase = "n/a"
    last_at: float = 0.0
    worker: bool = False
    marks: dict[str, float] = field(default_factory=dict)
    """mark → when this process first printed it"""


class Ranks:
    def __init__(self) -> None:
        self.all: dict[Speaker, Rank] = {}
        self._host: dict[int, Speaker] = {}
        self.world: int | None = None

    def key(self, line_pid: int, pid: int, process: str) -> Speaker:
        """Who speaks. ``line_pid``: as the journal knows it; ``pid``, ``process``: as the line's prefix says. In a
        container the two count differently, so the prefix wins, and is remembered for lines without one."""
        if pid:
            if line_pid and line_pid != pid and len(self._host) < LIMIT:
                known = self._host.get(line_pid)
                self._host[line_pid] = pid if known is None or known == pid else 0
            return pid
        if line_pid:
            return self._host.get(line_pid) or line_pid
        return process

    def name(self, key: Speaker) -> str:
        known = self.all.get(key)
        return known.name if known is not None else ""

    def title(self, key: Speaker) -> str:
        """Its name, with its rank where that does not say it: a worker is called Worker until it knows its place."""
        known = self.all.get(key)
        if known is None:
            return ""
        return f"{known.name} {known.rank}" if known.name == "Worker" and known.rank is not None else known.name

    def heard(self, key: Speaker, at: float, process: str = "") -> Rank:
        rank = self.all.get(key)
        if rank is None:
            rank = Rank(key)
            if len(self.all) < LIMIT:
                self.all[key] = rank
        if at > rank.last_at:
            rank.last_at = at
        if process and process != rank.name:
            rank.name = process
            rank.worker = rank.worker or _WORKER.match(process) is not None
            number = _NUMBER.match(process)
            if number is not None and rank.rank is None:
                rank.rank = int(number[1] or number[2])
        return rank

    def marked(self, rank: Rank, at: float, mark: str, phase: Phase, fields: dict[str, str]) -> None:
        """The process printed a mark."""
        rank.marks.setdefault(mark, at)
        if ORDER[phase] >= ORDER[rank.phase]:
            rank.phase = phase
        if fields.get("rank", "").isascii() and fields.get("rank", "").isdigit() and rank.worker:
            rank.rank = int(fields["rank"][:6])
        if fields.get("world", "").isdigit():
            self.world = int(fields["world"][:6])

    def views(self, now: float, phase: Phase) -> tuple[RankView, ...]:
        """All processes that said who they are. ``phase``: of the load; a worker that prints nothing of its own (most
        marks come from one rank only) is where the load is, unless it lags."""
        named = [rank for rank in self.all.values() if rank.name]
        workers = [rank for rank in named if rank.worker]
        late = self._late(workers, now) if ORDER[phase] < ORDER["ready"] else {}
        out = []
        for rank in named:
            behind = late.get(rank.key)
            own = rank.phase
            if behind is not None:
                own = behind
            elif rank.worker and ORDER[phase] > ORDER[own]:
                own = phase
            out.append(
                RankView(
                    pid=rank.key if isinstance(rank.key, int) else 0,
                    name=rank.name,
                    rank=rank.rank,
                    phase=own,
                    last_at=rank.last_at,
                    lags=behind is not None,
                )
            )
        out.sort(key=lambda view: (view.rank is not None, view.rank or 0, view.name, view.pid))
        return tuple(out)

    def _late(self, workers: list[Rank], now: float) -> dict[Speaker, Phase]:
        """Workers that have not printed what most of the others have, and the phase they hang in."""
        count = len(workers)
        if count < 2:
            return {}
        printed: dict[str, list[float]] = {}
        for rank in workers:
            for mark, at in rank.marks.items():
                printed.setdefault(mark, []).append(at)
        out: dict[Speaker, Phase] = {}
        for mark, times in printed.items():
            if len(times) * 2 <= count or len(times) == count or now - max(times) < PATIENCE:
                continue
            furthest = max(max(rank.marks.values(), default=0.0) for rank in workers if mark in rank.marks)
            for rank in workers:
                if mark not in rank.marks and max(rank.marks.values(), default=0.0) <= furthest:
                    out[rank.key] = rank.phase
        return out
