"""One benchmark on one screen: how far it is and what the server does meanwhile; then its figures and the verdict."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid

from tui.keys import bindings
from tui.scene import Scene
from tui.screens.over import OverWatch
from tui.stage import Watched
from tui.units import Zone
from tui.widgets.figures import beside_rows, beside_title, heading, rows_of
from tui.widgets.footer import Footer
from tui.widgets.header import Header
from tui.widgets.pane import Box
from tui.widgets.tail import Tail


class BenchBox(Box):
    def on_resize(self) -> None:
        if isinstance(self.screen, BenchScreen):
            self.screen.again()


class BenchScreen(OverWatch):
    """The benchmark, with the last lines of the watch's journal. Leaving it leaves the benchmark running."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("bench")]
    AUTO_FOCUS = "#bench"

    def __init__(self, watch: Watched, zone: Zone) -> None:
        super().__init__(watch, zone)
        self.bench = BenchBox(id="bench")
        self.beside = BenchBox(id="beside")
        self.beside.can_focus = False
        self.tail = Tail()

    def compose(self) -> ComposeResult:
        yield Header()
        with Grid(id="measuring"):
            yield self.bench
            yield self.beside
            yield self.tail
        yield Footer()

    def lay_out(self, single: bool) -> None:
        self.beside.display = self.tail.display = not single

    def draw(self, scene: Scene) -> None:
        self.query_one(Header).show(scene)
        single = not self.beside.display
        if self.bench.inner.width > 0:
            self.bench.title(*heading(scene))
            self.bench.fill(rows_of(scene, self.bench.inner.width, alone=single))
        if not single and self.beside.inner.width > 0:
            self.beside.title(beside_title(scene))
            self.beside.fill(beside_rows(scene, self.beside.inner.width))
        self.tail.show(self._watch.journal, self._zone)

    def offers(self, scene: Scene) -> object:
        bench = scene.view.benchmark
        return scene.link_lost, scene.view.state, bench and (bench.run, bench.state)
