"""Everything that takes what a server, a file or another program decides, as one table.

Each takes bytes, however they are cut, and may raise what it says it raises and nothing else; what comes out must be
writable into a recording and readable from it.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import sqlite3
import tempfile
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, redirect_stdout
from pathlib import Path
from unicodedata import category

import msgspec
from msgspec import Struct

from probes import diagnose, doctor, gpu, iofiles, model, servers, ssh_known_hosts, systemd, unit, unitfile
from probes.asking import Asker
from probes.bench import results
from probes.bench.orders import BenchOrder
from probes.bench.output import Told
from probes.command import plain
from probes.endpoint import BadEndpoint, endpoint_from
from probes.export import ExportDecoder
from probes.gpu_agent import AgentDecoder, NoAgent
from probes.host import LinkRefused
from probes.metrics import PageParser, nothing_in
from probes.nvidia_smi import SmiDecoder, compute_apps
from probes.operate.files import frames
from probes.operate.follow import Trail
from probes.operate.orders import Order
from probes.operate.rights import rights_of
from probes.probe import ProbeFailed
from probes.readings import UNDECODABLE, BacklogReading, EarlierReading, JournalLine, Reading, UnitFile, decode, encode
from probes.ssh_aliases import aliases
from probes.ssh_config import Access, parse_target, route
from tests.fuzz.wild import readings
from tui.commands import export
from tui.exits import Ending
from tui.handover.feed import Attached, CannotAttach
from tui.handover.hub import Thinner
from tui.handover.words import Asked, Said
from tui.keys import BadKey, keymap
from tui.text import safe
from watch import catalogue, hooks, revisions, series
from watch.audit import actions, read_audit
from watch.bars import parse_bar
from watch.benchmarks.result import BadResult, read_result
from watch.config import ConfigError, load_config
from watch.database import HistoryError
from watch.explain import CannotExplain, explain
from watch.heads import parse_head
from watch.history import Benchmark, History, LoadRecord
from watch.load_key import Key
from watch.redact import Redactor
from watch.session import SessionReader, SessionWriter, new_header
from watch.session.header import SessionError
from watch.state import WatchState

TESTS = Path(__file__).parents[1]


class Decoder(Struct, frozen=True):
    """``seeds``: files whose pieces random inputs are mixed from."""

    run: Callable[[bytes, Sequence[int]], Iterable[object]]
    """the input, and where it is cut"""
    raises: tuple[type[Exception], ...] = ()
    seeds: tuple[str, ...] = ()


def _pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    last = 0
    for cut in sorted({cut % (len(data) + 1) for cut in cuts}):
        yield data[last:cut]
        last = cut
    yield data[last:]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _export(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    decoder = ExportDecoder("vllm.service")
    for piece in _pieces(data, cuts):
        yield from decoder.feed(piece)
    yield from decoder.close()


def _smi(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    decoder = SmiDecoder()
    for piece in _pieces(data, cuts):
        yield from decoder.feed(piece, 1.0)
    yield from decoder.close()
    yield from compute_apps(_text(data), {"GPU-1": 0})


def _agent(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    decoder = AgentDecoder()
    for piece in _pieces(data, cuts):
        yield from decoder.feed(piece)


def _metrics(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    parser = PageParser()
    for piece in _pieces(data, cuts):
        yield from parser.parse(piece)
        nothing_in(piece)


def _unitfile(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    text = _text(data)
    found = unitfile.settings(text)
    yield unitfile.stray(text)
    yield unitfile.environment(found)
    yield unitfile.commands(found)
    state = WatchState("host", "vllm.service")
    state.apply(UnitFile(at=1.0, unit="vllm.service", text=text))
    yield state.view(2.0)


def _shown(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    yield systemd.unit_reading(data, at=1.0, unit="vllm.service")


def _proc(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    text = _text(data)
    found = iofiles.sections(data)
    yield iofiles.io_stat(text)
    yield from iofiles.disks(text)
    yield iofiles.meminfo(text)
    yield iofiles.shm_use(text)
    yield iofiles.process(1, text, text)
    yield iofiles.Tally().reading(found, group="/x", names=iofiles.device_names(text), at=1.0)


def _trail(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    trail = Trail(Order(id="0123456789ab", action="restart", unit="vllm.service", who="ann@laptop"))
    for piece in _pieces(data, cuts):
        yield from trail.feed(piece)


def _bench_output(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    told = Told(BenchOrder(id="0123456789ab", unit="vllm.service", preset="p", levels=()))
    for piece in _pieces(data, cuts):
        yield from told.feed(piece)


def _rights(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    yield rights_of(_text(data))


def _bench(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    yield read_result(data)


def _known_hosts(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    known = ssh_known_hosts.given(data)
    yield known.lookup("llm-two", "", 22)
    yield known.holding("llm-two", 2222)


def _ssh_config(path: Path) -> Iterator[object]:
    yield aliases(path)
    yield route(parse_target("llm-two"), Access(config=(path,), known_hosts=b""))


def _target(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    yield parse_target(_text(data))


def _answers(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    """What the scripts on the host print."""
    text = _text(data)
    yield model.read_model(text)
    yield diagnose.members_of(text)
    yield doctor._facts(text, 1.0)
    yield servers.servers(data)
    yield unit.near_names("vllm.service", data)
    yield unit.server_among(data)
    yield unit.packages(data)
    table, *records = text.split("\x1e")
    yield gpu.named(compute_apps(table, {"GPU-1": 0}), records)


def _frames(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    yield list(frames(data))
    yield results.measured(data, "part-1")
    files = revisions.split_files(_text(data), ["/etc/systemd/system/vllm.service"])
    joined = revisions.joined(files)
    yield revisions.setting_changes("", joined)
    yield revisions.argument_changes(joined, "")


class _Said:
    """A stream that says these pieces and ends."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter([one for one in pieces if one])
        self.stderr = b""

    def __aiter__(self) -> _Said:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration

    async def write(self, data: bytes) -> None:
        pass

    async def wait(self) -> int:
        return 0


