"""A watch handed over: the same state on every screen, whoever comes when; and nobody who is not meant."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from probes.readings import GpuDevice, GpuReading, HealthReading, IoReading, JournalLine, Note, Reading, decode, encode
from probes.rehearsal.host import Rehearsal
from probes.rehearsal.story import load_story
from tests.tui.showing import QUIET
from tests.watch.feeds import same
from tui.app import Firstlight
from tui.commands import attach as command
from tui.commands.live import live
from tui.desk import Desk
from tui.exits import Ending, Exit
from tui.handover import hub as hub_module
from tui.handover.daemon import claim, handed_over, taken
from tui.handover.feed import Attached, CannotAttach
from tui.handover.hub import EVERY, RECENT, Hub, Thinner, may_come
from tui.handover.place import Claim, Daemon, PlaceError, Taken, daemons, folder
from tui.handover.words import Asked, Said
from tui.recordings import can_note
from tui.widgets.header import Header, header
from tui.widgets.rows import Row
from watch.config import Config, Deployment


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A short temporary folder of the test's own, and no history or configuration of anybody's."""
    with tempfile.TemporaryDirectory(prefix="fl-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        for name in ("STATE", "CONFIG"):
            monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
        yield Path(short)


def daemon(target: str = "llm-two", unit: str = "vllm", **more: object) -> Daemon:
    return msgspec.structs.replace(Daemon(pid=os.getpid(), target=target, unit=unit, since=1e9), **more)


# ---- the runtime folder


def test_the_list_has_columns_and_times_with_their_zone(capsys: pytest.CaptureFixture[str]) -> None:
    claims = [Claim(daemon("llm-two", "vllm")), Claim(daemon("root@llm-three", "a-longer-name"))]
    assert command.run([], listing=True) == Exit.OK
    head, *rows = capsys.readouterr().out.splitlines()
    at = head.index("SINCE")
    assert {row[at : at + 23] for row in rows} == {"2001-09-09 01:46:40 UTC"}
    assert {row[head.index("TARGET") :].split()[0] for row in rows} == {"llm-two", "root@llm-three"}
    assert "2001-09-09 01:46:40 UTC" in taken(claims[0].daemon).reason
    for one in claims:
        one.release()


def test_a_unit_is_claimed_once_and_by_whom_is_known() -> None:
    with Claim(daemon(name="kimi")) as first:
        with pytest.raises(Taken) as taken:
            Claim(daemon(unit="vllm.service"))
        assert taken.value.by == first.daemon
        with Claim(daemon("llm-three")), Claim(daemon(user=True)):
            assert [one.target for one in daemons()] == ["llm-three", "llm-two", "llm-two"] or len(daemons()) == 3
        assert daemons() == [first.daemon]
        with pytest.raises(Ending) as ending:
            claim(Deployment(target="llm-two", unit="vllm"), "")
        assert ending.value.status == Exit.USAGE
        assert f"process {os.getpid()}" in ending.value.reason
        assert "attach kimi" in ending.value.remedy
    assert daemons() == []
    assert list(folder().iterdir()) == []


def test_what_a_killed_one_left_is_in_nobodys_way(runtime: Path) -> None:
    with Claim(daemon()) as first:
        path = Path(first.daemon.socket)
    path.with_suffix(".lock").write_bytes(msgspec.json.encode(first.daemon))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert daemons() == []
    assert not path.exists()
    path.with_suffix(".lock").write_bytes(b"{")
    with Claim(daemon()) as again:
        assert daemons() == [again.daemon]


def test_only_a_folder_of_ours_alone_is_used(runtime: Path) -> None:
    assert stat.S_IMODE(folder().stat().st_mode) == 0o700
    folder().chmod(0o755)
    with pytest.raises(PlaceError, match="0700"):
        folder()
    folder_path = runtime / f"firstlight-{os.getuid()}"
    folder_path.rmdir()
    (runtime / "elsewhere").mkdir(mode=0o700)
    folder_path.symlink_to(runtime / "elsewhere")
    with pytest.raises(PlaceError):
        folder()


def test_which_one_is_meant() -> None:
    with pytest.raises(Ending, match="no watch goes on"):
        command.find([])
    with Claim(daemon(name="kimi", unit="kimi-k25.service")):
        for words in ([], ["kimi"], ["kimi-k25"], ["kimi-k25.service"], ["llm-two", "kimi-k25"]):
            assert command.find(words).name == "kimi"
        with pytest.raises(Ending, match="named kimy") as ending:
            command.find(["kimy"])
        assert "kimi (on llm-two)" in ending.value.remedy
        with Claim(daemon("llm-three", "small")), pytest.raises(Ending, match="several"):
            command.find([])


# ---- a whole watch


@asynccontextmanager
async def watched(speed: float = 100.0) -> AsyncIterator[tuple[Desk, Hub, Path, asyncio.Event]]:
    """The demo's load as a live, recorded watch, handed over."""
    story = load_story()
    deployment = Deployment(target=story.host, unit=story.unit)
    stop = asyncio.Event()
    async with Rehearsal(story, speed, now=time.time()) as rehearsal:
        with claim(deployment, "demo") as claimed:
            watch = live(rehearsal.host, deployment, Config(), name="demo")
            async with watch as desk, handed_over(desk, claimed, stop) as hub:
                yield desk, hub, Path(claimed.daemon.socket), stop


async def test_every_screen_folds_the_same_state() -> None:
    async with watched() as (desk, hub, path, _), command.attached(path) as early:
        mine, theirs = desk.watching, early

        async def look() -> None:
            async for _ in theirs.batches():
                pass

        looking = asyncio.create_task(look())
        async for _ in mine.batches():
            hub.grown()
            if mine.view(mine.now()).state == "ready":
                break
        now = mine.now()
        async with command.attached(path) as late:
            for watching in (early, late):
                there = lambda watching=watching: watching.state.lines >= mine.state.lines  # noqa: E731
                assert await watching.until(there, 20.0)
                await asyncio.sleep(0)
                view, shown = mine.view(now), watching.view(now)
                assert (shown.state, shown.phase, shown.lines) == ("ready", view.phase, view.lines)
                assert same(shown.load, view.load)
                assert same(shown.findings, view.findings)
                assert same(shown.asked, view.asked)
                assert abs(watching.now() - mine.now()) < 1.0
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def test_who_looks_is_told_to_the_others() -> None:
    async with watched() as (desk, hub, path, _):
        desk.watching.start()
        async with await Attached.to(path, "ana@desk (pts/1)") as ana:
            heard = asyncio.create_task(_drain(ana))
            async with await Attached.to(path, "ben@lap\x1b[2J (pts/2)") as ben:
                other = asyncio.create_task(_drain(ben))
                await _until(lambda: ana.said.others and ben.said.others)
                assert ana.said.others == ("ben@lap�[2J (pts/2)",)
                assert ben.said.others == ("ana@desk (pts/1)",)
                assert len(hub.who) == 2
                assert ana.said.title == "demo"
                other.cancel()
            await _until(lambda: not ana.said.others)
            heard.cancel()
        await asyncio.gather(heard, other, return_exceptions=True)


async def test_a_note_of_an_attached_screen_is_in_the_recording_and_on_every_screen() -> None:
    async with watched() as (desk, _, path, _), command.attached(path) as mine, command.attached(path) as theirs:
        desk.watching.start()
        mine.start()
        await mine.note("the disk is slow\x1b[2J today")
        heard = [reading async for batch in _first(theirs.attached) for reading in batch if isinstance(reading, Note)]
        assert heard[0].text == "the disk is slow\ufffd[2J today"
        assert "@" in heard[0].who


async def _first(feed: Attached) -> AsyncIterator[list[Reading]]:
    """What comes up to and with the first note."""
    async for batch in feed.batches():
        yield batch
        if any(isinstance(reading, Note) for reading in batch):
            return


async def test_it_is_ended_by_who_looks() -> None:
    async with watched() as (_, _, path, stop), await Attached.to(path) as feed:
        await feed.ask(Asked(stop=True))
        await asyncio.wait_for(stop.wait(), 10)


async def test_the_attached_screen_says_who_else_looks() -> None:
    async with watched() as (desk, _, path, _):
        desk.watching.start()
        async with command.attached(path) as watching, await Attached.to(path, "ben@lap (pts/2)") as ben:
            other = asyncio.create_task(_drain(ben))
            app = Firstlight(watching, alerts=QUIET)
            async with app.run_test(size=(200, 50)) as pilot:
                header = app.watching.query_one(Header)
                await _until(lambda: "with ben@lap (pts/2)" in "".join(row.text for row in _rows(header)))
                assert app.desk is None, "nothing on the host can be changed from here"
                assert can_note(app)
                await pilot.pause()
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)


