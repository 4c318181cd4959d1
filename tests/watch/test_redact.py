"""Secrets planted everywhere, none kept; and nothing else lost."""

from __future__ import annotations

import gzip
import string
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.readings import (
    AnyReading,
    BenchReading,
    CommandReading,
    EarlierReading,
    GpuDevice,
    GpuProcess,
    GpuProcesses,
    GpuReading,
    HealthReading,
    IoReading,
    JournalLine,
    LinkReading,
    MetricsReading,
    Note,
    OperatorAction,
    ProbeReading,
    ProcessIo,
    Reading,
    Sample,
    UnitFile,
    UnitReading,
    decode,
)
from watch.redact import HIDDEN, BadSecretPattern, Redactor, says_secret
from watch.session import SessionReader, SessionWriter, new_header

HF = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"
SK = "sk-proj-abcDEF0123456789_xyz"
PLAIN = "correct-horse-battery"

SENTENCES = [
    (f"token is {HF}", HF),
    (f"OPENAI_API_KEY={SK}", SK),
    (f"HF_TOKEN={PLAIN}", PLAIN),
    (f'Environment="HF_TOKEN={PLAIN} staple"', PLAIN),
    (f"Environment='MY_SECRET={PLAIN} staple' A=b", PLAIN),
    (f"Environment=DB_PASSWORD={PLAIN}", PLAIN),
    (f"Environment=LMCACHE_KEY={PLAIN}", PLAIN),
    (f"--api-key {PLAIN} --port 8000", PLAIN),
    (f"--api-key={PLAIN}", PLAIN),
    (f"--api-key '{PLAIN} staple'", PLAIN),
    (f"--hf-token {PLAIN}", PLAIN),
    (f"ExecStart=/opt/vllm/bin/vllm serve /m --api-key one {PLAIN} three --port 8000", PLAIN),
    (f"ExecStart=/opt/vllm/bin/vllm serve /m \\\n  --api-key {PLAIN} \\\n  --port 8000", PLAIN),
    (f"['vllm', 'serve', '--api-key', '{PLAIN}']", PLAIN),
    (f"args: Namespace(host='::', api_key=['{PLAIN}', 'other'], port=8000)", PLAIN),
    (f"non-default args: {{'model': '/m', 'api_key': ['{PLAIN}'], 'port': 8000}}", PLAIN),
    (f"api_key='{PLAIN}'", PLAIN),
    (f'{{"hf_token": "{PLAIN}", "model": "m"}}', PLAIN),
    (f"eos_token=[api_key='{PLAIN}']", PLAIN),
    (f"config: hf_token={PLAIN}, dtype=bfloat16", PLAIN),
    (f"Authorization: Bearer {PLAIN}", PLAIN),
    (f"curl -H 'Authorization: Bearer {PLAIN}' http://127.0.0.1:8000/v1/models", PLAIN),
    (f"authorization: Basic {PLAIN}==", PLAIN),
    (f"x-api-key: {PLAIN}", PLAIN),
    (f"https://user:{PLAIN}@registry.example/v2/", PLAIN),
    (f"http://127.0.0.1:8000/v1/models?api_key={PLAIN}&x=1", PLAIN),
    (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PLAIN}\n-----END OPENSSH PRIVATE KEY-----", PLAIN),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123", "eyJzdWIiOiIxMjM0In0"),
]


@pytest.mark.parametrize(("sentence", "secret"), SENTENCES)
def test_a_secret_goes_and_the_sentence_stays(sentence: str, secret: str) -> None:
    text = Redactor().text(sentence)
    assert secret not in text
    assert HIDDEN in text
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "sentence",
    [
        "(APIServer pid=1) INFO 11-30 01:39:58 [x.py:1] Chunked prefill is enabled with max_num_batched_tokens=8192.",
        "Namespace(api_key=None, hf_token=None, eos_token='</s>', pad_token='<pad>', token_count=5)",
        "SamplingParams(stop_token_ids=[1, 2], skip_special_tokens=True)",
        "Avg prompt throughput: 12.0 tokens/s, time per token: 12.5 ms, speculative tokens: 5",
        "Environment=TOKENIZERS_PARALLELISM=false NCCL_IB_PKEY=0 HF_HUB_OFFLINE=1",
        "401 Client Error: a bearer token is required; pass --api-key=***",
        "KV cache key: block 7; key=value",
        "disk-based offloading to /mnt/task-1234567890; risk-assessment-complete",
        "hf_overrides={} hf_config_path=None hf_transfer",
        'INFO: 127.0.0.1:40000 - "GET /metrics HTTP/1.1" 200 OK',
    ],
)
def test_what_is_no_secret_stays(sentence: str) -> None:
    assert Redactor().text(sentence) == sentence


def test_real_logs_of_healthy_loads_are_left_as_they_are(recordings: Path) -> None:
    redactor = Redactor()
    logs = [p.read_text(errors="replace") for p in sorted(recordings.glob("*/server.raw.txt"))]
    logs += [p.read_text(errors="replace") for p in sorted(recordings.glob("gpu-h200x2/*/server.raw.txt"))]
    logs += [gzip.decompress(p.read_bytes()).decode(errors="replace") for p in sorted(recordings.glob("*/journal*.gz"))]
    assert logs
    for log in logs:
        for line in log.split("\n"):
            assert redactor.text(line) == line


