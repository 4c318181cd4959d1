"""Keys in any number, in a terminal without room, while the program ends."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest
from msgspec.json import decode
from textual.screen import Screen

import tui
from tests.tui import views
from tests.tui.showing import showing
from tui.commands import screen as command
from tui.exits import Ending, Exit
from tui.json import inert
from tui.leaving import Modal, Page
from tui.options import Palette
from tui.screens.ask import AskLine
from watch.config import Config


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (40, 3)])
@pytest.mark.parametrize("opens", ["colon", "s", "question_mark", "v", "c"])
async def test_pages_without_room(size: tuple[int, int], opens: str) -> None:
    async with showing(size=size) as shown:
        await shown.press(opens, "pagedown", "pageup", "down", "pagedown", "end", "pageup", "escape", "escape")
        assert shown.app.is_running
        assert shown.app.screen is shown.app.watching


def _screens() -> set[type]:
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        if not module.name.startswith("tui.web"):
            importlib.import_module(module.name)
    found: set[type] = set()
    rest: list[type] = [Screen]
    while rest:
        for kind in rest.pop().__subclasses__():
            rest.append(kind)
            if kind.__module__.startswith("tui.") and kind.__module__ != "tui.leaving":
                found.add(kind)
    return found


def test_every_screen_is_one_that_is_left_once() -> None:
    screens = _screens()
    assert len(screens) > 10
    assert {kind for kind in screens if not issubclass(kind, Page | Modal | Palette)} == set()


@pytest.mark.parametrize("opens", ["colon", "question_mark", ""])
async def test_a_screen_that_is_left_twice_takes_no_other_with_it(opens: str) -> None:
    async with showing(rows=views.lines()) as shown:
        if opens:
            await shown.press(opens)
        else:
            await shown.app.push_screen(AskLine("A note"))
        top: Screen[Any] = shown.app.screen
        assert top is not shown.app.watching
        top.dismiss(None)
        top.dismiss(None)
        await shown.pilot.pause()
        assert shown.app.screen is shown.app.watching


async def test_what_is_asked_for_while_the_program_ends() -> None:
    async with showing() as shown:
        await shown.press("colon")
        palette = shown.app.screen
        shown.app.exit()
        palette.dismiss(None)  # what a key in the same go asks for
        await shown.app.watching.remove_children()
        shown.app.main.flush()  # and what the clock asks for
    assert shown.app.return_code == 0


async def test_a_screen_that_breaks_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        return_code = 1

        def exit(self) -> None: ...

        async def run_async(self) -> None: ...

    monkeypatch.setattr(command, "make_app", lambda *_: Broken())
    with pytest.raises(Ending, match="fault of firstlight") as ended:
        await command.show(views.Fixed(views.loading(), views.LIVE), Config())
    assert ended.value.status == Exit.FAILED


def test_json_that_a_terminal_would_obey() -> None:
    data = '{"a": "\x9b31m \u202ex\u202c \u2028\x7f ü 日"}'.encode()
    assert decode(inert(data)) == decode(data)
    assert not {"\x9b", "\u202e", "\u202c", "\u2028", "\x7f"} & set(inert(data).decode())
    assert "ü 日" in inert(data).decode()
    assert inert(b'{"a": 1}') == b'{"a": 1}'
