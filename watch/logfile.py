"""Saved files to readings: what a file is, is found from its content, not from its name alone.

Large logs are streamed: blocks of 1 MiB are searched as bytes, and only lines that mean something become readings.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import itertools
import json
import lzma
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from msgspec.structs import replace

from probes.export import ExportDecoder
from probes.readings import AnyReading, CommandReading, JournalLine, Reading
from watch.formats import captured, smi
from watch.formats.landmarks import Landmark, last_loads
from watch.formats.recorded import Recorded
from watch.formats.records import JsonRecords, pretty
from watch.formats.textlog import FOLLOW, Blocks, TextLog, follows, is_bench
from watch.regular import opened
from watch.sieve import Sieve

HEAD = 64 << 10
"""Bytes from which it is told what a file is."""
SMALL = 16 << 20
"""What is read whole is not longer."""
CHUNK = 1 << 20

Kind = Literal[
    "text", "journal-json", "journal-pretty", "journal-export", "recorded", "session", "meta", "ssh", "probes", "bench",
    "bench-result", "metrics", "unit", "show", "meminfo", "smi-csv", "smi-table", "smi-text", "output", "events",
]  # fmt: skip


class NotReadable(Exception):
    """One clear sentence: the file is empty, cannot be opened, or is nothing that we know. ``remedy``: what to do."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class _Reader(Protocol):
    def block(self, block: bytes) -> list[Reading]: ...


def read_file(path: Path, *, name: str = "", sieve: Sieve | None = None) -> Iterator[list[Reading]]:
    """Batches of readings of one saved file, in its order. ``name``: how ``ref`` calls it (default: its file name).
    ``sieve``: only lines in which it finds something become readings, and their neighbours where they matter; None:
    every line does. Raises NotReadable."""
    yield from Saved(path, name).batches(sieve)


def read_chunks(
    chunks: Iterable[bytes], *, name: str, sieve: Sieve | None = None, written: float = 0.0
) -> Iterator[list[Reading]]:
    """The same for bytes from anywhere; however they are cut, the readings are the same. ``written``: UTC seconds by
    which they were written, for dates without a year."""
    source = _Chunks(_utf8(iter(chunks)))
    head = source.peek(HEAD)
    if not head:
        raise NotReadable(f"{name} is empty")
    yield from _batches(_kind(head, name), head, source.rest(), name, sieve, written or 4e9, 0.0)


class Saved:
    """One saved file, looked at: ``kind`` says what it is. Raises NotReadable where it is nothing that can be used.

    ``size``: bytes on disk; ``packed``: compressed. ``lines``: how many it has, once it was read.
    """

    def __init__(self, path: Path, name: str = "") -> None:
        self.path = path
        self.name = name or path.name
        try:
            with opened(path) as file:
                stat = os.fstat(file.fileno())
                magic = file.read(8)
                tail = file.read(264)
        except IsADirectoryError:
            raise NotReadable(f"{self.name} is a folder") from None
        except OSError as error:
            raise NotReadable(f"{path} cannot be read: {error.strerror or error}") from None
        self.size = stat.st_size
        self.written = stat.st_mtime
        self.packed = magic.startswith((b"\x1f\x8b", b"\xfd7zXZ", b"BZh"))
        self._refuse(magic, magic + tail)
        if not stat.st_size:
            raise NotReadable(f"{self.name} is empty", "Save the log again: journalctl -u UNIT -o export > FILE.")
        self.head = self._head()
        if not self.head:
            raise NotReadable(f"{self.name} is empty once unpacked")
        self.kind: Kind = _kind(self.head, self.name)
        self.skipped = Landmark()
        """what of a log with very many loads is not read"""

    def _refuse(self, magic: bytes, start: bytes) -> None:
        """Formats that are known and not read here."""
        wrong = {
            b"LPKSHHRH": (
                "is one of journald's own files",
                f"journalctl --file {self.path} -o export > FILE reads it.",
            ),
            b"\x28\xb5\x2f\xfd": ("is compressed with zstd", f"zstd -d {self.path} first."),
            b"\x04\x22\x4d\x18": ("is compressed with lz4", f"lz4 -d {self.path} first."),
            b"PK\x03\x04": ("is a zip archive", "Unpack it first and give the folder."),
            b"\x7fELF": ("is a program", ""),
        }
        for mark, (what, remedy) in wrong.items():
            if magic.startswith(mark):
                raise NotReadable(f"{self.name} {what}", remedy)
        if start[257:262] == b"ustar":
            raise NotReadable(f"{self.name} is a tar archive", "Unpack it first and give the folder.")

    def _head(self) -> bytes:
        chunks = self._chunks(HEAD)
        parts, have = [], 0
        for chunk in chunks:
            parts.append(chunk)
            have += len(chunk)
            if have >= HEAD:
                break
        chunks.close()
        return b"".join(parts)[:HEAD]

    def _chunks(self, size: int = CHUNK) -> Any:
        with opened(self.path) as file:
            yield from _utf8(_unpacked(file, size, self.name))

    def whole(self) -> bytes:
        """All bytes of a small file. Raises NotReadable above 16 MiB."""
        parts, have = [], 0
        for chunk in self._chunks():
            parts.append(chunk)
            have += len(chunk)
            if have > SMALL:
                raise NotReadable(f"{self.name} is too large for what it seems to be ({self.kind})")
        return b"".join(parts)

    def batches(self, sieve: Sieve | None = None, *, at: float = 0.0, zero: float = 0.0) -> Iterator[list[Reading]]:
        """Its readings, in its order. ``at``: the time given to files that have none; ``zero``: see ``Recorded``."""
        if self.kind == "session":
            yield from _session(self.path)
            return
        chunks = self._chunks()
        if sieve is not None and self.kind in ("text", "journal-json", "journal-export"):
            self.skipped = last_loads(self._chunks())
            chunks = _from(chunks, self.skipped.offset)
        yield from _batches(self.kind, self.head, chunks, self.name, sieve, self.written, at, zero, self.skipped.lines)


