"""Loads on a real host, from ``systemctl start`` to how they end."""

from __future__ import annotations

import re

from probes.readings import HealthReading, IoReading, MetricsReading, UnitReading
from tests.host import tape
from tests.host.machine import Machine
from tests.host.service import NGRAM, Service, shell
from tests.host.watcher import Watcher, nothing_left

READY = b"Application startup complete."
MEMORY_CHECK = 'ExecStartPre=/bin/bash -c "test \\"${free}\\" -gt 3 || true"\n'


def quick(name: str = "cpu-small-ngram") -> tape.Tape:
    """A recorded load up to ready, its long silences cut to two seconds."""
    return tape.server(name).until(READY).without_waiting(2)


async def test_from_start_to_ready(machine: Machine, target: str, service: Service) -> None:
    quoted = NGRAM.replace('"', '\\"')
    service.write_server(
        quick(), speed=4, service=MEMORY_CHECK, arguments=f'--dtype float32 --speculative-config "{quoted}"'
    )
    async with Watcher(target, service.name) as seen:
        await seen.until(lambda: any(unit.active == "inactive" for unit in seen.of(UnitReading)))
        assert not seen.view.loads
        await service.start()
        await seen.until(lambda: seen.view.phase == "weights", what="the weights phase")
        assert seen.view.state == "loading"
        await seen.until(lambda: seen.view.state == "ready", what="ready")

        # ready is the server's own word and an answer of /health
        told = next(line.at for line in seen.lines if "Application startup complete." in line.text)
        answered = next(reading.at for reading in seen.of(HealthReading) if reading.status == 200)
        load = seen.view.load
        assert load is not None
        ready = next(phase for phase in load.phases if phase.name == "ready")
        assert ready.started is not None
        assert ready.started >= min(told, answered)

        # the endpoint was read from the unit's own arguments; before ready it refused, and that is no error
        asked = seen.of(HealthReading)
        assert all(reading.endpoint.endswith(f":{service.port}") for reading in asked)
        assert {reading.error for reading in asked if reading.status is None} <= {"refused"}

        weights = next(phase for phase in load.phases if phase.name == "weights")
        assert weights.status == "done"
        assert weights.progress is not None
        assert (weights.progress.done, weights.progress.total) == (16, 16)

        # systemd's warning and the shell's complaint are one finding: the check compared nothing
        finding = next(one for one in seen.view.findings if "free" in one.title or "free" in one.cause)
        assert finding.severity == "warning"
        assert "$$free" in finding.advice
        assert "compared nothing" in finding.title + finding.cause
        assert any("integer expression expected" in line for line in finding.evidence)

        await seen.until(lambda: any(not page.error for page in seen.of(MetricsReading)), what="metrics")
        await seen.until(lambda: seen.of(IoReading), what="storage and CPU")
        await seen.holds(await service.journal())
        bars = [line.text for line in seen.lines if "Loading safetensors checkpoint shards" in line.text]
        assert all(bar.startswith("\r") for bar in bars)
        assert {int(count) for bar in bars for count in re.findall(r"\| (\d+)/16", bar)} >= {0, 16}
    await nothing_left(machine)


async def test_a_load_that_finished_before_we_came(machine: Machine, target: str, service: Service) -> None:
    service.write_server(quick(), speed=100)
    await service.start()
    async with Watcher(target, service.name) as seen:
        await seen.until(lambda: seen.view.state == "ready")
        await seen.holds(await service.journal())


async def test_a_load_that_fails(target: str, service: Service) -> None:
    service.write_server(tape.server("cpu-fail-missing-shard").without_waiting(1), speed=20, status=1)
    async with Watcher(target, service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.view.state == "failed", what="failed")
        assert seen.view.severity == "fatal"
        await seen.until(lambda: seen.finding("model-00009-of-00016.safetensors"), what="the missing shard")
        await seen.holds(await service.journal())


async def test_the_engine_dies_though_systemd_reports_success(target: str, service: Service) -> None:
    service.write_server(tape.server("cpu-kill9-worker-after-ready").without_waiting(1), speed=5, status=0)
    async with Watcher(target, service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.said("Deactivated successfully"))
        await seen.until(lambda: seen.of(UnitReading)[-1].active == "inactive")
        await seen.until(lambda: seen.view.state == "failed", what="failed")
        assert await service.shows("Result") == "success"
        await seen.until(lambda: seen.finding("Worker proc VllmWorker-0 died unexpectedly"), what="the cause")


async def test_a_crash_loop(target: str, service: Service) -> None:
    service.write_server(
        tape.server("cpu-fail-unknown-flag").without_waiting(0.1),
        speed=50,
        status=2,
        service="Restart=on-failure\nRestartSec=200ms\n",
    )
    async with Watcher(target, service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.said("Start request repeated too quickly"))
        await seen.until(lambda: seen.of(UnitReading)[-1].active == "failed")
        assert seen.view.state == "failed"
        assert seen.finding("start limit")
        assert len({line.invocation for line in seen.lines if line.source == "unit"}) >= 3
        assert len(seen.view.loads) >= 3
        await seen.holds(await service.journal())


async def test_a_unit_restarted_while_watched_is_a_second_load(target: str, service: Service) -> None:
    service.write_server(quick(), speed=50)
    async with Watcher(target, service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.view.state == "ready")
        first = seen.view.load
        await service.restart()
        await seen.until(
            lambda: seen.view.load and first and seen.view.load.number > first.number, what="a second load"
        )
        await seen.until(lambda: seen.view.state == "ready", what="ready again")
        assert [load.number for load in seen.view.loads] == [1, 2]
        assert len({load.invocation for load in seen.view.loads}) == 2
        await seen.holds(await service.journal())


async def test_a_unit_stopped_by_hand_is_no_failure(target: str, service: Service) -> None:
    service.write_server(quick(), speed=50)
    async with Watcher(target, service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.view.state == "ready")
        await service.stop()
        await seen.until(lambda: seen.view.state == "stopped", what="stopped")
        await seen.holds(await service.journal())


async def test_a_pre_check_that_fails(target: str, service: Service) -> None:
    service.write_server(quick(), service=f"ExecStartPre={shell('echo not enough memory; exit 1')}\n")
    async with Watcher(target, service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.view.state == "failed")
        await seen.until(lambda: seen.view.phase == "pre-start", what="the phase in which it failed")
        assert seen.said("not enough memory")
