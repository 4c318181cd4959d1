"""``serve-status`` and ``web`` as they are run, against the real host."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.host import tape
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service
from tests.host.terminal import PROGRAM
from tests.host.test_load import READY
from tests.host.watcher import nothing_left


@asynccontextmanager
async def running(*words: str, until: bytes) -> AsyncIterator[str]:
    """A command that serves; the line that says where. It must end well when it is asked to."""
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM), *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    line = b""
    try:
        async with asyncio.timeout(30):
            while until not in line:
                line = await process.stdout.readline()
                assert line, "it ended"
        yield line.decode()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def answers(client: httpx.AsyncClient, path: str, status: int) -> httpx.Response:
    """Ask until it answers so."""
    async with asyncio.timeout(60):
        while (answer := await client.get(path)).status_code != status:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return answer


async def test_a_load_is_followed_over_http(machine: Machine, target: str, service: Service, keyring: Keyring) -> None:
    folder = keyring.home / ".config" / "firstlight"
    folder.mkdir(parents=True)
    (folder / "firstlight.toml").write_text(
        f'[deployments.tiny]\ntarget = "{target}"\nunit = "{service.name}"\n'
        f'[deployments.gone]\ntarget = "{target}"\nunit = "no-such-unit"\n'
    )
    service.write_server(tape.server("cpu-small-ngram").until(READY).without_waiting(1), speed=4)
    async with running("serve-status", "--listen", "127.0.0.1:0", until=b"http://") as line:
        assert "2 deployments" in line
        address = next(word for word in line.split() if word.startswith("http://")).rstrip(":")
        async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
            assert (await client.get("/startupz/tiny")).status_code == 503
            await service.start()
            ready = await answers(client, "/startupz/tiny", 200)
            (one,) = ready.json()["deployments"]
            assert (one["state"], one["link"], one["target"]) == ("ready", "up", target)
            assert {"weights", "config"} <= {phase["name"] for phase in one["phases"]}
            assert (await client.get("/readyz/tiny")).status_code == 200
            assert (await client.get("/readyz")).status_code == 503, "the other one is not"
            page = (await client.get("/metrics")).text
            assert 'firstlight_ready{deployment="tiny"} 1.0' in page
            assert 'firstlight_ready{deployment="gone"} 0.0' in page
            await service.stop()
            await answers(client, "/livez/tiny", 503)
    await nothing_left(machine)
    assert not list(keyring.home.rglob("*.jsonl*")), "it records nothing"


async def test_the_web_server_shows_nothing_without_its_token(
    machine: Machine, target: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        service.write_server(tape.server("cpu-small-ngram").until(READY).without_waiting(1), speed=20)
        async with running("web", target, service.name, "--listen", "127.0.0.1:0", until=b"token=") as line:
            address, token = line.strip().split("/?token=")
            assert len(token) >= 32
            async with httpx.AsyncClient(base_url=address, trust_env=False, follow_redirects=True) as client:
                assert (await client.get("/")).status_code == 403
                assert (await client.get(f"/?token={token}")).status_code == 200
        assert os.listdir(f"{folder}/firstlight-{os.getuid()}") == []
    await nothing_left(machine)
