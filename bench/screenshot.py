"""The demo's screen as a picture: ``python -m bench.screenshot FILE.svg`` (``make screenshot``).

The real program over the real demo, without a terminal; taken while the weights are loading. Times are UTC.
"""

from __future__ import annotations

import asyncio
import re
import sys
from datetime import UTC
from pathlib import Path

from probes.rehearsal.story import load_story
from tui.app import Firstlight
from tui.commands.rehearse import rehearsed
from watch.state import WatchState

SIZE = (160, 45)
SPEED = 20.0
PHASE, PART = "weights", 0.6
LIMIT = 120.0
FONTS = re.compile(r"\s*(?:@font-face \{.*?\}|<!--.*?-->)", re.S)


async def take() -> str:
    """The picture, as SVG that fetches nothing."""
    story = load_story()
    state = WatchState(story.host, story.unit, demo=True)
    async with rehearsed(story, state, SPEED) as source:
        app = Firstlight(source, zone=UTC)
        async with app.run_test(size=SIZE) as pilot, asyncio.timeout(LIMIT):
            while not far_enough(state, source.now()):
                await pilot.pause(0.1)
            await pilot.pause(0.5)
            picture = app.export_screenshot(title=f"firstlight demo · {story.unit}")
            app.exit()
    return FONTS.sub("", picture).replace("Fira Code", "ui-monospace, DejaVu Sans Mono, Menlo, Consolas")


def far_enough(state: WatchState, now: float) -> bool:
    view = state.view(now)
    if view.load is None or view.load.progress is None:
        return False
    progress = view.load.progress
    return view.phase == PHASE and progress.done >= PART * progress.total


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(asyncio.run(take()))
    print(path)
