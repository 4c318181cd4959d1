"""What a stuck load is doing, and what stands in the way of one, asked of a real host."""

from __future__ import annotations

import pytest

from probes.diagnose import as_text, diagnose
from probes.doctor import examine
from probes.operate.orders import Rights
from tests.host.machine import Machine
from tests.host.operator import Operator
from tests.host.service import Service, shell
from watch.doctor import judge

STUCK = shell("exec 5</opt/models/stuck/model-00001.safetensors; head -c 4096 <&5 >/dev/null; sleep 600")


async def test_what_a_stuck_load_is_doing(machine: Machine, target: str, service: Service) -> None:
    machine.write("/opt/models/stuck/model-00001.safetensors", bytes(1 << 20))
    service.write(f"[Service]\nExecStart={STUCK}\n")
    await service.start(wait=True)
    async with Operator(target) as ann:
        rights = await ann.rights(service.name)
        told = [reading async for reading in diagnose(ann.host, rights, service.name)]
    text = as_text(told, title=f"{service.name}")
    assert "sleep 600" in text
    assert "model-00001.safetensors, at " in text
    assert "of 1048576 bytes" in text
    assert "waits in " in text
    assert [reading.command for reading in told][-1] == "the kernel's last lines"
    assert await service.shows("ActiveState") == "active"


async def test_py_spy_of_the_units_own_environment_is_asked(machine: Machine, target: str, service: Service) -> None:
    spy = '#!/bin/sh\necho "Thread 1 (idle): $*"\n'
    machine.write(f"/opt/{service.name}/bin/py-spy", spy, 0o755)
    service.write(f"[Service]\nEnvironment=VIRTUAL_ENV=/opt/{service.name}\nExecStart=/bin/sleep 600\n")
    await service.start(wait=True)
    async with Operator(target) as ann:
        rights = await ann.rights(service.name)
        told = [reading async for reading in diagnose(ann.host, rights, service.name)]
    pid = await service.shows("MainPID")
    assert f"Thread 1 (idle): dump --pid {pid}" in as_text(told)


async def test_a_unit_that_does_not_run_has_nothing_to_look_into(target: str, service: Service) -> None:
    service.write("[Service]\nExecStart=/bin/sleep 600\n")
    async with Operator(f"guest@{target}") as ann:
        told = [reading async for reading in diagnose(ann.host, Rights(level="none"), service.name)]
    assert "the unit's processes" in as_text(told)


async def test_doctor(machine: Machine, target: str, service: Service) -> None:
    service.write(
        "[Service]\nType=notify\nTimeoutStartSec=90\nRestart=always\n"
        "ExecStart=/opt/vllm/bin/vllm serve /opt/models/small --port $PORT --tensor-parallel-size 2"
        ' --speculative-config {"method": "ngram"}\n'
    )
    async with Operator(target) as ann:
        checks = judge(await examine(ann.host, target, service.name))
    topics = {check.topic: check.verdict for check in checks if check.topic in ("reach", "clock", "rights", "journal")}
    assert topics == {"reach": "good", "clock": "good", "rights": "good", "journal": "good"}
    unit = "\n".join(check.text for check in checks if check.topic == "unit")
    for words in ("Type=notify", "$PORT", "--speculative-config", "LimitMEMLOCK", "Restart=always"):
        assert words in unit
    assert all(check.remedy for check in checks if check.verdict in ("bad", "warning"))


@pytest.mark.parametrize(("login", "verdict", "word"), [("guest", "bad", "usermod"), ("ops", "good", "")])
async def test_doctor_for_fewer_rights(target: str, service: Service, login: str, verdict: str, word: str) -> None:
    service.write("[Service]\nExecStart=/bin/sleep 600\n")
    async with Operator(f"{login}@{target}") as ann:
        checks = judge(await examine(ann.host, target, service.name))
    journal = next(check for check in checks if check.topic == "journal")
    assert journal.verdict == verdict
    assert word in journal.remedy
    assert next(check for check in checks if check.topic == "rights").verdict == "warning"


async def test_doctor_of_a_unit_that_is_not_there(target: str, service: Service) -> None:
    service.write("[Service]\nExecStart=/bin/sleep 600\n")
    async with Operator(target) as ann:
        checks = judge(await examine(ann.host, target, service.name.replace("ngram", "ngrm")))
    unit = next(check for check in checks if check.topic == "unit")
    assert unit.verdict == "bad"
    assert service.name in unit.remedy