async def test_when_the_daemon_ends_the_screen_says_so_and_stays() -> None:
    async with watched() as (desk, _, path, _):
        desk.watching.start()
        feed = await Attached.to(path)
        batches = feed.batches()
        await anext(batches)
    with pytest.raises(ConnectionError, match="tells no more"):
        async for _ in batches:
            pass


# ---- the hub by itself


def test_of_the_long_past_samples_are_told_one_in_fifteen_and_words_all() -> None:
    now = 1e9
    readings: list[Reading] = []
    for second in range(3600):
        at = now - 3600 + second
        readings += [
            GpuReading(at=at, devices=(GpuDevice(index=0, used_mib=float(second)),)),
            IoReading(at=at, read_bytes=second),
            JournalLine(at=at, text='a line that looks like {"kind":"gpu","at":1.0}'),
            HealthReading(at=at, status=200),
        ]
    thinner, told = Thinner(), b""
    lines = [encode(reading) + b"\n" for reading in readings]
    for start in range(0, len(lines), 700):
        told += thinner.thin(b"".join(lines[start : start + 700]), now)
    back = [decode(line) for line in told.splitlines()]
    for kind in (JournalLine, HealthReading):
        assert [one for one in back if isinstance(one, kind)] == [one for one in readings if isinstance(one, kind)]
    for kind in (GpuReading, IoReading):
        times = [one.at for one in back if isinstance(one, kind)]
        assert times[0] == now - 3600
        assert len([at for at in times if at >= now - RECENT]) == RECENT
        assert len([at for at in times if at < now - RECENT]) == (3600 - RECENT) / EVERY
    assert back == sorted(back, key=lambda reading: reading.at)
    assert thinner.thin(lines[0], now) == lines[0], "from the present on all is told"


