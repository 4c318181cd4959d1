"""Style sheets are read once at a start, by whichever theme it begins with, and anew for another theme."""

from __future__ import annotations

import pytest
from textual.css.stylesheet import Stylesheet

import themes
from tests.tui.showing import showing


@pytest.mark.parametrize("theme", [themes.DARK, "firstlight-light", "nord"])
async def test_a_start_reads_its_style_sheets_once(monkeypatch: pytest.MonkeyPatch, theme: str) -> None:
    read: list[str] = []
    usual = Stylesheet.reparse

    def counted(sheet: Stylesheet) -> None:
        read.append("again")
        usual(sheet)

    monkeypatch.setattr(Stylesheet, "reparse", counted)
    async with showing(theme=theme) as shown:
        assert read == []
        worn = [node.styles.background.hex for node in shown.app.screen.walk_children(with_self=True)]
        shown.app.refresh_css(animate=False)
        assert read == ["again"]
        assert worn == [node.styles.background.hex for node in shown.app.screen.walk_children(with_self=True)]
        shown.app.theme = "textual-dark"
        await shown.pilot.pause()
        assert read == ["again", "again"]
