"""A real vLLM on the CPU is measured by itself: armed before its load, then once more with n-gram speculation, then
compared (make test-vllm)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.host import vllm
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import NGRAM, Service, fresh_name
from tests.host.test_bench import firstlight
from tests.host.watcher import nothing_left

pytestmark = pytest.mark.vllm
LIMIT = 900.0
"""seconds for a load and a benchmark; three minutes on an idle machine of two cores"""
PRESETS = """
[presets.tiny]
title = "For a tiny model on a CPU"
concurrency = [1, 4]
prompts_per_concurrency = 8
input_len = 32
output_len = 64
repeats = 2
limit = 600

[presets.brief]
title = "To see that it can be measured"
concurrency = [4]
prompts = 8
input_len = 32
output_len = 32
limit = 600
"""


@pytest.fixture(scope="module")
def server_host(boot: Callable[..., Machine]) -> Machine:
    if reason := vllm.obstacle():
        pytest.skip(reason)
    vllm.build()
    return boot("llm-real", vllm.folders())


def write(service: Service, more: str = "") -> None:
    service.write(
        "[Service]\n"
        "Environment=HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_CPU_KVCACHE_SPACE=1 HOME=/root\n"
        "LimitNOFILE=65536\n"
        f"ExecStart={vllm.PYTHON} {vllm.VLLM} serve {vllm.MODEL} --served-model-name tiny --host 127.0.0.1"
        f" --port {service.port} --dtype float32 --enforce-eager {more}\n"
    )


async def test_armed_then_compared_with_another_configuration(
    server_host: Machine, keyring: Keyring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = keyring.add("llm-real", server_host.port, server_host.host_key)
    config = tmp_path / "firstlight.toml"
    config.write_text(PRESETS)
    service = Service(server_host, fresh_name("vllm-measured"))
    words = ["bench", "run", target, service.name, "--preset", "tiny", "--config", str(config)]

    write(service)
    armed = asyncio.create_task(firstlight(*words, "--wait-ready", "--json", limit=LIMIT))
    await service.start()
    status, out, err = await armed
    assert status == 0, out + err
    assert "armed: " in err
    first = json.loads(out)
    assert first["baseline"] is True
    assert [level["concurrency"] for level in first["levels"]] == [1, 4]
    assert [level["runs"] for level in first["levels"]] == [2, 2]
    assert all(level["output_tps"] > 0 and not level["failed"] for level in first["levels"])
    assert first["result"]["tokenizer_id"] == str(vllm.MODEL)
    facts = first["result"]["firstlight"]["facts"]
    assert facts["vLLM"].startswith("0.32.0")
    assert facts["speculation"] == "none"

    await service.stop()
    write(service, f"--speculative-config {json.dumps(NGRAM)}")
    armed = asyncio.create_task(firstlight(*words, "--wait-ready", "--json", limit=LIMIT))
    await service.start()
    status, out, err = await armed
    second = json.loads(out)
    found = second["comparison"]
    assert found["verdict"], found["refused"]
    assert found["verdict"].startswith("n-gram: "), found["verdict"]
    assert "acceptance length" in found["verdict"]
    differs = {row["what"]: (row["a"], row["b"]) for row in found["differs"]}
    assert differs["speculation"] == ("none", "ngram")
    assert "--speculative-config" in differs
    assert "Asynchronous scheduling is off with this kind of speculation" in differs
    assert all(ratio["interval"] for level in found["levels"] for ratio in level["figures"][:1])
    assert status == (1 if found["outcome"] == "worse" else 0)
    print(json.dumps(found, indent=1))

    status, out, _ = await firstlight("bench", "compare", "1", "2", "--markdown")
    assert out.startswith("### n-gram against baseline")

    # a unit whose command names no vLLM: the server is measured with the one that is installed here
    other = Service(server_host, fresh_name("proxy"))
    other.write("[Service]\nExecStart=/bin/sleep infinity\n")
    await other.start()
    monkeypatch.setenv("PATH", f"{vllm.VLLM.parent}:{os.environ['PATH']}")
    words = ["bench", "run", target, other.name, "--preset", "brief", "--config", str(config), "--json"]
    status, out, err = await firstlight(*words, "--endpoint", f"http://127.0.0.1:{service.port}", limit=LIMIT)
    assert status == 0, out + err
    assert "warning: measured through the SSH tunnel from" in err
    third = json.loads(out)
    assert third["result"]["completed"] == 8
    assert third["levels"][0]["output_tps"] > 0
    assert third["result"]["firstlight"]["facts"]["measured"].startswith("through the SSH tunnel")
    print(json.dumps(third["levels"], indent=1))
    status, out, _ = await firstlight("bench", "compare", "2", "3")
    assert status == 6
    assert "measured differently" in out
    await other.stop()
    await service.stop()
    await nothing_left(server_host)
