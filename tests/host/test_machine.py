"""The real host itself: what the other tests stand on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from tests.host import tape
from tests.host.machine import KEY, Machine
from tests.host.service import Service
from tests.host.watcher import logged_in, nothing_left


def test_it_is_a_whole_debian(machine: Machine) -> None:
    assert machine.run("systemctl", "is-system-running").text == "running\n"
    assert machine.run("hostname").text == "llm-two\n"
    assert machine.run("stat", "--file-system", "--format=%T", "/sys/fs/cgroup").text == "cgroup2fs\n"


def test_the_users_have_their_rights(machine: Machine) -> None:
    assert machine.run("sudo", "-n", "systemctl", "--version", user="ops").status == 0
    assert machine.run("sudo", "-n", "id", user="ops", check=False).status != 0
    assert machine.run("journalctl", "--lines=1", "--quiet", "--no-pager", user="ops").out
    assert not machine.run("journalctl", "--lines=1", "--quiet", "--no-pager", user="guest", check=False).out


async def test_systemd_warns_of_the_unset_variable(service: Service) -> None:
    service.write(
        "[Service]\nType=oneshot\n"
        'ExecStart=/bin/bash -c "test \\"${free}\\" -gt 3 || true"\n'
    )  # fmt: skip
    await service.start(wait=True)
    texts = [entry.text for entry in await service.journal()]
    warning = f"{service.name}.service: Referenced but unset environment variable evaluates to an empty string: free"
    assert warning in texts
    proof = "/bin/bash: line 1: test: : integer expression expected"
    assert texts.index(warning) < texts.index(proof)


async def test_the_player_prints_the_recorded_bytes(service: Service) -> None:
    played = tape.server("cpu-small-ngram").until(b"Application startup complete.")
    service.write_server(played, speed=1000)
    await service.start()
    while True:
        texts = [entry.text for entry in await service.journal()]
        if any("Application startup complete." in text for text in texts):
            break
    bars = [text for text in texts if "Loading safetensors" in text]
    assert bars
    assert all(text.startswith("\r") for text in bars)
    recorded = [line.rstrip() for line in played.data.decode("utf-8", "backslashreplace").split("\n")]
    assert [text for text in texts if "vllm-tiny-ngram" not in text] == [line for line in recorded if line]


async def test_a_login_and_all_that_it_leaves_is_seen(machine: Machine) -> None:
    await nothing_left(machine)
    login = ["ssh", "-q", "-i", str(KEY), "-p", str(machine.port), "-o", "StrictHostKeyChecking=no"]
    login += ["-o", "UserKnownHostsFile=/dev/null", "ops@127.0.0.1", "setsid -f sleep 31.5 >/dev/null 2>&1 </dev/null"]
    await (await asyncio.create_subprocess_exec(*login)).wait()
    assert any("sleep 31.5" in line for line in logged_in(machine))
    machine.run("pkill", "-f", "sleep 31.5")
    await nothing_left(machine)


def test_powered_off_it_leaves_nothing(boot: Callable[..., Machine]) -> None:
    other = boot("llm-four")
    leader, port = other.leader, other.port
    other.power_off()
    assert not Path(f"/proc/{leader}").exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