@pytest.mark.parametrize("piece", [b"", b"x\n", b'{"kind":"gpu","at":}\n', b'{"kind":"gpu","at":1e5}\n'])
def test_nothing_that_is_no_sample_is_lost(piece: bytes) -> None:
    assert Thinner().thin(piece, 1e9) == piece


class Endless:
    """A recording that always has more."""

    line = b'{"kind":"journal","at":1.0,"text":"' + b"x" * 1000 + b'"}\n'

    def chunk(self, place: int, most: int = 1 << 18) -> bytes:
        return self.line * (most // len(self.line))


async def test_a_screen_that_takes_nothing_is_dropped_and_holds_nobody_up(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "STUCK", 0.5)
    hub = Hub(Endless(), lambda: Said(now=1.0))
    async with hub.listening(runtime / "s"):
        _, writer = await asyncio.open_unix_connection(str(runtime / "s"))
        writer.write(b'{"who":"slow"}\n')
        async with await Attached.to(runtime / "s", "quick") as quick:
            batches = quick.batches()
            began, count = time.monotonic(), 0
            while time.monotonic() - began < 1.0:
                count += len(await anext(batches))
            assert count > 1000
            await _until(lambda: hub.who == ["quick"])
        writer.close()
    assert not (runtime / "s").exists()


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\n\r\n", b'{"who":1}\n', b"x" * (1 << 20), b"\x00\xff\n"])
async def test_who_speaks_another_language_is_dropped(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(hub_module, "GREET", 0.3)
    hub = Hub(Endless(), lambda: Said(now=1.0))
    async with hub.listening(runtime / "s"):
        reader, writer = await asyncio.open_unix_connection(str(runtime / "s"))
        writer.write(data)
        with suppress(ConnectionError):
            while await asyncio.wait_for(reader.read(1 << 16), 10):
                continue
        writer.close()
        assert hub.who == []


async def test_only_this_user_and_root_may_come(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert may_come(one)
        if os.getuid() == 0:
            monkeypatch.setattr(os, "getuid", lambda: 12345)
            assert may_come(one), "root may"
    hub = Hub(Endless(), lambda: Said(now=1.0))
    monkeypatch.setattr(hub_module, "may_come", lambda peer: False)
    async with hub.listening(runtime / "s"):
        assert stat.S_IMODE((runtime / "s").stat().st_mode) == 0o600
        with pytest.raises(CannotAttach):
            await Attached.to(runtime / "s")


async def test_nobody_there_is_one_sentence(runtime: Path) -> None:
    with pytest.raises(CannotAttach, match="does not answer"):
        await Attached.to(runtime / "none")


def _rows(shown: Header) -> list[Row]:
    return header(shown._scene, shown.inner.width) if shown._scene is not None else []


async def _drain(feed: Attached) -> None:
    async for _ in feed.batches():
        pass


async def _until(true: Callable[[], object], limit: float = 20.0) -> None:
    async with asyncio.timeout(limit):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
