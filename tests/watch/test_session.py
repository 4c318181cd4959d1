"""Session files: written so that little can be lost, read whatever has become of them."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.readings import GpuDevice, GpuReading, JournalLine, Note, Reading
from watch.session import FORMAT, SessionError, SessionReader, SessionWriter, new_header, tidy
from watch.session.tape import MEMORY, Tape, lines_of

HEADER = new_header("ops@llm-two", "vllm-kimi.service", 1796002769.0, endpoint="http://127.0.0.1:8000")


def line(number: int, text: str = "") -> JournalLine:
    return JournalLine(at=1796002769.0 + number, text=text or f"line {number} ✔ \r\x1b[0m", cursor=f"c{number}")


def readings(count: int) -> list[Reading]:
    gpu = GpuReading(at=1796002770.0, devices=(GpuDevice(index=0, used_mib=1.5),))
    return [gpu if number % 5 == 4 else line(number) for number in range(count)]


def record(where: Path, what: list[Reading], *, close: bool = True) -> Path:
    writer = SessionWriter(HEADER, where=where)
    for reading in what:
        writer.write(reading)
    writer.flush()
    path = writer.close() if close else writer.path
    assert path is not None
    return path


def read(path: Path) -> tuple[list[Reading], list[str]]:
    reader = SessionReader(path)
    try:
        return [reading for _, reading in reader], reader.notes()
    finally:
        reader.close()


def test_what_is_written_is_read_back_once_each_and_in_order(tmp_path: Path) -> None:
    path = record(tmp_path, readings(50))
    assert path.name == "20261130T013929Z-ops@llm-two-vllm-kimi.jsonl.gz"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert read(path) == (readings(50), [])
    reader = SessionReader(path)
    assert reader.header == HEADER
    places = [(place, reading) for place, reading in reader]
    for place, reading in reversed(places):
        assert reader.read(place) == reading
    assert list(reader) == places
    reader.close()


def test_the_file_is_nobody_elses(tmp_path: Path) -> None:
    where = tmp_path / "state" / "sessions"
    writer = SessionWriter(HEADER, where=where)
    assert where.stat().st_mode & 0o777 == 0o700
    assert writer.path is not None
    assert writer.path.stat().st_mode & 0o777 == 0o600
    path = writer.close()
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600


def test_it_is_text_for_other_tools(tmp_path: Path) -> None:
    text = gzip.decompress(record(tmp_path, readings(3)).read_bytes()).decode()
    first, *rest = [json.loads(each) for each in text.splitlines()]
    assert (first["firstlight"], first["target"], first["unit"]) == (FORMAT, "ops@llm-two", "vllm-kimi.service")
    assert [each["kind"] for each in rest] == ["journal"] * 3


def test_a_line_is_read_back_while_it_is_written(tmp_path: Path) -> None:
    for where in (tmp_path, None):
        writer = SessionWriter(HEADER, where=where)
        places = []
        for number in range(2000):
            places.append(writer.write(line(number)))
            if number % 300 == 0:
                writer.flush()
        for number in (0, 1, 299, 300, 301, 1999):
            assert writer.read(places[number]) == line(number)
        with pytest.raises(ValueError, match="no line"):
            writer.read(places[-1] + 10_000)
        assert writer.recording == (where is not None)
        assert (writer.close() is None) == (where is None)


def test_a_line_of_a_megabyte_is_read_back(tmp_path: Path) -> None:
    writer = SessionWriter(HEADER, where=tmp_path)
    long = line(1, "é" * 600_000)
    place = writer.write(long)
    after = writer.write(line(2))
    writer.flush()
    assert writer.read(place) == long
    assert writer.read(after) == line(2)
    path = writer.close()
    assert path is not None
    assert read(path)[0] == [long, line(2)]


def test_two_watches_that_begin_in_one_second_have_a_file_each(tmp_path: Path) -> None:
    one, two = SessionWriter(HEADER, where=tmp_path), SessionWriter(HEADER, where=tmp_path)
    one.write(line(1))
    two.write(line(2))
    paths = [one.close(), two.close(), record(tmp_path, [line(3)])]
    assert [read(path)[0] for path in paths if path] == [[line(1)], [line(2)], [line(3)]]
    assert len(set(paths)) == 3


@pytest.mark.parametrize("name", ["../../etc/x", "a b\nc", "", "ünit@host:22", ".hidden", "x" * 300])
def test_any_name_makes_a_file_in_the_folder(tmp_path: Path, name: str) -> None:
    writer = SessionWriter(new_header(name, name, 0.0), where=tmp_path)
    assert writer.path is not None
    assert writer.path.parent == tmp_path
    assert list(tmp_path.iterdir()) == [writer.path]
    writer.close()


# ----- killed, cut, damaged

WRITE_FOR_EVER = """
import sys, time
from pathlib import Path
from probes.readings import JournalLine
from watch.session import SessionWriter, new_header
writer = SessionWriter(new_header("t", "u", 0.0), where=Path(sys.argv[1]))
number = 0
while True:
    writer.write(JournalLine(at=float(number), text=f"line {number}"))
    if number % 10 == 0:
        writer.flush()
        print(number, flush=True)
    number += 1
