"""One browser's screen: the process that textual-serve starts for it, drawing through Textual's web driver."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tui.commands.attach import attached
from tui.commands.screen import configuration, make_app
from tui.exits import Ending

_LOOK = 1.0
"""Seconds between two looks whether anybody is there."""


def main() -> None:
    """``python -m tui.commands.web_session SOCKET``. Ends with the watch, and with the web server that started it."""
    os.environ["FIRSTLIGHT_WEB"] = "1"
    try:
        asyncio.run(_show(Path(sys.argv[1])))
    except Ending as ending:
        ending.tell()
        sys.exit(int(ending.status))


async def _show(socket: Path) -> None:
    parent = os.getppid()
    async with attached(socket) as watching:
        app = make_app(watching, configuration())

        async def outlived() -> None:
            while os.getppid() == parent and not watching.status().ended:  # noqa: ASYNC110 (nobody tells us)
                await asyncio.sleep(_LOOK)
            app.exit()

        looking = asyncio.create_task(outlived())
        try:
            await app.run_async()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


if __name__ == "__main__":
    main()
