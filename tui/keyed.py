"""The keys that this operator has, for whoever shows them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from textual.app import App


@runtime_checkable
class Keyed(Protocol):
    """An app that knows which keys an operator gave."""

    def keys_of(self, name: str) -> str:
        """Keys by id, "" where they are those of the table."""
        ...


def keys_of(app: App[object], name: str) -> str:
    """The operator's own keys for this id, "" if they are those of the table."""
    return app.keys_of(name) if isinstance(app, Keyed) else ""