def _asked(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    async def ask() -> object:
        return await Asker(_Said(_pieces(data, cuts)), "nonce").ask("show")

    yield asyncio.run(ask())


def _attach(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    """What a daemon says to a screen, and a screen to a daemon."""

    async def hear() -> list[Reading]:
        found: list[Reading] = []
        with tempfile.TemporaryDirectory(prefix="firstlight-fuzz-") as folder:
            path = Path(folder, "socket")

            async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                if not cuts or cuts[0] % 4:
                    writer.write(msgspec.json.encode(Said(now=1.0)) + b"\n")
                for piece in _pieces(data, cuts):
                    writer.write(piece)
                writer.close()

            server = await asyncio.start_unix_server(serve, path)
            async with server, await Attached.to(path, "ann") as feed:
                try:
                    async for batch in feed.batches():
                        found += batch
                except ConnectionError:
                    pass
        return found

    yield from asyncio.run(hear())
    Thinner().thin(data, 1.0)
    for line in data.split(b"\n"):
        try:
            yield msgspec.json.decode(line, type=Asked)
        except UNDECODABLE:
            continue


def _toml(path: Path) -> Iterator[object]:
    """Rows of findings, keys and hooks, as an operator may write them."""
    yield catalogue.load(path.parent)
    try:
        values = tomllib.loads(path.read_bytes().decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return
    yield keymap({str(name): value for name, value in values.items() if isinstance(value, str)})
    for value in values.values():
        if isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            yield hooks.parse(value)


KEY = Key(target="h", unit="vllm.service", model="m", arguments="a")


def _history(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    """Rows that somebody edited: JSON that is none, texts where numbers stood."""
    with tempfile.TemporaryDirectory(prefix="firstlight-fuzz-") as folder:
        path = Path(folder, "history.db")
        with closing(History.open(path)) as history:
            history.record_load(LoadRecord(key=KEY, invocation="a" * 32, started=1.0))
            history.record_benchmark(Benchmark(target="h", unit="vllm.service", at=1.0, run="r", preset="p", result={}))
        with closing(sqlite3.connect(path)) as file:
            for table in ("loads", "benchmarks"):
                names = [row[1] for row in file.execute(f"pragma table_info({table})") if row[1] not in ("id",)]
                name = names[(cuts or [0])[0] % len(names)]
                try:
                    file.execute(f"update {table} set {name} = ?", (_text(data),))
                except sqlite3.Error:
                    continue
            file.commit()
        with closing(History.open(path)) as history:
            yield history.latest()
            yield history.loads("h", "vllm.service")
            yield history.earlier(KEY)
            yield history.benchmarks()


def _database(path: Path) -> Iterator[object]:
    with closing(History.open(path)) as history:
        yield history.latest()


def _wild(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    """Readings of every kind with any values in them: the fold, what is shown of it, and what is recorded."""
    state, redactor = WatchState("host", "vllm.service"), Redactor()
    for reading in readings(data, cuts):
        state.apply(reading)
        redactor.encode(reading)
        if not isinstance(reading, BacklogReading | EarlierReading):  # these are for the screen alone
            yield reading
    yield state.view(1.79e9)


def _exported(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    """A recording of such readings, told: no control character stands in what is written."""
    with tempfile.TemporaryDirectory(prefix="firstlight-fuzz-") as folder:
        writer = SessionWriter(new_header("host", "vllm.service", 1.79e9), where=Path(folder))
        for reading in readings(data, cuts):
            writer.write(reading)
        path = writer.close()
        if path is None:
            return
        said = io.StringIO()
        with SessionReader(path) as reader, redirect_stdout(said):
            export._list(reader)
            known = series.names()
            collector = series.Collector(list(known))
            for _, reading in reader:
                collector.take(reading)
            print(export._csv(collector.series()))
        assert not {category(char) for char in said.getvalue() if char != "\n"} & {"Cc", "Cf"}, said.getvalue()
        yield explain([path])


def _fold(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    """Lines as the fold, the redactor and the screen see them."""
    state, redactor = WatchState("host", "vllm.service"), Redactor()
    lines = [JournalLine(at=1.0 + n, text=text, pid=n % 5, invocation="a" * 32, unit="vllm.service")
             for n, text in enumerate(_text(data).split("\n"))]  # fmt: skip
    state.apply_lines(lines)
    yield state.view(lines[-1].at + 1)
    for line in lines:
        yield redactor.encode(line)[1]
        head = parse_head(line.text)
        parse_bar(head.message)
        shown = safe(line.text)
        assert not {category(char) for char in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}, shown
        assert plain(line.text).isprintable()


def _file(name: str, use: Callable[[Path], Iterable[object]]) -> Callable[[bytes, Sequence[int]], Iterator[object]]:
    def run(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
        with tempfile.TemporaryDirectory(prefix="firstlight-fuzz-") as folder:
            path = Path(folder, name)
            path.write_bytes(data)
            yield from use(path)

    return run


def _session(path: Path) -> Iterator[object]:
    with SessionReader(path) as reader:
        for place, reading in reader:
            assert reader.read(place) == reading
            yield reading
        reader.notes()


def _packed(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    """A gzip file, cut or broken at some place."""
    packed = bytearray(gzip.compress(data))
    for cut in cuts[:3]:
        packed[cut % len(packed)] ^= cut & 0xFF
    yield from _file("x.jsonl.gz", _session)(bytes(packed), cuts)


_EXPORTS = ("recordings/*/*.export*", "samples/*.export*", "recordings/**/journal*.export*")
_LOGS = ("recordings/*/*.log*", "cases/*/*.log*", "cases/*/journal*")

DECODERS: dict[str, Decoder] = {
    "export": Decoder(_export, seeds=_EXPORTS),
    "nvidia-smi": Decoder(_smi, seeds=("recordings/**/*smi*", "cases/*/nvidia-smi*")),
    "agent": Decoder(_agent, (NoAgent,), ("recordings/**/*.jsonl*",)),
    "metrics": Decoder(_metrics, seeds=("recordings/*/metrics*.txt", "cases/*/metrics*")),
    "unitfile": Decoder(_unitfile, seeds=("cases/*/*.service", "recordings/**/*.service")),
    "systemctl-show": Decoder(_shown, seeds=("cases/*/*show*", "recordings/**/*show*")),
    "proc": Decoder(_proc, seeds=("cases/*/*meminfo*", "recordings/**/*diskstats*")),
    "known-hosts": Decoder(_known_hosts),
    "ssh-config": Decoder(_file("config", _ssh_config), (LinkRefused,)),
    "target": Decoder(_target, (LinkRefused,)),
    "host-scripts": Decoder(_answers, seeds=("cases/*/*show*", "cases/*/nvidia-smi*")),
    "unit-files": Decoder(_frames, seeds=("cases/*/*.service",)),
    "asked": Decoder(_asked, (ProbeFailed,)),
    "endpoint": Decoder(lambda data, _: [endpoint_from(_text(data))], (BadEndpoint,)),
    "attach": Decoder(_attach, (CannotAttach,), ("recordings/**/*.jsonl",)),
    "toml": Decoder(_file("findings.toml", _toml), (BadKey, ValueError)),
    "audit": Decoder(_file("audit.jsonl", lambda path: actions(read_audit(path)))),
    "history": Decoder(_history, (HistoryError,)),
    "database": Decoder(_file("history.db", _database), (HistoryError,)),
    "bench-output": Decoder(_bench_output),
    "readings": Decoder(_wild),
    "exported": Decoder(_exported, (CannotExplain, Ending)),
    "operate": Decoder(_trail),
    "rights": Decoder(_rights),
    "bench-result": Decoder(_bench, (BadResult,), ("recordings/**/*bench*.json", "samples/*bench*.json")),
    "fold": Decoder(_fold, seeds=_LOGS),
    "config": Decoder(_file("firstlight.toml", lambda path: [load_config(path)]), (ConfigError,)),
    "session": Decoder(_file("x.jsonl", _session), (SessionError,), ("recordings/**/*.jsonl",)),
    "session-gzip": Decoder(_packed, (SessionError,), ("recordings/**/*.jsonl",)),
    "explain": Decoder(_file("saved", lambda path: [explain([path])]), (CannotExplain,), (*_EXPORTS, *_LOGS)),
}

WORDS = (
    *(b"__CURSOR=", b"MESSAGE=", b"MESSAGE\n\x05\0\0\0\0\0\0\0hello\n", b"_PID=", b"\n\n", b"\n", b"\0"),
    *(b"\xff\xfe", b"\x1b[2J", b"\r", b"=", b"#", b"\\", b"\\\n", b'"', b"'", b"[Service]\n", b"ExecStart="),
    *(b"{", b"}", b"[", b"]", b":", b",", b"null", b"NaN", b"Infinity", b"-1", b"1e999", b"9" * 40, b"[N/A]"),
    *(b"\xe2\x80\xae", b"\xed\xa0\x80", b"begin", b"end", b"done", b"kind", b"journal"),
    *("²".encode(), "٣".encode(), b"7" * 5000, b"\t", b" ", b"\x1epid 1\n", b"\nnonce 0\n", b"Host *\n", b"[[row]]\n"),
    *(b"file\t3\tx\ty\n", b"llm-two ", b"@revoked ", b"|1|", b"ProxyJump ", b"[", b"x = ", b"-rw- 1 0 0 ", b"gpu "),
)


def seeds(decoder: Decoder, most: int = 1 << 14) -> list[bytes]:
    """Pieces of real files: lines, and runs of lines."""
    out: list[bytes] = list(WORDS)
    for pattern in decoder.seeds:
        for path in sorted(TESTS.glob(pattern))[:6]:
            if not path.is_file():
                continue
            data = path.read_bytes()[: 1 << 20]
            if data[:2] == b"\x1f\x8b":
                data = zlib.decompressobj(wbits=31).decompress(data, 1 << 18)
            data = data[:most]
            out += data.splitlines(keepends=True)[:200]
            out.append(data[:4096])
    return out


def check(decoder: Decoder, data: bytes, cuts: Sequence[int]) -> None:
    """Raises what should not be raised."""
    try:
        for one in decoder.run(data, cuts):
            if isinstance(one, Reading):
                assert decode(encode(one)) == one or "NaN" in repr(one) or "nan" in repr(one)
    except decoder.raises as error:
        assert str(error) or error.args
