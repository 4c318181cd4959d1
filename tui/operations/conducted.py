"""What a screen asks of the app when the operator acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from textual.app import App

if TYPE_CHECKING:
    from tui.screens.watch import WatchScreen


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

    def show_steps(self, watch: WatchScreen | None = None) -> None:
        """The steps of the action that runs, or ran last, over this watch (None: the app's own)."""
        ...

    def show_benchmark(self, watch: WatchScreen | None = None) -> None:
        """The benchmark that runs, or ran last, over this watch (None: the app's own)."""
        ...


def may(app: App[object], what: str) -> bool | None:
    return app.may(what) if isinstance(app, Conducted) else False


def conduct(app: App[object], what: str) -> None:
    if isinstance(app, Conducted):
        app.conduct(what)