PLANTED = [
    JournalLine(at=1.0, text=f"hello {HF}", ident=SK, comm="vllm"),
    UnitReading(
        at=1.0,
        unit="vllm.service",
        exec_start=("vllm", "serve", "--api-key", PLAIN, PLAIN + "2", "--port", "8000", f"--hf-token={PLAIN}"),
        exec_start_pre=("curl", "-H", f"Authorization: Bearer {PLAIN}"),
        environment=(f"HF_TOKEN={PLAIN}", f"MY_KEY={PLAIN}", f"DB_PASSWORD={PLAIN}", "A=b"),
    ),
    UnitFile(at=1.0, unit="v", text=f'[Service]\nEnvironment="API_TOKEN={PLAIN}"\nExecStart=vllm --api-key {PLAIN}\n'),
    GpuReading(at=1.0, devices=(GpuDevice(index=0, name="H200", error=f"token={PLAIN}"),)),
    GpuProcesses(at=1.0, processes=(GpuProcess(gpu=0, pid=1, name=f"vllm --api-key {PLAIN}"),)),
    HealthReading(at=1.0, error=f"Authorization: Bearer {PLAIN}", endpoint=f"http://u:{PLAIN}@127.0.0.1:8000"),
    MetricsReading(
        at=1.0, samples=(Sample("x", {"api_key": PLAIN, "a": f"sk-{PLAIN}"}, 1.0),), error=f"api_key={PLAIN}"
    ),
    IoReading(at=1.0, processes=(ProcessIo(pid=1, name=f"--token {PLAIN}"),), error=HF, model_path=f"/m/{HF}"),
    LinkReading(at=1.0, state="down", reason=f"password: {PLAIN}"),
    ProbeReading(at=1.0, probe="journal", state="failed", reason=f"secret={PLAIN}", remedy=SK),
    CommandReading(
        at=1.0, command=f"vllm serve --api-key {PLAIN}", stdout=f"API_KEY={PLAIN}", stderr=f"Bearer {PLAIN}"
    ),
    BenchReading(
        at=1.0, run="r", stage="end", text=SK, result={"api_key": PLAIN, "headers": [f"Bearer {PLAIN}"], "n": 5}
    ),
    OperatorAction(at=1.0, action="restart", detail=f"--api-key {PLAIN}", who=f"x {HF}"),
    EarlierReading(at=1.0, before=1.0, model=f"/m/{HF}", loads=({"started": 1.0, "x": [f"Bearer {PLAIN}", SK]},)),
    Note(at=1.0, text=f"the key is {SK}, password={PLAIN}"),
]


def test_every_kind_of_reading_is_planted() -> None:
    assert {type(reading) for reading in PLANTED} == set(AnyReading.__args__)


@pytest.mark.parametrize("reading", PLANTED, ids=lambda reading: type(reading).__name__)
def test_no_kind_of_reading_keeps_a_secret(reading: Reading) -> None:
    line, kept = Redactor().encode(reading)
    for secret in (HF, SK, PLAIN):
        assert secret.encode() not in line
    assert decode(line) == kept
    assert type(kept) is type(reading)
    assert kept.at == reading.at


def test_what_is_no_secret_stays_in_a_reading() -> None:
    unit = PLANTED[1]
    kept = Redactor().encode(unit)[1]
    assert isinstance(kept, UnitReading)
    assert kept.exec_start == ("vllm", "serve", "--api-key", "***", "***", "--port", "8000", "--hf-token=***")
    assert kept.environment == ("HF_TOKEN=***", "MY_KEY=***", "DB_PASSWORD=***", "A=b")
    bench = Redactor().encode(PLANTED[11])[1]
    assert isinstance(bench, BenchReading)
    assert bench.result == {"api_key": "***", "headers": ["Bearer ***"], "n": 5}


def test_no_file_of_a_session_keeps_a_secret(tmp_path: Path) -> None:
    header = new_header("ops@llm-two", "vllm", 0.0, endpoint=f"http://u:{PLAIN}@x", host={"api_key": PLAIN})
    writer = SessionWriter(header, where=tmp_path)
    for reading in PLANTED:
        writer.write(reading)
    writer.flush()
    plain = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    path = writer.close()
    assert path is not None
    packed = gzip.decompress(path.read_bytes())
    for text in (plain, packed, *(p.name.encode() for p in tmp_path.iterdir())):
        assert text
        for secret in (HF, SK, PLAIN):
            assert secret.encode() not in text
    reader = SessionReader(path)
    assert len(list(reader)) == len(PLANTED)
    reader.close()


def test_a_dump_stays_one_that_can_be_read() -> None:
    import ast

    text = Redactor().text(f"{{'model': '/m', 'api_key': ['{PLAIN}', 'x'], 'hf_token': '{PLAIN}', 'port': 8000}}")
    assert ast.literal_eval(text) == {"model": "/m", "api_key": ["***"], "hf_token": "***", "port": 8000}


