"""Texts that an operator takes along: a diagnosis, and the commands for somebody who may act."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import platformdirs
from textual.binding import BindingType

from probes.diagnose import as_text
from probes.readings import CommandReading
from tui.keys import bindings
from tui.screens.whole import WholeScreen
from tui.text import safe
from tui.widgets.flow import flow
from tui.widgets.rows import Row, paragraph


def default_folder() -> Path:
    return platformdirs.user_state_path("firstlight") / "diagnoses"


class ByHandScreen(WholeScreen):
    """``why``: this login may not. ``commands``: what somebody who may runs, as it is to be typed."""

    def __init__(self, title: str, why: str, commands: Sequence[str]) -> None:
        super().__init__()
        self._title = title
        self._why = why
        self._commands = commands

    def rows(self, width: int) -> list[Row]:
        self.whole.title(self._title, "y copies the commands")
        rows = [Row(), *paragraph(f"✖ {self._why}", width - 2, "strong error", indent=1, hang=2), Row()]
        rows += paragraph("Somebody who may can run these on the host, one after the other:", width - 2, indent=1)
        rows.append(Row())
        for command in self._commands:
            for line in command.split("\n"):
                rows += flow([("   " + line, "accent")], width - 1, indent=5)
        return rows

    def text(self) -> str:
        return "\n".join("\n".join(map(safe, command.split("\n"))) for command in self._commands)

    def step(self, way: int) -> bool:
        return False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False if action == "step" else super().check_action(action, parameters)


class DiagnosisScreen(WholeScreen):
    """Shows answers as they come. ``clean``: takes secrets out of what is copied or written to a file."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("told")]

    def __init__(self, unit: str, host: str, clean: Callable[[str], str], *, folder: Path | None = None) -> None:
        super().__init__()
        self._unit = unit
        self._host = host
        self._clean = clean
        self._folder = folder
        self._answers: list[CommandReading] = []
        self._known: list[Row] = []
        self._width = 0
        self.ended = False
        self.saved: Path | None = None

    def take(self, answer: CommandReading) -> None:
        self._answers.append(answer)
        if self._width:
            self._known += _rows(as_text([answer]), self._width)
        self._again()

    def end(self) -> None:
        self.ended = True
        self._again()

    def _again(self) -> None:
        if self.is_mounted and self.is_attached:
            self.fill()
            self.refresh_bindings()

    def rows(self, width: int) -> list[Row]:
        if width != self._width:
            self._width = width
            self._known = [row for answer in self._answers for row in _rows(as_text([answer]), width)]
        state = f"{len(self._answers)} answers" if self.ended else f"asking … {len(self._answers)} so far"
        self.whole.title(f"What {self._unit} does now, on {self._host}", state)
        foot = [Row()(f" kept in {self.saved}", "ok")] if self.saved is not None else []
        if not self.ended:
            foot = [Row()(" … asking the host; nothing is changed there", "muted")]
        return [*self._known, *foot]

    def text(self) -> str:
        return self._clean(as_text(self._answers, title=f"{self._unit} on {self._host}"))

    def step(self, way: int) -> bool:
        return False

    def action_save(self) -> None:
        """Into a file that only the operator can read."""
        folder = self._folder or default_folder()
        name = re.sub(r"[^A-Za-z0-9._@-]", "-", f"{self._host}-{self._unit}").lstrip(".")
        path = folder / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{name}.txt"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
                out.write(self.text())
        except OSError as error:
            self.app.notify(f"{path}: {error.strerror or error}", severity="error", markup=False)
            return
        self.saved = path
        self.app.notify(f"Written to {path}", markup=False)
        self._again()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "step":
            return False
        if action == "save":
            return bool(self._answers)
        return super().check_action(action, parameters)


def _rows(text: str, width: int) -> list[Row]:
    rows: list[Row] = []
    for line in text.rstrip("\n").split("\n"):
        style = "title" if line.startswith("== ") else "text"
        rows += flow([(" " + (line or " "), style)], width - 1, indent=3)
    return [*rows, Row()]
