"""The app itself before the real host, driven by keys: what an operator sees and does, without a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.tui.showing import QUIET, press
from tui.app import Firstlight
from tui.commands.live import live
from tui.commands.moves import Watches
from tui.commands.reach import open_target
from tui.desk import Desk
from watch.actions import ActionView
from watch.config import Config, Deployment
from watch.view import View

LIMIT = 90.0
"""seconds to wait for what must come; generous, since the machine may be busy"""


class Screen:
    def __init__(self, app: Firstlight, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)

    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    def footer(self) -> str:
        return self.text().splitlines()[-1]

    @property
    def view(self) -> View:
        source = self.app.source
        return source.view(source.now())

    @property
    def action(self) -> ActionView | None:
        return self.view.action

    async def until(self, true: str | Callable[[], object], limit: float = LIMIT) -> None:
        """Wait until it holds, or stands on the screen; AssertionError with the screen when it never does."""
        wanted = (lambda: true in self.text()) if isinstance(true, str) else true
        try:
            async with asyncio.timeout(limit):
                while not wanted():
                    await self.pilot.pause(0.02)
        except TimeoutError:
            view = self.view
            story = f"{view.state} {view.headline}\n{view.action}\n"
            raise AssertionError(f"{true!r} never was:\n{story}{self.text()}") from None
        await self.pilot.pause()

    async def confirm(self) -> None:
        """Say yes, the deliberate way, once it can be said."""
        await self.until("▸ Cancel ◂")
        await self.until(lambda: "(not now)" not in self.text())
        await self.press("tab", "enter")

    async def ended(self, outcome: str) -> ActionView:
        """The action that was begun last, once it has ended like this."""
        await self.until(lambda: self.action is not None and not self.action.running)
        action = self.action
        assert action is not None
        assert action.outcome == outcome, f"{action}\n{self.text()}"
        return action


@asynccontextmanager
async def watched(
    deployment: Deployment, config: Config | None = None, *, size: tuple[int, int] = (120, 40), **how: Any
) -> AsyncIterator[Screen]:
    """The app on a live watch of this deployment, once the host has answered."""

    def open_one(wanted: Deployment, name: str) -> AbstractAsyncContextManager[Desk]:
        return live(open_target(wanted.target), wanted, config or Config(), name=name, **how)

    async with Watches(config or Config(), open_one) as watches:
        desk = await watches.open(deployment)
        app = Firstlight(desk.watching, desk=desk, zone=UTC, alerts=QUIET)
        async with app.run_test(size=size) as pilot:
            screen = Screen(app, pilot)
            await screen.until(lambda: screen.view.unit_reading is not None)
            conductor = app.conductor
            assert conductor is not None
            await screen.until(lambda: conductor.operations.rights is not None)
            yield screen


@pytest.fixture
def state(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A state folder of the test's own: history, recordings, audit, files of before."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "firstlight"
