"""The watch: one glance says whether it moves, when it is ready, whether anything is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar, Final, Literal

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid
from textual.events import DescendantFocus, Resize
from textual.widget import Widget

from tui.keyed import keys_of
from tui.keys import bindings, first_key
from tui.leaving import Page
from tui.lines import LineStore
from tui.scene import Scene
from tui.screens.choice import Choice
from tui.screens.finding import FindingScreen
from tui.screens.gpu import GpuScreen
from tui.screens.line import LineScreen
from tui.stage import Follower, conduct, conductor, may
from tui.text import pad, right, safe
from tui.units import Zone
from tui.widgets.findings import Findings
from tui.widgets.footer import Footer
from tui.widgets.gpu import TABLE, Gpu
from tui.widgets.header import Header
from tui.widgets.journal import Journal
from tui.widgets.load import Load
from tui.widgets.pane import Pane
from tui.widgets.searchline import SearchLine
from tui.widgets.serving import Serving
from tui.widgets.storage import Storage
from tui.widgets.tabs import Tabs
from tui.words.benchmarks import of_this_load
from watch.view import View

Shape = Literal["single", "middle", "wide"]

_EDGES: Final = 2
"""Rows of a pane's border."""

_LEAST_JOURNAL: Final = 8

_LEFT: Final = 46
"""Columns of the load in the middle shape; the style sheet says so too."""


def shape(width: int, height: int) -> Shape:
    """How the panes lie: one at a time, or all, in a narrower or a wider grid."""
    if width < 100 or height < 30:
        return "single"
    return "wide" if width >= 160 and height >= 42 else "middle"


