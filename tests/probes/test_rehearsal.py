"""The demo's host, over its real SSH server, asked by the real probes."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import httpx
import pytest

from probes.host import HostError
from probes.journal import JournalProbe
from probes.nvidia_smi import QUERY, SmiDecoder, compute_apps
from probes.readings import GpuReading, JournalLine, LinkReading, UnitFile, UnitReading
from probes.rehearsal.host import LEAD, Rehearsal
from probes.rehearsal.story import Story, load_story
from probes.ssh import SshHost
from probes.ssh_config import Access
from probes.unit import UnitProbe


@pytest.fixture(scope="module")
def story() -> Story:
    return load_story()


@asynccontextmanager
async def playing(story: Story, speed: float) -> AsyncIterator[tuple[Rehearsal, SshHost]]:
    async with Rehearsal(story, speed, now=1_800_000_000.0) as rehearsal:
        host = rehearsal.host
        links: list[LinkReading] = []

        async def keep() -> None:
            async for link in host.links():
                links.append(link)

        keeping = asyncio.ensure_future(keep())
        try:
            await host.up()
            yield rehearsal, host
        finally:
            await host.close()
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def lines_until(host: SshHost, rehearsal: Rehearsal, text: str) -> list[JournalLine]:
    probe = JournalProbe(host, rehearsal.story.unit, clock=rehearsal.clock)
    out: list[JournalLine] = []
    async with aclosing(probe.batches()) as batches:
        async for batch in batches:
            out += [reading for reading in batch if isinstance(reading, JournalLine)]
            if any(text in line.text for line in out[-len(batch) :]):
                break
    return out


async def test_the_whole_journal_comes_at_the_times_of_the_load(story: Story) -> None:
    async with playing(story, 2000.0) as (rehearsal, host):
        lines = await lines_until(host, rehearsal, "Application startup complete.")
        began = lines[0].at
        until = [record for record in story.journal if record.at <= story.opened]
        assert [line.text for line in lines[: len(until)]] == [record.message for record in until]
        assert [round(line.at - began, 3) for line in lines[: len(until)]] == [record.at for record in until]
        assert {line.source for line in lines} == {"systemd", "unit"}
        assert {line.invocation for line in lines} == {story.invocation}
        assert len({line.cursor for line in lines}) == len(lines)
        assert rehearsal.clock.speed == 1.0


async def test_it_goes_on_after_a_cursor(story: Story) -> None:
    async with playing(story, 2000.0) as (rehearsal, host):
        probe = JournalProbe(host, story.unit, clock=rehearsal.clock)
        seen: list[JournalLine] = []
        for wanted in (5, 100):
            async with aclosing(probe.batches()) as batches:
                async for batch in batches:
                    seen += [reading for reading in batch if isinstance(reading, JournalLine)]
                    if len(seen) > wanted:
                        break
        assert [line.text for line in seen] == [record.message for record in story.journal[: len(seen)]]


async def test_the_unit_before_and_after_its_start(story: Story) -> None:
    async with playing(story, 2000.0) as (rehearsal, host):
        probe = UnitProbe(host, story.unit, clock=rehearsal.clock)
        async with aclosing(probe.batches()) as batches:
            first, text = await anext(batches)
            assert isinstance(first, UnitReading)
            assert isinstance(text, UnitFile)
            assert (first.load, first.active, first.main_pid) == ("loaded", "inactive", 0)
            assert "ExecStartPre=/bin/bash" in text.text
        began = rehearsal.clock.now() + LEAD
        await lines_until(host, rehearsal, "Application startup complete.")
        async with aclosing(UnitProbe(host, story.unit, clock=rehearsal.clock).batches()) as batches:
            second = (await anext(batches))[0]
        assert isinstance(second, UnitReading)
        assert (second.active, second.sub, second.main_pid) == ("active", "running", story.main_pid)
        assert second.started == pytest.approx(began, abs=0.001)
        assert "--speculative-config" in second.exec_start


async def test_the_server_answers_when_it_is_ready_and_not_before(story: Story) -> None:
    async with playing(story, 2000.0) as (rehearsal, host), host.http("127.0.0.1", story.port) as transport:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("/health")
            await lines_until(host, rehearsal, "Application startup complete.")
            assert (await client.get("/health")).status_code == 200
            page = await client.get("/metrics")
            assert "vllm:num_requests_running" in page.text
            assert (await client.get("/v2")).status_code == 404
            assert (await client.post("/metrics")).status_code == 405
        async with host.http("127.0.0.1", 22) as other, httpx.AsyncClient(transport=other) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://127.0.0.1:22/health")


async def test_a_command_that_is_not_played_is_not_found(story: Story) -> None:
    async with playing(story, 1.0) as (_, host):
        for argv in (["rm", "-rf", "/"], ["python3", "-c", "print(1)"], ["sh", "-c", "echo hello"]):
            done = await host.run(argv)
            assert done.status == 127
            assert done.stdout == b""
            assert b"not played in the demo" in done.stderr


async def test_nothing_is_open_to_others_and_nothing_stays(story: Story) -> None:
    async with Rehearsal(story, 1.0, now=0.0) as rehearsal:
        path = rehearsal._access.socket
        assert path is not None
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_ISSOCK(path.stat().st_mode)
        other = SshHost("llm-demo", access=Access(config=(), known_hosts=b"", keys=(), socket=path))
        states = [link.state async for link in other.links()]
        assert states[-1] == "refused"
        with pytest.raises(HostError):
            await other.up()
        await other.close()
    assert not await asyncio.to_thread(path.parent.exists)


def test_the_page_between_two_recorded_ones(story: Story) -> None:
    one, other = story.pages[0], story.pages[1]

    def tokens(page: str) -> float:
        return float(next(line for line in page.splitlines() if line.startswith("vllm:generation_tokens")).split()[-1])

    half = story.page_at((one.at + other.at) / 2)
    assert tokens(one.text) < tokens(half) < tokens(other.text)
    assert story.page_at(0.0) == one.text
    assert story.page_at(story.length + 1000.0) == story.pages[-1].text
    assert half.count("\n") == one.text.count("\n")
    running = [line for line in half.splitlines() if line.startswith("vllm:num_requests_running")]
    assert all(float(line.split()[-1]).is_integer() for line in running)


def test_the_data_is_what_the_recordings_give() -> None:
    from bench import make_demo

    assert make_demo.make() == load_story()


async def test_nvidia_smi_in_its_own_words(story: Story) -> None:
    async with playing(story, 2000.0) as (rehearsal, host):
        rehearsal.clock.resume()
        await rehearsal.clock.sleep_until(1_800_000_000.0)
        decoder = SmiDecoder()
        argv = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv", "-lms", "1000"]
        rounds: list[GpuReading] = []
        async with host.stream(argv) as stream:
            async for chunk in stream:
                rounds += decoder.feed(chunk, rehearsal.clock.now())
                if rounds:
                    break
        assert (decoder.noise, decoder.troubles, decoder.unknown_field) == (0, [], "")
        first, second = rounds[0].devices
        assert (first.index, first.name, second.index) == (0, "NVIDIA H200", 1)
        recorded = story.gpus_at(story.opened).gpus[0]
        assert (first.used_mib, first.total_mib, first.reserved_mib) == (recorded.used, 143771.0, 615.0)
        assert first.power is not None
        assert rounds[0].driver == story.driver
        assert None not in (first.sm_mhz, first.mem_mhz, first.throttle, first.pcie_gen, first.power_limit)
        done = await host.run(
            ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv"]
        )
        found = compute_apps(done.stdout.decode(), decoder.uuids)
        assert [(process.gpu, process.pid, process.name) for process in found] == [
            (0, 2125, "VLLM::Worker_TP"),
            (1, 2126, "VLLM::Worker_TP"),
        ]
        assert (await host.run(["nvidia-smi"])).status == 2
