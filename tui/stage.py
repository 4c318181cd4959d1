"""What screens and flows need of the app, and what is opened over a watch needs of it. The app itself is built on them
and knows them all; they know these protocols only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from textual.app import App
from textual.notifications import SeverityLevel
from textual.screen import Screen

from tui.desk import Desk
from tui.scene import Scene
from tui.source import Source
from tui.units import Zone
from tui.widgets.journal import Journal
from watch.view import View

R = TypeVar("R")


class Follower(Protocol):
    """A screen over a watch that shows the same pictures."""

    def show(self, scene: Scene) -> None: ...


class Watched(Protocol):
    """The screen of a watch, for what is opened over it."""

    acts: ClassVar[bool]
    """Whether what it shows goes on now and can be acted on."""
    journal: Journal
    followers: set[Follower]

    @property
    def scene(self) -> Scene | None: ...

    @property
    def picture(self) -> View | None:
        """What is shown now."""
        ...

    def refresh_bindings(self) -> None: ...


@runtime_checkable
class Conducted(Protocol):
    """An app that acts. ``what``: restart, rollback, undo, start_stop, fallback, kill, diagnose, revisions; of
    benchmarks measure, arm, cancel, compare."""

    def may(self, what: str) -> bool | None:
        """Whether it can be done: False, it is not offered here at all; None, not just now (``why_not``)."""
        ...

    def why_not(self, what: str) -> str:
        """Why it cannot be done just now, one sentence; empty: it can."""
        ...

    def conduct(self, what: str) -> None:
        """Begin it: asks what has to be asked."""
        ...

    def show_steps(self, watch: Watched | None = None) -> None:
        """The steps of the action that runs, or ran last, over this watch (None: the app's own)."""
        ...

    def show_benchmark(self, watch: Watched | None = None) -> None:
        """The benchmark that runs, or ran last, over this watch (None: the app's own)."""
        ...

    def can_note(self) -> bool:
        """Whether there is a session to write a note into."""
        ...

    def write_note(self) -> None:
        """Ask for one line, and put it into the session."""
        ...

    def show_recordings(self) -> None:
        """The list of recordings; the one that is chosen is replayed over the watch, which goes on."""
        ...


def conductor(app: App[object]) -> Conducted | None:
    """The app, where it acts."""
    return app if isinstance(app, Conducted) else None


def may(app: App[object], what: str) -> bool | None:
    return app.may(what) if isinstance(app, Conducted) else False


def conduct(app: App[object], what: str) -> None:
    if isinstance(app, Conducted):
        app.conduct(what)


class Stage(Conducted, Protocol):
    """The app of a watch, for flows that lead through several screens. What is not said here is Textual's."""

    desk: Desk | None
    zone: Zone

    @property
    def source(self) -> Source: ...

    @property
    def watching(self) -> Watched:
        """The app's own watch."""
        ...

    @property
    def shows_steps(self) -> bool: ...

    @property
    def shows_benchmark(self) -> bool: ...

    async def go_to(self, desk: Desk, *, former: str = "") -> None:
        """Go on with another watch, on the same screen. ``former``: the unit that its unit stands in for."""
        ...

    def flush(self) -> None:
        """Show everything that came."""
        ...

    @property
    def screen(self) -> Screen[object]: ...

    @property
    def is_web(self) -> bool: ...

    def push_screen(self, screen: Screen[R], callback: Callable[[R | None], None] | None = None) -> object: ...

    async def push_screen_wait(self, screen: Screen[R]) -> R: ...

    def run_worker(
        self, work: Awaitable[Any], name: str | None = "", group: str = "default", *, exclusive: bool = False
    ) -> object: ...

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None: ...
