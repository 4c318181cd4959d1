"""A watch that goes on without its terminal, on the real host, and the terminals that look at it."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.host import tape
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service
from tests.host.terminal import PROGRAM, Terminal
from tests.host.test_load import READY
from tests.host.watcher import nothing_left
from tui.handover.place import Daemon
from watch.session import SessionReader


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        where = Path(folder) / f"firstlight-{os.getuid()}"
        yield where
        for lock in where.glob("*.lock"):  # of a test that failed
            os.kill(msgspec.json.decode(lock.read_bytes(), type=Daemon).pid, signal.SIGKILL)


async def said(*words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM), *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, out.decode()


def living(runtime: Path) -> Daemon:
    (lock,) = runtime.glob("*.lock")
    return msgspec.json.decode(lock.read_bytes(), type=Daemon)


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits for its parent to look does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


async def test_it_outlives_its_terminal_and_is_shown_on_several(
    machine: Machine, target: str, service: Service, keyring: Keyring, runtime: Path
) -> None:
    service.write_server(tape.server("cpu-small-ngram").until(READY).without_waiting(1), speed=4)
    async with Terminal([str(PROGRAM), "watch", "--daemon", target, service.name]) as terminal:
        screen = await terminal.until("in the background")
        assert await terminal.ended() == 0
        assert service.name in screen
    daemon = living(runtime)  # the terminal is gone, it is not
    os.kill(daemon.pid, signal.SIGHUP)
    assert alive(daemon.pid)

    status, text = await said("watch", "--daemon", target, service.name)
    assert status == 2
    assert f"watched already: by process {daemon.pid}" in text

    await service.start()
    async with Terminal([str(PROGRAM), "attach"]) as one, Terminal([str(PROGRAM), "attach", service.name]) as other:
        await one.until("READY")
        await other.until("READY")
        await one.until(lambda screen: "with " in screen and "(pts/" in screen)
        assert await one.until("Application startup complete")
        one.send("q")
        assert await one.ended() == 0
        await other.until(lambda screen: "(pts/" not in screen)
        status, text = await said("attach", target, service.name, "--stop")
        assert (status, "has ended after" in text) == (0, True), text
        await other.until("tells no more")
        other.send("q")
        assert await other.ended() == 0
    assert not alive(daemon.pid)
    assert list(runtime.iterdir()) == []
    await nothing_left(machine)

    log = Path(daemon.log).read_text()
    assert "loading: weights" in log
    assert "ended on request" in log
    (recording,) = [path for path in keyring.files() if path.name.endswith(".jsonl.gz")]
    with SessionReader(recording) as reader:
        assert sum("Application startup complete" in getattr(reading, "text", "") for _, reading in reader) == 1


async def test_what_keeps_it_from_beginning_is_said_where_it_was_begun(
    machine: Machine, target: str, keyring: Keyring, runtime: Path
) -> None:
    status, text = await said("watch", "--daemon", target, "no-such-unit")
    assert status == 4
    assert "no unit no-such-unit" in text
    assert list(runtime.iterdir()) == []
    status, text = await said("attach")
    assert (status, "no watch goes on in the background" in text) == (2, True)
    await nothing_left(machine)


async def test_a_killed_one_can_be_begun_again(target: str, service: Service, runtime: Path) -> None:
    service.write_server(tape.server("cpu-small-ngram").until(READY).without_waiting(1), speed=20)
    assert (await said("watch", "--daemon", target, service.name))[0] == 0
    os.kill(living(runtime).pid, signal.SIGKILL)
    status, text = await said("watch", "--daemon", target, service.name)
    assert status == 0, text
    status, text = await said("attach", "--list")
    assert service.name in text
    assert (await said("attach", "--stop"))[0] == 0
