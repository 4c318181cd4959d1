"""The words for phases, states, severities and kinds, used everywhere alike (see tests/cases/README.md)."""

from __future__ import annotations

from typing import Literal, get_args

Phase = Literal[
    "pre-start",
    "process-start",
    "config",
    "dist-init",
    "weights",
    "draft-weights",
    "compile",
    "profile",
    "kv-cache",
    "warmup",
    "graph-capture",
    "api-start",
    "ready",
    "serving",
    "stopping",
    "n/a",
]
State = Literal["loading", "stalled", "ready", "failed", "stopped", "unknown"]
Severity = Literal["info", "warning", "error", "fatal"]

PHASES: tuple[Phase, ...] = get_args(Phase)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


def rank(severity: Severity) -> int:
    """0 for info to 3 for fatal, for sorting."""
    return SEVERITIES.index(severity)