def _batches(
    kind: Kind,
    head: bytes,
    chunks: Iterator[bytes],
    name: str,
    sieve: Sieve | None,
    written: float,
    at: float,
    zero: float = 0.0,
    before: int = 0,
) -> Iterator[list[Reading]]:
    if kind == "journal-export":
        yield from _export(chunks, name, sieve)
        return
    reader: _Reader
    if kind == "journal-json":
        reader = JsonRecords(name, sieve=sieve, before=before)
    elif kind in ("recorded", "events"):
        reader = Recorded(name, zero=zero, bench=_bench_name(name))
    elif kind in ("text", "bench"):
        reader = TextLog(name, year_before=written, sieve=sieve, bench=kind == "bench", before=before)
    else:
        data = b""
        for chunk in chunks:
            data += chunk
            if len(data) > SMALL:
                raise NotReadable(f"{name} is too large for what it seems to be ({kind})")
        yield small(kind, data, name, at)
        return
    blocks = Blocks()
    for chunk in chunks:
        for block in blocks.feed(chunk):
            out = reader.block(block)
            if out:
                yield out
    out = reader.block(blocks.close())
    close = getattr(reader, "close", None)
    if close is not None:
        out = [*out, *close()]
    if out:
        yield out


def small(kind: Kind, data: bytes, name: str, at: float) -> list[Reading]:
    """The readings of a file that is read whole. JSON of probes, connections and moments is read by ``explain``."""
    text = data.decode("utf-8", "backslashreplace")
    match kind:
        case "unit":
            return captured.unit_file(data, name, at)
        case "show":
            return captured.shown(data, name, at)
        case "meminfo":
            return captured.meminfo(data, name, at)
        case "metrics":
            return captured.metrics(data, name, at)
        case "smi-csv":
            return smi.from_csv(text, name, at)
        case "smi-table":
            return smi.from_table(text, name, at)
        case "smi-text":
            return [CommandReading(at=at, command="nvidia-smi", stdout=text, ref=name)]
        case "output":
            return [CommandReading(at=at, stderr=text, ref=name)]
        case "journal-pretty":
            return pretty(data, name) or []
        case "ssh" | "meta" | "probes" | "bench-result":
            loaded = captured.loads(data)
            if loaded is None:
                return []
            values, words = loaded
            if kind == "ssh":
                return captured.ssh(values, words, name, at)
            if kind == "meta":
                return captured.Meta(values, words, name).readings(at)
            if kind == "bench-result":
                return captured.bench_result(values, name, at)
            return [reading for _, reading in captured.probes(values, words, name, at)]
    return []


