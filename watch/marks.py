"""The marks of the phases: rows of data that say which line begins, moves or ends a phase. See ``marks.toml``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from watch.words import Phase


class Mark(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row. ``pattern``: RE2, searched in the message (no head, no escapes). ``event``: ``start`` (the phase begins
    here), ``progress`` (it is running), ``end`` (it ends here). Named groups are the row's fields: see ``marks.toml``."""

    id: str
    phase: Phase
    event: Literal["start", "progress", "end"]
    pattern: str
    examples: tuple[str, ...]
    engine: str = "vllm"
    versions: str = ""


def load_marks(extra: Sequence[Path] = ()) -> tuple[Mark, ...]:
    """The marks that ship with firstlight, then those of the operator's own files."""
    raise NotImplementedError