"""


def test_killed_at_any_moment_it_keeps_what_was_flushed(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    flushed = [int(child.stdout.readline()) for _ in range(20)][-1]
    (path,) = tmp_path.glob("*.jsonl")
    assert any("still being recorded" in note for note in read(path)[1])
    assert tidy(tmp_path) == []
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    kept, notes = read(path)
    assert [reading.at for reading in kept] == [float(number) for number in range(len(kept))]
    assert len(kept) > flushed
    assert all("middle of a line" in note for note in notes)
    (packed,) = tidy(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [packed.name]
    assert read(packed)[0] == kept
    assert tidy(tmp_path) == []


def test_compressed_when_complete_and_not_before(tmp_path: Path) -> None:
    path = record(tmp_path, readings(20), close=False)
    (tmp_path / (path.name + ".gz.part")).write_bytes(b"half of an earlier try")
    (tmp_path / ".other.jsonl.new").write_bytes(b"")
    holder = os.open(path, os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_UN)
    tidy(tmp_path)
    os.close(holder)
    # the writer above still holds its lock: only the litter is gone
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_file_cut_anywhere_is_read_to_the_cut(tmp_path: Path) -> None:
    path = record(tmp_path, readings(10))
    text = gzip.decompress(path.read_bytes())
    cut = tmp_path / "cut.jsonl"
    first = text.index(b"\n") + 1
    for size in range(first, len(text), 7):
        cut.write_bytes(text[:size])
        kept, notes = read(cut)
        assert kept == readings(10)[: len(kept)]
        whole = text[:size].endswith(b"\n") or len(kept) == text[:size].count(b"\n")
        assert len(kept) >= text[:size].count(b"\n") - 1
        assert notes == [] if whole else "middle of a line" in notes[0]


def test_a_gzip_cut_or_damaged_gives_what_can_be_had(tmp_path: Path) -> None:
    path = record(tmp_path, [line(n, os.urandom(200).hex()) for n in range(2000)])
    packed = path.read_bytes()
    whole = read(path)[0]
    path.write_bytes(packed[: len(packed) // 2])
    kept, notes = read(path)
    assert 100 < len(kept) < 2000
    assert kept == whole[: len(kept)]
    assert notes == ["it is cut: its end is missing"]
    path.write_bytes(packed[: len(packed) // 2] + b"\0" * 500 + packed[len(packed) // 2 + 500 :])
    kept, notes = read(path)
    assert kept[:100] == whole[:100]
    assert "its compressed text is damaged: what comes after is lost" in notes


def test_a_gzip_damaged_in_its_middle_is_read_around_the_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watch.session.writer.MEMBER", 10_000)
    writer = SessionWriter(HEADER, where=tmp_path)
    lines = [JournalLine(at=1000.0 + number, text=f"{number} {hash((number, 'x')):x}" * 4) for number in range(2000)]
    for one in lines:
        writer.write(one)
    path = writer.close()
    assert path is not None
    whole = path.read_bytes()
    text = gzip.decompress(whole)
    assert text.count(b"\n") == len(lines) + 1
    for places in ((0.5,), (0.3, 0.7), (0.9,)):
        damaged = bytearray(whole)
        for place in places:
            at = int(len(whole) * place)
            damaged[at : at + 40] = bytes(40)
        path.write_bytes(bytes(damaged))
        kept, notes = read(path)
        assert len(lines) * 0.8 < len(kept) < len(lines)
        assert [one for one in kept if one not in set(lines)] == []
        assert kept == sorted(kept, key=lambda one: one.at)
        assert kept[-1] == lines[-1]
        said = " ".join(notes)
        assert ("one place" if len(places) == 1 else "2 places") in said
        assert "KiB are lost" in said


def test_damaged_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    path = record(tmp_path, readings(10))
    lines = gzip.decompress(path.read_bytes()).split(b"\n")
    lines[3] = b"\xff\xfe nonsense"
    lines[5] = b'{"kind":"journal","at":"yesterday","text":"x"}'
    lines[6] = b'{"kind":"journal","at":1e300,"text":"x"}'
    lines.insert(8, b'{"kind":"weather","at":1.0,"sky":"blue"}')
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(b"\n".join(lines))
    kept, notes = read(damaged)
    assert len(kept) == 7
    assert notes == [
        "3 damaged lines are left out, the first is line 4",
        "1 reading of a kind not known here is left out",
    ]


def test_without_its_first_line_the_rest_is_read(tmp_path: Path) -> None:
    text = gzip.decompress(record(tmp_path, readings(3)).read_bytes())
    path = tmp_path / "x.jsonl"
    for broken in (text[text.index(b"\n") + 1 :], b"\0" + text[1:]):
        path.write_bytes(broken)
        kept, notes = read(path)
        assert kept == readings(3)
        assert "which host and unit it was is not known" in notes[0]


def test_a_later_format_is_read_and_said(tmp_path: Path) -> None:
    path = tmp_path / "later.jsonl"
    path.write_bytes(
        b'{"firstlight":9,"version":"7.0","target":"t","colour":"new"}\n{"kind":"note","at":1.0,"text":"a","mood":"new"}\n'
    )
    kept, notes = read(path)
    assert kept == [Note(at=1.0, text="a")]
    assert notes == [
        "recorded by firstlight 7.0 in format 9, newer than the 1 known here: what it knows more is left out"
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"INFO 11-30 vLLM API server version 0.25.1\n" * 20, "is no recording of firstlight"),
        (b'{"MESSAGE":"x","__CURSOR":"y"}\n' * 20, "is no recording of firstlight"),
        (b'{"firstlight":0}\n', "is no recording of firstlight"),
        (b"[" * 100_000, "is no recording of firstlight"),
        (gzip.compress(b""), "is empty"),
        (gzip.compress(b"some log\n"), "is no recording of firstlight"),
        (b"\x1f\x8b\x08\x00nonsense", "is no recording of firstlight"),
        (b"\x7fELF" + bytes(5000), "is no recording of firstlight"),
    ],
)
def test_what_is_no_recording_is_said_in_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(SessionError) as error:
        SessionReader(path)
    assert says in error.value.reason
    assert error.value.reason.startswith(str(path))
    assert error.value.remedy
    assert "\n" not in error.value.reason


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(SessionError):
            SessionReader(path)


@given(st.data())
@settings(max_examples=200)
def test_no_damage_whatever_stops_the_reader(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = bytearray(_WHOLE_GZ if data.draw(st.booleans()) else _WHOLE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole)))
        match data.draw(st.sampled_from(["put", "cut", "drop"])):
            case "put":
                new = data.draw(st.binary(min_size=1, max_size=8))
                whole[at : at + len(new)] = new
            case "cut":
                del whole[at:]
            case _:
                del whole[at : at + data.draw(st.integers(1, 60))]
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(whole)
    try:
        reader = SessionReader(path)
    except SessionError:
        return
    for place, reading in reader:
        assert reader.read(place) == reading
    reader.notes()
    reader.close()


def _text() -> bytes:
    writer = SessionWriter(HEADER, where=None)
    for reading in readings(12):
        writer.write(reading)
    writer.flush()
    file = writer._tape.file
    assert file is not None
    text = os.pread(file, 1 << 20, 0)
    writer.close()
    return text


_WHOLE = _text()
_WHOLE_GZ = gzip.compress(_WHOLE)


@given(st.binary(max_size=400))
def test_lines_of_any_file(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(data)
    file = os.open(path, os.O_RDONLY)
    parts = list(lines_of(file))
    os.close(file)
    assert b"".join(line + b"\n" * whole for _, line, whole in parts) == data
    for at, line, _ in parts:
        assert data[at : at + len(line)] == line


# ----- no room


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The kernel's own limit: a write beyond it fails as on a full disk (EFBIG for ENOSPC)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_stops_the_recording_and_nothing_else(tmp_path: Path) -> None:
    writer = SessionWriter(HEADER, where=tmp_path)
    places = []
    with no_file_larger_than(20_000):
        for number in range(500):  # some 40 kB: the file is full, then the nameless one, then memory holds on
            places.append(writer.write(line(number)))
            writer.flush()
            assert writer.recording == (not writer.stopped)
        assert writer.stopped.startswith("recording stopped: no room left for ")
        assert str(writer.path) in writer.stopped
        assert [writer.read(place) for place in places] == [line(number) for number in range(500)]
    path = writer.close()
    assert path is not None
    kept, notes = read(path)
    assert notes == []
    assert 0 < len(kept) < 500
    assert kept == [line(number) for number in range(len(kept))]


def test_no_right_to_the_folder_is_said_and_the_watch_goes_on(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file where the folder should be")
    writer = SessionWriter(HEADER, where=tmp_path / "sessions")
    assert not writer.recording
    assert str(tmp_path / "sessions") in writer.stopped
    assert writer.read(writer.write(line(1))) == line(1)
    assert writer.close() is None


def test_memory_is_bounded_where_there_is_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape(None)
    block = b"x" * (1 << 20)
    places = [tape.append(block) for _ in range(2 * MEMORY // len(block))]
    assert tape.waiting <= MEMORY + len(block)
    assert tape.line(places[-1]) == block
    with pytest.raises(ValueError, match="no longer"):
        tape.line(places[0])