def test_patterns_of_the_operators_own() -> None:
    redactor = Redactor([r"ACME-\d{6}"])
    assert redactor.text("id ACME-123456 ok") == "id *** ok"
    assert redactor.encode(Note(at=1.0, text="ACME-654321"))[1].text == HIDDEN
    with pytest.raises(BadSecretPattern, match=r"(?s)secret pattern.*RE2"):
        Redactor(["(?=x)"])


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "api_key", "apiKey", "OPENAI_API_KEY", "client-secret", "dbPassword", "token", "X_KEY"]
)
def test_names_that_say_secret(name: str) -> None:
    assert says_secret(name)


@pytest.mark.parametrize(
    "name", ["", "eos_token", "max_tokens", "tokenizer", "key", "token_ids", "KEYRING", "NCCL_IB_PKEY"]
)
def test_names_that_do_not(name: str) -> None:
    assert not says_secret(name)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
secrets = st.text(string.ascii_letters + string.digits, min_size=12, max_size=30).map(lambda s: "Zq9" + s)


@given(
    before=words,
    secret=secrets,
    after=words,
    shape=st.sampled_from(["HF_TOKEN={}", " --api-key {}", "'api_key': '{}'", "Bearer {}", " sk-{}"]),
)
def test_a_secret_goes_wherever_it_stands(before: str, secret: str, after: str, shape: str) -> None:
    line, kept = Redactor().encode(Note(at=0.0, text=f"{before} {shape.format(secret)} {after}"))
    assert secret not in line.decode()
    assert secret not in kept.text


@given(st.text())
def test_any_text_is_taken_and_a_second_time_changes_nothing(text: str) -> None:
    redactor = Redactor()
    once = redactor.text(text)
    assert redactor.text(once) == once


@given(st.text(alphabet="ke y_token-=:'\"[]()\\ apisecr\n", max_size=200))
def test_the_first_glance_overlooks_nothing(text: str) -> None:
    """What the rules would change is also found in the encoded line, where quotes and newlines are escaped."""
    redactor = Redactor()
    note = Note(at=0.0, text=text)
    line, _ = redactor.encode(note)
    cleaned = redactor.clean(note)
    assert decode(line) == cleaned or msgspec.structs.asdict(decode(line)) == msgspec.structs.asdict(cleaned)


WORDS = st.sampled_from(
    [HF, SK, "secret", "token", "tokens:", "key=", "Bearer ", "abcdefgh", "\x1b[0m", *"-\"'\\@\n\r\t\f aé", "://"]
)
TEXTS = st.lists(WORDS, max_size=6).map("".join) | st.text(max_size=20)
LINES = st.lists(
    st.builds(
        JournalLine,
        at=st.just(1.0),
        text=TEXTS,
        cursor=st.just("s=1;i=2") | TEXTS,
        comm=TEXTS,
        ident=st.just("vllm") | TEXTS,
        unit=st.just("vllm.service"),
        ref=st.just("") | TEXTS,
    ),
    max_size=12,
)
OWN_PATTERNS = ["^a", "a$", r"\ba\b", r"tenant-\d+", r"[^a]b", r"\s", "x*", "(?i)É", r"a\nb", "(?m)^to"]
OWN = st.lists(st.sampled_from(OWN_PATTERNS), max_size=2)


def one_by_one(redactor: Redactor, lines: Sequence[JournalLine]) -> tuple[bytes, list[JournalLine]]:
    alone = [redactor.encode(line) for line in lines]
    return b"".join(line + b"\n" for line, _ in alone), [kept for _, kept in alone]


@given(LINES, OWN)
def test_many_at_once_are_as_each_by_itself(lines: list[JournalLine], own: list[str]) -> None:
    redactor = Redactor(own)
    together, kept = redactor.encode_all(lines)
    assert (together, list(kept)) == one_by_one(redactor, lines)


@given(LINES, OWN)
def test_a_line_is_cleaned_as_any_other_reading_is(lines: list[JournalLine], own: list[str]) -> None:
    """``clean`` knows journal lines; field by field, as it goes through all others, the same must come out."""
    redactor = Redactor(own)
    for line in lines:
        fields = {name: value for name, value in msgspec.to_builtins(line).items() if name != "kind"}
        walked = {name: redactor.text(value) if isinstance(value, str) else value for name, value in fields.items()}
        if "source" in fields:
            walked["source"] = fields["source"]
        assert redactor.clean(line) == JournalLine(**walked)


def test_many_lines_of_every_recording_are_as_each_by_itself(recordings: Path) -> None:
    redactor = Redactor()
    seen = 0
    for path in sorted(recordings.rglob("*")):
        if path.suffix not in (".log", ".txt", ".gz", ".jsonl", ".export") or not path.is_file():
            continue
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        texts = data.decode("utf-8", "backslashreplace").split("\n")[:3000]
        lines = [
            JournalLine(at=1.0, text=text[:4000], ref=f"{path.name}:{number}") for number, text in enumerate(texts)
        ]
        together, kept = redactor.encode_all(lines)
        assert (together, list(kept)) == one_by_one(redactor, lines), path
        seen += len(lines)
    assert seen > 10_000
