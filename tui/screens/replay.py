"""The watch of a recording: the same screen, with a time bar and the keys that move it."""

from __future__ import annotations

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
            first, last = (elapsed(at - start) for at in marks)
            self.app.notify(f"The range from {first} to {last} is marked.", timeout=3, markup=False)
        self._told()

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
