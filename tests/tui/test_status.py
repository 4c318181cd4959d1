"""The status over HTTP: what each path answers, the metrics page, and a server that takes no nonsense."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from tests.tui import views
from tui.commands import serve_status as command
from tui.exits import Ending, Exit
from tui.status import server
from tui.status.board import Board, Entry
from tui.status.metrics import Measured
from tui.status.server import Address, Answer, BadAddress, Request, address, serving
from watch.benchmarks.result import read_result
from watch.config import Config, Deployment
from watch.history import Benchmark, History
from watch.view import LinkView, View

RESULT = Path(__file__).parents[1] / "samples" / "bench-serve-0.32.0-result.json"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class Still:
    """A watch that shows one picture."""

    def __init__(self, view: View) -> None:
        self.picture = view

    def now(self) -> float:
        return self.picture.now

    def view(self, now: float) -> View:
        return self.picture


@asynccontextmanager
async def served(**pictures: View) -> AsyncIterator[tuple[httpx.AsyncClient, dict[str, Still]]]:
    stills = {name: Still(view) for name, view in pictures.items()}
    board = Board(*(Entry(name, still) for name, still in stills.items()))
    async with (
        serving(Address("127.0.0.1", 0), board.answer) as where,
        httpx.AsyncClient(base_url=f"http://{where}", trust_env=False) as client,
    ):
        yield client, stills


@pytest.mark.parametrize(
    ("view", "live", "ready", "started"),
    [(views.loading(), 200, 503, 503), (views.stalled(), 200, 503, 503), (views.failed(), 503, 503, 503),
     (views.ready(), 200, 200, 200)],
    ids=["loading", "stalled", "failed", "ready"],
)  # fmt: skip
async def test_what_a_prober_is_told(view: View, live: int, ready: int, started: int) -> None:
    async with served(kimi=view) as (client, _):
        told = {path: await client.get(path) for path in ("/livez", "/readyz", "/startupz")}
        assert [answer.status_code for answer in told.values()] == [live, ready, started]
        body = told["/startupz"].json()
        assert body["ok"] is (started == 200)
        (one,) = body["deployments"]
        assert (one["deployment"], one["state"], one["phase"]) == ("kimi", view.state, view.phase)
        assert one["seconds"] > 0
        assert len(one["findings"]) == len([finding for finding in view.findings if not finding.benign])
        if view.forecast is not None:
            assert one["forecast"]["seconds"] == pytest.approx(view.forecast.middle - view.now)


async def test_a_server_that_cannot_be_seen_is_not_ready() -> None:
    lost = LinkView(state="down", reason="silent", remedy="", rtt_ms=None, since=views.NOW)
    async with served(kimi=replace(views.ready(), link=lost)) as (client, _):
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/startupz")).status_code == 200
        assert (await client.get("/livez")).status_code == 200


async def test_of_several_each_counts_and_one_can_be_asked_for() -> None:
    async with served(kimi=views.ready(), small=views.loading()) as (client, _):
        both = await client.get("/readyz")
        assert both.status_code == 503
        assert [one["deployment"] for one in both.json()["deployments"]] == ["kimi", "small"]
        assert (await client.get("/readyz/kimi")).status_code == 200
        assert (await client.get("/readyz/small")).status_code == 503
        unknown = await client.get("/readyz/kimy")
        assert unknown.status_code == 404
        assert "kimi, small" in unknown.json()["error"]
        assert "/startupz" in (await client.get("/")).json()["error"]


def values(page: str, parse: object = openmetrics) -> dict[tuple[str, str], float]:
    """Samples of a page by name and labels (``deployment`` left out)."""
    found = {}
    for family in parse(page):  # type: ignore[operator]
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()) if k != "deployment")
            found[sample.name, labels] = sample.value
    return found


async def test_the_metrics_of_a_load() -> None:
    view = views.loading()
    async with served(kimi=view) as (client, _):
        answer = await client.get("/metrics", headers={"Accept": OPENMETRICS})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    found = values(answer.text)
    assert found["firstlight_state", "firstlight_state=loading"] == 1
    assert found["firstlight_state", "firstlight_state=ready"] == 0
    assert found["firstlight_phase", "firstlight_phase=weights"] == 1
    assert sum(value for (name, _), value in found.items() if name == "firstlight_phase") == 1
    assert view.load is not None
    assert view.load.progress is not None
    progress = view.load.progress
    assert found["firstlight_phase_progress_ratio", ""] == pytest.approx(progress.done / progress.total)
    assert 0 < found["firstlight_load_progress_ratio", ""] < 1
    assert view.forecast is not None
    assert found["firstlight_seconds_to_ready", "bound=middle"] == pytest.approx(view.forecast.middle - view.now)
    assert found["firstlight_stalled", ""] == 0
    assert found["firstlight_ready", ""] == 0
    warnings = sum(one.severity == "warning" and not one.benign for one in view.findings)
    assert found["firstlight_findings", "severity=warning"] == warnings
    assert found["firstlight_phase_duration_seconds", "phase=config"] == 12.0
    assert found["firstlight_load_seconds", ""] == view.now - view.load.started


async def test_the_metrics_of_a_stall_and_of_a_server() -> None:
    async with served(stuck=views.stalled(), done=views.ready()) as (client, _):
        text = (await client.get("/metrics")).text
    found = {
        (sample.labels.get("deployment"), sample.name): sample.value
        for family in plain_text(text)
        for sample in family.samples
    }
    assert found["stuck", "firstlight_stalled"] == 1
    assert found["done", "firstlight_stalled"] == 0
    assert found["done", "firstlight_ready"] == 1
    assert found["done", "firstlight_load_progress_ratio"] == 1
    assert ("done", "firstlight_seconds_to_ready") not in found


async def test_hostile_names_stay_in_their_labels() -> None:
    view = replace(views.loading(), model='x"} 1\nfirstlight_ready{deployment="y', target="a\\b")
    async with served(kimi=view) as (client, _):
        for accept in (OPENMETRICS, "text/plain"):
            answer = await client.get("/metrics", headers={"Accept": accept})
            families = openmetrics(answer.text) if accept == OPENMETRICS else plain_text(answer.text)
            samples = [sample for family in families for sample in family.samples]
            (info,) = [sample for sample in samples if sample.name == "firstlight_deployment_info"]
            assert info.labels["model"] == view.model
            assert [sample.labels for sample in samples if sample.name == "firstlight_ready"] == [
                {"deployment": "kimi"}
            ]


# ---- the server itself


async def raw(where: Address, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(where.host, where.port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[Address]:
    async def answer(request: Request) -> Answer:
        return Answer(HTTPStatus.OK, request.path.encode())

    async with serving(Address("127.0.0.1", 0), answer) as where:
        yield where


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400), (b"GET / HTTP/1.1\r\n\r\n", 400),
     (b"GET /" + b"a" * (64 << 10) + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
     (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 405),
     (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400)],
)  # fmt: skip
async def test_nonsense_is_refused(echo: Address, data: bytes, status: int) -> None:
    answer = await raw(echo, data)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"connection: close" in answer.lower() or status == 405


async def test_a_connection_serves_many_requests_and_head_has_no_body(echo: Address) -> None:
    data = b"GET /a?secret=1 HTTP/1.1\r\nHost: x\r\n\r\nHEAD /b HTTP/1.1\r\nHost: x\r\n\r\n"
    data += b"GET /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await raw(echo, data)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert b"\r\n\r\n/a" in answer
    assert b"/b" not in answer
    assert answer.endswith(b"/c")


async def test_slow_and_silent_clients_hold_nothing_up(echo: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE", 0.2)
    monkeypatch.setattr(server, "SLOW", 0.2)
    assert await raw(echo, b"") == b""
    assert await raw(echo, b"GET / HT") == b""


async def test_only_so_many_at_a_time(echo: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST", 2)
    held = [await asyncio.open_connection(echo.host, echo.port) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises((ConnectionError, AssertionError)):
        assert await raw(echo, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    for _, writer in held:
        writer.close()


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [("127.0.0.1:9110", "127.0.0.1", 9110, True), ("[::1]:80", "::1", 80, True), ("0.0.0.0:1", "0.0.0.0", 1, False),
     ("[::]:0", "::", 0, False), ("localhost:9", None, 9, True)],
)  # fmt: skip
def test_addresses(text: str, host: str | None, port: int, loopback: bool) -> None:
    found = address(text)
    assert host is None or found.host == host
    assert (found.port, found.loopback) == (port, loopback)


@pytest.mark.parametrize(
    "text", ["9110", ":9110", "::1:9110", "a:b", "127.0.0.1:99999", "no such host:1", "127.0.0.1:"]
)
def test_no_addresses(text: str) -> None:
    with pytest.raises(BadAddress) as error:
        address(text)
    assert "\n" not in str(error.value)


# ---- the command


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    return tmp_path


def test_a_port_that_is_taken_is_one_sentence(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Ending) as ending:
            command.run(["local", "vllm"], f"127.0.0.1:{port}")
    assert ending.value.status == Exit.USAGE
    assert ending.value.reason == f"nothing can be served on 127.0.0.1:{port}: the port is taken"
    assert "--listen" in ending.value.remedy


def test_other_machines_only_where_asked_for(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Ending, match="other machines"):
        command.run(["local", "vllm"], "0.0.0.0:0")
    assert command.listening_address("0.0.0.0:0", True, "sees it") == Address("0.0.0.0", 0)
    assert "warning" in capsys.readouterr().err


async def test_a_host_that_refuses_us_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    came: asyncio.Queue[str] = asyncio.Queue()

    class Refused(Still):
        state = None

        async def batches(self) -> AsyncIterator[object]:
            for nothing in ():
                yield nothing

    @asynccontextmanager
    async def live(host: str, *_: object, **__: object) -> AsyncIterator[object]:
        came.put_nowait(host)
        link = LinkView(state="refused", reason="no accepted login", remedy="", rtt_ms=None, since=views.NOW)
        yield SimpleNamespace(watching=Refused(replace(views.loading(), link=link)))

    monkeypatch.setattr(command, "live", live)
    monkeypatch.setattr(command, "open_target", lambda target: f"{target} again")
    monkeypatch.setattr(command, "Results", lambda desk, name: tuple)
    monkeypatch.setattr(command, "AGAIN", 0.01)
    board = Board()
    one = command.named(Config(), ["llm-two", "vllm"])
    watching = asyncio.create_task(command.watch(one, "llm-two", Config(), board))  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        assert [await came.get() for _ in range(3)] == ["llm-two", "llm-two again", "llm-two again"]
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert [one.link for one in await board.statuses()] == ["refused"]
    assert "vllm cannot be watched: no accepted login" in capsys.readouterr().err


def test_the_latest_benchmarks_of_each_level(tmp_path: Path) -> None:
    raw_result = json.loads(RESULT.read_text())
    with History.open(tmp_path / "history.sqlite") as history:
        for at, rate in ((1.0, 10.0), (2.0, 20.0)):
            history.record_benchmark(
                Benchmark(
                    target="llm-two", unit="vllm", at=at, run=f"r{at}", preset="standard",
                    result={**raw_result, "output_throughput": rate},
                )
            )  # fmt: skip
        history.record_benchmark(Benchmark(target="llm-two", unit="vllm", at=3.0, run="bad", preset="p", result={}))
        (found,) = command.latest(history, "llm-two", "vllm", "kimi")
        assert command.latest(history, "llm-two", "other", "kimi") == ()
    assert (found.at, found.result.output_tps, found.preset) == (2.0, 20.0, "standard")


async def test_benchmarks_are_metrics() -> None:
    result = read_result(RESULT.read_bytes())
    board = Board(
        Entry("kimi", Still(views.ready()), lambda: (Measured(deployment="kimi", preset="s", at=5.0, result=result),))
    )
    answer = await board.answer(Request("GET", "/metrics", OPENMETRICS))
    found = values(answer.body.decode())
    level = f"concurrency={result.concurrency or 'unlimited'},preset=s"
    assert found["firstlight_benchmark_output_tokens_per_second", level] == result.output_tps
    assert found["firstlight_benchmark_time_seconds", level] == 5.0
    assert result.ttft.p99 is None or found["firstlight_benchmark_ttft_seconds", f"{level},statistic=p99"] == (
        result.ttft.p99 / 1000.0
    )


def test_a_deployment_of_the_configuration_is_served_by_its_name() -> None:
    config = Config(deployments={"kimi": Deployment(target="llm-two", unit="vllm")})
    assert [one.title for one in command.several(config, [])] == ["kimi"]
