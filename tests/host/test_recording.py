"""What a watch on the real host leaves, in a real terminal: its recording, the list of them, the report at its end."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host import tape
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service
from tests.host.terminal import PROGRAM, Terminal
from tests.host.test_load import READY
from tests.host.watcher import nothing_left
from watch.session import SessionReader


async def said(*words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM), *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_a_load_is_recorded_told_listed_and_replayed(
    machine: Machine, target: str, service: Service, keyring: Keyring
) -> None:
    service.write_server(tape.server("cpu-small-ngram").until(READY).without_waiting(1), speed=8)
    unit = service.name.removesuffix(".service")
    async with Terminal([str(PROGRAM), "watch", target, unit]) as terminal:
        await terminal.until("link")
        await service.start()
        await terminal.until("READY")
        terminal.send("n")
        await terminal.until("one line, kept in the recording")
        terminal.send("the night shift has it", "Enter")
        await terminal.until("The note is in the recording")

        terminal.send("o")  # while it goes on: the list has it, being written
        await terminal.until("DEPLOYMENT")
        await terminal.until("● recording")
        terminal.send("Enter")
        await terminal.until("REPLAY")
        await terminal.until("still being recorded")
        terminal.send("Space", "t")
        await terminal.until("from the beginning")
        terminal.send("weights", "Enter")
        await terminal.until(lambda screen: "paused" in screen and "▶ weights" in screen)
        terminal.send("Escape")
        await terminal.until("DEPLOYMENT")
        terminal.send("Escape")
        await terminal.until(lambda screen: "DEPLOYMENT" not in screen and "REPLAY" not in screen)
        terminal.send("q")
        screen = await terminal.until("reported in")
        assert await terminal.ended() == 0
    await nothing_left(machine)

    recording = next(keyring.home.rglob("sessions/*.jsonl.gz"))
    report = next(keyring.home.rglob("sessions/*.html"))
    assert recording.name in "".join(screen.split())
    assert report.name in "".join(screen.split())
    text = report.read_text()
    assert "Ready after" in text
    assert "the night shift has it" in text
    listing = await said("sessions", "--unit", unit)
    assert "✔ ready" in listing
    assert recording.name in listing
    again = await said("report", recording.name.removesuffix(".jsonl.gz"), "--markdown", "-o", "-")
    assert "the night shift has it" in again


@pytest.fixture
def small_disk(keyring: Keyring) -> Iterator[Path]:
    """The folder of recordings on a disk of its own, which is full after 64 KB."""
    state = keyring.home / ".local/state/firstlight/sessions"
    state.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(state)], check=True)
    yield state
    subprocess.run(["umount", "--lazy", str(state)], check=True)


async def test_the_disk_is_full(machine: Machine, target: str, service: Service, small_disk: Path) -> None:
    """The header says that the recording stopped and why; the watch goes on to the end; what was kept is whole."""
    service.write_server(tape.server("cpu-small-ngram").until(READY).without_waiting(1), speed=8)
    async with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await terminal.until("link")
        await service.start()
        await terminal.until("recording stopped: no room left")
        await terminal.until("READY")
        await terminal.until("Application startup complete")
        terminal.send("q")
        screen = "".join((await terminal.until("recorded in")).split())
        assert await terminal.ended() == 0
    await nothing_left(machine)
    (recording,) = small_disk.glob("*.jsonl*")
    for words in ("recording stopped: no room left", "no report was written", f"recorded in {recording}"):
        assert "".join(words.split()) in screen
    with SessionReader(recording) as reader:
        assert list(reader)
        assert reader.notes() == []
