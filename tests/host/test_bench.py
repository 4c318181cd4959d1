"""Benchmarks on a real host, with a scripted `vllm`: who runs them, what outlives what, what is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from probes.bench.orders import DUTY, BenchOrder, Level, new_id
from probes.bench.run import bench, bench_under_way, cancel_bench, follow_bench, left
from probes.readings import BenchReading
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.operator import LIMIT, Operator
from tests.host.proxy import Proxy
from tests.host.service import Service, fresh_name
from tests.host.tape import RECORDINGS

PROGRAMS = Path(__file__).parent.parent / "probes"
LEVELS = (Level(concurrency=4, prompts=16, input_len=64, output_len=64),)
KEY = "a-key-that-nobody-must-see"


class Benched(Service):
    """A unit whose server answers, and whose environment has the scripted `vllm`."""

    @property
    def folder(self) -> str:
        return f"/opt/{self.name}/bin"

    def install(self, *, more: str = "", service: str = "", recording: str = "cpu-ngram/bench-c4") -> None:
        machine, folder = self.machine, self.folder
        machine.write(f"{folder}/vllm", (PROGRAMS / "fake_vllm.py").read_bytes(), 0o755)
        machine.write(f"{folder}/model_server.py", (PROGRAMS / "model_server.py").read_bytes())
        for name in ("metrics-first.txt", "metrics-last.txt"):
            machine.write(f"{folder}/{name}", (RECORDINGS / "cpu-ngram" / name).read_bytes())
        machine.write(f"{folder}/log", (RECORDINGS / f"{recording}.log").read_bytes())
        machine.write(f"{folder}/result", (RECORDINGS / f"{recording}-result.json").read_bytes())
        self.mode("good")
        machine.run("chmod", "777", folder)
        self.write(
            f"[Service]\n{service}ExecStart=/usr/bin/python3 {folder}/vllm serve /opt/models/tiny"
            f" --port {self.port} {more}\n"
        )

    def mode(self, mode: str) -> None:
        self.machine.write(f"{self.folder}/mode", mode)

    @property
    def calls(self) -> list[dict[str, Any]]:
        file = self.machine.root / self.folder.lstrip("/") / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def order(self, who: str = "ann@laptop", **how: Any) -> BenchOrder:
        values = {"levels": LEVELS, "limit": 120.0, **how}
        return BenchOrder(id=new_id(), unit=f"{self.name}.service", preset="quick", who=who, **values)

    async def up(self) -> None:
        """Started, and answering."""
        await self.start(wait=True)
        async with asyncio.timeout(LIMIT):
            asked = ["curl", "-sf", f"http://127.0.0.1:{self.port}/health"]
            while (await self.machine.do(*asked, check=False)).status:  # noqa: ASYNC110 only the port tells
                await asyncio.sleep(0.1)


@pytest.fixture
def benched(machine: Machine) -> Benched:
    return Benched(machine, fresh_name("vllm-benched"))


async def all_of(
    ann: Operator, order: BenchOrder, at: Callable[[BenchReading], object] = lambda _: None, **how: Any
) -> list[BenchReading]:
    """Every reading to the end. ``at``: called with each; what it returns is awaited where it can be."""
    out: list[BenchReading] = []
    rights = await ann.rights(order.unit)
    again = how.pop("again", False)
    readings = follow_bench(ann.host, rights, order, **how) if again else bench(ann.host, rights, order, **how)
    async with asyncio.timeout(LIMIT), aclosing(readings):
        async for reading in readings:
            out.append(reading)
            done = at(reading)
            if asyncio.iscoroutine(done):
                await done
    return out


def story(readings: list[BenchReading]) -> str:
    return "\n".join(f"{one.stage} {one.outcome} {one.part} {one.done}/{one.total}: {one.text}" for one in readings)


def measuring(reading: BenchReading) -> bool:
    return reading.stage == "progress" and reading.done == 1


async def nothing_of(machine: Machine, order: BenchOrder) -> None:
    """No file, no process, no unit."""
    script = (
        f"find / -xdev -path /proc -prune -o -name '*{order.id}*' -print 2>/dev/null; find /run -name '*{order.id}*'"
    )
    assert (await machine.do("sh", "-c", script, check=False)).text == ""
    runner = DUTY.runner(order.unit)
    async with asyncio.timeout(LIMIT):
        while (await machine.do("systemctl", "is-active", runner, check=False)).status == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert not [args for _, _, args in machine.processes() if order.id in args]


async def test_in_a_transient_unit_to_its_result(machine: Machine, target: str, benched: Benched) -> None:
    benched.install()
    await benched.up()
    order = benched.order()
    shown: list[str] = []

    async def look(reading: BenchReading) -> None:
        if measuring(reading):
            wanted = "--property=ActiveState,RuntimeMaxUSec,Description,User"
            shown.append((await machine.do("systemctl", "show", wanted, DUTY.runner(order.unit))).text)
            benched.mode("good")

    async with Operator(target) as ann:
        seen = await all_of(ann, order, look)
    assert seen[-1].outcome == "done", story(seen)
    result = next(one for one in seen if one.stage == "result")
    assert result.result is not None
    assert result.result["output_throughput"] == 9.281505288496318
    assert {sample.name for sample in result.after} >= {"vllm:generation_tokens_total"}
    assert f"benchmark of {benched.name}.service by ann@laptop" in shown[0]
    assert "RuntimeMaxUSec=3min" in shown[0]
    assert benched.calls[-1]["uid"] == 0
    await nothing_of(machine, order)


async def test_as_the_units_own_user(machine: Machine, target: str, benched: Benched) -> None:
    benched.install(service="User=ops\nWorkingDirectory=/opt\n")
    await benched.up()
    order = benched.order()
    async with Operator(target) as ann:
        seen = await all_of(ann, order)
    assert seen[-1].outcome == "done", story(seen)
    uid = int(machine.run("id", "-u", "ops").text)
    assert {call["uid"] for call in benched.calls} == {uid}
    assert {call["folder"] for call in benched.calls} == {"/opt"}, "where the server was started"
    await nothing_of(machine, order)


async def test_a_user_unit(machine: Machine, target: str) -> None:
    benched = Benched(machine, fresh_name("vllm-benched"), "ops")
    benched.install()
    await benched.up()
    order = benched.order(user=True)
    async with Operator(f"ops@{target}", user=True) as ann:
        seen = await all_of(ann, order)
    assert seen[-1].outcome == "done", story(seen)
    await nothing_of(machine, order)
    await benched.stop()


@pytest.mark.parametrize("login", ["ops", "guest"])
async def test_without_the_right_to_manage_units_it_is_a_process_of_the_logins_own(
    machine: Machine, keyring: Keyring, proxy: Proxy, benched: Benched, login: str
) -> None:
    """And outlives the link as well."""
    benched.install()
    benched.mode("slow")
    await benched.up()
    order = benched.order()

    def worsen(reading: BenchReading) -> None:
        if measuring(reading):
            proxy.cut()

    async def end(reading: BenchReading) -> None:
        worsen(reading)
        if reading.stage == "link" and reading.outcome == "done":
            assert await cancel_bench(ann.host, await ann.rights(order.unit), order) == ""

    async with Operator(f"{login}@far") as ann:
        seen = await all_of(ann, order, end)
    assert seen[-1].outcome == "cancelled", story(seen)
    assert [one.outcome for one in seen if one.stage == "link"] == ["wait", "done"]
    uid = int(machine.run("id", "-u", login).text)
    assert {call["uid"] for call in benched.calls} == {uid}
    await nothing_of(machine, order)


async def test_the_result_is_there_for_whoever_comes_back(machine: Machine, target: str, benched: Benched) -> None:
    """The one who began it is gone before it ends; another firstlight finds it by its unit and has all of it."""
    benched.install()
    benched.mode("slow")
    await benched.up()
    order = benched.order(levels=(*LEVELS, *LEVELS))
    async with Operator(target) as ann:
        rights = await ann.rights(order.unit)
        readings = bench(ann.host, rights, order)
        async with asyncio.timeout(LIMIT):
            async for reading in readings:
                if measuring(reading):
                    break
        await readings.aclose()
    assert (await machine.do("systemctl", "is-active", DUTY.runner(order.unit))).text.strip() == "active"
    async with Operator(target, "bob@desk") as bob:
        rights = await bob.rights(order.unit)
        going = await bench_under_way(bob.host, rights, order.unit)
        assert going is not None
        assert (going.id, going.who, going.action) == (order.id, "ann@laptop", "benchmark")
        (found,) = await left(bob.host, rights, order.unit)
        assert found == order
        refused = await all_of(bob, benched.order("bob@desk"))
        assert refused[-1].outcome == "refused"
        assert "ann@laptop is at it: benchmark" in refused[-1].text
        benched.mode("good")
        await machine.do("pkill", "-f", f"{benched.folder}/vllm bench serve.*--num-prompts", check=False)
        seen = await all_of(bob, found, again=True, leave=True)
        assert await left(bob.host, rights, order.unit) == (order,), "for the one who began it"
    async with Operator(target) as ann:
        again = await all_of(ann, found, again=True)
        assert [one.text for one in again] == [one.text for one in seen]
        assert await left(ann.host, rights, order.unit) == ()
    assert seen[-1].stage == "end", story(seen)
    assert any(one.stage == "help" for one in seen), "from its first word on"
    await nothing_of(machine, order)


async def test_a_benchmark_that_is_killed_ends_unknown(machine: Machine, target: str, benched: Benched) -> None:
    benched.install()
    benched.mode("slow")
    await benched.up()
    order = benched.order()

    async def kill(reading: BenchReading) -> None:
        if measuring(reading):
            await machine.do("systemctl", "kill", "--signal=SIGKILL", DUTY.runner(order.unit))

    async with Operator(target) as ann:
        seen = await all_of(ann, order, kill)
    assert seen[-1].outcome == "unknown", story(seen)
    assert "ended from outside" in seen[-1].text


async def test_the_key_is_nowhere_to_be_seen(machine: Machine, target: str, benched: Benched) -> None:
    benched.install(more=f"--api-key {KEY}")
    benched.mode("slow")
    await benched.up()
    order = benched.order()
    found: list[str] = []

    async def look(reading: BenchReading) -> None:
        if measuring(reading):
            runner = DUTY.runner(order.unit)
            found.append((await machine.do("systemctl", "show", runner)).text)
            said = await machine.do("journalctl", "--unit", runner, "--output=export")
            found.append(repr(said.out))
            found.extend(args for _, _, args in machine.processes() if " serve /opt/models/tiny" not in args)
            files = "cat /run/firstlight/*/* /run/firstlight/*.log 2>/dev/null"
            found.append((await machine.do("sh", "-c", files, check=False)).text)
            assert await cancel_bench(ann.host, await ann.rights(order.unit), order) == ""

    async with Operator(target) as ann:
        seen = await all_of(ann, order, look)
    assert seen[-1].outcome == "cancelled", story(seen)
    assert benched.calls[-1]["environment"]["OPENAI_API_KEY"] == KEY
    assert KEY not in "\n".join(found)
    assert KEY not in repr(seen)
    modes = "find /run/firstlight -type f -perm /077 2>/dev/null"
    assert (await machine.do("sh", "-c", modes, check=False)).text == ""


@pytest.fixture
async def room(machine: Machine) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """Gives our folder on the host a disk of its own, of this size."""
    folder = "/run/firstlight"

    async def make(size: str) -> None:
        await machine.do("mkdir", "-p", folder)
        await machine.do("mount", "-t", "tmpfs", "-o", f"size={size},mode=711", "tmpfs", folder)

    yield make
    await machine.do("umount", folder, check=False)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (
            "16k",
            "It could not be begun, and nothing was done: cannot write to /run/firstlight: No space left on device",
        ),
        ("128k", "nothing was measured: the host's disk is full"),
    ],
)
async def test_no_room_to_begin_is_said(
    machine: Machine, target: str, benched: Benched, room: Callable[[str], Awaitable[None]], size: str, said: str
) -> None:
    benched.install()
    await benched.up()
    order = benched.order()
    await room(size)
    async with Operator(target) as ann:
        seen = await all_of(ann, order)
    assert seen[-1].text.startswith(said), story(seen)
    await nothing_of(machine, order)


async def test_a_disk_that_becomes_full_loses_nothing_that_was_measured(
    machine: Machine, target: str, benched: Benched, room: Callable[[str], Awaitable[None]]
) -> None:
    """The log is on the same disk: that it is full is said all the same."""
    benched.install()
    await benched.up()
    result = json.loads((RECORDINGS / "cpu-ngram/bench-c4-result.json").read_bytes()) | {"more": "x" * 200_000}
    machine.write(f"{benched.folder}/result", json.dumps(result))
    order = benched.order(levels=(*LEVELS, *LEVELS))
    await room("512k")
    async with Operator(target) as ann:
        seen = await all_of(ann, order)
    assert seen[-1].outcome == "failed", story(seen)
    assert seen[-1].text.startswith("run 2 of 2 ended with status 1"), story(seen)
    assert seen[-1].text.endswith(": the host's disk is full"), "one sentence"
    (kept,) = [one for one in seen if one.stage == "result"]
    assert kept.part == 1
    assert kept.result is not None
    assert kept.result["more"] == result["more"]
    await nothing_of(machine, order)


async def test_from_the_command_line(machine: Machine, target: str, keyring: Keyring, benched: Benched) -> None:
    """The first result becomes the baseline, the second is compared with it; then both are listed and compared."""
    benched.install()
    await benched.up()
    status, out, err = await firstlight("bench", "run", target, benched.name, "--preset", "quick", "--json")
    assert status == 0, out + err
    first = json.loads(out)
    assert first["baseline"] is True
    assert first["levels"][0]["output_tps"] == pytest.approx(9.28, abs=0.01)
    assert first["comparison"] is None
    benched.mode("good")
    machine.write(f"{benched.folder}/log", (RECORDINGS / "cpu-baseline/bench-c4.log").read_bytes())
    slower = json.loads((RECORDINGS / "cpu-ngram/bench-c4-result.json").read_bytes())
    slower["output_throughput"] *= 0.8
    machine.write(f"{benched.folder}/result", json.dumps(slower))
    status, out, err = await firstlight("bench", "run", target, benched.name, "--preset", "quick")
    assert status == 1, err
    assert "0.80 × baseline output tokens per second" in out
    assert "one run each" in out
    status, out, err = await firstlight("bench", "list", target, benched.name)
    assert status == 0, err
    assert out.count("quick") == 2
    assert "*" in out.splitlines()[2]
    status, out, _ = await firstlight("bench", "compare", "1", "2", "--worse-by", "25", "--json")
    assert status == 0
    assert json.loads(out)[0]["regression"] == pytest.approx(0.2)
    status, _, err = await firstlight("bench", "baseline", "2")
    assert status == 0, err
    status, _, err = await firstlight("bench", "run", target, benched.name, "--preset", "quikc")
    assert status == 2
    assert 'did you mean "quick"?' in err


async def test_armed_while_the_last_load_lies_failed(
    machine: Machine, target: str, keyring: Keyring, benched: Benched
) -> None:
    """What failed before is no reason to give up; the next load is measured as soon as it is ready."""
    benched.write("[Service]\nExecStart=/bin/sh -c 'echo broken; exit 3'\n")
    await benched.start(wait=False)
    async with asyncio.timeout(LIMIT):
        while await benched.shows("ActiveState") != "failed":  # noqa: ASYNC110 only systemd tells
            await asyncio.sleep(0.1)
    process = await begun("bench", "run", target, benched.name, "--preset", "quick", "--wait-ready")
    assert process.stderr is not None
    async with asyncio.timeout(LIMIT):
        while b"armed" not in (line := await process.stderr.readline()):
            assert line, "it ended before it was armed"
        benched.install()
        await benched.up()
        out, err = await process.communicate()
    assert process.returncode == 0, out + err
    assert b"x 16" in out.replace("×".encode(), b"x")


async def test_interrupted_and_found_again_by_the_same_command(
    machine: Machine, target: str, keyring: Keyring, benched: Benched
) -> None:
    benched.install()
    benched.mode("slow")
    await benched.up()
    words = ("bench", "run", target, benched.name, "--preset", "quick")
    process = await begun(*words)
    assert process.stderr is not None
    async with asyncio.timeout(LIMIT):
        while b" requests" not in (line := await process.stderr.readline()):
            assert line, "it ended before it measured"
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130
    assert b"it goes on on the host" in err
    assert b"Traceback" not in err
    process = await begun(*words)
    assert process.stderr is not None
    async with asyncio.timeout(LIMIT):
        while b"runs already: following it" not in (line := await process.stderr.readline()):
            assert line, "it was not found"
        status, _, err_text = await firstlight("bench", "cancel", target, benched.name)
        assert status == 0, err_text
        out, err = await process.communicate()
    assert process.returncode == 7, out + err
    assert b"cancelled, as asked" in err
    status, _, err_text = await firstlight("bench", "cancel", target, benched.name)
    assert status == 7
    assert "is under way" in err_text


PRESET = """
[presets.here]
concurrency = [4]
prompts = 16
input_len = 64
output_len = 64
extra = ["--tokenizer", "org/tiny"]
"""


async def test_from_this_machine_where_the_unit_names_no_vllm(
    machine: Machine, target: str, keyring: Keyring, benched: Benched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a real sshd. Who interrupts it ends it."""
    benched.install()
    await benched.up()
    other = Service(machine, fresh_name("proxy"))
    other.write("[Service]\nExecStart=/bin/sleep infinity\n")
    await other.start()
    here = tmp_path / "bin"
    here.mkdir()
    (here / "vllm").write_bytes((PROGRAMS / "fake_vllm.py").read_bytes())
    (here / "vllm").chmod(0o755)
    (here / "log").write_bytes((RECORDINGS / "cpu-ngram/bench-c4.log").read_bytes())
    (here / "result").write_bytes((RECORDINGS / "cpu-ngram/bench-c4-result.json").read_bytes())
    (here / "mode").write_text("asks")
    monkeypatch.setenv("PATH", f"{here}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = tmp_path / "firstlight.toml"
    config.write_text(PRESET)
    words = ["bench", "run", target, other.name, "--preset", "here", "--config", str(config)]
    words += ["--endpoint", f"http://127.0.0.1:{benched.port}"]
    status, out, err = await firstlight(*words, "--json")
    assert status == 0, out + err
    assert "warning: measured through the SSH tunnel from" in err
    assert json.loads(out)["result"]["firstlight"]["facts"]["measured"].startswith("through the SSH tunnel from")
    assert json.loads((here / "answers").read_text()) == [200] * 20

    (here / "mode").write_text("slow")
    process = await begun(*words)
    assert process.stderr is not None
    async with asyncio.timeout(LIMIT):
        while b" requests" not in (line := await process.stderr.readline()):
            assert line, "it ended before it measured"
        process.send_signal(signal.SIGINT)
        _, error = await process.communicate()
    assert process.returncode == 130
    assert b"it is ended: it was measured from this machine" in error
    assert b"Traceback" not in error
    assert list((tmp_path / "cache/firstlight").iterdir()) == []
    left = await asyncio.create_subprocess_exec("pgrep", "-f", f"{here}/vllm", stdout=asyncio.subprocess.PIPE)
    assert (await left.communicate())[0] == b""


async def begun(*words: str) -> asyncio.subprocess.Process:
    """The program itself, as it is typed."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", "from tui.cli import main; main()", *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def firstlight(*words: str, limit: float = LIMIT) -> tuple[int, str, str]:
    """To its end: status, standard output, standard error."""
    process = await begun(*words)
    async with asyncio.timeout(limit):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()
