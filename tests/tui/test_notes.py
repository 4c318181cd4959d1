"""Notes: a line typed into a live watch is in its recording, on its screen, and in its report."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.clock import SYSTEM
from probes.readings import JournalLine, Note
from tests.tui.showing import QUIET, press
from tests.watch.fed import OpenFeed
from tui.app import Firstlight
from tui.desk import whoami
from watch.config import Config, Deployment
from watch.redact import Redactor
from watch.session import SessionReader, SessionWriter, new_header
from watch.state import WatchState
from watch.watching import Watching

UNIT = "vllm.service"


def a_desk(watching: Watching) -> Any:
    """What a note needs of a desk; nothing is asked of a host."""
    return SimpleNamespace(
        host=None,
        watching=watching,
        config=Config(),
        deployment=Deployment(target="llm-two", unit=UNIT),
        clock=SYSTEM,
        redactor=Redactor(),
        name="",
        history=None,
        no_history="",
        read_only=True,
        title=UNIT,
        drawn=None,
    )


@pytest.mark.parametrize("kept", [True, False])
async def test_a_note_is_in_the_recording_and_on_the_screen(
    tmp_path: Path, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = OpenFeed()
    tape = SessionWriter(new_header("llm-two", UNIT, 1000.0), where=tmp_path if kept else None)
    watching = Watching(feed, WatchState("llm-two", UNIT), tape)
    feed.put(JournalLine(at=SYSTEM.now(), text="(APIServer pid=1) INFO vLLM API server version 0.11.0", pid=1))
    app = Firstlight(watching, zone=None, alerts=QUIET)
    app.desk = cast(Any, a_desk(watching))
    async with app.run_test(size=(120, 35)) as pilot:

        async def until(text: str) -> None:
            async with asyncio.timeout(20):
                while text not in "\n".join(strip.text for strip in app.screen._compositor.render_strips()):
                    await pilot.pause(0.01)

        await until("vLLM API server")
        await press(pilot, "n", *"slow disk, sk-0123456789ab", "enter")
        await until("✎")
        await until("slow disk, ***")
        said = " ".join(str(one.message) for one in app._notifications)
        assert ("is in the recording" in said) is kept
        await press(pilot, "n", "escape")
        await press(pilot, "slash", *"version", "enter", "n")
        assert app.watching.journal.search is not None  # n went to the next line found
        app.exit()
    await watching.stop()
    path = tape.close()
    if not kept:
        assert path is None
        return
    assert path is not None
    with SessionReader(path) as reader:
        notes = [reading for _, reading in reader if isinstance(reading, Note)]
    assert [(note.text, note.who) for note in notes] == [("slow disk, ***", whoami())]


async def test_without_a_desk_there_is_nothing_to_note_into() -> None:
    watching = Watching(OpenFeed(), WatchState("t", "u"), SessionWriter(new_header("t", "u", 1.0), where=None))
    app = Firstlight(watching, alerts=QUIET)
    async with app.run_test(size=(120, 35)):
        offered = {active.binding.id for active in app.screen.active_bindings.values()}
        assert "session.note" not in offered
        assert "session.recordings" in offered
        app.exit()
