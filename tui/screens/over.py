"""A whole screen over a watch: it shows the same pictures, lays itself out by its size and acts as the watch does."""

from __future__ import annotations

from abc import abstractmethod

from tui.leaving import Page
from tui.scene import Scene
from tui.stage import Watched, conduct, may
from tui.units import Zone


class OverWatch(Page[None]):
    """Shows the pictures of ``watch``. Leaving it leaves what it shows going on."""

    def __init__(self, watch: Watched, zone: Zone) -> None:
        super().__init__()
        self._watch = watch
        self._zone = zone
        self._scene: Scene | None = watch.scene

    def on_mount(self) -> None:
        self._watch.followers.add(self)
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
        self.lay_out(single)

    @abstractmethod
    def lay_out(self, single: bool) -> None:
        """``single``: there is room for one thing only."""

    @abstractmethod
    def offers(self, scene: Scene) -> object:
        """What decides which keys there are."""

    @abstractmethod
    def draw(self, scene: Scene) -> None: ...

    def show(self, scene: Scene) -> None:
        before = self._scene
        self._scene = scene
        if self.is_mounted:
            self.again()
            if before is None or self.offers(before) != self.offers(scene):
                self.refresh_bindings()

    def again(self) -> None:
        if self._scene is not None and self.is_mounted:
            self.draw(self._scene)

    # ----- keys

    def action_close(self) -> None:
        self.dismiss()

    def action_operate(self, what: str) -> None:
        conduct(self.app, what)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "operate":
            return may(self.app, str(parameters[0])) if self._watch.acts else False
        return super().check_action(action, parameters)
