from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from probes.entry import FIELDS, Joiner, line_of
from probes.export import ExportDecoder, later
from probes.readings import JournalLine
from tests.probes.journals import from_json, head, record, said

TESTS = Path(__file__).parents[1]
RECORDINGS = TESTS / "recordings"
UNIT = "vllm.service"


def decode(data: bytes, unit: str = UNIT, step: int = 0) -> tuple[list[JournalLine], ExportDecoder]:
    decoder = ExportDecoder(unit)
    lines: list[JournalLine] = []
    for at in range(0, len(data), step or len(data) or 1):
        lines += decoder.feed(data[at : at + (step or len(data))])
    return lines + decoder.close(), decoder


@pytest.mark.parametrize(
    ("folder", "unit"), [("host-systemd-ngram", "vllm-tiny-ngram.service"), ("cpu-journal-live", "vllm.service")]
)
def test_a_real_journal_reads_the_same_in_export_and_json(folder: str, unit: str) -> None:
    export = gzip.decompress((RECORDINGS / folder / "journal.export.gz").read_bytes())
    records = from_json(gzip.decompress((RECORDINGS / folder / "journal.json.gz").read_bytes()).decode())
    lines, decoder = decode(export, unit, step=4096)
    by_json = [line for line in (line_of(fields, unit) for fields in records) if line.source != "kernel"]
    assert len(lines) == len(by_json) > 100
    for ours, theirs in zip(lines, by_json, strict=True):
        if theirs.truncated or not theirs.text:
            continue
        assert ours == theirs
    assert decoder.skipped.bytes == 0
    assert any(line.text.startswith("\r") or "\r" in line.text for line in lines) or folder == "host-systemd-ngram"


def test_who_speaks_in_a_real_load() -> None:
    export = gzip.decompress((RECORDINGS / "host-systemd-ngram" / "journal.export.gz").read_bytes())
    lines, _ = decode(export, "vllm-tiny-ngram.service")
    first = lines[0]
    assert (first.source, first.text) == ("systemd", "Starting vllm-tiny-ngram.service - vLLM tiny n-gram...")
    assert first.invocation == "a4ba97d6241141c1a739d741a1733bde"
    assert first.at == pytest.approx(1796007659.732842, abs=1e-6)
    assert first.cursor.startswith("s=13e3fd48f6674fc7ac0f8c624fda4a42;i=47;")
    warning = lines[1]
    assert (warning.source, warning.ident, warning.priority) == ("systemd", "(bash)", 4)
    assert "Referenced but unset environment variable" in warning.text
    proof = next(line for line in lines if "integer expression expected" in line.text)
    assert (proof.source, proof.unit) == ("unit", "vllm-tiny-ngram.service")
    assert {line.invocation for line in lines} == {"a4ba97d6241141c1a739d741a1733bde"}


def test_the_encodings_journald_really_makes() -> None:
    samples = from_json((TESTS / "samples" / "journald-252-encoding-cases.jsonl").read_text())
    data = b"".join(
        record([*head(number), *((name, value) for name, value in fields.items() if not name.startswith("__"))])
        for number, fields in enumerate(samples, 1)
    )
    lines, _ = decode(data, "")
    assert lines[0].text == "INFO first plain line"
    assert lines[1].text.count("\r") == 6
    assert lines[2].line_break == "pid-change"
    assert "bad utf8 \\xff\\xfe" in [line.text for line in lines]
    assert "   leading spaces kept?" in [line.text for line in lines]
    assert "unicode █▏ bar" in [line.text for line in lines]
    assert any(line.text.startswith("\x1b[1;36m(EngineCore_0 pid=12)") for line in lines)
    assert lines[-1].priority == 3


