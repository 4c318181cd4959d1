"""``firstlight watch`` without its screen: a host over SSH that plays a load, recorded, kept and replayed."""

from __future__ import annotations

import gzip
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from probes.readings import JournalLine
from probes.rehearsal.host import Rehearsal
from probes.rehearsal.story import load_story
from probes.supervise import Supervisor
from tui.commands import live as command
from tui.commands.replay import open_recording
from tui.desk import Desk
from tui.exits import Ending, Exit
from tui.playing import player
from watch.config import Config, Defaults, Deployment
from watch.history import History
from watch.session import SessionReader
from watch.session.shelf import listed


def opened(
    rehearsal: Rehearsal, config: Config | None = None, *, endpoint: str = "", record: bool | None = None
) -> AbstractAsyncContextManager[Desk]:
    deployment = Deployment(target=rehearsal.host.name, unit=load_story().unit, endpoint=endpoint)
    return command.live(rehearsal.host, deployment, config or Config(), record=record)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "firstlight"


async def test_a_watch_is_recorded_kept_in_the_history_and_replayed(state: Path) -> None:
    story = load_story()
    async with (
        Rehearsal(story, 100.0, now=time.time()) as rehearsal,
        opened(rehearsal) as desk,
    ):
        watching = desk.watching
        await command.first_answer(watching)
        path = Path(watching.status().recording)
        assert path.parent == state / "sessions"
        async for _ in watching.batches():
            live = watching.view(watching.now())
            if live.state == "ready":
                break
    assert not path.exists()
    packed = path.with_name(path.name + ".gz")
    assert gzip.decompress(packed.read_bytes()).count(b'"kind":"journal"') == live.lines

    with SessionReader(packed) as reader:
        assert (reader.header.target, reader.header.unit) == (story.host, story.unit)
        assert reader.notes() == []
    with open_recording(packed) as reader:
        again = player(reader, 1e6)
        async for _ in again.batches():
            if again.status().ended:
                break
        view = again.view(live.now)
    (summary,) = [one.summary for one in listed(packed.parent)]
    assert summary is not None
    assert (summary.outcome, summary.unit, summary.lines) == ("ready", story.unit, live.lines)
    page = packed.with_name(packed.name.removesuffix(".jsonl.gz") + ".html").read_text()
    assert "Ready after" in page
    assert (view.state, view.lines, view.phase) == ("ready", live.lines, live.phase)
    assert view.load == live.load
    assert view.findings == live.findings

    with History.open() as history:
        (load,) = history.loads(story.host, story.unit)
    assert (load.outcome, load.invocation, load.key.model) == ("ready", story.invocation, story.model)
    assert load.revision


async def test_a_watch_that_never_came_about_leaves_no_file(state: Path) -> None:
    story = load_story()

    async def begin(rehearsal: Rehearsal) -> None:
        async with opened(rehearsal) as desk:
            watching = desk.watching
            assert watching.status().recording
            raise Ending(Exit.NO_UNIT, "there is none")

    async with Rehearsal(story, 100.0, now=time.time()) as rehearsal:
        with pytest.raises(Ending, match="there is none"):
            await begin(rehearsal)
    assert list((state / "sessions").iterdir()) == []


@pytest.mark.parametrize("how", ["option", "configuration"])
async def test_a_watch_need_not_be_recorded(state: Path, how: str) -> None:
    story = load_story()
    config = Config(defaults=Defaults(record=how != "configuration"))
    async with (
        Rehearsal(story, 100.0, now=time.time()) as rehearsal,
        opened(rehearsal, config, record=False if how == "option" else None) as desk,
    ):
        watching = desk.watching
        batches = watching.batches()
        batch = await anext(batches)
        while not batch.lines:
            batch = await anext(batches)
        assert watching.line(batch.offsets[0]) == batch.lines[0]
        assert watching.status().recording == ""
        await batches.aclose()
    assert not (state / "sessions").exists()


async def test_a_history_that_cannot_be_used_keeps_no_watch_from_running(state: Path) -> None:
    state.mkdir(parents=True)
    (state / "history.sqlite").write_bytes(b"no database" * 1000)
    story = load_story()
    async with (
        Rehearsal(story, 100.0, now=time.time()) as rehearsal,
        opened(rehearsal) as desk,
    ):
        watching = desk.watching
        assert await watching.until(lambda: watching.view(watching.now()).lines > 20, 30.0)


@pytest.mark.parametrize(
    ("config", "endpoint", "says"),
    [(Config(redact=["(?=x)"], path="f.toml"), "", "f.toml"), (Config(), "ftp://x", "ftp://x")],
)
async def test_what_cannot_be_meant_ends_the_program(state: Path, config: Config, endpoint: str, says: str) -> None:
    story = load_story()
    async with Rehearsal(story, 100.0, now=time.time()) as rehearsal:
        with pytest.raises(Ending, match=says) as ending:
            async with opened(rehearsal, config, endpoint=endpoint):
                pass
    assert ending.value.status == Exit.USAGE
    assert not (state / "sessions").exists() or not list((state / "sessions").iterdir())


SITE = """\
[[row]]
id = "site-license"
kind = "args"
layer = "site"
severity = "error"
pattern = 'license server (?P<host>\\S+) says no'
match = "license server lic-1 says no"
title = "No licence from {host}"
cause = "{host} has none left."
remedy = "Ask for one."
"""


async def test_an_operators_own_rows_count_and_a_broken_one_is_said_on_the_screen(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    rows = tmp_path / "config" / "firstlight" / "findings.toml"
    rows.parent.mkdir(parents=True)
    rows.write_text(SITE + SITE.replace("site-license", "site-other").replace("severity", "severty"))
    story = load_story()
    async with (
        Rehearsal(story, 100.0, now=time.time()) as rehearsal,
        opened(rehearsal) as desk,
    ):
        watching = desk.watching
        await watching.put(JournalLine(at=watching.now(), text="license server lic-9 says no", unit=story.unit))
        view = watching.view(watching.now())
    assert [finding.title for finding in view.findings if finding.id == "site-license"] == ["No licence from lic-9"]
    (source,) = [source for source in view.sources if source.probe == "catalogue"]
    assert source.state == "failed"
    assert f"{rows}:11" in source.reason


async def test_time_is_the_hosts_time(state: Path) -> None:
    story = load_story()
    async with (
        Rehearsal(story, 100.0, now=time.time()) as rehearsal,
        opened(rehearsal) as desk,
    ):
        watching = desk.watching
        supervisor = watching._feed
        assert isinstance(supervisor, Supervisor)
        assert watching._clock is supervisor.clock
