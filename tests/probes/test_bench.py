"""Benchmarks from their order to their results, over this machine with a scripted `vllm`; every bad input has its
sentence."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from probes.bench.facts import topology
from probes.bench.flags import flags
from probes.bench.orders import DUTY, BenchOrder, Level
from probes.bench.output import Told
from probes.bench.place import commands, passed, python_of
from probes.bench.results import measured
from probes.bench.run import bench, bench_under_way, cancel_bench, follow_bench, left
from probes.host import Host
from probes.local import LocalHost
from probes.operate.orders import Rights
from probes.readings import BenchReading
from tests.probes.hosts import PlainHost
from tests.probes.model_server import ModelServer, model_server

HERE = Path(__file__).parent
RECORDINGS = HERE.parent / "recordings"
NONE = Rights(level="none", login="ann")
UNIT = f"vllm-{os.getpid()}.service"
"""no other run of these tests on this machine has it"""
ORDER = BenchOrder(
    id="ab12cd",
    unit=UNIT,
    preset="quick",
    levels=(Level(concurrency=4, prompts=16, input_len=64, output_len=64),),
    who="ann@laptop",
    limit=60,
)
TWICE = replace(
    ORDER, levels=(*ORDER.levels, Level(concurrency=8, prompts=16, input_len=64, output_len=64, repeat=2, seed=1))
)


class Bench:
    """A host with a unit, its server and its `vllm`."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.folder = folder
        self.server = server
        self.vllm = folder / "env/bin/vllm"
        self.vllm.parent.mkdir(parents=True)
        self.vllm.write_bytes((HERE / "fake_vllm.py").read_bytes())
        self.vllm.chmod(0o755)
        (self.vllm.parent / "python3").symlink_to(sys.executable)
        self.mode("good")
        self.plays("cpu-ngram", "bench-c4")
        self.shown(f"{self.vllm.parent}/python3 {self.vllm} serve /opt/models/tiny --port {server.port}")

    def mode(self, mode: str) -> None:
        (self.vllm.parent / "mode").write_text(mode)

    def plays(self, recording: str, name: str) -> None:
        (self.vllm.parent / "log").write_bytes((RECORDINGS / recording / f"{name}.log").read_bytes())
        result = RECORDINGS / recording / f"{name}-result.json"
        if result.exists():
            (self.vllm.parent / "result").write_bytes(result.read_bytes())

    def shown(self, exec_start: str, environment: str = "A=b", more: str = "") -> None:
        """What systemctl shows of the unit."""
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        show = self.folder / "show"
        show.write_text(
            f"Id={UNIT}\nLoadState=loaded\nActiveState=active\nSubState=running\nInvocationID=" + "a" * 32 + "\n"
            f"ExecStart={{ path=x ; argv[]={exec_start} ; ignore_errors=no ; start_time=[n/a] ; pid=0 }}\n"
            f"Environment={environment}\n{more}"
        )
        systemctl = programs / "systemctl"
        systemctl.write_text(f'#!/bin/sh\ncase "$*" in *Description*) ;; *" show "*) cat {show} ;; *) exit 1 ;; esac\n')
        systemctl.chmod(0o755)

    @property
    def calls(self) -> list[dict[str, Any]]:
        file = self.vllm.parent / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def left(self) -> list[str]:
        """What lies in our folder on the host."""
        folder = self.folder / "cache/firstlight"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def machine(tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path, server)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FIRSTLIGHT_API_KEY", raising=False)
    return made


async def run(order: BenchOrder = ORDER, host: Host | None = None, **how: Any) -> list[BenchReading]:
    out = []
    async with asyncio.timeout(60), aclosing(bench(host or LocalHost(), NONE, order, **how)) as readings:
        async for reading in readings:
            out.append(reading)
    return out


def story(readings: list[BenchReading]) -> str:
    return "\n".join(f"{one.stage} {one.outcome} {one.part} {one.done}/{one.total}: {one.text}" for one in readings)


