"""Saved files: told by their content, read the same however they are cut, and never a traceback of our own."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import itertools
import json
import lzma
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.readings import (
    CommandReading,
    GpuProcesses,
    GpuReading,
    HealthReading,
    IoReading,
    JournalLine,
    LinkReading,
    MetricsReading,
    ProbeReading,
    Reading,
    UnitFile,
    UnitReading,
)
from watch.catalogue import shipped
from watch.formats.landmarks import LOADS, last_loads
from watch.logfile import NotReadable, Saved, read_chunks, read_file
from watch.marks import shipped as shipped_marks
from watch.sieve import Sieve

TESTS = Path(__file__).parents[1]
RECORDINGS, CASES, SAMPLES = TESTS / "recordings", TESTS / "cases", TESTS / "samples"
WRITTEN = 1_796_083_200.0
"""2026-12-01 00:00 UTC"""
SIEVE = Sieve(shipped_marks(), shipped())


def everything(chunks: list[bytes], sieve: Sieve | None = None, name: str = "log") -> list[Reading]:
    return list(itertools.chain.from_iterable(read_chunks(chunks, name=name, sieve=sieve, written=WRITTEN)))


def lines(text: str) -> list[JournalLine]:
    return [reading for reading in everything([text.encode()]) if isinstance(reading, JournalLine)]


def saved(path: Path) -> list[Reading]:
    return list(itertools.chain.from_iterable(read_file(path)))


# ---------------------------------------------------------------------------------------------- one journal, its forms


def test_every_form_of_a_journal_tells_the_same() -> None:
    folder = RECORDINGS / "host-systemd-ngram"
    forms = {}
    for name in ("journal.export.gz", "journal.json.gz", "journal.short.gz"):
        forms[name] = [line for line in saved(folder / name) if isinstance(line, JournalLine)]
    export, records, short = forms.values()
    assert [line.text for line in export] == [line.text for line in records]
    assert [(line.at, line.source, line.pid) for line in export] == [
        (line.at, line.source, line.pid) for line in records
    ]
    plain = [line for line in export if "\r" not in line.text and "\x1b" not in line.text]
    kept = [line for line in short if "blob data]" not in line.text]
    assert [line.text.split() for line in kept] == [line.text.split() for line in plain]  # tabs are shown as blanks
    assert [line.source for line in kept] == [line.source for line in plain]
    assert all(0 <= a.at - b.at < 1 for a, b in zip(plain, kept, strict=True))
    assert [line.pid for line in kept] == [line.pid for line in plain]


@pytest.mark.parametrize(
    ("head", "at", "ident", "pid"),
    [
        ("Nov 30 03:00:59 llm-two ", 1796007659.0, "vllm", 103),
        ("Nov 30 03:00:59.250000 llm-two ", 1796007659.25, "vllm", 103),
        ("2026-11-30T03:00:59+00:00 llm-two ", 1796007659.0, "vllm", 103),
        ("2026-11-30T05:00:59+0200 llm-two ", 1796007659.0, "vllm", 103),
        ("2026-11-30T03:00:59.250000+00:00 llm-two ", 1796007659.25, "vllm", 103),
        ("Mon 2026-11-30 03:00:59 UTC llm-two ", 1796007659.0, "vllm", 103),
        ("1796007659.250000 llm-two ", 1796007659.25, "vllm", 103),
    ],
)
def test_journalctls_own_heads(head: str, at: float, ident: str, pid: int) -> None:
    first, second = lines(
        f"{head}{ident}[{pid}]: (APIServer pid=103) INFO hello\n{head}systemd[1]: Started x.service.\n"
    )
    assert (first.at, first.ident, first.pid, first.source) == (at, ident, pid, "unit")
    assert first.text == "(APIServer pid=103) INFO hello"
    assert (second.source, second.text, second.timed) == ("systemd", "Started x.service.", True)


@pytest.mark.parametrize(
    ("who", "source"),
    [
        ("kernel:", "kernel"),
        ("(sh)[4101]:", "systemd"),
        ("systemd-journald[611]:", "journald"),
        ("systemd-logind[1021]:", "other"),
        ("sshd[99]:", "other"),
        ("vllm[5]:", "unit"),
        ("python3.12[5]:", "unit"),
    ],
)
def test_who_speaks(who: str, source: str) -> None:
    (line,) = lines(f"Sep 20 09:12:00 gpu-host {who} hello there\n")
    assert line.source == source


def test_dmesg() -> None:
    first, second = lines(
        "[Sun Sep 20 09:12:00 2026] NVRM: Xid (PCI:0000:61:00): 79, x\n[  131.250000] NVRM: loading NVIDIA module\n"
    )
    assert (first.source, first.at) == ("kernel", 1789895520.0)
    assert second.source == "kernel"


def test_containers() -> None:
    compose, docker, cri = lines(
        "vllm-1  | (APIServer pid=1) INFO 09-20 09:12:00 [utils.py:299] hello\n"
        "2026-09-20T09:12:05.123456789Z (APIServer pid=1) INFO there\n"
        "2026-09-20T09:12:06.5Z stdout F (APIServer pid=1) INFO again\n"
    )
    assert compose.at == 1789895520.0
    assert docker.at == pytest.approx(1789895525.123456)
    assert docker.text == "(APIServer pid=1) INFO there"
    assert cri.text == "(APIServer pid=1) INFO again"


def test_vllms_stamps_take_the_year_before_the_file_was_written() -> None:
    first, second = lines("INFO 12-31 23:59:59 [a.py:1] old\nINFO 11-30 00:00:00 [a.py:1] new\n")
    assert first.at == 1767225599.0  # 2025
    assert second.at > first.at
    assert second.at == 1795996800.0  # 2026


def test_lines_without_a_time_have_that_of_the_line_before() -> None:
    first, second = lines("INFO 11-30 00:00:00 [a.py:1] x\nValueError: y\n")
    assert (first.timed, second.timed) == (True, False)
    assert second.at == first.at


def test_bars_without_a_time_are_dated_by_what_they_say() -> None:
    bar = "Loading safetensors checkpoint shards: {:3d}% Completed | {}/4 [{}<00:30,  9.40s/it]\n"
    found = lines(
        "INFO 11-30 00:00:00 [a.py:1] x\n" + "".join(bar.format(n * 25, n, f"00:{n * 9:02d}") for n in range(5))
    )
    assert [line.at - found[0].at for line in found] == [0, 0, 9, 18, 27, 36]


def test_sglangs_stamps() -> None:
    first, second = lines(
        "[2026-09-20 09:12:00 TP0] Load weight begin.\n[2026-09-20 09:39:41] The server is fired up\n"
    )
    assert (first.at, second.at) == (1789895520.0, 1789897181.0)


def test_what_journalctl_cannot_say_as_text() -> None:
    record = {"__REALTIME_TIMESTAMP": "1789895520000000", "_PID": "7", "_SYSTEMD_UNIT": "v.service", "__CURSOR": "c"}
    rows = [
        {**record, "MESSAGE": list(b"\rLoading \xff 1/2")},
        {**record, "MESSAGE": None},
        {**record, "MESSAGE": ["one", list(b"two\xfe")]},
        {**record, "MESSAGE": "a" * 10, "_LINE_BREAK": "line-max", "_STREAM_ID": "s"},
        {**record, "MESSAGE": "b", "_STREAM_ID": "s"},
    ]
    found = lines("\n".join(json.dumps(row) for row in rows) + "\n")
    assert [line.text for line in found] == ["\rLoading \\xff 1/2", "", "one\ntwo\\xfe", "a" * 10 + "b"]
    assert [line.truncated for line in found] == [False, True, False, False]
    assert found[3].line_break == "line-max"
    assert found[3].ref == "log:4"


def test_pretty_json() -> None:
    text = json.dumps({"MESSAGE": "hello", "__CURSOR": "c", "__REALTIME_TIMESTAMP": "1789895520000000"}, indent="\t")
    text = text.replace('":', '" :')
    found = lines(text + "\n" + text.replace("hello", "there") + "\n")
    assert [(line.text, line.ref) for line in found] == [("hello", "log:1"), ("there", "log:6")]


def test_json_of_containers_and_of_vllm() -> None:
    docker, vllm = (
        lines('{"log":"INFO 09-20 09:12:00 [a.py:1] x\\n","stream":"stdout","time":"2026-09-20T09:12:00.5Z"}\n')[0],
        lines(
            '{"asctime":"2026-09-20 09:12:00,123","levelname":"ERROR","name":"vllm","processName":"EngineCore",'
            '"process":7,"message":"EngineCore failed to start."}\n'
        )[0],
    )
    assert docker.at == 1789895520.5
    assert docker.text == "INFO 09-20 09:12:00 [a.py:1] x"
    assert "(EngineCore pid=7) ERROR" in vllm.text
    assert vllm.text.endswith("EngineCore failed to start.")


def test_our_own_session_files(tmp_path: Path) -> None:
    from watch.session import SessionWriter, new_header

    writer = SessionWriter(new_header("t", "v.service", 1.0), where=tmp_path)
    writer.write(JournalLine(at=5.0, text="hello"))
    writer.write(HealthReading(at=6.0, status=200))
    path = writer.close()
    assert path is not None
    found = saved(path)
    assert [type(reading) for reading in found] == [JournalLine, HealthReading]
    assert found[0].ref == f"{path.name}:2"


def test_recordings_of_a_pipe() -> None:
    found = [r for r in saved(RECORDINGS / "cpu-fail-spec-json/server.jsonl") if isinstance(r, JournalLine)]
    assert found[-1].text.startswith("vllm serve: error: argument --speculative-config")
    joined = (RECORDINGS / "cpu-fail-spec-json/server.log").read_text().splitlines()
    assert [line.text for line in found] == [text.rstrip("\r") for text in joined if text.strip("\r")]
    assert found[0].at > 1.79e9


# -------------------------------------------------------------------------------------------------------- other files


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("C01-unset-env-free/input.service", [UnitFile]),
        ("C32-nccl-init-hang-pcie/input.gpu.csv", [GpuReading]),
        ("C47-xid79-off-the-bus/input.nvidia-smi.txt", [CommandReading]),
        ("C52-gb10-memory-na/input.meminfo.txt", [IoReading]),
        ("C52-gb10-memory-na/input.compute-apps.csv", [GpuProcesses]),
        ("C56-host-key-not-trusted/input.ssh.json", [LinkReading]),
        ("C58-max-sessions/input.ssh.json", [ProbeReading]),
        ("C60-banner-before-output/input.stdout.txt", [ProbeReading, GpuReading]),
        ("C63-metric-renames/input.old.metrics.txt", [MetricsReading]),
        ("C65-api-key-guards-v1-only/input.probes.json", [HealthReading] * 3),
        ("C20-journal-no-permission/input.stderr.txt", [CommandReading]),
        ("C38-flashinfer-cold-jit/input.meta.json", [IoReading]),
    ],
)
def test_what_a_file_is(path: str, kinds: list[type]) -> None:
    assert [type(reading) for reading in saved(CASES / path)] == kinds


def test_systemctl_show() -> None:
    (reading,) = saved(RECORDINGS / "host-systemd-ngram/systemctl-show.txt")
    assert isinstance(reading, UnitReading)
    assert reading.type == "simple"


def test_the_figures_of_nvidia_smi() -> None:
    folder = RECORDINGS / "gpu-h200x2/a-imitated-load"
    (table,) = [r for r in saved(folder / "loaded.nvidia-smi.txt") if isinstance(r, GpuReading)]
    (csv,) = [r for r in saved(folder / "idle.query-gpu.csv") if isinstance(r, GpuReading)]
    assert [device.index for device in table.devices] == [0, 1]
    assert table.driver == "580.159.04"
    assert csv.devices[0].name == table.devices[0].name == "NVIDIA H200"
    assert csv.devices[0].total_mib == 143771.0
    assert csv.devices[0].ref == "idle.query-gpu.csv:2"


def test_fields_that_are_not_there_are_not_zero() -> None:
    (reading,) = [r for r in saved(CASES / "C52-gb10-memory-na/input.nvidia-smi.csv") if isinstance(r, GpuReading)]
    device = reading.devices[0]
    assert (device.used_mib, device.total_mib, device.utilization, device.power_limit) == (None, None, 2.0, None)


def test_a_field_that_is_an_error_is_one() -> None:
    text = b"index, name, memory.used [MiB]\n0, NVIDIA H100, [GPU requires reset]\n1, NVIDIA H100, 5 MiB\n"
    (reading,) = everything([text])
    assert isinstance(reading, GpuReading)
    assert [device.error for device in reading.devices] == ["[GPU requires reset]", ""]


# ----------------------------------------------------------------------------------------------- packed, cut, damaged


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_files(tmp_path: Path, pack: object) -> None:
    plain = CASES / "C74-root-cause-far-above/input.journal.jsonl"
    path = tmp_path / "journal.packed"
    path.write_bytes(pack(plain.read_bytes()))  # type: ignore[operator]
    assert [line.text for line in saved(path)] == [line.text for line in saved(plain)]  # type: ignore[attr-defined]


def test_a_compressed_file_that_breaks_off_gives_what_there_is(tmp_path: Path) -> None:
    data = gzip.compress((RECORDINGS / "gpu-h200x2/b1-ngram-cold-cache/server.raw.txt").read_bytes())
    path = tmp_path / "log.gz"
    path.write_bytes(data[: len(data) // 2])
    assert len(saved(path)) > 50


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\x7fELF\x02\x01\x01" + bytes(100), "is a program"),
        (b"LPKSHHRH" + bytes(300), "one of journald's own files"),
        (b"\x28\xb5\x2f\xfd1234", "zstd"),
        (b"PK\x03\x04abc", "zip archive"),
        (os.urandom(1) * 3 + bytes(range(256)) * 40, "binary data"),
        (gzip.compress(b""), "is empty once unpacked"),
        (b"\x1f\x8b\x08\x00broken", "damaged"),
        ((b"a" * 257) + b"ustar\x0000" + bytes(300), "tar archive"),
    ],
)
def test_what_is_no_log_is_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "given"
    path.write_bytes(content)
    with pytest.raises(NotReadable, match=said) as raised:
        saved(path)
    assert "\n" not in raised.value.reason


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match="No such file"):
        saved(tmp_path / "no")
    with pytest.raises(NotReadable, match="folder"):
        Saved(tmp_path)


ODD = (
    b"(Worker_TP0 pid=1) INFO 11-30 01:02:03 [a.py:1] Starting to load model /m...\r\n"
    b"\x1b[36mvllm-1  | \x1b[0mLoading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01, 1.00s/it]\n"
    b'Traceback (most recent call last):\n  File "/a.py", line 1, in f\n    x\nValueError: \xff\xfe no\n\n'
    b"Nov 30 03:00:59 host kernel: NVRM: Xid (PCI:0000:61:00): 79, x\n"
)
KNOWN = [
    ODD,
    (CASES / "C74-root-cause-far-above/input.journal.jsonl").read_bytes()[:9000],
    gzip.decompress((RECORDINGS / "host-systemd-ngram/journal.export.gz").read_bytes())[:9000],
    (RECORDINGS / "cpu-fail-spec-json/server.jsonl").read_bytes(),
    (CASES / "C63-metric-renames/input.new.metrics.txt").read_bytes(),
    (RECORDINGS / "gpu-h200x2/a-imitated-load/loaded.nvidia-smi.txt").read_bytes(),
]


@given(st.sampled_from(KNOWN), st.lists(st.integers(0, 9000), max_size=8))
def test_the_same_bytes_cut_differently_give_the_same_readings(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    for sieve in (None, SIEVE):
        assert everything(pieces, sieve) == everything([data], sieve)


@given(st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(NotReadable):
        everything([data])


@given(
    st.lists(
        st.sampled_from(
            [
                *ODD.split(b"\n"),
                b'{"MESSAGE":[13,76],"__REALTIME_TIMESTAMP":"9"}',
                b'{"MESSAGE":null,"__CURSOR":"s"}',
                b'{"MESSAGE":{"a":1}}',
                b'{"t": 1.5, "b": "x\\n"}',
                b'{"t": 1e400, "b": 3}',
                b"__CURSOR=s=1",
                b"__REALTIME_TIMESTAMP=17960076597323879999999",
                b"index, name, memory.used [MiB]",
                b"0, H100, 3 MiB",
                b"MemTotal: 1 kB",
                b"[Service]",
                b"ExecStart=/bin/x '{",
                b"# TYPE vllm:x gauge",
                b"vllm:x 1 2 3 4",
                b"Feb 30 25:61:61 host vllm[1]: x",
                b"2026-99-99T99:99:99+99:99 host vllm[1]: x",
            ]
        )
        | st.binary(max_size=60)
    )
)
def test_any_lines_of_known_forms(parts: list[bytes]) -> None:
    data = b"\n".join(parts)
    for sieve in (None, SIEVE):
        with contextlib.suppress(NotReadable):
            everything([data], sieve)


# --------------------------------------------------------------------------------------------------------- large logs


def big() -> bytes:
    load = (RECORDINGS / "gpu-h200x2/b1-ngram-cold-cache/server.raw.txt").read_bytes()
    access = b'(APIServer pid=1793) INFO:     10.0.0.1:4000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n' * 20000
    failed = (
        b"(EngineCore pid=9) ERROR 11-30 02:00:00 [core.py:1] EngineCore encountered a fatal error.\n"
        b"(EngineCore pid=9) ERROR 11-30 02:00:00 [core.py:1] Traceback (most recent call last):\n"
        b'(EngineCore pid=9) ERROR 11-30 02:00:00 [core.py:1]   File "/vllm/x.py", line 1, in step\n'
        b"(EngineCore pid=9) ERROR 11-30 02:00:00 [core.py:1] weird.Fault: only said once\n"
    )
    return load + access + failed + access


def test_the_sieve_keeps_what_tells_and_where_it_stands() -> None:
    data = big()
    whole = {line.ref: line for line in everything([data]) if isinstance(line, JournalLine)}
    kept = [line for line in everything([data], SIEVE) if isinstance(line, JournalLine)]
    assert len(kept) < len(whole) / 20
    for line in kept:
        assert line.text == whole[line.ref].text
    texts = {line.text for line in kept}
    assert any("weird.Fault: only said once" in text for text in texts), "what ends a traceback needs no pattern"
    for line in whole.values():
        if SIEVE._telling.rows(line.text):
            assert line.text in texts
    assert kept[-1].ref == f"log:{data.count(10)}", "the last line is there, so that time goes on"


def test_the_last_loads_of_a_thousand() -> None:
    one = b"INFO 11-30 01:02:03 [a.py:1] Initializing a V1 LLM engine (v0.19.1) with config: x\nline\nline\n"
    data = one * 1000
    for size in (100, 1 << 16, len(data)):
        found = last_loads(data[i : i + size] for i in range(0, len(data), size))
        assert found.loads == 1000
        assert found.offset == len(one) * (1000 - LOADS)
        assert found.lines == 3 * (1000 - LOADS)
    assert last_loads([one * (LOADS - 1)]).offset == 0
    assert last_loads([]).offset == 0


# --------------------------------------------------------------------------------------------------- byte order marks


@given(st.text(st.characters(blacklist_categories=("Cs",)), max_size=300), st.lists(st.integers(0, 700), max_size=6))
def test_utf_16_reads_as_its_utf_8_does_however_it_is_cut(text: str, cuts: list[int]) -> None:
    text = "INFO 09-20 09:12:09 [x.py:1] vLLM server version 0.19.1\r\n" + text
    for encoding in ("utf-16-le", "utf-16-be"):
        data = ("\ufeff" + text).encode(encoding)
        ends = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
        pieces = [data[a:b] for a, b in itertools.pairwise(ends)]
        assert everything(pieces) == everything([text.encode()])
    assert everything([b"\xef", b"\xbb\xbf" + text.encode()]) == everything([text.encode()])


def test_a_log_that_powershell_redirected(tmp_path: Path) -> None:
    text = (CASES.parent / "cases-own" / "D98-clean-load-0-6" / "input.log").read_text()
    (tmp_path / "input.log").write_bytes(text.replace("\n", "\r\n").encode("utf-16"))
    (tmp_path / "packed.log.gz").write_bytes(gzip.compress(text.encode("utf-16")))
    plain = [line.text for line in saved(CASES.parent / "cases-own" / "D98-clean-load-0-6" / "input.log")]
    for name in ("input.log", "packed.log.gz"):
        assert [line.text for line in saved(tmp_path / name) if isinstance(line, JournalLine)] == plain
