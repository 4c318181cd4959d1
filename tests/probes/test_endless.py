"""Hosts and servers that never stop, or say what nothing can be made of: each is given up, with a reason."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from probes import command, doctor, gpu
from probes.asking import Asker
from probes.clock import SYSTEM
from probes.command import RunningCommand, complete
from probes.endpoint import endpoint_from
from probes.gpu_agent import MOST_KNOWN, AgentDecoder
from probes.health import ask_health, client
from probes.host import HostError
from probes.metrics import MAX_PAGE, MOST, PageParser, ask_metrics
from probes.model import read_model
from probes.nvidia_smi import LONGEST, MOST_GPUS, MOST_NOISE, MOST_TROUBLES, SmiDecoder
from probes.nvml_agent import FIELDS
from probes.quoting import opening
from probes.readings import GpuProcess, GpuProcesses, GpuReading, MetricsReading
from probes.ssh_guard import A_SECOND, DATA, KEXINIT, KEYS, Flooded, Guard
from probes.ssh_guard import MOST as MOST_MESSAGES
from watch import catalogue
from watch.config import ConfigError, load_config
from watch.metrics import MOST_ENGINES
from watch.state import WatchState

# ---- /metrics and /health

Body = Callable[[asyncio.StreamWriter], Awaitable[None]]


def whole(data: bytes, *headers: bytes) -> Body:
    async def body(writer: asyncio.StreamWriter) -> None:
        head = b"".join(one + b"\r\n" for one in headers)
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: %d\r\n\r\n" % len(data) + data)
        await writer.drain()

    return body


def endless(start: bytes, data: bytes) -> Body:
    async def body(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(data)
            await writer.drain()

    return body


@asynccontextmanager
async def asking(body: Body) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await body(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    endpoint = endpoint_from(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        async with httpx.AsyncHTTPTransport() as transport, client(transport, endpoint) as asks:
            yield asks, endpoint.url
    finally:
        server.close()


async def page(body: Body) -> MetricsReading:
    async with asking(body) as (asks, _):
        return await ask_metrics(asks, PageParser(), SYSTEM)


EVERYTHING = b"".join(b'vllm:num_requests_running{engine="%d"} %d\n' % (n, n) for n in range(3 * MOST))
ZEROES = bytes(100 << 20)


async def test_a_page_of_endless_label_sets_is_cut_and_the_fold_tells_few_engines_apart() -> None:
    reading = await page(whole(EVERYTHING))
    assert len(reading.samples) == MOST
    assert reading.truncated
    state = WatchState("host", "vllm.service")
    state.apply(reading)
    serving = state.view(reading.at).serving
    assert serving is not None
    assert len(serving.engines) <= MOST_ENGINES
    assert serving.running == sum(range(MOST)), "those beyond count, without a name"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (whole(gzip.compress(ZEROES), b"Content-Encoding: gzip"), "longer than"),
        (whole(zlib.compress(ZEROES), b"Content-Encoding: deflate"), "not asked for"),
        (whole(b"x", b"Content-Encoding: gzip, gzip"), "not asked for"),
        (whole(b"no gzip at all", b"Content-Encoding: gzip"), "broke off"),
        (endless(b"HTTP/1.1 200 OK\r\n\r\n", b"no figure\n" * 1000), "longer than"),
        (endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536), "longer than"),
        (endless(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 1000), "No metrics"),
        (endless(b"", b"\xff\x00\x1b[2J" * 1000), "No metrics"),
        (whole(b"", b"Location: http://elsewhere/\x1b[2J"), "empty"),
    ],
    ids=["gzip", "deflate", "twice", "none", "lines", "line", "headers", "bytes", "location"],
)
async def test_what_is_no_page_is_said(body: Body, says: str) -> None:
    reading = await page(body)
    assert reading.samples == ()
    assert says in reading.error
    assert reading.bytes <= 2 * MAX_PAGE


async def test_a_packed_page_is_read() -> None:
    reading = await page(whole(gzip.compress(EVERYTHING[:1000]), b"Content-Encoding: gzip"))
    assert len(reading.samples) > 10
    assert reading.error == ""


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e999"])
async def test_values_that_are_no_numbers_are_left_out(value: str) -> None:
    reading = await page(whole(f"vllm:num_requests_running {value}\nvllm:num_requests_waiting 2\n".encode()))
    state = WatchState("host", "vllm.service")
    state.apply(reading)
    serving = state.view(reading.at).serving
    assert serving is not None
    assert (serving.running, serving.waiting) == (None, 2.0)


def test_long_or_ever_new_lines_are_not_kept() -> None:
    parser = PageParser()
    for number in range(3):
        parser.parse(b'vllm:a{x="%s%d"} 1\n' % (b"y" * 5000, number))
        assert parser.parse(b'vllm:a{x="%s%d"} 1\n' % (b"y" * 50000, number)) == ()
    assert len(parser._known) == 0
    PageParser.MOST, most = 10, PageParser.MOST
    try:
        for number in range(100):
            assert len(parser.parse(b'vllm:a{x="%d"} 1\n' % number)) == 1
        assert len(parser._known) <= 10
    finally:
        PageParser.MOST = most


def test_series_that_come_and_go_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watch.serving.MOST_SERIES", 100)
    state = WatchState("host", "vllm.service")
    parser = PageParser()
    for turn in range(50):
        lines = "".join(f'vllm:generation_tokens_total{{engine="{turn}-{n}"}} {turn}\n' for n in range(20))
        state.apply(MetricsReading(at=1000.0 + turn, samples=parser.parse(lines.encode()), status=200))
    assert len(state.serving._last) <= 120


async def test_health_is_a_value_whatever_comes() -> None:
    async with asking(endless(b"", b"HTTP/9.9 \xff\r\n")) as (asks, url):
        reading = await ask_health(asks, endpoint_from(url), SYSTEM)
    assert reading.status is None
    assert reading.error


# ---- GPUs

HEADER = b"index, uuid, name, memory.used [MiB], memory.total [MiB]\n"


@pytest.mark.parametrize(
    "said",
    [b"y\n", b"\x1b[2J\n", b"GPU is lost\n", b"x" * 200 + b"\n", HEADER, b"0, [N/A]\n", b"\xff\xfe\x00\n"],
)
def test_an_nvidia_smi_that_only_talks_is_given_up(said: bytes) -> None:
    decoder = SmiDecoder()
    decoder.feed(HEADER, 1.0)
    for _ in range(20):
        assert decoder.feed(said * 10_000, 1.0) == []
    assert decoder.lost
    assert len(decoder.troubles) <= MOST_TROUBLES
    assert decoder.noise <= MOST_NOISE + 1


def test_rows_between_complaints_are_still_read() -> None:
    decoder = SmiDecoder()
    decoder.feed(HEADER, 1.0)
    for turn in range(3):
        decoder.feed(b"a complaint\n" * (MOST_NOISE - 1), 1.0)
        decoder.troubles.clear()
        decoder.feed(b"0, GPU-1, H200, 1 MiB, 2 MiB\n", float(turn))
    assert decoder.rows == 3
    assert not decoder.lost


def test_ten_thousand_gpus_with_endless_names() -> None:
    decoder = SmiDecoder()
    rows = b"".join(b"%d, GPU-%d, %s, -5 MiB, 2 MiB\n" % (n, n, b"N" * 3000) for n in range(10_000))
    found: list[GpuReading] = []
    for turn in range(3):
        found += decoder.feed(HEADER + rows, float(turn))
        found += decoder.feed(b"0, GPU-%d, H200, 1 MiB, 2 MiB\n" % turn, float(turn))
    assert found
    assert max(len(reading.devices) for reading in found) <= MOST_GPUS
    assert max(len(one.name) for reading in found for one in reading.devices) <= LONGEST
    assert len(decoder.uuids) <= MOST_GPUS + 1


def sample(**more: object) -> bytes:
    return json.dumps({"t": 1.0, "g": [], "p": [], **more}).encode() + b"\n"


def test_an_agent_that_is_none_is_given_up() -> None:
    decoder = AgentDecoder()
    assert decoder.feed(b"y\n" * 1_000_000) == []
    assert decoder.lost


def test_what_an_agent_names_is_bounded() -> None:
    decoder = AgentDecoder()
    assert decoder.feed(sample(g=[[10_000, *[None] * len(FIELDS)]])) == []
    for turn in range(3):
        pids = range(turn * MOST_KNOWN, (turn + 1) * MOST_KNOWN + 10)
        who = {str(pid): ["n" * 1000, "u", "o", 1.0, "R"] for pid in pids}
        readings = decoder.feed(sample(who=who, p=[[0, pid, 1.0] for pid in pids]))
        (processes,) = [one for one in readings if isinstance(one, GpuProcesses)]
        assert len(processes.processes) <= MOST_KNOWN
        assert max(len(one.name) for one in processes.processes) <= LONGEST
    assert len(decoder._who) <= MOST_KNOWN + 10


# ---- commands


class Given(RunningCommand):
    """A command whose output is given to it by a test."""

    def _pause(self) -> None: ...
    def _resume(self) -> None: ...
    def _send(self, data: bytes) -> None: ...


def given() -> Given:
    one = Given(["journalctl", "\x1b[2J"], "abc", "llm-two")
    one.feed(opening("abc"))
    one.feed_error(opening("abc"))
    return one


async def test_errors_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ENDLESS", 1 << 20)
    one = given()
    for _ in range(40):
        one.feed_error(b"oh no\n" * 10_000)
    with pytest.raises(HostError, match="of errors; it was ended") as raised:
        await one.read()
    assert raised.value.reason.isprintable()
    assert len(one.stderr) <= command.STDERR_TAIL


async def test_output_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ENDLESS", 1 << 20)
    one = given()
    one.feed(b"y\n" * (1 << 20))
    with pytest.raises(HostError, match="of output; it was ended"):
        await complete(one, b"", 20.0, lambda _: None)


async def test_an_end_of_the_output_without_an_end_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "STATUS_SECONDS", 0.01)
    one = given()
    one.feed(b"all there is")
    one.finish_output()
    assert await one.read() == b"all there is"
    with pytest.raises(HostError, match="ended its output, but not itself"):
        await one.wait()


# ---- messages of SSH


def test_what_nobody_asked_for_is_borne_up_to_a_bound() -> None:
    now = [0.0]
    guard = Guard(lambda: now[0])
    for _ in range(MOST_MESSAGES):
        guard.take(2, 0)
    with pytest.raises(Flooded):
        guard.take(2, 0)
    now[0] = 10.0
    assert 10 * A_SECOND - 2 <= _borne(guard) <= 10 * A_SECOND


def _borne(guard: Guard) -> int:
    """How many more it takes."""
    for number in range(10 * MOST_MESSAGES):
        try:
            guard.take(80, 0)
        except Flooded:
            return number
    raise AssertionError("all of them")


def test_a_message_with_each_piece_of_output_is_borne_for_ever() -> None:
    guard = Guard(lambda: 0.0)
    for _ in range(10 * MOST_MESSAGES):
        guard.take(2, 0)
        guard.take(DATA, 100)


def test_output_of_a_byte_each_is_a_flood_too_and_new_keys_weigh_more() -> None:
    for kind, size, times in ((DATA, 1, MOST_MESSAGES), (KEXINIT, 0, MOST_MESSAGES // KEYS)):
        guard = Guard(lambda: 0.0)
        for _ in range(times):
            guard.take(kind, size)
        with pytest.raises(Flooded):
            guard.take(kind, size)


# ---- figures that are none

ODD = ["²", "٣" * 30, "7" * 5000, "-1", "1e9", "0x1", ""]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_figures_that_int_would_not_take_or_should_not(odd: str) -> None:
    """``str.isdigit`` is true of ², and int of five thousand digits is refused."""
    assert read_model(f"/m\n-rw- 1 0 0 {odd} 1 1 1 /m/model.safetensors\n\x1e\n").bytes is None
    facts = doctor._facts(f"now {odd}\nsystemd {odd}\ndisk {odd} {odd} /\n", 1.0)
    assert facts == {"gpus": (), "disks": {}}
    processes = (GpuProcess(gpu=0, pid=7, name="x"),)
    assert gpu.named(processes, [f"btime {odd}\n", f"pid {odd}\nx", f"pid 7\n7 (x) R {' '.join([odd or '-'] * 30)}"])


async def test_an_answer_of_odd_status() -> None:
    class Said:
        stderr = b""

        async def write(self, data: bytes) -> None: ...

        async def wait(self) -> int:
            return 0

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"text\nnonce " + b"7" * 5000 + b"\n"

    assert await Asker(Said(), "nonce").ask("show") == (0, b"text")


def test_a_number_of_thousands_of_digits_in_the_operators_own_files(tmp_path: Path) -> None:
    """int refuses it, and so does the reader of TOML, with an error of its own."""
    file = tmp_path / "firstlight.toml"
    file.write_text(f"x = {'7' * 5000}\n")
    with pytest.raises(ConfigError, match="not TOML"):
        load_config(file)
    (tmp_path / "findings.toml").write_text(f"[[row]]\nid = {'7' * 5000}\n[[row]]\n")
    assert len(catalogue.load(tmp_path).problems) == 2