names = st.text("ABCDEFGHIJ_0123456789", min_size=1, max_size=12).filter(
    lambda name: name not in ("MESSAGE", "__CURSOR", "__REALTIME_TIMESTAMP", "_TRANSPORT", "SYSLOG_IDENTIFIER", "_PID")
)
values = st.one_of(st.binary(max_size=40), st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")))
messages = st.one_of(
    values,
    st.sampled_from([b"", b"a\n\nb", b"\n\n", b"x\nMESSAGE=y\n\n__CURSOR=z", b"\r 45%|# | 3/7", b"=", b"\xff\xe2\x96"]),
)


@st.composite
def records(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    made, expected = b"", []
    for number in range(1, draw(st.integers(1, 6)) + 1):
        message = draw(messages)
        extra = draw(st.lists(st.tuples(names, values), max_size=4, unique_by=lambda pair: pair[0]))
        fields = [*extra, ("_PID", b"7"), ("MESSAGE", message)]
        made += record([*head(number), *draw(st.permutations(fields))], binary=draw(st.booleans()))
        expected.append(message)
    return expected, made


@given(records(), st.integers(1, 200))
def test_what_an_encoder_wrote_comes_back_whole_however_it_is_cut(made: tuple[list[bytes], bytes], step: int) -> None:
    expected, data = made
    decoder = ExportDecoder("", kernel=True)
    lines: list[JournalLine] = []
    for at in range(0, len(data), step):
        lines += decoder.feed(data[at : at + step])
    # nothing waits for the end of the stream but what journald itself said goes on
    assert [line.text for line in lines] == [m.decode("utf-8", "backslashreplace") for m in expected]
    assert decoder.close() == []
    assert decoder.skipped.bytes == 0
    assert decoder.records == len(expected)


broken = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.sampled_from(
            [
                said(1, b"one"),
                said(2, b"\rbar"),
                said(3, b"line", _TRANSPORT="kernel"),
                b"MESSAGE\n\x05\0\0\0\0\0\0\0ab",
                b"\n\n",
                b"__CURSOR=s=1\n",
                b"Welcome to gpu-host\n",
                b"FOO\n",
                b"__REALTIME_TIMESTAMP=12",
                said(4, b"x" * 300)[:-20],
            ]
        ),
    ),
    max_size=8,
).map(b"".join)


@given(broken, st.lists(st.integers(0, 400), max_size=12))
@example(b"Welcome\n" + said(1, b"one"), [3])
@example(b"\n\n\n" + said(1, b"one") + b"\n\n" + said(2, b"two"), [1, 2, 3])
def test_any_bytes_in_any_pieces_give_the_same_lines_and_never_an_error(data: bytes, cuts: list[int]) -> None:
    whole, decoder = decode(data)
    pieces = ExportDecoder(UNIT)
    lines: list[JournalLine] = []
    edges = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(edges):
        lines += pieces.feed(data[start:end])
    lines += pieces.close()
    assert lines == whole
    assert pieces.skipped == decoder.skipped


@given(broken)
def test_byte_by_byte_is_the_same_too(data: bytes) -> None:
    assert decode(data, step=1)[0] == decode(data)[0]


def test_what_stands_before_the_journal_is_skipped_and_said() -> None:
    greeting = b"\x1b[?25lWelcome to gpu-host\nmaintenance window: Sunday\n"
    lines, decoder = decode(greeting + said(1, b"one") + said(2, b"two"))
    assert [line.text for line in lines] == ["one", "two"]
    assert decoder.skipped.bytes == len(greeting)
    assert decoder.skipped.head.startswith("\x1b[?25lWelcome to gpu-host")


def test_rubbish_in_the_middle_costs_nothing_but_itself() -> None:
    lines, decoder = decode(said(1, b"one") + b"not a field\nnor this\n\n" + said(2, b"two"))
    assert [line.text for line in lines] == ["one", "two"]
    assert decoder.skipped.bytes > 0


def test_a_length_that_cannot_be_does_not_swallow_the_rest() -> None:
    lie = b"".join([*[f"{n}={v.decode()}\n".encode() for n, v in head(1)], b"MESSAGE\n", b"\xff" * 8, b"abc\n\n"])
    lines, _ = decode(lie + said(2, b"two"))
    assert [line.text for line in lines] == ["two"]


def test_a_file_cut_in_a_record_keeps_what_there_is_of_its_message() -> None:
    data = said(1, b"one") + said(2, b"\rtwo and more")
    cut = data.index(b"and more")
    lines, _ = decode(data[:cut])
    assert [line.text for line in lines] == ["one", "\rtwo "]


@pytest.mark.parametrize("size", [1_000_000, 5_000_000])
def test_a_line_of_a_megabyte_comes_whole_and_cheap(size: int) -> None:
    message = b"\r" + b"x" * size
    decoder = ExportDecoder(UNIT)
    data = said(1, message) + said(2, b"after")
    lines: list[JournalLine] = []
    for at in range(0, len(data), 16384):
        lines += decoder.feed(data[at : at + 16384])
    assert [len(line.text) for line in lines] == [size + 1, 5]


