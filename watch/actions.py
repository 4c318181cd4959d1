"""What operators did, step by step, folded from the readings of their actions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from probes.readings import OperatorAction
from probes.systemd import span

_CHANGE = ("stop", "leftovers", "memory", "start")
_FILES = ("check", "verify", "save", "write", "reload")

STEPS: Mapping[str, tuple[str, ...]] = {
    "start": ("memory", "start"),
    "stop": ("stop", "leftovers", "memory"),
    "restart": _CHANGE,
    "rollback": (*_FILES, *_CHANGE),
    "undo": (*_FILES, *_CHANGE),
    "fallback": _CHANGE,
}
"""What an action goes through, in its order, as ``operate/steps.sh`` does."""

KEPT = 8
"""Actions that are remembered: one is shown, others may run or have been refused beside it."""

_KILL = re.compile(r"ends by SIGKILL after ([0-9a-z ]+);")
INSTEAD = re.compile(r", (\S+) instead$")


class StepView(Struct, frozen=True, kw_only=True):
    """One step. ``status``: pending, running, done, skipped, failed, unknown (the action ended in the middle of it)."""

    name: str
    status: str
    started: float | None = None
    ended: float | None = None
    text: str = ""
    """what it waits for now, or what came of it"""
    kill_at: float | None = None
    """when systemd ends what does not stop"""


class ActionView(Struct, frozen=True, kw_only=True):
    """One action, as far as it is known. ``outcome``: empty while it runs; done, failed, refused, unknown."""

    id: str
    action: str
    unit: str
    who: str
    began: float
    at: float
    """of what was said last"""
    steps: tuple[StepView, ...]
    fallback: str = ""
    """the unit that is started instead"""
    ended: float | None = None
    outcome: str = ""
    detail: str = ""
    state: str = ""
    """in what state a failure has left the host"""
    undo: str = ""
    """what would undo it"""
    warning: str = ""
    """what went wrong beside the steps, and does not end them"""
    link: str = ""
    """why nothing is heard of it now; empty while it is"""

    @property
    def running(self) -> bool:
        return not self.outcome

    @property
    def step(self) -> StepView | None:
        """The one that runs, else the last one that did."""
        seen = [step for step in self.steps if step.status != "pending"]
        return next((step for step in seen if step.status == "running"), seen[-1] if seen else None)


class _Step:
    def __init__(self, name: str, at: float) -> None:
        self.name = name
        self.status = "running"
        self.started = at
        self.ended: float | None = None
        self.text = ""
        self.kill_at: float | None = None

    def take(self, reading: OperatorAction) -> None:
        outcome = reading.outcome
        if outcome in ("done", "skipped", "failed"):
            self.status, self.ended, self.text, self.kill_at = outcome, reading.at, reading.detail, None
        elif outcome in ("begun", "wait", "note"):
            self.text = reading.detail
            found = _KILL.search(reading.detail) if outcome == "wait" else None
            if found is not None and "infinity" not in found[1]:
                seconds = span(found[1])
                self.kill_at = self.started + seconds if 0 < seconds < 1e7 else None
                self.text = reading.detail.partition("; ")[2] if self.kill_at else self.text

    def view(self) -> StepView:
        return StepView(
            name=self.name,
            status=self.status,
            started=self.started,
            ended=self.ended,
            text=self.text,
            kill_at=self.kill_at,
        )


class _Act:
    def __init__(self, first: OperatorAction) -> None:
        self.first = first
        self.at = first.at
        self.steps: dict[str, _Step] = {}
        self.fallback = self.state = self.undo = self.link = self.warning = ""
        self.end: OperatorAction | None = None

    def take(self, reading: OperatorAction) -> None:
        self.at = max(self.at, reading.at)
        if reading.step == "link":
            self.link = reading.detail if reading.outcome == "wait" else ""
            return
        self.link = ""
        if reading.outcome == "state":
            self.state = reading.detail
        elif reading.outcome == "undo":
            self.undo = reading.detail
        elif reading.outcome == "warning":
            self.warning = reading.detail
        elif reading.step == "begin":
            found = INSTEAD.search(reading.detail)
            self.fallback = found[1] if found is not None else self.fallback
        elif reading.step == "end":
            self.end, self.undo = reading, reading.undo or self.undo
            for step in self.steps.values():
                if step.status == "running":
                    step.status, step.ended = "unknown", reading.at
        elif reading.step:
            self.steps.setdefault(reading.step, _Step(reading.step, reading.at)).take(reading)

    def view(self) -> ActionView:
        first, end = self.first, self.end
        seen = tuple(step.view() for step in self.steps.values())
        to_come = () if end is not None else STEPS.get(first.action, ())
        return ActionView(
            id=first.id,
            action=first.action,
            unit=first.unit,
            who=first.who,
            began=first.at,
            at=self.at,
            steps=seen + tuple(StepView(name=name, status="pending") for name in to_come if name not in self.steps),
            fallback=self.fallback,
            ended=end.at if end is not None else None,
            outcome=(end.outcome or "unknown") if end is not None else "",
            detail=end.detail if end is not None else "",
            state=self.state,
            undo=self.undo,
            warning=self.warning,
            link=self.link if end is None else "",
        )


class Actions:
    """``apply`` readings in any order; ``view`` is the action that runs, or the last one that did."""

    def __init__(self) -> None:
        self._acts: dict[str, _Act] = {}
        self._view: ActionView | None = None

    def apply(self, reading: OperatorAction) -> None:
        if not reading.action or not reading.step:
            return
        act = self._acts.get(reading.id)
        if act is None:
            act = self._acts[reading.id] = _Act(reading)
            if len(self._acts) > KEPT:
                del self._acts[next(iter(self._acts))]
        act.take(reading)
        running = [act for act in self._acts.values() if act.end is None]
        self._view = (running or list(self._acts.values()))[-1].view()

    def view(self) -> ActionView | None:
        return self._view