class WatchScreen(Page[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("watch"),
        *bindings("session"),
        *bindings("operate"),
        *bindings("benchmark"),
    ]
    AUTO_FOCUS = "#journal"

    around: ClassVar[int] = 3
    """Rows beside the panes: header and footer."""

    def __init__(self, store: LineStore, zone: Zone) -> None:
        super().__init__()
        self.load = Load()
        self.gpu = Gpu()
        self.storage = Storage()
        self.serving = Serving()
        self.findings = Findings()
        self.journal = Journal(store, zone)
        self.followers: set[Follower] = set()
        """Screens over this one that show the same pictures."""
        self._zone = zone
        self._scene: Scene | None = None
        self._current = "journal"
        self._zoomed = False
        self._laid_out: object = None
        self.laid_out = asyncio.Event()
        """Set once everything is in its place, so that it can be shown."""

    def compose(self) -> ComposeResult:
        yield Header()
        yield Tabs()
        with Grid(id="panes"):
            yield self.load
            yield self.gpu
            yield self.storage
            yield self.serving
            yield self.findings
            yield self.journal
        yield from self.below()
        yield SearchLine()
        yield Footer()

    def below(self) -> Iterable[Widget]:
        """What stands between the panes and the footer, a row each."""
        return ()

    def on_mount(self) -> None:
        self.query_one(SearchLine).display = False
        self._arrange()
        self.laid_out.set()

    # -- showing

    def show(self, scene: Scene) -> None:
        """Show a picture; only what differs from the last one is painted."""
        self._paint(scene)
        for follower in tuple(self.followers):
            follower.show(scene)

    def _paint(self, scene: Scene) -> None:
        first = self._scene is None
        self._scene = scene
        self._arrange()
        self.query_one(Header).show(scene)
        self.load.offer = self._offer()
        for pane in self._drawn_panes():
            pane.show(scene)
        self.journal.show_zone(scene.view.now)
        if self.shape == "single" or self._zoomed:
            self._show_tabs()
        if first:
            self.refresh_bindings()

    def _offer(self) -> str:
        """The key that has the server measured, where nobody did yet."""
        if self._may("benchmark") and not self._benchmark_shown:
            key = first_key("benchmark.benchmark", keys_of(self.app, "benchmark.benchmark"))
            return self.app.get_key_display(Binding(key, ""))
        return ""

    @property
    def scene(self) -> Scene | None:
        return self._scene

    @property
    def picture(self) -> View | None:
        """What is shown now."""
        return self._scene.view if self._scene is not None else None

    def _drawn_panes(self) -> list[Pane]:
        return [self.load, self.gpu, self._machine, self.findings]

    @property
    def _machine(self) -> Pane:
        """Storage while it loads; its room goes to serving once the server is ready."""
        return self.serving if self._scene is not None and self._scene.view.state == "ready" else self.storage

    @property
    def shape(self) -> Shape:
        return shape(self.size.width, self.size.height)

    @property
    def _panes(self) -> dict[str, Widget]:
        """All panes that can be gone to, in their order, by the names that actions use."""
        return {
            "load": self.load,
            "gpu": self.gpu,
            "machine": self._machine,
            "findings": self.findings,
            "journal": self.journal,
        }

    def _arrange(self) -> None:
        """Lay the panes out for this size. Nothing is touched while the outcome stays the same."""
        single = self.shape == "single" or self._zoomed
        panes = self._panes
        rows = "1fr" if single else self._heights()
        wanted = (self.shape, single, self._current if single else "", self._machine.id, rows)
        if wanted == self._laid_out:
            return
        self._laid_out = wanted
        for name in ("single", "middle", "wide"):
            self.set_class(name == ("single" if single else self.shape), f"-{name}")
        for name, pane in panes.items():
            pane.display = not single or name == self._current
        for pane in (self.storage, self.serving):
            if pane is not self._machine:
                pane.display = False
        tabs = self.query_one(Tabs)
        tabs.display = single
        self.query_one("#panes", Grid).styles.grid_rows = rows
        self.refresh_bindings()

    def _heights(self) -> str:
        """Rows of the grid: as much for the GPUs as they need, the rest to the journal."""
        height = self.size.height - self.around
        scene = self._scene
        wide = self.shape == "wide"
        machine = 8 if wide else 5
        if wide and scene is not None and self._machine is self.serving:
            machine = max(machine, self.serving.wanted_height(scene) + _EDGES)
        findings = 7 if wide else 5
        width = TABLE if wide else self.size.width - _LEFT - _EDGES
        gpu = (self.gpu.wanted_height(scene, width) if scene is not None else 3) + _EDGES
        if wide and scene is not None and scene.view.gpu is not None and scene.view.gpu.devices:
            gpu = max(gpu, 11)  # the large plot has its room beside the bars
        gpu = max(4, min(gpu, height - _LEAST_JOURNAL - machine - findings))
        upper = gpu + machine + findings
        least = min(22 if wide else 20, height - _LEAST_JOURNAL)
        spare = max(0, least - upper)
        machine += min(2, spare)
        findings += max(0, spare - 2)
        return f"{gpu} {machine} {findings} 1fr"

    def _show_tabs(self) -> None:
        scene = self._scene
        panes = self._panes
        tabs = [
            (pane.tab, pane.badge(scene) if scene is not None and isinstance(pane, Pane) else "")
            for pane in panes.values()
            if isinstance(pane, Pane | Journal)
        ]
        self.query_one(Tabs).show(tabs, list(panes).index(self._current))

    def on_resize(self, event: Resize) -> None:
        self._arrange()
        if self._scene is not None:
            self.show(self._scene)

    # -- going from pane to pane

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        for name, pane in self._panes.items():
            if pane is event.widget:
                self._current = name
        self.refresh_bindings()

    def action_pane(self, name: str) -> None:
        self._current = name
        self._arrange()
        pane = self._panes[name]
        self.set_focus(pane, scroll_visible=False)
        if isinstance(pane, Pane):
            pane.redraw()
        if self.shape == "single" or self._zoomed:
            self._show_tabs()

    def action_next_pane(self) -> None:
        self._step(1)

    def action_previous_pane(self) -> None:
        self._step(-1)

    def _step(self, way: int) -> None:
        names = list(self._panes)
        self.action_pane(names[(names.index(self._current) + way) % len(names)])

    def on_tabs_chosen(self, message: Tabs.Chosen) -> None:
        self.action_pane(list(self._panes)[message.number])

    def action_zoom(self) -> None:
        self._zoomed = not self._zoomed
        self.action_pane(self._current)

    def action_findings(self) -> None:
        self.action_pane("findings")

    def action_back(self) -> None:
        if self._zoomed:
            self.action_zoom()
        elif self.journal.search is not None:
            self.journal.find("")
        else:
            self.action_pane("journal")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "operate":
            return self._may(str(parameters[0]))
        if action == "search":
            return not isinstance(self.focused, SearchLine)
        if action == "zoom":
            return self.shape != "single"
        if action == "find":
            return self.journal.search is not None
        if action == "note":
            takes = (app := conductor(self.app)) is not None and app.can_note()
            return takes and self.journal.search is None and not isinstance(self.focused, SearchLine)
        if action == "recordings":
            return not self.app.is_web  # a browser was let in to look at one watch
        if action == "findings":
            return self._current != "findings"
        if action == "back":
            return self._zoomed or self.journal.search is not None or self._current != "journal"
        return super().check_action(action, parameters)

    # -- recordings

    def action_note(self) -> None:
        if (app := conductor(self.app)) is not None:
            app.write_note()

    def action_recordings(self) -> None:
        if (app := conductor(self.app)) is not None:
            app.show_recordings()

    # -- search

    def action_search(self) -> None:
        line = self.query_one(SearchLine)
        self.query_one(Footer).display = False
        line.display = True
        line.value = self.journal.search.wanted if self.journal.search is not None else ""
        self.set_focus(line, scroll_visible=False)  # at once: what is typed next belongs to it

    def action_find(self, way: int) -> None:
        self.journal.step(way)

    def on_search_line_ended(self, message: SearchLine.Ended) -> None:
        self.query_one(SearchLine).display = False
        self.query_one(Footer).display = True
        self.action_pane("journal")
        if message.wanted is not None:
            self.journal.find(message.wanted)

    # -- acting on the unit

    acts: ClassVar[bool] = True
    """Whether what it shows goes on now and can be acted on."""

    def _may(self, what: str) -> bool | None:
        if what == "steps":
            return self.picture is not None and self.picture.action is not None
        if what == "benchmark" and not isinstance(self.focused, SearchLine):
            return self._benchmark_shown or (may(self.app, "measure") if self.acts else False)
        return may(self.app, what) if self.acts and not isinstance(self.focused, SearchLine) else False

    @property
    def _benchmark_shown(self) -> bool:
        """Whether there is a benchmark to be shown; else the key begins one."""
        view = self.picture
        if view is None or view.benchmark is None:
            return False
        return of_this_load(view) is not None or not self.acts

    def action_operate(self, what: str) -> None:
        if what == "steps":
            if (app := conductor(self.app)) is not None:
                app.show_steps(self)
        elif what == "benchmark":
            if not self._benchmark_shown:
                conduct(self.app, "measure")
            elif (app := conductor(self.app)) is not None:
                app.show_benchmark(self)
        else:
            conduct(self.app, what)

    # -- whole lines, findings, choices

    def on_journal_opened(self, message: Journal.Opened) -> None:
        findings = self._scene.view.findings if self._scene is not None else ()
        self.app.push_screen(LineScreen(self.journal, message.index, self._zone, findings))

    def on_gpu_opened(self, message: Gpu.Opened) -> None:
        self.app.push_screen(GpuScreen(self.gpu))

    def on_findings_opened(self, message: Findings.Opened) -> None:
        self.app.push_screen(FindingScreen(self.findings, self._zone))

    def on_journal_process_wanted(self) -> None:
        store = self.journal.store
        chosen = store.filter
        names = sorted(zip(store.names, store.counts, strict=True), key=lambda item: item[0])
        width = max(13, *(cell_len(safe(name)) for name in store.names)) + 2
        options = [("", f"{pad('all processes', width)}{_lines(len(store))}")]
        options.extend((f"={name}", f"{pad(safe(name) or 'unnamed', width)}{_lines(count)}") for name, count in names)

        def chose(value: str | None) -> None:
            if value is not None:
                self.journal.choose(type(chosen)(chosen.loudness, value[1:] if value else None, chosen.own))

        current = "" if chosen.process is None else f"={chosen.process}"
        self.app.push_screen(Choice("Lines of which process?", options, current), chose)


def _lines(count: int) -> str:
    return right(f"{count:,}", 11) + (" line" if count == 1 else " lines")