async def test_from_order_to_results(machine: Bench) -> None:
    seen = await run(TWICE)
    assert seen[-1].outcome == "done", story(seen)
    assert [one.stage for one in seen if one.outcome == "begun" and one.stage != "progress"] == [
        "begin", "help", "level", "level",
    ]  # fmt: skip
    results = [one for one in seen if one.stage == "result"]
    assert [(one.part, one.concurrency, one.repeat) for one in results] == [(1, 4, 1), (2, 8, 2)]
    recorded = json.loads((RECORDINGS / "cpu-ngram/bench-c4-result.json").read_text())
    for one in results:
        assert one.result is not None
        # whole, with what was said about it
        assert {key: one.result[key] for key in recorded if key != "max_concurrency"} == {
            key: value for key, value in recorded.items() if key != "max_concurrency"
        }
        assert one.result["preset"] == "quick"
        assert (one.done, one.failed) == (16, 0)
        assert any(sample.name == "vllm:generation_tokens_total" for sample in one.after)
    assert results[0].before
    assert 0 < results[0].began <= results[0].at
    progress = [one.done for one in seen if one.stage == "progress" and one.part == 1]
    assert progress[0] == 0
    assert progress == sorted(set(progress))
    ready = next(one for one in seen if one.stage == "ready")
    assert ready.facts["model"] == "tiny"
    assert ready.facts["tokenizer"] == "/opt/models/tiny"
    assert machine.server.asked.count("/v1/completions") == 1
    assert {(one.run, one.unit, one.who, one.preset) for one in seen} == {("ab12cd", UNIT, "ann@laptop", "quick")}
    assert machine.left == []


async def test_how_vllm_is_called(machine: Bench) -> None:
    await run(TWICE)
    helped, first, second = machine.calls
    assert helped["argv"] == ["bench", "serve", "--help=all"], "asked once"
    argv = first["argv"]
    for name, value in {
        "--base-url": f"http://127.0.0.1:{machine.server.port}",
        "--model": "/opt/models/tiny",
        "--served-model-name": "tiny",
        "--tokenizer": "/opt/models/tiny",
        "--dataset-name": "random",
        "--random-input-len": "64",
        "--num-prompts": "16",
        "--max-concurrency": "4",
        "--temperature": "0",
        "--seed": "0",
    }.items():
        assert argv[argv.index(name) + 1] == value
    assert second["argv"][second["argv"].index("--seed") + 1] == "1", "other prompts, or the prefix cache answers"
    assert first["environment"]["HF_HUB_OFFLINE"] == first["environment"]["PYTHONUNBUFFERED"] == "1"
    assert "127.0.0.1" in first["environment"]["NO_PROXY"]
    assert "OPENAI_API_KEY" not in first["environment"]


@pytest.mark.parametrize("said", ["WorkingDirectory={}", "WorkingDirectory=!{}", "MainPID={pid}"])
async def test_what_is_relative_in_the_servers_command_is_so_for_the_benchmark(machine: Bench, said: str) -> None:
    """Its model, its tokenizer, its program: from where the server was started."""
    folder = machine.folder
    await asyncio.to_thread((folder / "models").mkdir)
    server = await asyncio.create_subprocess_exec("sleep", "60", cwd=folder)
    try:
        machine.server.models[0]["root"] = "./models/tiny"
        where = said.format(folder, pid=server.pid)
        machine.shown(f"env/bin/vllm serve ./models/tiny --port {machine.server.port}", more=f"{where}\n")
        seen = await run()
    finally:
        server.kill()
        await server.wait()
    assert seen[-1].outcome == "done", story(seen)
    (call,) = machine.calls[1:]
    assert call["folder"] == str(folder)
    assert call["argv"][call["argv"].index("--tokenizer") + 1] == "./models/tiny"


