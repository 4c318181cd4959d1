"""The catalogue of findings: what is worth recognising, as data.

The rows that ship are the TOML files in ``watch/signals/``; an operator's own are ``findings.toml`` and
``findings/*.toml`` in the configuration folder. ``docs`` of a row's fields: see ``Row``. A row that cannot be used is
named with its file and line in ``Catalogue.problems`` and left out; all others work.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from watch.words import Phase, Severity


class Row(Struct, frozen=True, kw_only=True):
    """One signal. Texts may name the pattern's groups: ``{name}`` the first value, ``{name+}`` all values seen,
    ``[[… {name} …]]`` is left out where the value is not known."""

    id: str
    kind: str
    layer: str
    pattern: tuple[str, ...]
    severity: Severity
    title: str
    cause: str = ""
    remedy: str = ""
    versions: str = ""


class Catalogue(Struct, frozen=True, kw_only=True):
    """``patterns``: everything one combined ``watch.matching.Matcher`` has to look for, in this order; what
    ``Findings.see`` is given as ``rows`` are indices into it. ``problems``: one sentence each, with file and line."""

    rows: tuple[Row, ...]
    patterns: tuple[str, ...]
    problems: tuple[str, ...] = ()


def shipped() -> Catalogue:
    """The rows that ship, read once."""
    raise NotImplementedError


def load(folder: Path | None = None) -> Catalogue:
    """The rows that ship and, after them, those of the operator's configuration folder. Never raises on bad rows."""
    raise NotImplementedError


__all__ = ["Catalogue", "Phase", "Row", "load", "shipped"]