def test_lines_split_at_line_max_are_joined_between_bytes_of_one_character() -> None:
    whole = "config █".encode() + b"y" * 50
    cut = 8
    parts = [whole[:cut], whole[cut:30], whole[30:]]
    data = (
        said(1, parts[0], _LINE_BREAK="line-max")
        + said(2, b"another worker", _PID="200")
        + said(3, parts[1], _LINE_BREAK="line-max")
        + said(4, parts[2])
        + said(5, b"next")
    )
    for step in (1, 7, 4096):
        lines, decoder = decode(data, step=step)
        assert [line.text for line in lines] == ["another worker", whole.decode(), "next"]
        assert lines[1].line_break == ""
        assert lines[1].cursor.startswith("s=fabaeb6149194778984fe67ec38efd27;i=1;")
        assert decoder.cursor == lines[2].cursor


def test_the_case_of_a_real_split_line_reads_whole() -> None:
    records = from_json((TESTS / "cases" / "C17-null-message-and-linemax" / "input.all.journal.jsonl").read_text())
    data = b"".join(record(fields.items()) for fields in records)
    lines, _ = decode(data, "")
    long = [line for line in lines if len(line.text) > 48 * 1024]
    assert len(long) == 1
    assert len(lines) == len(records) - sum(fields.get("_LINE_BREAK") == b"line-max" for fields in records)


def test_a_line_without_end_is_given_out_in_pieces_that_say_so() -> None:
    joiner = Joiner(limit=100)
    part = JournalLine(at=1.0, text="", stream="s", pid=1, line_break="line-max")
    out: list[JournalLine] = []
    for _ in range(5):
        out += joiner.add(part, b"x" * 48)
    out += joiner.add(JournalLine(at=2.0, text="", stream="s", pid=1), b"end")
    assert [(len(line.text), line.line_break) for line in out] == [(144, "line-max"), (99, "")]
    assert joiner.flush() == []


def test_what_waits_for_its_rest_is_not_kept_back_for_ever() -> None:
    decoder = ExportDecoder(UNIT)
    assert decoder.feed(said(1, b"half", _LINE_BREAK="line-max")) == []
    assert [(line.text, line.line_break) for line in decoder.flush()] == [("half", "line-max")]


def test_of_the_kernel_only_what_bears_on_a_model_server() -> None:
    kernel = {"_TRANSPORT": "kernel", "_SYSTEMD_UNIT": "", "SYSLOG_IDENTIFIER": "kernel", "_PID": "", "_COMM": ""}
    texts = [
        b"NVRM: Xid (PCI:0000:61:00): 79, pid=4242, GPU has fallen off the bus.",
        b"usb 1-1: new high-speed USB device number 5",
        b"oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/system.slice/vllm.service,task=vllm,pid=5,uid=998",
        b"INFO: task nvidia-smi:4242 blocked for more than 120 seconds.",
        b"IPv6: ADDRCONF(NETDEV_CHANGE): veth0: link becomes ready",
        b"nfs: server filer not responding, still trying",
    ]
    data = b"".join(said(number, text, **kernel) for number, text in enumerate(texts, 1))
    lines, decoder = decode(data)
    assert [line.text for line in lines] == [texts[i].decode() for i in (0, 2, 3, 5)]
    assert {line.source for line in lines} == {"kernel"}
    assert decoder.records == 6
    everything = ExportDecoder(UNIT, kernel=True)
    assert len(everything.feed(data)) == 6


def test_journald_speaks_of_many_units_and_is_heard_about_this_one() -> None:
    def notice(number: int, unit: str) -> bytes:
        return said(
            number,
            f"Suppressed 18734 messages from {unit}".encode(),
            MESSAGE_ID="a596d6fe7bfa4994828e72309e95d61e",
            _SYSTEMD_UNIT="systemd-journald.service",
            SYSLOG_IDENTIFIER="systemd-journald",
        )

    lines, _ = decode(notice(1, "nginx.service") + notice(2, UNIT))
    assert [(line.source, line.text) for line in lines] == [("journald", "Suppressed 18734 messages from vllm.service")]
    assert lines[0].invocation == ""