def _export(chunks: Iterator[bytes], name: str, sieve: Sieve | None) -> Iterator[list[Reading]]:
    """``ref`` counts records: ``file:record``. Lines of other services are left out."""
    decoder = ExportDecoder(kernel=True)
    number = follow = 0
    for chunk in _ends(chunks, decoder):
        wanted = sieve.pick([line.text for line in chunk]) if sieve is not None else None
        out: list[Reading] = []
        for index, line in enumerate(chunk):
            number += 1
            telling = wanted is None or index in wanted or line.source != "unit" or line.line_break == "line-max"
            if telling or follow or index == len(chunk) - 1:
                text = line.text[:400].encode("utf-8", "replace")
                begins = telling and b"raceback (most recent" in text
                follow = FOLLOW if begins or (follow and follows(text)) else max(0, follow - 1)
                out.append(replace(line, ref=f"{name}:{number}"))
        if out:
            yield out


def _ends(chunks: Iterator[bytes], decoder: ExportDecoder, size: int = 4096) -> Iterator[list[JournalLine]]:
    """Lines in groups that do not depend on how the bytes came."""
    held: list[JournalLine] = []
    for chunk in chunks:
        held += decoder.feed(chunk)
        while len(held) >= size:
            yield held[:size]
            del held[:size]
    held += decoder.close()
    if held:
        yield held


def _from(chunks: Iterator[bytes], offset: int) -> Iterator[bytes]:
    """Chunks from a place on."""
    for chunk in chunks:
        if offset >= len(chunk):
            offset -= len(chunk)
            continue
        yield chunk[offset:] if offset else chunk
        offset = 0


def _session(path: Path) -> Iterator[list[Reading]]:
    """Our own session files; ``ref`` is left to the recording."""
    from watch.session import SessionError, SessionReader

    try:
        reader = SessionReader(path)
    except SessionError as error:
        raise NotReadable(error.reason, error.remedy) from None
    batch: list[Reading] = []
    try:
        for number, (_, reading) in enumerate(reader, 2):
            batch.append(_referred(reading, f"{path.name}:{number}"))
            if len(batch) >= 4096:
                yield batch
                batch = []
    finally:
        reader.close()
    if batch:
        yield batch


def _referred(reading: AnyReading, ref: str) -> Reading:
    return reading if reading.ref else replace(reading, ref=ref)


def _bench_name(name: str) -> bool:
    return re.search(r"(?:^|/)bench[.-]", name) is not None


# ------------------------------------------------------------------------------------------------- what a file is


