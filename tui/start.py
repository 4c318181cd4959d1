"""``firstlight`` alone: what may be watched, to be chosen from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import themes
from tui.base import BaseApp
from tui.screens.help import HelpScreen
from tui.screens.start import Asks, Chosen, StartScreen
from watch.offers import Offers

__all__ = ["Chosen", "Start", "Trouble"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why what was chosen before could not be watched: one sentence and its remedy."""

    reason: str
    remedy: str = ""


class Start(BaseApp[Chosen]):
    """Ends with what was chosen, or None. ``ask``: asks a host for its units."""

    def __init__(
        self,
        offers: Offers,
        ask: Asks,
        *,
        now: float,
        trouble: Trouble | None = None,
        theme: str = themes.DARK,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(theme=theme, keys=keys)
        said = f"{trouble.reason} {trouble.remedy}".strip() if trouble is not None else offers.problem
        self.start = StartScreen(offers, ask, now, said)

    def on_mount(self) -> None:
        self.set_keymap(self._keys)
        self.push_screen(self.start)

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "help" and self.screen.is_modal:
            return False
        if action == "command_palette":
            return False  # there is nothing here that the footer does not name
        return super().check_action(action, parameters)