def test_a_user_unit_its_manager_and_the_session_that_ends_it() -> None:
    user = {"_SYSTEMD_UNIT": "user@1000.service", "_SYSTEMD_USER_UNIT": UNIT}
    manager = {
        "USER_UNIT": UNIT,
        "USER_INVOCATION_ID": "ab" * 16,
        "_SYSTEMD_USER_UNIT": "init.scope",
        "SYSLOG_IDENTIFIER": "systemd",
    }
    login = {"_SYSTEMD_UNIT": "systemd-logind.service", "SYSLOG_IDENTIFIER": "systemd-logind"}
    data = (
        said(1, b"loading", **user)
        + said(2, b"Stopping vllm.service", **(user | manager))
        + said(3, b"Session 42 logged out. Waiting for processes to exit.", **login)
        + said(4, b"Watching system buttons on /dev/input/event0", **login)
    )
    lines, _ = decode(data)
    assert [(line.source, line.unit) for line in lines] == [
        ("unit", UNIT),
        ("systemd", UNIT),
        ("other", "systemd-logind.service"),
    ]
    assert lines[1].invocation == "ab" * 16
    assert lines[2].invocation == ""


def test_other_units_with_a_longer_name_are_not_this_one() -> None:
    lines, _ = decode(
        said(1, b"x", _SYSTEMD_UNIT="my-vllm.service") + said(2, b"y", UNIT="vllm.service2", _SYSTEMD_UNIT="init.scope")
    )
    assert [line.source for line in lines] == ["other", "other"]


def test_several_messages_in_one_record_are_all_there() -> None:
    lines, _ = decode(record([*head(1), ("MESSAGE", b"one"), ("_PID", b"1"), ("MESSAGE", b"two")]), "")
    assert [line.text for line in lines] == ["one\ntwo"]


def test_missing_and_malformed_fields_take_their_defaults() -> None:
    (line,) = decode(record([("PRIORITY", b"six"), ("_PID", b"-5"), ("MESSAGE", b"x")]), "")[0]
    assert line == JournalLine(at=0.0, text="x")


def test_after_a_break_the_record_it_begins_with_again_is_left_out() -> None:
    decoder = ExportDecoder(UNIT)
    decoder.feed(said(1, b"one") + said(2, b"two") + said(3, b"cut")[:90])
    decoder.restart(decoder.cursor)
    lines = decoder.feed(said(2, b"two") + said(3, b"three"))
    assert ([line.text for line in lines], decoder.resumed) == (["three"], True)


def test_after_a_break_the_half_of_a_long_line_still_finds_its_rest() -> None:
    decoder = ExportDecoder(UNIT)
    assert decoder.feed(said(1, b"first half, ", _LINE_BREAK="line-max")) == []
    decoder.restart(decoder.cursor)
    lines = decoder.feed(said(1, b"first half, ", _LINE_BREAK="line-max") + said(2, b"second half"))
    assert [line.text for line in lines] == ["first half, second half"]


def test_after_a_break_a_record_that_is_gone_is_noticed_and_nothing_comes_twice() -> None:
    decoder = ExportDecoder(UNIT)
    decoder.feed(b"".join(said(number, b"old") for number in range(1, 10)))
    decoder.restart(decoder.cursor)
    lines = decoder.feed(said(8, b"old") + said(20, b"new"))
    assert ([line.text for line in lines], decoder.resumed) == (["new"], False)


@pytest.mark.parametrize(
    ("cursor", "than", "expected"),
    [
        (f"s={'a' * 32};i=10;b=1", f"s={'a' * 32};i=f;b=1", True),
        (f"s={'a' * 32};i=f;b=1", f"s={'a' * 32};i=10;b=1", False),
        (f"s={'a' * 32};i=f;b=1", f"s={'b' * 32};i=10;b=1", True),
        ("anything", "else", True),
        ("same", "same", False),
    ],
)
def test_cursors_are_compared_only_within_one_journal(cursor: str, than: str, expected: bool) -> None:
    assert later(cursor, than) is expected


def test_every_field_that_is_asked_for_is_one_journald_has() -> None:
    assert len(set(FIELDS)) == len(FIELDS)
    assert all(name == name.upper() for name in FIELDS)


class Slow(ExportDecoder):
    """Takes every record apart field by field."""

    def _alike(self, buf: bytes, text: str, pos: int, out: list[JournalLine]) -> int:
        return pos


def slowly(data: bytes) -> tuple[list[JournalLine], Slow]:
    decoder = Slow(UNIT)
    return decoder.feed(data) + decoder.close(), decoder


@given(broken | records().map(lambda made: made[1]))
def test_the_short_way_finds_what_the_long_way_finds(data: bytes) -> None:
    lines, decoder = decode(data)
    long, slow = slowly(data)
    assert lines == long
    assert (decoder.cursor, decoder.at, decoder.records) == (slow.cursor, slow.at, slow.records)
    assert decoder.skipped == slow.skipped
