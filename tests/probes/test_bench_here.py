"""Benchmarks from this machine through a real SSH server, where the server's own environment has no `vllm` that can."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from probes.bench.here import own
from probes.bench.orders import MEASURED
from probes.bench.run import bench, bench_under_way, cancel_bench
from probes.local import LocalHost
from probes.readings import BenchReading
from probes.ssh import SshHost
from tests.probes.model_server import ModelServer, model_server
from tests.probes.sshserver import Links, SshServer, serving
from tests.probes.test_bench import NONE, ORDER, UNIT, Bench, story


class Far:
    """A host with a unit whose environment has no `vllm`, the SSH server on the way there, and a `vllm` here."""

    def __init__(self, folder: Path, model: ModelServer, ssh: SshServer, host: SshHost) -> None:
        self.model, self.ssh, self.host = model, ssh, host
        self.there, self.here = Bench(folder / "there", model), Bench(folder / "here", model)
        self.there.shown(f"/opt/nowhere/serve-it --port {model.port}")
        model.models[0]["root"] = str(folder)

    async def run(self, at: Callable[[BenchReading], object] = lambda _: None, **changes: object) -> list[BenchReading]:
        out = []
        readings = bench(self.host, NONE, replace(ORDER, **changes))
        async with asyncio.timeout(60), aclosing(readings):
            async for reading in readings:
                out.append(reading)
                done = at(reading)
                if asyncio.iscoroutine(done):
                    await done
        return out

    @property
    def port(self) -> int:
        """To which the benchmark was sent."""
        argv = self.here.calls[-1]["argv"]
        return int(argv[argv.index("--base-url") + 1].rpartition(":")[2])

    async def nothing_left(self) -> None:
        assert self.here.left == []
        assert self.there.left == []
        with socket.socket() as one:
            assert one.connect_ex(("127.0.0.1", self.port)) != 0, "the port is gone with the run"
        found = await LocalHost().run(["pgrep", "-f", f"{self.here.folder}.*bench serv[e]"])
        assert found.stdout == b""


@pytest.fixture
async def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Far]:
    monkeypatch.setattr("probes.bench.here.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", f"{tmp_path / 'here/env/bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "here/cache"))
    monkeypatch.delenv("FIRSTLIGHT_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "for-another-server")
    there = {"PATH": f"{tmp_path / 'there/bin'}:/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "there/cache")}
    with model_server() as model:
        async with serving(SshServer(environment=there)) as ssh:
            host = ssh.host()
            links = Links(host)
            await links.reach("up")
            try:
                yield Far(tmp_path, model, ssh, host)
            finally:
                await links.stop()


def measuring(reading: BenchReading) -> bool:
    return reading.stage == "progress" and reading.done == 1


async def test_through_the_connection_to_a_result(far: Far) -> None:
    far.here.mode("asks")
    seen = await far.run()
    assert seen[-1].outcome == "done", story(seen)
    (result,) = [one for one in seen if one.stage == "result"]
    assert result.result is not None
    assert result.result["output_throughput"] == 9.281505288496318
    assert result.before, "the server's metrics too"
    assert result.after
    assert far.port != far.model.port
    assert json.loads((far.here.vllm.parent / "answers").read_text()) == [200] * 20, "more than a link's channels"
    (doubt,) = [one for one in seen if one.outcome == "warn"]
    assert doubt.text == f"measured through the SSH tunnel from {os.uname().nodename}"
    assert doubt.facts[MEASURED] == f"through the SSH tunnel from {os.uname().nodename}"
    assert {one.unit for one in seen} == {UNIT}
    assert "HF_HUB_OFFLINE" not in far.here.calls[-1]["environment"], "the tokenizer may come from the hub"
    assert "for-another-server" not in repr(far.here.calls)
    assert far.there.calls == []
    await far.nothing_left()


async def test_the_key_goes_with_it_in_the_environment(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    far.model.key = "the-servers-own-key"
    monkeypatch.setenv("FIRSTLIGHT_API_KEY", far.model.key)
    far.here.mode("asks")
    seen = await far.run()
    assert seen[-1].outcome == "done", story(seen)
    assert json.loads((far.here.vllm.parent / "answers").read_text()) == [200] * 20
    assert far.here.calls[-1]["environment"]["OPENAI_API_KEY"] == far.model.key
    assert not any(far.model.key in word for call in far.here.calls for word in call["argv"])
    assert far.model.key not in repr(seen)


@pytest.mark.parametrize("mode", ["no-bench", "no-module", "old-concurrency"])
async def test_a_vllm_on_the_server_that_cannot_is_passed_over(far: Far, mode: str) -> None:
    there = far.there.vllm
    far.there.shown(f"{there.parent}/python3 {there} serve /m --port {far.model.port}")
    far.there.mode(mode)
    seen = await far.run()
    assert seen[-1].outcome == "done", story(seen)
    (why,) = [one.text for one in seen if one.stage == "look" and one.outcome == "note"]
    assert why.startswith("the server's own vLLM cannot: ")
    assert len([one for one in seen if one.stage == "end"]) == 1
    await far.nothing_left()


async def test_one_that_can_is_preferred(far: Far) -> None:
    there = far.there.vllm
    far.there.shown(f"{there.parent}/python3 {there} serve /m --port {far.model.port}")
    seen = await far.run()
    assert seen[-1].outcome == "done", story(seen)
    assert far.here.calls == []
    assert not any(one.facts.get(MEASURED) for one in seen)


async def test_a_tokenizer_that_is_not_here_is_said(far: Far) -> None:
    far.model.models[0]["root"] = "/opt/models/nowhere"
    seen = await far.run()
    assert seen[-1].outcome == "refused", story(seen)
    assert "has no tokenizer at /opt/models/nowhere" in seen[-1].text
    assert far.here.calls == []
    level = replace(ORDER.levels[0], extra=("--tokenizer", "org/tiny"))
    seen = await far.run(levels=(level,))
    assert seen[-1].outcome == "done", "another was named"


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("no-tokenizer", 'the tokenizer was not found: name one in a preset: extra = ["--tokenizer", '),
        ("disk-full", "this machine's disk is full"),
    ],
)
async def test_what_fails_here_is_said_to_be_here(far: Far, mode: str, said: str) -> None:
    far.here.mode(mode)
    seen = await far.run()
    assert seen[-1].outcome == "failed", story(seen)
    assert seen[-1].text.startswith("on this machine, run 1 of 1 ended with status 1")
    assert said in seen[-1].text
    assert "host" not in seen[-1].text.partition("(")[0]
    await far.nothing_left()


async def test_neither_there_nor_here(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert own() == ()
    seen = await far.run()
    assert seen[-1].outcome == "refused"
    assert "pip install 'vllm[bench]'" in seen[-1].text
    assert "firstlight[server]" in seen[-1].text


async def test_cancelled(far: Far) -> None:
    far.here.mode("slow")

    async def end(reading: BenchReading) -> None:
        if measuring(reading):
            going = await bench_under_way(far.host, NONE, UNIT)
            assert going is not None
            assert (going.id, going.who, going.unit) == (ORDER.id, ORDER.who, UNIT)
            assert await cancel_bench(far.host, NONE, going) == ""

    seen = await far.run(end)
    assert seen[-1].outcome == "cancelled", story(seen)
    assert await bench_under_way(far.host, NONE, UNIT) is None
    await far.nothing_left()


async def test_its_limit(far: Far) -> None:
    far.here.mode("slow")
    seen = await far.run(limit=2)
    assert seen[-1].outcome == "failed", story(seen)
    assert "its limit of 2 s was reached" in seen[-1].text
    await far.nothing_left()


async def test_with_the_link_it_fails(far: Far) -> None:
    far.here.mode("slow")
    seen = await far.run(lambda reading: far.ssh.drop() if measuring(reading) else None)
    assert seen[-1].outcome == "failed", story(seen)
    assert "it was measured through that connection, and ended with it" in seen[-1].text
    await far.nothing_left()


async def test_whoever_leaves_ends_it(far: Far) -> None:
    """Nobody could come back to it."""
    far.here.mode("slow")
    async with asyncio.timeout(60), aclosing(bench(far.host, NONE, ORDER)) as readings:
        async for reading in readings:
            if measuring(reading):
                break
    assert await bench_under_way(far.host, NONE, UNIT) is None
    await far.nothing_left()


async def test_two_at_once_are_one_too_many(far: Far) -> None:
    far.here.mode("slow")
    second: list[BenchReading] = []

    async def other(reading: BenchReading) -> None:
        if measuring(reading):
            second.extend(await far.run(id="ffff", who="bob@desk"))
            assert await bench_under_way(far.host, NONE, UNIT) is not None, "the first goes on"
            await cancel_bench(far.host, NONE, ORDER)

    seen = await far.run(other)
    assert seen[-1].outcome == "cancelled"
    assert second[-1].outcome == "refused", story(second)
    assert "ann@laptop is at it: benchmark of" in second[-1].text


async def test_a_server_that_listens_on_a_socket_alone(far: Far, tmp_path: Path) -> None:
    """`vllm bench serve` cannot ask a socket; a port that leads there it can."""
    path = tmp_path / "s"

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", far.model.port)

        async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                to.write(data)
                await to.drain()
            to.close()

        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer), return_exceptions=True)

    async with await asyncio.start_unix_server(carry, path):
        far.there.shown(f"/opt/nowhere/serve-it --uds {path}")
        far.here.mode("asks")
        seen = await far.run()
        assert seen[-1].outcome == "done", story(seen)
        assert json.loads((far.here.vllm.parent / "answers").read_text()) == [200] * 20
