"""The watch of a recording: the same screen, with a time bar and the keys that move it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from tui.keys import bindings
from tui.lines import LineStore
from tui.scene import Scene
from tui.screens.ask import AskLine
from tui.screens.watch import WatchScreen
from tui.source import Played, Source
from tui.text import safe
from tui.times import WRITE, wanted
from tui.units import Zone, elapsed
from tui.widgets.searchline import SearchLine
from tui.widgets.timebar import TimeBar
from watch.timeline import Kind

_KINDS: dict[str, tuple[Kind, ...]] = {"phase": ("load", "phase"), "finding": ("finding", "note", "action")}

_KEYS = ("play", "faster", "moment", "line", "jump", "mark")


class ReplayScreen(WatchScreen):
    """``covers``: it was opened over a live watch, to which Esc comes back."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("replay")]
    around: ClassVar[int] = 4
    acts: ClassVar[bool] = False

    def __init__(self, store: LineStore, zone: Zone, *, played: Played, covers: bool = False) -> None:
        super().__init__(store, zone)
        self._played = played
        self._covers = covers

    def below(self) -> Iterable[Widget]:
        yield TimeBar()

    def show(self, scene: Scene) -> None:
        super().show(scene)
        self._told()

    def _told(self) -> None:
        """Show at once what a key has changed."""
        now = self._played.now()
        self.query_one(TimeBar).show(self._played.timeline(), f"{self._zone.clock(now)} {self._zone.name(now)}")

    def action_play(self) -> None:
        self._played.toggle()
        self._told()

    def action_faster(self, way: int) -> None:
        self._played.faster(way)
        self._told()

    def action_moment(self, kind: str, way: int) -> None:
        if self._played.step(_KINDS[kind], way) is None:
            what = "phase" if kind == "phase" else "finding, note or action"
            self.app.notify(f"No {what} {'after' if way > 0 else 'before'} this.", timeout=2, markup=False)
        self._told()

    def action_line(self, way: int) -> None:
        self._played.step_line(way)
        self._told()

    def action_jump(self) -> None:
        def chosen(text: str | None) -> None:
            if not text:
                return
            timeline = self._played.timeline()
            at = wanted(text, timeline, timeline.at - self._played.now(), self._zone.zone)
            if at is None:
                self.app.notify(
                    f"{text!r} is no time of this recording; write {WRITE}.", severity="warning", markup=False
                )
            else:
                self._played.seek(at)
                self._told()

        self.app.push_screen(AskLine("Go to", WRITE), chosen)

    def action_mark(self) -> None:
        marks = self._played.mark()
        if len(marks) == 2:
            start = self._played.timeline().start
            first, last = (at - start for at in marks)
            self.app.notify(
                f"From {elapsed(first)} to {elapsed(last)} is marked: w writes a report of it;"
                f" --from {first:.0f}s --to {last:.0f}s exports it.",
                timeout=6,
                markup=False,
            )
        self._told()

    def action_write(self) -> None:
        timeline = self._played.timeline()
        if len(timeline.marks) != 2:
            self.app.notify("Mark a range first: m at its beginning, and m at its end.", timeout=4, markup=False)
            return
        first, last = (at - timeline.start for at in timeline.marks)
        self.run_worker(self._write(first, last), group="write", exclusive=True)

    async def _write(self, first: float, last: float) -> None:
        from tui.reporting import of_stretch  # reading it anew takes a second or so an hour
        from watch.session import SessionError

        self.app.notify("Writing the report of the range …", timeout=2, markup=False)
        try:
            path = await asyncio.to_thread(of_stretch, self._played.recording, first, last, self._zone.zone)
        except (SessionError, OSError) as error:
            self.app.notify(safe(f"No report was written: {error}"), severity="error", markup=False)
        else:
            self.app.notify(safe(f"Reported in {path}"), timeout=8, markup=False)

    def on_time_bar_wanted(self, message: TimeBar.Wanted) -> None:
        self._played.seek(message.at)
        self._told()

    def action_back(self) -> None:
        if self._covers and not super().check_action("back", ()):
            self.dismiss()
        else:
            super().action_back()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "note":
            return False  # nothing of a recording can be changed
        if action == "write":
            return not self.app.is_web and not isinstance(self.focused, SearchLine)
        if action == "recordings":
            return not self._covers
        if action in _KEYS:
            return not isinstance(self.focused, SearchLine)
        if action == "back":
            return self._covers or super().check_action(action, parameters)
        return super().check_action(action, parameters)


def screen_for(source: Source, *, covers: bool = False) -> Callable[[LineStore, Zone], WatchScreen]:
    """What makes the screen for a source."""
    if isinstance(source, Played):
        return partial(ReplayScreen, played=source, covers=covers)
    return WatchScreen