@pytest.mark.parametrize("given", ["", "sk-from-the-operator"])
async def test_the_key_goes_through_the_environment_and_nowhere_else(
    machine: Bench, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = given or "the-units-own-key-77"
    machine.server.key = key
    argv = f"{machine.vllm.parent}/python3 {machine.vllm} serve /opt/models/tiny --port {machine.server.port}"
    machine.shown(argv + (" --api-key the-units-own-key-77" if not given else ""))
    monkeypatch.setenv("FIRSTLIGHT_API_KEY", given)
    seen = await run()
    assert seen[-1].outcome == "done", story(seen)
    assert machine.calls[-1]["environment"]["OPENAI_API_KEY"] == key
    assert not any(key in word for call in machine.calls for word in call["argv"])
    assert key not in repr(seen)
    assert machine.left == []


async def test_a_wrong_key_is_refused_before_anything_runs(machine: Bench) -> None:
    machine.server.key = "right"
    seen = await run(api_key="wrong-key-1")
    assert seen[-1].outcome == "refused"
    assert "does not accept our API key" in seen[-1].text
    assert "FIRSTLIGHT_API_KEY" in seen[-1].text
    assert "wrong-key-1" not in repr(seen)
    assert machine.calls == []


async def test_a_server_that_is_not_there_is_refused(machine: Bench) -> None:
    machine.shown(f"{machine.vllm.parent}/python3 {machine.vllm} serve /opt/models/tiny --port 9")
    seen = await run()
    assert (seen[-1].outcome, machine.calls) == ("refused", [])
    assert "nobody listens there" in seen[-1].text


async def test_a_model_id_that_is_not_served_is_refused(machine: Bench) -> None:
    machine.server.served = set()
    seen = await run()
    assert seen[-1].outcome == "refused"
    assert "does not serve tiny" in seen[-1].text


async def test_prompts_longer_than_the_model_takes_are_refused(machine: Bench) -> None:
    machine.server.models[0]["max_model_len"] = 100
    seen = await run()
    assert seen[-1].outcome == "refused"
    assert "asks for 128 tokens a request, and this server takes at most 100" in seen[-1].text


async def test_somebody_elses_load_is_said(machine: Bench) -> None:
    machine.server.running = 3
    seen = await run()
    assert [one.text for one in seen if one.outcome == "warn"] == ["3 requests of others were at work when it began"]
    assert seen[-1].outcome == "done"


async def test_no_environment_with_vllm_is_said_with_how_to_get_it(
    machine: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.bench.run.own", tuple)
    machine.shown(f"/opt/nowhere/bin/serve-it --port {machine.server.port}")
    seen = await run()
    assert seen[-1].outcome == "refused"
    assert "pip install 'vllm[bench]'" in seen[-1].text


async def test_on_this_machine_firstlights_own_vllm_measures_too(
    machine: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.bench.run.own", lambda: (str(machine.vllm),))
    machine.shown(f"/opt/nowhere/bin/serve-it --port {machine.server.port}")
    seen = await run()
    assert seen[-1].outcome == "done", story(seen)
    assert not [one.text for one in seen if one.outcome == "warn"], "nothing is in between"


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("no-bench", "this vLLM has no `vllm bench serve`"),
        ("no-module", "No module named 'datasets'"),
        ("old-concurrency", "this vLLM's `bench serve` has no --max-concurrency: it is too old for this preset"),
        ("no-tokenizer", "the tokenizer is not there without a network"),
        ("disk-full", "the host's disk is full"),
        ("not-ready", "the server did not answer the first request"),
        ("none", "run 1 of 1 ended with status 0 and left no result"),
    ],
)
async def test_what_can_go_wrong_there_has_its_sentence(machine: Bench, mode: str, said: str) -> None:
    machine.mode(mode)
    seen = await run()
    assert seen[-1].outcome == "failed", story(seen)
    assert said in seen[-1].text
    assert not any(one.result for one in seen)
    assert machine.left == []


async def test_an_older_vllm_is_asked_for_less(machine: Bench) -> None:
    machine.mode("old")
    seen = await run()
    assert seen[-1].outcome == "done", story(seen)
    notes = [one.text for one in seen if one.outcome == "note"]
    assert "this vLLM has no --num-warmups: left out" in notes
    assert not any("--num-warmups" in call["argv"] for call in machine.calls)
    assert [call["argv"][2] for call in machine.calls[:2]] == ["--help=all", "--help"]


async def test_a_result_cut_short_is_said(machine: Bench) -> None:
    machine.mode("cut")
    seen = await run()
    results = [one for one in seen if one.stage == "result"]
    assert [one.outcome for one in results] == ["failed"]
    assert "cut short after" in results[0].text
    assert results[0].result is None


@pytest.mark.parametrize(
    ("recording", "name", "completed", "lost", "error"),
    [
        ("cpu-bench-server-killed", "bench-dies", 2, 38, "Never received a valid chunk"),
        ("cpu-bench-wrong-model", "bench-badmodel", 0, 4, "Not Found"),
    ],
)
async def test_failed_requests_are_counted_and_the_first_is_shown(
    machine: Bench, recording: str, name: str, completed: int, lost: int, error: str
) -> None:
    machine.plays(recording, name)
    seen = await run()
    result = next(one for one in seen if one.stage == "result")
    assert (result.done, result.failed) == (completed, lost), "though it ended with status 0"
    assert error in result.text


async def test_cancelled(machine: Bench) -> None:
    machine.mode("slow")
    host = LocalHost()
    out = []
    async with asyncio.timeout(60), aclosing(bench(host, NONE, ORDER)) as readings:
        async for reading in readings:
            out.append(reading)
            if reading.stage == "progress" and reading.done == 1:
                going = await bench_under_way(host, NONE, UNIT)
                assert going is not None
                assert (going.id, going.who) == ("ab12cd", "ann@laptop")
                assert await cancel_bench(host, NONE, ORDER) == ""
    assert (out[-1].stage, out[-1].outcome) == ("end", "cancelled")
    assert machine.left == []
    assert await bench_under_way(host, NONE, UNIT) is None


async def test_its_limit_in_time(machine: Bench) -> None:
    machine.mode("slow")
    seen = await run(BenchOrder(id="ab12cd", unit=UNIT, preset="quick", levels=ORDER.levels, limit=2))
    assert seen[-1].outcome == "failed"
    assert "its limit of 2 s was reached in run 1 of 1" in seen[-1].text


async def test_a_second_one_is_refused_while_one_runs(machine: Bench) -> None:
    machine.mode("slow")
    host = LocalHost()
    async with asyncio.timeout(60), aclosing(bench(host, NONE, ORDER)) as readings:
        async for reading in readings:
            if reading.stage == "progress" and reading.done == 1:
                other = BenchOrder(id="ffff", unit=UNIT, preset="x", levels=ORDER.levels, who="bob@desk")
                second = await run(other)
                assert second[-1].outcome == "refused"
                assert f"ann@laptop is at it: benchmark of {UNIT}" in second[-1].text
                await cancel_bench(host, NONE, ORDER)


async def test_it_goes_on_without_a_link_and_is_found_again(machine: Bench) -> None:
    """Whoever comes back, though the one who began it never does, has all of it."""
    machine.mode("slow")
    host = LocalHost()
    async with asyncio.timeout(60), aclosing(bench(host, NONE, ORDER)) as readings:
        async for reading in readings:
            if reading.stage == "progress" and reading.done:
                break
    machine.mode("good")
    (found,) = await left(host, NONE, UNIT)
    assert found == ORDER
    assert await bench_under_way(host, NONE, UNIT) is not None
    await cancel_bench(host, NONE, ORDER)
    async with asyncio.timeout(60), aclosing(follow_bench(host, NONE, found)) as again:
        seen = [reading async for reading in again]
    assert seen[-1].outcome == "cancelled", story(seen)
    assert any(one.stage == "help" for one in seen), "from its first word on"
    assert machine.left == []


async def test_a_lost_link_loses_nothing(machine: Bench) -> None:
    host = PlainHost()
    machine.mode("slow")
    out: list[BenchReading] = []
    async with asyncio.timeout(60), aclosing(bench(host, NONE, ORDER)) as readings:
        async for reading in readings:
            out.append(reading)
            if reading.stage == "progress" and reading.done and not any(one.stage == "link" for one in out):
                host.cut_now()
            if reading.stage == "link" and reading.outcome == "wait":
                host.mend()
            if reading.stage == "link" and reading.outcome == "done":
                await cancel_bench(host, NONE, ORDER)
    assert out[-1].outcome == "cancelled", story(out)
    words = [(one.stage, one.outcome, one.part, one.done) for one in out if one.stage != "link"]
    assert len(set(words)) == len(words), f"each once: {story(out)}"


DOCKER = r"""#!/bin/sh
# docker, as far as a benchmark asks it: what is "inside" runs here, with the variables that were handed on and no other
echo "$*" >>"$0.calls"
case $1 in
ps) printf 'other\t0.0.0.0:9999->8000/tcp\n'; printf 'kimi\t0.0.0.0:%s->8000/tcp\n' "$PORT"; exit ;;
exec) shift ;;
*) exit 64 ;;
esac
kept="PATH=$BIN:$PATH"
set -f
while :; do
  case $1 in
  -i) shift ;;
  -e) eval "value=\${$2-}"; [ -z "$value" ] || kept="$kept $2=$value"; shift 2 ;;
  *) break ;;
  esac
done
[ "$1" = kimi ] || { echo "Error response from daemon: No such container: $1" >&2; exit 1; }
shift
exec env -i $kept "$@"
"""


def contained(machine: Bench, monkeypatch: pytest.MonkeyPatch, words: str) -> Path:
    """The unit starts a container; the server in it listens on its port of the host as well as on its own."""
    docker = machine.folder / "bin/docker"
    docker.write_text(DOCKER.replace("$BIN", str(machine.vllm.parent)).replace("$PORT", str(machine.server.port)))
    docker.chmod(0o755)
    port = machine.server.port
    machine.shown(f"{docker} run --rm {words} -p {port}:{port} vllm/vllm-openai:v0.11 --model /m --port {port}")
    return docker


@pytest.mark.parametrize("words", ["--name kimi", ""])
async def test_in_the_servers_container(machine: Bench, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    docker = contained(machine, monkeypatch, words)
    machine.server.key = "a-key-for-the-container"
    seen = await run(api_key="a-key-for-the-container")
    assert seen[-1].outcome == "done", story(seen)
    assert len([one for one in seen if one.stage == "result" and one.result]) == 1
    assert machine.calls[-1]["environment"]["OPENAI_API_KEY"] == "a-key-for-the-container"
    asked = Path(f"{docker}.calls").read_text()
    assert "a-key-for-the-container" not in asked
    assert "rm -rf -- /tmp/firstlight-ab12cd" in asked
    assert not Path("/tmp/firstlight-ab12cd").exists()


async def test_what_runs_in_a_container_is_ended_there(machine: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    contained(machine, monkeypatch, "--name kimi")
    machine.mode("slow")
    host = LocalHost()
    out = []
    async with asyncio.timeout(60), aclosing(bench(host, NONE, ORDER)) as readings:
        async for reading in readings:
            out.append(reading)
            if reading.stage == "progress" and reading.done == 1:
                assert await cancel_bench(host, NONE, ORDER) == ""
    assert out[-1].outcome == "cancelled"
    left = await host.run(["pgrep", "-f", "bench serve.*/tmp/firstlight-ab12c[d]"])
    assert left.stdout == b""


async def test_a_container_without_vllm_is_said(machine: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    contained(machine, monkeypatch, "--name gone")
    seen = await run()
    assert seen[-1].outcome == "refused"
    assert "The server's container gone cannot run the benchmark" in seen[-1].text
    assert "No such container" in seen[-1].text


# ----- the parts by themselves

LOG = (
    b"\n@firstlight\tab12cd\t1\t100.5\tbegin\tbegun\tbenchmark\n"
    b"\n@firstlight\tab12cd\t2\t101.5\tlevel\tbegun\t1\n"
    + (RECORDINGS / "cpu-bench-wrong-model/bench-badmodel.log").read_bytes()
    + b"\n@firstlight\tab12cd\t3\t109.5\tlevel\tdone\t1\n\n@firstlight\tab12cd\t4\t110\tend\tdone\tmeasured\n"
)


@given(st.lists(st.integers(1, 4000)), st.integers(0, 20000))
def test_however_the_bytes_come_each_word_comes_once(cuts: list[int], again: int) -> None:
    told, rest = Told(ORDER), LOG
    seen = list(told.feed(rest[:again]))
    told.restart()
    for cut in cuts:
        seen += list(told.feed(rest[:cut]))
        rest = rest[cut:]
    seen += list(told.feed(rest))
    assert seen == list(Told(ORDER).feed(LOG))
    assert [one.stage for one in seen] == ["begin", "level", "progress", "progress", "level", "end"]
    assert told.first_error == "Not Found"


@given(st.binary())
def test_nothing_that_a_host_says_breaks_the_reading(data: bytes) -> None:
    list(Told(ORDER).feed(data + b"\n"))
    measured(data, "01")
    topology(data.decode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["/v/bin/python3", "/v/bin/vllm", "serve", "/m"], ("/v/bin/python3", "/v/bin/vllm")),
        (["/v/bin/vllm", "serve", "/m"], ("/v/bin/vllm",)),
        (["/v/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model", "/m"],
         ("/v/bin/python", "-m", "vllm.entrypoints.cli.main")),
        (["/bin/bash", "-c", "exec /v/bin/vllm serve /m --port 8001"], ("/v/bin/vllm",)),
        (["/v/bin/python3", "-m", "sglang.launch_server", "--model-path", "/m"],
         ("/v/bin/python3", "-m", "vllm.entrypoints.cli.main")),
    ],
)  # fmt: skip
def test_the_units_own_environment_runs_it(argv: list[str], command: tuple[str, ...]) -> None:
    assert commands(argv)[0] == command
    assert python_of(command).startswith("/v/bin/python")


def test_only_what_is_needed_of_the_units_environment_goes_on() -> None:
    given = {"HF_HOME": "/cache", "HF_TOKEN": "hf_secret", "VLLM_API_KEY": "k", "LD_PRELOAD": "x", "PATH": "/v/bin"}
    assert passed(given) == ("HF_HOME=/cache", "PATH=/v/bin")


TOPO = """\t\x1b[4mGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tNV18\tNV18\t0-47\t0
GPU1\tNV18\t X \tSYS\t0-47\t0
GPU2\tNV18\tSYS\t X \t48-95\t1

Legend:
  X    = Self
"""


def test_how_the_gpus_are_connected() -> None:
    assert topology(TOPO) == "NV18 × 2, SYS × 1"
    assert topology(TOPO.replace("SYS", "NV18")) == "NV18 between all"
    assert topology("GPU0\t X \t0-7\n") == ""


def test_one_name_a_unit_and_another_than_that_of_actions() -> None:
    assert DUTY.runner("vllm@a b") != DUTY.runner("vllm@a-b")
    assert DUTY.runner("vllm") == "firstlight-bench-vllm.service"


def test_words_of_a_presets_own_stay_with_their_option() -> None:
    from probes.bench.place import Place
    from probes.bench.server import Card, Server
    from probes.endpoint import Endpoint

    place = Place(command=("vllm",), python=("python3",), endpoint=Endpoint(), outside=Endpoint(), model="/m")
    level = Level(concurrency=1, prompts=1, input_len=1, output_len=1, extra=("--goodput", "ttft:200", "tpot:50"))
    rows = flags(ORDER, level, place, Server(card=Card("tiny"))).decode().splitlines()
    assert "need\t--goodput\tttft:200\ttpot:50" in rows
