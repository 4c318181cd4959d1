"""What the terminal's own threads tell the app."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from textual.app import App
from textual.events import Event, Key, MouseMove
from textual.message import Message

from tui.terminal import TerminalDriver


class Told(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def attended(self) -> None:
        self.threads.append(threading.get_ident())


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    messages: list[Message] = []
    monkeypatch.setattr(TerminalDriver, "send_message", lambda self, message: messages.append(message))
    return messages


def moved() -> Event:
    place: Any = {"x": 1, "y": 1, "delta_x": 0, "delta_y": 0, "button": 0, "shift": False, "meta": False, "ctrl": False}
    return MouseMove(widget=None, **place)


@pytest.mark.parametrize(("event", "told"), [(Key("a", "a"), True), (moved(), False)])
async def test_a_key_is_told_at_once_by_the_thread_that_read_it(event: Event, told: bool, sent: list[Message]) -> None:
    app = Told()
    driver = TerminalDriver(app)
    reads = threading.Thread(target=driver.process_message, args=(event,))
    reads.start()
    reads.join()
    assert app.threads == ([reads.ident] if told else [])
    assert sent == [event]
