"""The app: the watch of one source, what is opened over it, keys, commands, themes, alerts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import tzinfo

from textual.app import SystemCommand
from textual.dom import DOMNode
from textual.screen import Screen
from textual.worker import Worker, WorkerError

import themes
from tui.alerts import Alerts, changes, speak
from tui.base import BaseApp
from tui.benchmarks.bencher import WHAT, Bencher
from tui.benchmarks.live import BenchScreen
from tui.desk import Desk
from tui.keys import Key, table
from tui.lines import LineStore
from tui.operations.conductor import Conductor
from tui.operations.steps import StepsScreen
from tui.projector import Projector
from tui.recordings import can_note, show_recordings, write_note
from tui.screens.help import HelpScreen
from tui.screens.replay import screen_for
from tui.screens.watch import WatchScreen
from tui.source import Source, SourceStatus
from tui.stage import Watched
from tui.units import Zone
from watch.view import View


class Firstlight(BaseApp[int]):
    """Watches one source. ``desk``: of a live watch, None where nothing can be done on a host. ``zone``: of all times
    shown, None for this machine's own. ``keys``: an operator's keys by id. Raises ``tui.keys.BadKey`` for keys that
    cannot be used."""

    def __init__(
        self,
        source: Source,
        *,
        desk: Desk | None = None,
        zone: tzinfo | None = None,
        theme: str = themes.DARK,
        alerts: Alerts | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(theme=theme, keys=keys)
        self.desk = desk
        self.zone = Zone(zone)
        self.alerts = alerts if alerts is not None else Alerts()
        self._before: View | None = None
        self.main = Projector(source, self.zone, screen_for(source), self._shown)
        self.conductor = Conductor(self, desk) if desk is not None else None
        self.bencher = Bencher(self, desk) if desk is not None else None
        self._leaving = False
        self._at_work: list[Worker[None]] = []

    @property
    def source(self) -> Source:
        return self.main.source

    @property
    def store(self) -> LineStore:
        return self.main.store

    @property
    def watching(self) -> WatchScreen:
        return self.main.screen

    def on_mount(self) -> None:
        self.set_keymap(self._keys)
        self.push_screen(self.watching)
        self._work()

    def _work(self) -> None:
        feed = self.run_worker(self.main.feed(), group="feed")
        # if it fails the app ends: no screen stands still unnoticed
        self._at_work = [feed, self.run_worker(self.main.paint(), group="paint")]
        if self.conductor is not None:
            self.conductor.attach()
        if self.bencher is not None:
            self.bencher.attach()

    async def go_to(self, desk: Desk, *, former: str = "") -> None:
        """Go on with another watch, on the same screen. ``former``: the unit that its unit stands in for."""
        steps = self.shows_steps
        if self.bencher is not None:
            await self.bencher.leave_behind()
        for worker in self._at_work:
            worker.cancel()
            with suppress(WorkerError):
                await worker.wait()
        left = self.watching
        self.desk, self._before = desk, None
        self.main = Projector(desk.watching, self.zone, screen_for(desk.watching), self._shown)
        self.conductor = Conductor(self, desk, former=former)
        self.bencher = Bencher(self, desk)
        with self.batch_update():
            while self.screen is not left and len(self.screen_stack) > 2:
                await self.screen.dismiss(None)
            await self.switch_screen(self.watching)
            if steps:
                self.show_steps()
        self._work()

    # -- what is shown

    def attended(self) -> None:
        self.main.attended()

    def flush(self) -> None:
        """Show everything that came."""
        self.main.flush()

    def _shown(self, view: View, status: SourceStatus) -> None:
        if status.mode != "replay":  # what is told again is no reason to wake anybody
            for alert in changes(self._before, view):
                speak(alert, self.alerts, self._write, self.bell)
        self._before = view
        drawn = self.desk.drawn if self.desk is not None else None
        if drawn is not None and not drawn.is_set() and (view.lines or _reads_journal(view)):
            self.call_after_refresh(drawn.set)
        if self.conductor is not None:
            self.conductor.see(view)
        if self.bencher is not None:
            self.bencher.see(view, status)

    # -- acting on the unit

    @property
    def shows_steps(self) -> bool:
        return any(isinstance(screen, StepsScreen) for screen in self.screen_stack)

    def show_steps(self, watch: Watched | None = None) -> None:
        if not self.shows_steps:
            self.push_screen(StepsScreen(watch or self.watching, self.zone))

    @property
    def shows_benchmark(self) -> bool:
        return any(isinstance(screen, BenchScreen) for screen in self.screen_stack)

    def show_benchmark(self, watch: Watched | None = None) -> None:
        if not self.shows_benchmark:
            self.push_screen(BenchScreen(watch or self.watching, self.zone))

    def may(self, what: str) -> bool | None:
        leader = self._leader(what)
        return leader.may(what) if leader is not None else False

    def why_not(self, what: str) -> str:
        return self.conductor.why_not(what) if self.conductor is not None else ""

    def conduct(self, what: str) -> None:
        leader = self._leader(what)
        if leader is not None:
            leader.conduct(what)

    def _leader(self, what: str) -> Conductor | Bencher | None:
        return self.bencher if what in WHAT else self.conductor

    # -- recordings

    def can_note(self) -> bool:
        return can_note(self)

    def write_note(self) -> None:
        write_note(self)

    def show_recordings(self) -> None:
        show_recordings(self)

    async def action_quit(self) -> None:
        """Asks first where something waits here that leaving would end; asked for again it leaves."""
        if self.bencher is None or self.bencher.armed is None or self._leaving:
            self.exit()
        else:
            self.run_worker(self._leave(self.bencher))

    async def _leave(self, bencher: Bencher) -> None:
        self._leaving = True
        try:
            if await bencher.may_leave():
                self.exit()
        finally:
            self._leaving = False

    def _write(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    # -- keys and commands

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("help", "command_palette") and self.screen.is_modal:
            return False
        return super().check_action(action, parameters)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every command that can be run now, by the words of the help; and the themes."""
        offered = {active.binding.id: active for active in screen.active_bindings.values() if active.enabled}
        for key in table():
            active = offered.get(key.id)
            if active is None or not key.command:
                yield from self._not_now(key, screen)
                continue
            yield SystemCommand(key.command, key.help, _runner(self, active.binding.action, active.node))
        for name, dress in self.available_themes.items():
            if name.startswith("firstlight-") and name != self.theme:
                word = name.removeprefix("firstlight-")
                yield SystemCommand(f"Theme: {word}", f"Change the colours to {word}", _setter(self, dress.name))

    def _not_now(self, key: Key, screen: Screen[object]) -> Iterable[SystemCommand]:
        """An action that is offered here and cannot be done just now says why instead."""
        what = key.action.removeprefix("operate('").removesuffix("')")
        acts = key.where in ("operate", "benchmark") and screen is self.watching
        why = self.why_not(what) if acts else ""
        if why and key.command:
            yield SystemCommand(key.command, why, lambda: self.notify(why, severity="warning", markup=False))


def _reads_journal(view: View) -> bool:
    return any(source.probe == "journal" for source in view.sources)


def _runner(app: Firstlight, action: str, node: DOMNode) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        await app.run_action(action, node)

    return run


def _setter(app: Firstlight, name: str) -> Callable[[], None]:
    def change() -> None:
        app.theme = name

    return change
