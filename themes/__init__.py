"""Dresses: theme files and the few lines that load them.

A theme is a TOML file beside this one: Textual's colours, and the variables (``fl-…``) that the style sheet names.
Every theme gives every variable; ``defaults`` serves those themes that are not ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from textual.theme import Theme

_FOLDER: Final = Path(__file__).parent

STYLE_SHEET: Final = _FOLDER / "firstlight.tcss"

DARK: Final = "firstlight-dark"
LIGHT: Final = "firstlight-light"
CONTRAST: Final = "firstlight-contrast"
PLAIN: Final = "firstlight-plain"
"""For ``NO_COLOR``: attributes only."""


class _Colors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    primary: str
    secondary: str
    accent: str
    foreground: str
    background: str
    surface: str
    panel: str
    success: str
    warning: str
    error: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    title: str
    dark: bool
    colors: _Colors
    variables: dict[str, str]
    ansi: bool = False


def themes() -> list[Theme]:
    """All themes of this folder, the default one first."""
    return [_theme(_read(path)) for path in sorted(_FOLDER.glob("*.toml"), key=lambda path: path.stem != "dark")]


def defaults() -> dict[str, str]:
    """Our variables as the default theme gives them."""
    return dict(_read(_FOLDER / "dark.toml").variables)


def _read(path: Path) -> _File:
    return msgspec.toml.decode(path.read_bytes(), type=_File)


def _theme(file: _File) -> Theme:
    colors = file.colors
    return Theme(
        name=file.name,
        dark=file.dark,
        ansi=file.ansi,
        variables=dict(file.variables),
        primary=colors.primary,
        secondary=colors.secondary,
        accent=colors.accent,
        foreground=colors.foreground,
        background=colors.background,
        surface=colors.surface,
        panel=colors.panel,
        success=colors.success,
        warning=colors.warning,
        error=colors.error,
    )
