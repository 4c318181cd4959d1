"""What every app of firstlight is: dressed by our themes, with keys from the table and an operator's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar, TypeVar

from rich.console import RenderableType
from rich.style import Style
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

import themes
from tui.keys import bindings, keymap
from tui.options import Palette
from tui.terminal import TerminalDriver
from tui.widgets.rows import STYLES

R = TypeVar("R")


class BaseApp(App[R], inherit_bindings=False):
    """``keys``: an operator's keys by id. Raises ``tui.keys.BadKey`` for keys that cannot be used."""

    CSS_PATH = str(themes.STYLE_SHEET)
    TITLE = "firstlight"
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"fl--{name}" for name in STYLES}
    """On the app, not on each widget: two dozen styles, resolved once a theme."""
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("app")]

    def __init__(self, *, theme: str = themes.DARK, keys: Mapping[str, str] | None = None) -> None:
        # Textual chooses its filter before our theme is known: native colours, or NO_COLOR would be shades of grey.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self._styles: dict[str, Style] = {}
        self.leaving = False
        self._keys = keymap(keys or {})
        for dress in themes.themes():
            self.register_theme(dress)
        self.theme = themes.PLAIN if self.no_color else theme
        self._begun_with = self.get_css_variables()
        self.stylesheet.set_variables(self._begun_with)

    def refresh_css(self, animate: bool = True) -> None:
        """Textual asks for this once more for the theme that it begins with, and would read every style sheet twice."""
        begun_with, self._begun_with = self._begun_with, {}
        if begun_with and begun_with == self.get_css_variables():
            self.stylesheet.update(self, animate=animate)
        else:
            super().refresh_css(animate)

    def get_driver_class(self) -> type[Driver]:
        usual = super().get_driver_class()
        return TerminalDriver if usual is LinuxDriver else usual  # else the browser's

    def attended(self) -> None:
        """A key or a button was pressed: called by the terminal, in a thread of its own, before it is known which."""

    def exit(self, result: R | None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        self.leaving = True
        super().exit(result, return_code, message)

    def pop_screen(self) -> AwaitComplete:
        """While the app ends Textual takes the screens away itself; what keys still ask for would break that."""
        return AwaitComplete() if self.leaving else super().pop_screen()

    def action_command_palette(self) -> None:
        if self.use_command_palette and not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def dress(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self.get_component_styles(f"fl--{name}").partial_rich_style
        return style

    def notify_style_update(self) -> None:
        self._styles.clear()
        super().notify_style_update()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return themes.defaults()

    def keys_of(self, name: str) -> str:
        return self._keys.get(name, "")
