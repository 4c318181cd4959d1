"""While it runs: no port is open, no key is in an argument list on either side, files are the operator's own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from bench.terminal import Terminal
from probes.operate.files import read_files
from tests.host import tape
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.operator import Operator, outcomes, story
from tests.host.service import Service, shell
from tests.host.terminal import PROGRAM
from tests.host.test_load import READY
from tests.host.watcher import nothing_left

KEY = "sk-never-in-a-list-of-processes-4711"


def family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family(int(child))
    return found


def listening(pid: int) -> list[str]:
    """TCP sockets on which a process listens."""
    own = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(link))
        except OSError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                found.append(fields[1])
    return found


async def test_nothing_is_open_and_nothing_is_told(
    machine: Machine, target: str, service: Service, keyring: Keyring
) -> None:
    load = tape.server("cpu-small-ngram").until(READY).without_waiting(1)
    service.write_server(load, speed=4)
    env = {"FIRSTLIGHT_API_KEY": KEY}
    seen_there: set[str] = set()
    with Terminal([str(PROGRAM), "watch", target, service.name], env=env) as terminal:
        pid = terminal.process.pid
        await asyncio.to_thread(terminal.until, service.name)
        await service.start()

        def look() -> None:
            seen_there.update(args for _, _, args in machine.processes())
            for one in family(pid):
                assert KEY.encode() not in Path(f"/proc/{one}/cmdline").read_bytes()
            assert listening(pid) == []

        async with asyncio.timeout(60):
            while b"READY" not in terminal.seen:
                await asyncio.to_thread(terminal.read, 0.1)
                await asyncio.to_thread(look)
        for _ in range(20):
            await asyncio.to_thread(terminal.read, 0.1)
            await asyncio.to_thread(look)
        terminal.send("q")
        async with asyncio.timeout(20):
            while terminal.process.poll() is None:
                await asyncio.to_thread(terminal.read, 0.1)
    assert any("journalctl" in args for args in seen_there), "the look at the host saw what we run there"
    assert not any(KEY in args for args in seen_there)
    await nothing_left(machine)
    ours = [path for path in keyring.home.rglob("*") if "firstlight" in path.parts]
    assert ours
    for path in ours:
        assert path.stat().st_mode & 0o077 == 0 or (path.is_dir() and path.parent.stat().st_mode & 0o077 == 0), path
        if path.is_file():
            assert KEY.encode() not in path.read_bytes()


@contextlib.contextmanager
def argument_lists() -> Iterator[set[bytes]]:
    """Of all processes of this machine, those in the host's container too, looked at without a pause."""
    seen: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for entry in os.listdir("/proc"):
                if entry.isdigit():
                    with contextlib.suppress(OSError):
                        seen.add(Path("/proc", entry, "cmdline").read_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


async def test_a_roll_back_of_a_unit_that_holds_a_key(machine: Machine, target: str, service: Service) -> None:
    """Its files travel to the host and into place, and back at the undoing: never as an argument."""
    good = f"[Service]\nEnvironment=HF_TOKEN={KEY}\nExecStart={shell('exec sleep 600')}\n"
    service.write(good)
    await service.start(wait=True)
    async with Operator(target) as ann:
        before = list((await read_files(ann.host, await ann.rights(service.name), service.name)).files)
        service.write(good.replace("600", "500"))
        with argument_lists() as seen:
            steps = await ann.has_done(await ann.rollback(service.name, before))
            assert steps[-1].outcome == "done", story(steps)
            steps = await ann.does("restart", service.name)
            assert steps[-1].outcome == "done", story(steps)
    assert outcomes(steps)["start"] == "done"
    assert KEY in (await service.shows("Environment"))
    assert any(b"systemd-analyze" in one for one in seen), "the look at the processes saw what was run there"
    assert not [one for one in seen if KEY.encode() in one]
    assert KEY not in repr(steps)
