"""Hooks beside a real watch: a load played over SSH comes to ready, a command and a webhook hear of it once."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import msgspec
import pytest

from probes.readings import ProbeReading, Reading
from probes.rehearsal.host import Rehearsal
from probes.rehearsal.story import load_story
from tests.probes.test_hook import script, server
from tests.tui import views
from tui.commands import live as command
from tui.commands.replay import open_recording
from tui.playing import player
from watch.config import Config, Deployment, Hooks
from watch.hooking import Hooking
from watch.hooks import parse
from watch.redact import Redactor
from watch.view import BenchView, View


class Pictures:
    """A watch that shows what a test says."""

    def __init__(self, view: View) -> None:
        self.picture = view
        self.said: list[Reading] = []

    def now(self) -> float:
        return self.picture.now

    def view(self, now: float) -> View:
        return self.picture

    async def put(self, reading: Reading) -> None:
        self.said.append(reading)


async def test_ready_is_heard_once_by_a_command_and_a_webhook_and_not_in_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    story = load_story()
    heard = tmp_path / "heard"
    say = script(tmp_path, f'echo "$1 $FIRSTLIGHT_EVENT" >>{heard}')
    async with (
        server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (url, seen),
        Rehearsal(story, 100.0, now=time.time()) as rehearsal,
    ):
        deployment = Deployment(
            target=rehearsal.host.name,
            unit=story.unit,
            hooks=Hooks(ready=[[say, "{deployment}"], url, ["/no/such/hook"]]),
        )
        async with command.live(rehearsal.host, deployment, Config(), name="demo") as desk:
            watching = desk.watching
            assert await watching.until(lambda: watching.view(watching.now()).state == "ready", 60.0)
            path = Path(watching.status().recording)
        # whoever leaves at that moment still has all of them done
        assert heard.read_text() == "demo ready\n"
        (request,) = seen
        told = json.loads(request.partition(b"\r\n\r\n")[2])
        assert (told["event"], told["deployment"], told["state"], told["target"]) == (
            "ready",
            "demo",
            "ready",
            story.host,
        )
        assert "ready" in told["message"]

        packed = path.with_name(path.name + ".gz")
        with open_recording(packed) as reader:
            again = player(reader, 1e6)
            async for _ in again.batches():
                if again.status().ended:
                    break
            view = again.view(again.now())
        assert heard.read_text() == "demo ready\n"
        assert len(seen) == 1
    # the failure is in the recording, and says nothing about the load
    assert any(source.probe == "hooks" for source in view.sources)
    assert not any("such" in finding.title for finding in view.findings)


async def fired(hooks: Hooks, *pictures: View, limit: float = 20.0) -> list[ProbeReading]:
    """What hooks said over a row of pictures."""
    watched = Pictures(pictures[0])
    found = {name: parse(getattr(hooks, name)) for name in Hooks.__struct_fields__ if getattr(hooks, name)}
    hooking = Hooking(watched, found, "kimi", Redactor(), limit=limit)
    hooking.start()
    await asyncio.sleep(0)
    for picture in pictures[1:]:
        watched.picture = picture
        hooking.look()
    await hooking.close()
    assert hooking.pending == 0
    return [reading for reading in watched.said if isinstance(reading, ProbeReading)]


async def test_an_event_fires_once_however_often_the_picture_flickers(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    say = script(tmp_path, f'echo "$1" >>{heard}')
    hooks = Hooks(ready=[say, "ready"], failed=[say, "failed"], stalled=[say, "stalled"], benchmark_done=[say, "done"])
    said = await fired(
        hooks, views.loading(), views.stalled(), views.loading(), views.stalled(), views.ready(), views.loading(),
        views.ready(), views.failed(),
    )  # fmt: skip
    assert sorted(heard.read_text().split()) == ["failed", "ready", "stalled"]
    assert [reading.state for reading in said] == ["up"] * 3


async def test_a_hook_that_fails_is_a_reading_with_a_remedy(tmp_path: Path) -> None:
    slow = script(tmp_path, "exec sleep 60")
    (late,) = await fired(Hooks(ready=[slow]), views.loading(), views.ready(), limit=0.3)
    assert (late.probe, late.state) == ("hooks", "failed")
    assert "did not end within 0.3 s" in late.reason
    (refused,) = await fired(Hooks(ready="http://127.0.0.1:1/secret"), views.loading(), views.ready())
    assert refused.reason == "The hook on ready failed: 127.0.0.1:1: it cannot be reached"
    assert refused.remedy


async def test_what_was_so_before_fires_nothing(tmp_path: Path) -> None:
    assert await fired(Hooks(failed=["/no/such"]), views.failed(), views.failed()) == []
    late = msgspec.structs.replace(views.failed(), now=views.NOW + 3600)
    assert await fired(Hooks(failed=["/no/such"]), views.waiting(), late) == []


async def test_a_benchmark_is_heard_of_when_it_is_done(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    running = BenchView(
        run="r", unit="u", preset="quick", who="", state="running", text="", started=views.NOW, verdict="Level."
    )
    pictures = [
        msgspec.structs.replace(views.ready(), benchmark=bench)
        for bench in (running, msgspec.structs.replace(running, state="done"))
    ]
    await fired(Hooks(benchmark_done=[script(tmp_path, f'echo "$1" >>{heard}'), "{message}"]), *pictures)
    assert heard.read_text().endswith("benchmark quick done. Level.\n")
