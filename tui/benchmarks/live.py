"""One benchmark on one screen: how far it is and what the server does meanwhile; then its figures and the verdict."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid

from tui.keys import bindings
from tui.leaving import Page
from tui.scene import Scene
from tui.stage import Watched, conduct, may
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


class BenchScreen(Page[None]):
    """Shows the pictures of ``watch``, with the last lines of its journal. Leaving it leaves the benchmark running."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("bench")]
    AUTO_FOCUS = "#bench"

    def __init__(self, watch: Watched, zone: Zone) -> None:
        super().__init__()
        self._watch = watch
        self._zone = zone
        self._scene: Scene | None = watch.scene
        self.bench = BenchBox(id="bench")
        self.beside = BenchBox(id="beside")
        self.tail = Tail()

    def compose(self) -> ComposeResult:
        yield Header()
        with Grid(id="measuring"):
            yield self.bench
            yield self.beside
            yield self.tail
        yield Footer()

    def on_mount(self) -> None:
        self._watch.followers.add(self)
        self.beside.can_focus = False
        self._arrange()
        self.again()

    def on_unmount(self) -> None:
        self._watch.followers.discard(self)

    def on_resize(self) -> None:
        self._arrange()
        self.again()

    def _arrange(self) -> None:
        single = self.size.width < 100 or self.size.height < 30
        self.set_class(single, "-single")
        self.set_class(not single and self.size.width >= 160 and self.size.height >= 42, "-wide")
        self.beside.display = self.tail.display = not single

    def show(self, scene: Scene) -> None:
        before = self._scene
        self._scene = scene
        if self.is_mounted:
            self.again()
            if before is None or _offers(before) != _offers(scene):
                self.refresh_bindings()

    def again(self) -> None:
        scene = self._scene
        if scene is None or not self.is_mounted:
            return
        self.query_one(Header).show(scene)
        single = not self.beside.display
        if self.bench.inner.width > 0:
            self.bench.title(*heading(scene))
            self.bench.fill(rows_of(scene, self.bench.inner.width, alone=single))
        if not single and self.beside.inner.width > 0:
            self.beside.title(beside_title(scene))
            self.beside.fill(beside_rows(scene, self.beside.inner.width))
        self.tail.show(self._watch.journal, self._zone)

    # ----- keys

    def action_close(self) -> None:
        self.dismiss()

    def action_operate(self, what: str) -> None:
        conduct(self.app, what)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "operate":
            return may(self.app, str(parameters[0])) if self._watch.acts else False
        return super().check_action(action, parameters)


def _offers(scene: Scene) -> object:
    bench = scene.view.benchmark
    return scene.link_lost, scene.view.state, bench and (bench.run, bench.state)
