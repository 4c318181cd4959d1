"""Everything that takes what a server, a file or another program decides, as one table.

Each takes bytes, however they are cut, and may raise what it says it raises and nothing else; what comes out must be
writable into a recording and readable from it.
"""

from __future__ import annotations

import gzip
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from unicodedata import category

from msgspec import Struct

from probes import iofiles, systemd, unitfile
from probes.command import plain
from probes.export import ExportDecoder
from probes.gpu_agent import AgentDecoder, NoAgent
from probes.metrics import PageParser, nothing_in
from probes.nvidia_smi import SmiDecoder, compute_apps
from probes.operate.follow import Trail
from probes.operate.orders import Order
from probes.operate.rights import rights_of
from probes.readings import JournalLine, Reading, UnitFile, decode, encode
from tui.text import safe
from watch.bars import parse_bar
from watch.benchmarks.result import BadResult, read_result
from watch.config import ConfigError, load_config
from watch.explain import CannotExplain, explain
from watch.heads import parse_head
from watch.redact import Redactor
from watch.session import SessionReader
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


def _rights(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    yield rights_of(_text(data))


def _bench(data: bytes, cuts: Sequence[int]) -> Iterator[object]:
    yield read_result(data)


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
