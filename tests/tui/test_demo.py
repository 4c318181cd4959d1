"""The demo, as a person starts it: the screen at once, the load when it is there, nothing left at the end."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from probes.clock import StoryClock
from probes.rehearsal import HOST, UNIT
from probes.rehearsal.story import load_story
from tui.commands.later import Later
from tui.commands.rehearse import prepared
from tui.source import SourceStatus
from watch.view import View
from watch.watching import Watching

ORDER = ("pre-start", "process-start", "config", "dist-init", "weights", "compile", "profile", "graph-capture")


async def seen_until(watching: Watching, wanted: str, pictures: list[View]) -> View:
    """The pictures up to the first in which the load is ``wanted``, and server and GPUs have been heard."""
    async for _ in watching.batches():
        view = watching.view(watching.now())
        pictures.append(view)
        if view.state == wanted and view.serving is not None and view.gpu is not None and view.gpu.processes:
            return view
    raise AssertionError(f"never {wanted}")


async def test_it_comes_to_ready_through_every_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(tempfile.mkdtemp(prefix="fl-"))  # a path short enough for the name of a socket
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    pictures: list[View] = []
    async with prepared(60.0)() as watching:
        assert isinstance(watching, Watching)
        view = await seen_until(watching, "ready", pictures)
        status = watching.status()
    assert (view.demo, view.target, view.unit) == (True, HOST, UNIT)
    assert (view.engine, view.version, view.model) == ("vLLM", "0.25.1", "/opt/models/demo-30b-a3b")
    states = [picture.state for picture in pictures]
    assert "failed" not in states
    assert "stalled" not in states
    assert states.index("loading") < states.index("ready")
    assert view.load is not None
    phases = [phase.name for phase in view.load.phases if phase.status == "done"]
    assert [phase for phase in phases if phase in ORDER] == list(ORDER)
    ready = next(phase.started for phase in view.load.phases if phase.name == "ready")
    assert ready is not None
    assert ready - view.load.started == pytest.approx(load_story().opened, abs=0.01)
    assert any("$free" in finding.title for finding in view.findings)
    assert view.gpu is not None
    assert {process.unit for process in view.gpu.processes} == {UNIT}
    assert view.io is not None
    assert view.io.last.model_mount == "ext4"
    assert view.link is not None
    assert view.link.state == "up"
    assert {source.probe: source.state for source in view.sources} == dict.fromkeys(
        ("gpu", "gpu-processes", "io", "journal", "serving", "unit"), "up"
    )
    assert (status.mode, status.recording, status.recording_error) == ("demo", "", "")
    assert "recorded load of demo-30b-a3b" in status.label
    place.rmdir()  # raises where anything of ours was left in it


async def test_it_goes_on_when_the_recording_is_over() -> None:
    async with prepared(2000.0)() as watching:
        assert isinstance(watching, Watching)
        clock = watching._clock
        assert isinstance(clock, StoryClock)
        batches = watching.batches()
        async for _ in batches:
            if watching.view(watching.now()).state == "ready":
                break
        over = clock.now() + 1000.0
        clock.move(over)
        async for _ in batches:
            view = watching.view(watching.now())
            heard = view.serving is not None and view.serving.at > over and view.gpu is not None and view.gpu.at > over
            if heard and view.io is not None and view.io.last.at > over:
                break
        await batches.aclose()
    assert view.state == "ready"
    assert {source.state for source in view.sources} == {"up"}
    assert view.serving is not None
    assert view.serving.running == 0.0


async def test_a_screen_has_something_to_show_before_the_watch_is_there() -> None:
    gate = asyncio.Event()
    opened: list[str] = []

    @asynccontextmanager
    async def slow() -> AsyncIterator[Watching]:
        await gate.wait()
        async with prepared(2000.0)() as watching:
            opened.append("open")
            assert isinstance(watching, Watching)
            yield watching
        opened.append("closed")

    def opens() -> AbstractAsyncContextManager[Watching]:
        return slow()

    later = Later(HOST, UNIT, "starting", SourceStatus(mode="demo", speed=30.0), lambda: opens, 1_800_000_000.0)
    batches = later.batches()
    first = asyncio.ensure_future(anext(batches))
    await asyncio.sleep(0)
    view = later.view(later.now())
    assert (view.headline, view.state, view.demo, view.now) == ("starting", "unknown", True, 1_800_000_000.0)
    assert later.status().speed == 30.0
    with pytest.raises(ValueError, match="no journal line"):
        later.line(0)
    gate.set()
    await first
    assert later.view(later.now()).headline != "starting"
    assert later.status().label
    await batches.aclose()
    await later.close()
    await later.close()
    assert opened == ["open", "closed"]


async def test_what_keeps_a_watch_from_being_made_is_not_hidden() -> None:
    def broken() -> None:
        raise OSError("no room")

    later = Later(HOST, UNIT, "starting", SourceStatus(), broken, 0.0)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="no room"):
        await anext(later.batches())
    await later.close()
