"""Saved files in, one reading of the situation out: ``firstlight explain``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from watch.catalogue import Catalogue
from watch.view import FindingView, View
from watch.words import Phase, Severity, State


class CannotExplain(Exception):
    """No reading can be given: one clear sentence with a remedy (a missing, empty or foreign file)."""


class Report(Struct, frozen=True, kw_only=True):
    """What the files show at their last moment (or at ``at`` seconds after the load's start)."""

    state: State
    phase: Phase
    severity: Severity
    headline: str
    lines: tuple[str, ...]
    """``file:line`` that carry state and progress."""
    findings: tuple[FindingView, ...]
    view: View
    notes: tuple[str, ...] = ()
    """about the reading itself: files that could not be read, broken catalogue rows, times without a year"""


def explain(
    paths: Sequence[Path], *, at: float | None = None, catalogue: Catalogue | None = None, history: object | None = None
) -> Report:
    """Read the files and folders as one situation. ``at``: only what was known that many seconds after the start of
    the (last) load. Raises CannotExplain."""
    raise NotImplementedError


def report_json(report: Report) -> bytes:
    """The object that ``explain --json`` prints, with a newline at its end."""
    raise NotImplementedError


def render_text(report: Report, *, width: int = 100, colour: bool = False) -> str:
    """For a person: verdict, cause with its own lines, remedy, phases, other findings. Control characters of the
    logs are shown, never sent."""
    raise NotImplementedError
