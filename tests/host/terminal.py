"""A real terminal: tmux, keys sent to it and its screen read back."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("firstlight")


class Terminal:
    """``async with Terminal(["firstlight", "demo"]) as terminal: await terminal.until("READY")``.

    It is a tmux server of its own. What the program leaves on the screen stays there after it ended.
    """

    def __init__(
        self, argv: Sequence[str], *, columns: int = 200, rows: int = 50, env: Mapping[str, str] | None = None
    ) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("a real terminal needs: apt-get install tmux")
        self._socket = f"firstlight-{uuid.uuid4().hex[:8]}"
        # tmux itself forgets now and then how a program ended
        self._status = Path(tempfile.mkdtemp(prefix="firstlight-tmux-"), "status")
        self._argv = ["sh", "-c", '"$@"; echo $? >"$0"', str(self._status), *argv]
        self._size = ["-x", str(columns), "-y", str(rows)]
        self._env = {**os.environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", **(env or {})}

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"tmux {words[0]}: {done.stderr}"
        return done.stdout

    async def __aenter__(self) -> Terminal:
        self._tmux("start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";",
                   "new-session", "-d", *self._size, *self._argv)  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tmux("kill-server")
        shutil.rmtree(self._status.parent)

    def screen(self) -> str:
        """What it shows now, without colours."""
        return self._tmux("capture-pane", "-p")

    def send(self, *keys: str) -> None:
        """Keys by tmux's names: ``q``, ``Enter``, ``C-c``."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    async def until(self, wanted: str | Callable[[str], object], *, limit: float = 60.0) -> str:
        """The first screen that has ``wanted``; AssertionError with the last screen when none does."""
        true = wanted if callable(wanted) else lambda screen: wanted in screen
        end = time.monotonic() + limit
        screen = self.screen()
        while not true(screen):
            assert time.monotonic() < end, f"{wanted!r} never stood on the screen:\n{screen}"
            await asyncio.sleep(0.05)  # a terminal tells nobody that it was written to
            screen = self.screen()
        return screen

    async def ended(self, *, limit: float = 20.0) -> int:
        """The program's exit status, once it has one."""
        end = time.monotonic() + limit
        while not (self._status.exists() and (said := self._status.read_text())):
            assert time.monotonic() < end, f"it did not end:\n{self.screen()}"
            await asyncio.sleep(0.05)
        return int(said)
