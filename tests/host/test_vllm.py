"""A real vLLM, as a service of the real host, watched to ready and to its end (make test-vllm)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from probes.readings import MetricsReading
from tests.host import vllm
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import NGRAM, Service, fresh_name
from tests.host.test_load import MEMORY_CHECK
from tests.host.watcher import Watcher, nothing_left

pytestmark = pytest.mark.vllm
LOAD = 400.0
"""seconds; 40 on an idle machine of two cores"""


@pytest.fixture(scope="module")
def server_host(boot: Callable[..., Machine]) -> Machine:
    if reason := vllm.obstacle():
        pytest.skip(reason)
    vllm.build()
    return boot("llm-real", vllm.folders())


async def test_watched_from_start_to_stop(server_host: Machine, keyring: Keyring) -> None:
    target = keyring.add("llm-real", server_host.port, server_host.host_key)
    service = Service(server_host, fresh_name("vllm-real"))
    quoted = NGRAM.replace('"', '\\"')
    service.write(
        "[Service]\n"
        "Environment=HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_CPU_KVCACHE_SPACE=1 HOME=/root\n"
        "LimitNOFILE=65536\n"
        f"{MEMORY_CHECK}"
        f"ExecStart={vllm.PYTHON} {vllm.VLLM} serve {vllm.MODEL} --served-model-name tiny --host 127.0.0.1"
        f' --port {service.port} --dtype float32 --enforce-eager --speculative-config "{quoted}"\n'
    )
    async with Watcher(target, service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.view.state == "ready", limit=LOAD, what="ready")
        view = seen.view
        assert view.engine == "vLLM"
        assert view.version.startswith("0.32.0")
        assert view.load is not None
        phases = {phase.name: phase for phase in view.load.phases}
        assert phases["weights"].progress is not None
        assert phases["weights"].progress.total == 16
        assert phases["ready"].started is not None
        assert seen.finding("free")
        await seen.until(lambda: any(page.samples for page in seen.of(MetricsReading)), what="metrics")
        assert seen.view.severity != "fatal"
        await service.stop()
        await seen.until(lambda: seen.view.state == "stopped", what="stopped")
        await seen.holds(await service.journal())
    await nothing_left(server_host)


async def test_an_argument_it_refuses(server_host: Machine, keyring: Keyring) -> None:
    target = keyring.add("llm-real", server_host.port, server_host.host_key)
    service = Service(server_host, fresh_name("vllm-wrong"))
    service.write(
        "[Service]\nEnvironment=HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 HOME=/root\n"
        f"ExecStart={vllm.PYTHON} {vllm.VLLM} serve {vllm.MODEL} --gpu-memory-utilisation 0.9\n"
    )
    async with Watcher(target, service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.view.state == "failed", limit=LOAD, what="failed")
        assert seen.finding("--gpu-memory-utilisation")
        await seen.holds(await service.journal())
