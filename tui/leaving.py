"""Screens that are left once: Textual takes the topmost screen away for each ``dismiss``, whichever asks for it, so
that two keys in one go (``Esc Esc``) would take away what lies below as well, in the end the last one."""

from __future__ import annotations

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen

R = TypeVar("R")


class Page(Screen[R]):
    """A whole screen that can be left."""

    def dismiss(self, result: R | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete()


class Modal(ModalScreen[R]):
    """A screen over another."""

    def dismiss(self, result: R | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_active else AwaitComplete()
