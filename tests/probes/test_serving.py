from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from probes.clock import SYSTEM
from probes.endpoint import Endpoint
from probes.health import ask_health, client
from probes.metrics import MAX_PAGE, PageParser, ask_metrics
from probes.readings import HealthReading, MetricsReading, encode
from probes.serving import ServingProbe
from tests.probes.hosts import PlainHost, Reader

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "recordings" / "cpu-ngram" / "metrics-last.txt").read_bytes()
Answer = Callable[[str], bytes | None]


def http(status: int, body: bytes = b"", headers: str = "", *, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status} X\r\nContent-Length: {size}\r\n{headers}\r\n".encode() + body


class Server:
    """A real server on the loopback that says what it is told to, byte for byte. None: says nothing at all."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.answer: Answer = lambda path: http(200)
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server
        self._server.close()
        self._server.close_clients() if hasattr(self._server, "close_clients") else None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.requests.append(head)
            answer = self.answer(head.split(" ")[1])
            if answer is None:
                await asyncio.sleep(60)
            else:
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    await server.start()
    yield server
    await server.stop()


async def health(server: Server, **options: str) -> HealthReading:
    endpoint = Endpoint(port=server.port)
    async with httpx.AsyncHTTPTransport() as transport, client(transport, endpoint, **options) as asks:
        return await ask_health(asks, endpoint, SYSTEM)


async def metrics(server: Server, **options: str) -> MetricsReading:
    endpoint = Endpoint(port=server.port)
    async with httpx.AsyncHTTPTransport() as transport, client(transport, endpoint, **options) as asks:
        return await ask_metrics(asks, PageParser(), SYSTEM)


async def test_our_requests_can_be_told_from_others_in_the_servers_log(server: Server) -> None:
    await health(server)
    await metrics(server)
    assert [request.split("\r\n")[0] for request in server.requests] == [
        "GET /health?firstlight HTTP/1.1",
        "GET /metrics?firstlight HTTP/1.1",
    ]
    assert "user-agent: firstlight/" in server.requests[0].lower()
    assert "authorization" not in server.requests[0].lower()


async def test_the_key_is_sent_and_never_recorded(server: Server) -> None:
    readings = [await health(server, api_key="sk-secret"), await metrics(server, api_key="sk-secret")]
    assert "Bearer sk-secret" in server.requests[0]
    assert all(b"sk-secret" not in encode(reading) for reading in readings)


async def test_a_closed_port_is_the_normal_answer_while_loading() -> None:
    server = Server()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server.port = unused.getsockname()[1]
        reading = await health(server)
    assert (reading.status, reading.error) == (None, "refused")
    assert reading.endpoint == f"http://127.0.0.1:{server.port}"
    page = await metrics(server)
    assert (page.status, page.error) == (None, "No metrics: refused")


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (http(200), 200, ""),
        (http(503), 503, "the server says that its engine is dead"),
        (http(401), 401, "needs an API key: set FIRSTLIGHT_API_KEY"),
        (http(302, headers="Location: https://login.example/\r\n"), 302, "redirects to https://login.example/"),
        (http(500), 500, ""),
        (b"", None, "closed the connection without an answer"),
        (b"220 mail.example ESMTP\r\n\r\n", None, "no HTTP answer"),
    ],
)
async def test_every_answer_of_health_is_a_value(server: Server, answer: bytes, status: int | None, error: str) -> None:
    server.answer = lambda path: answer
    reading = await health(server)
    assert reading.status == status
    assert reading.error.startswith(error)
    assert bool(reading.error) == bool(error)


async def test_a_server_that_never_answers_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.health.LIMIT", 0.1)
    monkeypatch.setattr("probes.metrics.LIMIT", 0.1)
    server.answer = lambda path: None
    assert (await health(server)).error == "no answer within 0.1 s"
    assert "no answer within" in (await metrics(server)).error


async def test_a_real_page_gives_the_engines_own_samples(server: Server) -> None:
    server.answer = lambda path: http(200, PAGE)
    reading = await metrics(server)
    names = {sample.name for sample in reading.samples}
    assert (reading.status, reading.error, reading.bytes, reading.truncated) == (200, "", len(PAGE), False)
    assert "vllm:num_requests_running" in names
    assert "vllm:time_to_first_token_seconds_bucket" in names
    assert "process_resident_memory_bytes" in names
    assert not any(name.endswith("_created") or name.startswith(("http_", "python_")) for name in names)


def test_what_is_kept_is_what_prometheus_itself_reads() -> None:
    expected = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(PAGE.decode())
        for sample in family.samples
    }
    parser = PageParser()
    first, second = parser.parse(PAGE), parser.parse(PAGE)
    assert first == second
    assert len(first) > 200
    for sample in first:
        assert expected[sample.name, tuple(sorted(sample.labels.items()))] == sample.value


@pytest.mark.parametrize("case", ["old", "new"])
def test_the_names_of_old_and_new_versions_are_kept(case: str) -> None:
    folder = next((TESTS / "cases").glob("C63-*"))
    samples = PageParser().parse((folder / f"input.{case}.metrics.txt").read_bytes())
    cache = "vllm:gpu_cache_usage_perc" if case == "old" else "vllm:kv_cache_usage_perc"
    assert [sample.value for sample in samples if sample.name == cache] == [pytest.approx(0.317, abs=0.001)]


def test_odd_lines_cost_only_themselves() -> None:
    page = (
        b'vllm:a{x="1"} 5\nvllm:b{x="\\"q\\" \\\\ \\n }"} 1.5e+03\nvllm:c{unclosed 1\nvllm:d NaN\n'
        b'vllm:e{y="z"} +Inf 1234\n'
        b'vllm:f\nvllm:g{} 1\nsglang:num_running_reqs 2\nvllm:h_created{} 17\nvllm:i_bucket{le="1"} 1\nvllm:j 1_0\r\n'
    )
    found = {sample.name: sample.value for sample in PageParser().parse(page)}
    assert found["vllm:a"] == 5
    assert found["vllm:b"] == 1500
    assert found["vllm:d"] != found["vllm:d"]
    assert found["vllm:e"] == float("inf")
    assert found["sglang:num_running_reqs"] == 2
    assert "vllm:c" not in found
    assert "vllm:h_created" not in found
    assert "vllm:i_bucket" not in found


@given(st.one_of(st.binary(max_size=300), st.integers(0, len(PAGE)).map(lambda end: PAGE[:end])))
def test_any_page_has_an_answer(page: bytes) -> None:
    parser = PageParser()
    assert list(map(repr, parser.parse(page))) == list(map(repr, parser.parse(page)))


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=20), max_size=6))
def test_any_lines_have_an_answer(parts: list[str]) -> None:
    PageParser().parse("\n".join("vllm:x" + part for part in parts).encode())


@pytest.mark.parametrize(
    ("answer", "status", "sentence"),
    [
        (http(401, b'{"error":"Unauthorized"}'), 401, "need an API key"),
        (http(404), 404, "offers no /metrics"),
        (http(500, b"oops"), 500, "HTTP status 500"),
        (http(301, headers="Location: /elsewhere\r\n"), 301, "redirects to /elsewhere"),
        (http(200, b"<!DOCTYPE html><html>"), 200, "web page"),
        (http(200), 200, "empty page"),
        (http(200, b"go_goroutines 5\n"), 200, "no figures of vLLM"),
    ],
)
async def test_every_answer_of_metrics_is_one_sentence(
    server: Server, answer: bytes, status: int, sentence: str
) -> None:
    server.answer = lambda path: answer
    reading = await metrics(server)
    assert reading.status == status
    assert sentence in reading.error
    assert reading.samples == ()


async def test_half_a_page_keeps_its_whole_lines(server: Server) -> None:
    half = PAGE[: PAGE.index(b"vllm:generation_tokens_total{") + 40]
    server.answer = lambda path: http(200, half, length=len(PAGE))
    reading = await metrics(server)
    assert reading.truncated
    names = {sample.name for sample in reading.samples}
    assert "vllm:num_requests_running" in names
    assert "vllm:generation_tokens_total" not in names


@pytest.mark.parametrize("packed", [False, True])
async def test_a_page_without_end_is_cut_at_a_line(server: Server, packed: bool) -> None:
    line = b'vllm:x{y="zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"} 1\n'
    body = b"vllm:first 1\n" + b"# filler\n" * ((40 << 20) // 9) + line
    answer = http(200, gzip.compress(body, 1), "Content-Encoding: gzip\r\n") if packed else http(200, body)
    server.answer = lambda path: answer
    reading = await metrics(server)
    assert reading.truncated
    assert [sample.name for sample in reading.samples] == ["vllm:first"]
    assert MAX_PAGE < reading.bytes < MAX_PAGE * 2


# --- the probe


async def test_first_health_alone_then_metrics_and_health_as_long_as_it_serves(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.serving.LOADING", 0.02)
    monkeypatch.setattr("probes.serving.METRICS", 0.02)
    ready = False
    server.answer = lambda path: http(200, PAGE if path.startswith("/metrics") else b"") if ready else http(503)
    reader = Reader(ServingProbe(PlainHost(), Endpoint(port=server.port)).batches())
    await reader.until(lambda reader: len(reader.of(HealthReading)) >= 3)
    assert reader.of(MetricsReading) == []
    ready = True
    await reader.until(lambda reader: len(reader.of(MetricsReading)) >= 12)
    served = [reading for reading in reader.readings if getattr(reading, "status", None) == 200]
    kinds = "".join("h" if isinstance(reading, HealthReading) else "m" for reading in served)
    assert kinds.startswith("hmmmmmhmmmmmh")
    await server.stop()
    await reader.until(lambda reader: reader.of(HealthReading)[-1].error == "refused")
    await reader.stop()


async def test_a_poke_asks_health_now(server: Server) -> None:
    server.answer = lambda path: http(503)
    probe = ServingProbe(PlainHost(), Endpoint(port=server.port))
    probe.idle = True
    reader = Reader(probe.batches())
    await reader.until(lambda reader: reader.of(HealthReading))
    probe.poke()
    await reader.until(lambda reader: len(reader.of(HealthReading)) == 2)
    await reader.stop()
