"""``firstlight doctor`` on the real host, as a shell sees it; and the units that look like model servers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from probes.hosts import open_host
from probes.reaching import reached
from probes.servers import Server, find_servers
from tests.host import tape
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import NGRAM, Service, fresh_name, shell
from tests.tui.test_cli import firstlight
from tui.exits import Exit

GOOD = "Type=exec\nTimeoutStopSec=300\nRestart=on-failure\nRestartSec=15\n"
LIMITS = "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=3\n"


async def asked(keyring: Keyring, *words: str) -> tuple[int, dict[str, list[tuple[str, str]]], dict[str, Any]]:
    """Status, (verdict, text) by topic, and the whole answer."""
    done = await asyncio.to_thread(firstlight, "doctor", "--json", *words, home=keyring.home)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    topics: dict[str, list[tuple[str, str]]] = {}
    for check in told["checks"]:
        assert check["remedy"] or check["verdict"] in ("good", "unknown")
        topics.setdefault(check["topic"], []).append((check["verdict"], check["text"]))
    return done.returncode, topics, told


async def test_a_good_unit(machine: Machine, target: str, keyring: Keyring, service: Service) -> None:
    service.write_server(tape.server("cpu-small-ngram"), arguments=f"--speculative-config '{NGRAM}'", service=GOOD)
    unit = f"/etc/systemd/system/{service.name}.service"
    machine.write(unit, (machine.root / unit.lstrip("/")).read_text() + LIMITS)
    machine.run("systemctl", "daemon-reload")
    status, topics, told = await asked(keyring, target, service.name)
    assert status == Exit.OK, told
    assert told["unit"] == f"{service.name}.service"
    assert topics["rights"] == [("good", "Every action can be taken as root")]
    assert topics["journal"] == [("good", "The journal may be read")]
    assert topics["clock"][0][0] == "good"
    assert topics["endpoint"][0][0] == "good"
    assert [verdict for verdict, _ in topics["unit"]] == ["good"], topics["unit"]
    assert topics["gpu"]


BAD = (
    "Type=notify\nTimeoutStartSec=90\nTimeoutStopSec=10\nRestart=always\nKillMode=process\nStartLimitBurst=3\n"
    "ExecStart=/opt/vllm/bin/vllm serve /m --port $PORT --tensor-parallel-size 8"
    ' --speculative-config {"method": "ngram"}\n'
)


async def test_a_bad_unit_and_each_of_its_faults(target: str, keyring: Keyring, service: Service) -> None:
    service.write(f"[Service]\n{BAD}")
    status, topics, _ = await asked(keyring, target, service.name)
    assert status == Exit.FAILED
    found = "\n".join(text for _, text in topics["unit"])
    for fault in (
        "names $PORT", "Type=notify", "TimeoutStartSec", "TimeoutStopSec", "Restart=always", "KillMode=process",
        "StartLimitBurst stands in [Service]", "RestartSec", "no JSON", "LimitMEMLOCK", "starts counted over",
    ):  # fmt: skip
        assert fault in found, fault
    done = await asyncio.to_thread(firstlight, "doctor", target, service.name, home=keyring.home)
    assert done.returncode == Exit.FAILED
    assert "✖ bad     unit" in done.stdout
    assert "⚠ warn    unit" in done.stdout
    assert "→ Type=exec" in done.stdout


async def test_without_rights(target: str, keyring: Keyring, service: Service) -> None:
    service.write(f"[Service]\nExecStart={shell('exec sleep 600')}\n")
    status, topics, told = await asked(keyring, f"guest@{target}", service.name)
    assert status == Exit.FAILED  # it may not read the journal
    assert topics["rights"][0][0] == "warning"
    assert "Watching only" in topics["rights"][0][1]
    assert topics["journal"][0] == ("bad", "guest may not read the journal")
    assert "usermod -aG systemd-journal guest" in json.dumps(told)


async def test_with_some_rights(target: str, keyring: Keyring, service: Service) -> None:
    service.write(f"[Service]\nExecStart={shell('exec sleep 600')}\n")
    status, topics, _ = await asked(keyring, f"ops@{target}", service.name)
    assert status == Exit.OK
    assert topics["rights"][0][1].startswith("Start, stop and restart only")


async def test_a_login_that_is_refused(machine: Machine, keyring: Keyring) -> None:
    keyring.add("closed", machine.port, machine.host_key, user="nobody")
    status, topics, told = await asked(keyring, "closed", "any")
    assert status == Exit.FAILED
    assert list(topics) == ["reach"]
    assert told["checks"][0]["remedy"]


async def test_a_unit_that_is_not_there_and_a_masked_one(
    machine: Machine, target: str, keyring: Keyring, service: Service
) -> None:
    service.write(f"[Service]\nExecStart={shell('exec sleep 600')}\n")
    status, topics, told = await asked(keyring, target, service.name.replace("ngram", "ngrm"))
    assert status == Exit.FAILED
    assert topics["unit"][0][0] == "bad"
    assert f"{service.name}.service" in told["checks"][-1]["remedy"]
    other = fresh_name("masked")
    machine.run("systemctl", "mask", other)
    status, topics, _ = await asked(keyring, target, other)
    assert status == Exit.FAILED
    assert topics["unit"] == [("bad", f"{other}.service is masked")]


async def test_a_deployment_by_its_name(target: str, keyring: Keyring, service: Service) -> None:
    service.write(f"[Service]\nExecStart={shell('exec sleep 600')}\n")
    file = keyring.home / "mine.toml"
    file.write_text(f'[deployments.tiny]\ntarget = "{target}"\nunit = "{service.name}"\n')
    status, _, told = await asked(keyring, "tiny", "--config", str(file))
    assert status == Exit.OK
    assert (told["deployment"], told["target"], told["unit"]) == ("tiny", target, f"{service.name}.service")


async def found(target: str) -> dict[str, Server]:
    async with reached(open_host(target)) as host:
        return {one.unit: one for one in await find_servers(host)}


async def test_units_that_look_like_model_servers(
    machine: Machine, target: str, keyring: Keyring, service: Service
) -> None:
    service.write_server(tape.server("cpu-small-ngram"), service="Type=exec\n")
    machine.run("systemctl", "enable", "--force", service.name, check=False)
    other = Service(machine, fresh_name("other"))
    other.write(f"[Service]\nExecStart={shell('exec sleep 600')}\n")
    script = Service(machine, fresh_name("wrapped"))
    machine.write(
        "/opt/start-it.sh", "#!/bin/sh\nexec python3 -c 'import time; time.sleep(600)' vllm serve /m\n", 0o755
    )
    script.write("[Service]\nExecStart=/opt/start-it.sh\n")
    mine = Service(machine, fresh_name("mine"), user="ops")
    mine.write("[Service]\nExecStart=/opt/vllm/bin/vllm serve /m/mine\n")
    for one in (other, script):
        await one.start(wait=True)
    try:
        seen = await found(target)
        tiny = seen[f"{service.name}.service"]
        assert (tiny.active, tiny.engine, tiny.model, tiny.user) == ("inactive", "vllm", "/opt/models/small", False)
        assert f"{other.name}.service" not in seen
        assert seen[f"{script.name}.service"].active == "active"
        assert all(one.engine or one.active == "active" for one in seen.values())
        theirs = await found(f"ops@{target}")
        assert theirs[f"{mine.name}.service"].user
        assert f"{service.name}.service" in theirs
    finally:
        for one in (other, script):
            await one.stop()


@pytest.mark.parametrize("login", ["fisher", "noisy", "guest"])
async def test_units_are_found_whatever_the_login_shell(target: str, service: Service, login: str) -> None:
    service.write("[Service]\nExecStart=/opt/vllm/bin/vllm serve /m\n")
    assert f"{service.name}.service" in await found(f"{login}@{target}")
