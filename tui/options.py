"""Lists and the palette, also where the terminal leaves no room for a single row of them."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.command import Command, CommandList, CommandPalette
from textual.widgets import OptionList


def _moved(options: OptionList, action: str) -> bool:
    """Whether an action that goes by the page was done by the row: rows that have no room are not laid out, and then
    Textual knows no pages (its ``_move_page`` raises KeyError)."""
    if action not in ("page_up", "page_down") or options.scrollable_content_region:
        return False
    if action == "page_up":
        options.action_cursor_up()
    else:
        options.action_cursor_down()
    return True


class Options(OptionList):
    """A list of options."""

    def action_page_up(self) -> None:
        if not _moved(self, "page_up"):
            super().action_page_up()  # type: ignore[no-untyped-call]

    def action_page_down(self) -> None:
        if not _moved(self, "page_down"):
            super().action_page_down()  # type: ignore[no-untyped-call]


class Palette(CommandPalette):
    """The command palette."""

    def _action_command_list(self, action: str) -> None:  # Textual's own name: it goes before one without underscore
        if not _moved(self.query_one(CommandList), action):
            super()._action_command_list(action)

    def _refresh_command_list(self, command_list: CommandList, commands: list[Command], clear_current: bool) -> None:
        """What is still being found while the palette goes away is not shown any more."""
        if command_list.is_attached:
            super()._refresh_command_list(command_list, commands, clear_current)

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Once: see ``tui.leaving``."""
        return super().dismiss(result) if self.is_active else AwaitComplete()
