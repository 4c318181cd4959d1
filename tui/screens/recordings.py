"""The recordings that are kept, newest first: one is chosen to be replayed."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.keys import bindings
from tui.leaving import Modal
from tui.listing import Columns, columns, heading, row
from tui.options import Options
from tui.text import clip, content
from tui.units import Zone
from tui.widgets.footer import Footer
from watch.session import folder
from watch.session.shelf import Recording, completed, listed


class RecordingsScreen(Modal[Path | None]):
    """``current``: the one that was replayed last. The answer is the file of the one to be replayed. What is not known
    of a recording yet is read in the background, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("recordings")]

    def __init__(self, zone: Zone, current: Path | None = None) -> None:
        super().__init__()
        self._zone = zone
        self._current = current
        self._recordings: list[Recording] = []
        self._list = Options(id="recordings", markup=False)
        self._heading = Static(id="shelf-heading", markup=False)
        self._shelf = Vertical(id="shelf")

    def compose(self) -> ComposeResult:
        self._shelf.border_title = content("Recordings")
        with self._shelf:
            yield self._heading
            yield self._list
        yield Footer()

    def on_mount(self) -> None:
        self._list.focus()
        self.run_worker(self._read(), group="shelf")

    def on_resize(self) -> None:
        self._fill()

    async def _read(self) -> None:
        where = folder()
        try:
            self._recordings = await asyncio.to_thread(listed, where)
        except OSError as error:
            self._shelf.border_subtitle = content(f"{where}: {error.strerror}")
            return
        self._shelf.border_subtitle = content(str(where) if self._recordings else f"none yet in {where}")
        self._fill()
        for number, recording in enumerate(self._recordings):
            if not recording.outcome:
                self._recordings[number] = await asyncio.to_thread(completed, recording)
                self._list.replace_option_prompt_at_index(number, content(self._row(self._recordings[number])))

    @property
    def _width(self) -> int:
        return self._list.size.width - 2

    def _columns(self) -> Columns:
        return columns(self._recordings, self._width)

    def _row(self, recording: Recording) -> str:
        return row(recording, self._columns(), self._zone, self._width)

    def _fill(self) -> None:
        if not self._recordings or not self._list.size.width:
            return
        head = heading(self._columns(), self._zone, time.time()).rstrip()
        self._heading.update(content(clip(head, self._width)))
        before = self._list.highlighted
        paths = [recording.path for recording in self._recordings]
        if before is None:
            before = paths.index(self._current) if self._current in paths else 0
        self._list.clear_options()
        self._list.add_options([Option(content(self._row(recording))) for recording in self._recordings])
        self._list.highlighted = before

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._recordings[event.option_index].path)

    def action_open(self) -> None:
        self._list.action_select()

    def action_close(self) -> None:
        self.dismiss(None)