def _kind(head: bytes, name: str) -> Kind:
    """Raises NotReadable for what is no log."""
    first = head.lstrip()[:1]
    line = head.split(b"\n", 1)[0].strip()
    if re.match(rb"(?:__CURSOR=|__REALTIME_TIMESTAMP=|[A-Z_]{2,40}=[^\n]*\n__)", head):
        return "journal-export"
    if first in (b"{", b"[", b"\x1e"):
        found = _json_kind(head, line.strip(b"\x1e"), name)
        if found is not None:
            return found
    odd = head.count(b"\xef\xbf\xbd") + sum(head.count(bytes((code,))) for code in (*range(7), *range(14, 27)))
    undecoded = head.decode("utf-8", "ignore").encode()
    if odd + len(head) - len(undecoded) > len(head) // 10 + 8:
        raise NotReadable(
            f"{name} is not a log: it holds binary data",
            "Give what the service printed (journalctl -u UNIT -o export > FILE), a unit file or a command's output.",
        )
    if captured.SECTION.search(head) and b"=" in head and not re.search(rb"pid=\d+\) (?:INFO|WARNING|ERROR)", head):
        return "unit"
    if captured.MEMINFO.search(head):
        return "meminfo"
    if len(captured.METRIC.findall(head[:8192])) >= max(2, head[:8192].count(b"\n") * 2 // 3):
        return "metrics"
    if captured.SHOW.search(head) and len(re.findall(rb"^\w+=", head, re.MULTILINE)) > head.count(b"\n") // 2:
        return "show"
    text = head.decode("utf-8", "replace")
    if any(smi.header_of(words.strip("\r ")) for words in text.split("\n")[:40]):
        return "smi-csv"
    if "NVIDIA-SMI" in text and "+----" in text:
        return "smi-table"
    if smi.SENTENCES.search(text) and len(head) < 4096:
        return "smi-text"
    if re.search(r"\.(?:stderr|stdout)(?:\.txt)?$", name) and len(head) < HEAD and not _logged(text):
        return "output"
    return "bench" if is_bench(head) else "text"


def _logged(text: str) -> bool:
    return re.search(r"(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[", text) is not None


def _json_kind(head: bytes, line: bytes, name: str) -> Kind | None:
    values: Any = None
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        if len(line) >= HEAD - 64 and (b'"MESSAGE"' in line or b'"__CURSOR"' in line):
            return "journal-json"
    if isinstance(values, dict):
        if "firstlight" in values or "kind" in values:
            return "session"
        if "MESSAGE" in values or "__REALTIME_TIMESTAMP" in values or "__CURSOR" in values:
            return "journal-json"
        if "log" in values or ("message" in values and "levelname" in values):
            return "journal-json"
        if "meta" in values or ("t" in values and ("b" in values or "data" in values or "path" in values)):
            return "recorded"
        if "t" in values and ("code" in values or "status" in values):
            return "recorded"
        if "ev" in values:
            return "events"
        if "t" in values:
            return "recorded" if b'{"meta":' in head or b'"b":' in head or b'"data":' in head else "events"
    if b'"__CURSOR" :' in head or b'"MESSAGE" :' in head or b'"__REALTIME_TIMESTAMP" :' in head:
        return "journal-pretty"
    try:
        values = json.loads(head) if len(head) < HEAD else None
    except (ValueError, RecursionError):
        values = None
    if isinstance(values, list):
        return "probes" if any(isinstance(item, dict) and "path" in item for item in values) else None
    if not isinstance(values, dict):
        if b'"completed"' in head and b'"request_throughput"' in head:
            return "bench-result"
        return "journal-json" if line.startswith(b"{") and b'"MESSAGE"' in head else None
    if "exception" in values:
        return "ssh"
    if "completed" in values and "duration" in values:
        return "bench-result"
    if name.endswith("meta.json") or "command" in values or "exit_code" in values or "unit_active_state" in values:
        return "meta"
    return "meta" if "seconds_since_last_record" in values else None


# ---------------------------------------------------------------------------------------------------- bytes, unpacked


class _Chunks:
    """Chunks that can be looked at before they are read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held: list[bytes] = []

    def peek(self, size: int) -> bytes:
        have = 0
        while have < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._held.append(chunk)
            have += len(chunk)
        return b"".join(self._held)[:size]

    def rest(self) -> Iterator[bytes]:
        yield from self._held
        self._held = []
        yield from self._chunks


_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
"""Byte order marks: what Windows' shells put in front of what they redirect to a file."""


def _utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The chunks as UTF-8 where a byte order mark says that they are UTF-16, and without the mark."""
    first = b""
    while len(first) < 3 and (chunk := next(chunks, None)) is not None:
        first += chunk
    mark, encoding = next(((m, e) for m, e in _MARKS if first.startswith(m)), (b"", "utf-8"))
    if encoding == "utf-8":
        if first := first[len(mark) :]:
            yield first
        yield from chunks
        return
    decode = codecs.getincrementaldecoder(encoding)("replace").decode
    for chunk in itertools.chain([first[len(mark) :]], chunks):
        if text := decode(chunk):
            yield text.encode("utf-8", "replace")
    if text := decode(b"", True):
        yield text.encode("utf-8", "replace")


def _unpacked(file: BinaryIO, size: int, name: str) -> Iterator[bytes]:
    """A file's bytes; gzip, xz and bzip2 are unpacked. A file that breaks off gives what there is."""
    magic = file.read(6)
    file.seek(0)
    source: Any = file
    if magic.startswith(b"\x1f\x8b"):
        source = gzip.GzipFile(fileobj=file)
    elif magic.startswith(b"\xfd7zXZ"):
        source = lzma.LZMAFile(file)  # noqa: SIM115
    elif magic.startswith(b"BZh"):
        source = bz2.BZ2File(file)
    any_yet = False
    while True:
        try:
            # read1: what was unpacked before the damage is not lost
            chunk = source.read(size) if source is file else source.read1(size)
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            if any_yet:
                return  # cut short: what there was has been given
            raise NotReadable(f"{name} is damaged: {error}") from None
        if not chunk:
            return
        any_yet = True
        yield chunk
