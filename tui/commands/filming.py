"""The screen of a recording without a terminal: as a film (asciicast v3) or as one picture (SVG).

The same app is driven from moment to moment; nothing waits for the time to pass.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from rich.console import Console
from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip

from tui.alerts import Alerts
from tui.app import Firstlight
from tui.commands.screen import make_app
from tui.screens.replay import ReplayScreen
from watch.config import Config
from watch.player import Player

FRAMES: Final = 4
"""Frames a second of the film."""

MOST: Final = 20_000
"""Frames of a film: one of a longer one shows more time each."""

_FONTS: Final = re.compile(r"\s*(?:@font-face \{.*?\}|<!--.*?-->)", re.S)


async def film(
    player: Player,
    config: Config,
    size: tuple[int, int],
    speed: float,
    since: float = 0.0,
    until: float | None = None,
    *,
    title: str = "",
) -> str:
    """An asciicast v3, whose markers are the phases. ``since``, ``until``: seconds after the beginning."""
    async with _shown(player, config, size) as (app, pilot):
        player.filmed, player.clock.speed = True, speed
        index = player.index
        first = index.start + since
        last = min(index.end, index.start + until) if until is not None else index.end
        step = max(speed / FRAMES, (last - first) / MOST)
        head = {
            "version": 3,
            "term": {"cols": size[0], "rows": size[1], "type": "xterm-256color"},
            "timestamp": int(first),
            "title": f"firstlight: {title}",
        }
        out = [json.dumps(head)]
        marks = [moment for moment in index.moments if moment.kind in ("load", "phase") and first <= moment.at <= last]
        before: list[str] = []
        told = at = first
        while True:
            await _go(player, app, pilot, at)
            rows = _ansi(app)
            changed = [
                f"\x1b[{number};1H{row}"
                for number, row in enumerate(rows, 1)
                if number > len(before) or before[number - 1] != row
            ]
            if changed:
                clear = "" if before else "\x1b[2J\x1b[?25l"
                out.append(_event((at - told) / speed, "o", clear + "".join(changed)))
                told, before = at, rows
            while marks and marks[0].at <= at:
                out.append(_event((at - told) / speed, "m", marks.pop(0).text))
                told = at
            if at >= last:
                break
            at = min(last, at + step)
        out.append(_event(1.0, "o", f"\x1b[{size[1]};1H\x1b[0m\x1b[?25h"))
    return "\n".join(out) + "\n"


async def picture(player: Player, config: Config, size: tuple[int, int], at: float, *, title: str = "") -> str:
    """An SVG of the screen, which fetches nothing. ``at``: seconds after the beginning."""
    async with _shown(player, config, size) as (app, pilot):
        await _go(player, app, pilot, player.index.start + at)
        drawing = app.export_screenshot(title=f"firstlight · {title}")
    return _FONTS.sub("", drawing).replace("Fira Code", "ui-monospace, DejaVu Sans Mono, Menlo, Consolas")


@asynccontextmanager
async def _shown(player: Player, config: Config, size: tuple[int, int]) -> AsyncIterator[tuple[Firstlight, Pilot[int]]]:
    """The app over a recording that stands still and has been read whole."""
    player.clock.pause()
    app = make_app(player, config)
    app.alerts = Alerts(bell=False, desktop="off")
    async with app.run_test(size=size) as pilot:
        await player.read_whole()
        while not isinstance(app.screen, ReplayScreen):
            await pilot.pause(0.01)
        yield app, pilot
        app.exit()


async def _go(player: Player, app: Firstlight, pilot: Pilot[int], at: float) -> None:
    player.seek(at)
    await player.arrived()
    await asyncio.sleep(0)
    app.flush()
    await pilot.pause()


def _ansi(app: App[int]) -> list[str]:
    """Each row of the screen as a terminal is told it; a row begins and ends without any style."""
    console = Console(
        color_system="truecolor", force_terminal=True, width=app.size.width, legacy_windows=False, no_color=False
    )
    return [_row(strip, console) for strip in app.screen._compositor.render_strips()]


def _row(strip: Strip, console: Console) -> str:
    return f"{strip.render(console)}\x1b[0m"


def _event(seconds: float, code: str, data: str) -> str:
    return json.dumps([round(max(0.0, seconds), 6), code, data], ensure_ascii=False)
