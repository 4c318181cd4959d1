"""Heads of lines, in every way that vLLM and SGLang have written them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.watch.feeds import RECORDINGS
from watch.heads import Head, parse_head


@pytest.mark.parametrize(
    ("text", "head"),
    [
        (
            "INFO 08-16 02:01:57 [api_server.py:1755] vLLM API server version 0.10.0",
            Head("", 0, "INFO", "api_server.py:1755", "vLLM API server version 0.10.0"),
        ),
        (
            "(VllmWorker rank=0 pid=775158) INFO 08-16 02:04:06 [pynccl.py:70] vLLM is using nccl==2.26.2",
            Head("VllmWorker rank=0", 775158, "INFO", "pynccl.py:70", "vLLM is using nccl==2.26.2"),
        ),
        (
            "\x1b[1;36m(EngineCore_0 pid=9)\x1b[0;0m INFO 08-16 02:04:06 [core.py:71] hello",
            Head("EngineCore_0", 9, "INFO", "core.py:71", "hello"),
        ),
        (
            "\x1b[36mvllm-1  | \x1b[0m\x1b[0;36m(Worker_TP0 pid=231)\x1b[0;0m \x1b[33mWARNING\x1b[0m "
            "\x1b[90m09-20 09:12:30\x1b[0m \x1b[90m[symm_mem.py:67]\x1b[0m SymmMemCommunicator",
            Head("Worker_TP0", 231, "WARNING", "symm_mem.py:67", "SymmMemCommunicator"),
        ),
        (
            "(Worker_TP0 pid=54) \rLoading shards:   2% Completed | 1/40 [00:00<00:10,  3.87it/s]",
            Head("Worker_TP0", 54, "", "", "Loading shards:   2% Completed | 1/40 [00:00<00:10,  3.87it/s]"),
        ),
        (
            "(APIServer pid=5101) INFO:     Application startup complete.",
            Head("APIServer", 5101, "INFO", "", "Application startup complete."),
        ),
        (
            "INFO 11-21 08:11:02 llm_engine.py:237] Initializing an LLM engine",
            Head("", 0, "INFO", "llm_engine.py:237", "Initializing an LLM engine"),
        ),
        (
            "(RayWorkerWrapper pid=77, ip=192.0.2.7) INFO 08-16 02:04:06 [pynccl.py:70] x",
            Head("RayWorkerWrapper", 77, "INFO", "pynccl.py:70", "x"),
        ),
        ("INFO:     Shutting down", Head("", 0, "INFO", "", "Shutting down")),
        (
            "(APIServer pid=5101) OSError: [Errno 98] Address already in use",
            Head("APIServer", 5101, "", "", "OSError: [Errno 98] Address already in use"),
        ),
        ("Traceback (most recent call last):", Head("", 0, "", "", "Traceback (most recent call last):")),
        (
            "[2026-06-11 04:13:24 TP0] Init torch distributed begin.",
            Head("TP0", 0, "", "", "Init torch distributed begin."),
        ),
        (
            "Capturing CUDA graphs (PIECEWISE):  50%|#####     | 3/6 [00:01<00:01,  2.90it/s]"
            "(EngineCore pid=5) INFO 09-20 09:12:00 [core.py:3] Graph capturing finished in 5 secs, took 0.1 GiB",
            Head("EngineCore", 5, "INFO", "core.py:3", "Graph capturing finished in 5 secs, took 0.1 GiB"),
        ),
    ],
)
def test_heads_are_read_in_every_style(text: str, head: Head) -> None:
    assert parse_head(text) == head


def test_a_debug_line_names_its_place_by_path() -> None:
    head = parse_head("(EngineCore pid=5) DEBUG 09-20 09:12:00 [v1/engine/core.py:105] x")
    assert head.place == "v1/engine/core.py:105"


def test_words_in_a_path_are_neither_level_nor_process() -> None:
    head = parse_head("INFO 09-20 09:12:00 [a.py:1] Starting to load model /models/ERROR-(pid=1)-FAILED...")
    assert (head.process, head.level) == ("", "INFO")


def test_every_logger_line_of_a_real_load_has_level_and_place() -> None:
    text = (RECORDINGS / "gpu-h200x2" / "b3-memory-taken" / "server.raw.txt").read_text()
    logged = [line for line in text.splitlines() if " INFO 11-30" in line or " ERROR 11-30" in line]
    heads = [parse_head(line) for line in logged]
    assert len(heads) > 60
    assert all(head.level in ("INFO", "ERROR") and ".py:" in head.place and head.pid for head in heads)


@given(st.text(max_size=300))
def test_any_text_has_a_head(text: str) -> None:
    head = parse_head(text)
    assert "\r" not in head.message


@given(st.binary(max_size=200))
def test_any_bytes_have_a_head(data: bytes) -> None:
    parse_head(data.decode("utf-8", "backslashreplace"))


PIECES = (
    "(Worker_TP0 pid=77) ", "INFO 11-30 01:55:00 [x.py:1] ", "INFO", "INFO ", "INFO:     ", "ERROR ", "11-30 01:55:00 ",
    "[x.py:1]", "[", "]", "(", ")", " ", "\u2003", "|", "vllm-1  | ", "[2026-06-11 04:13:24 TP0] ", "some words", "\n",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_what_is_remembered_of_a_head_is_what_a_look_at_it_gives(text: str) -> None:
    """Escape sequences are nothing; with one at its end a line goes the long way."""
    if text and not text.endswith("\u2003"):
        assert parse_head(text) == parse_head(text) == parse_head(text + "\x1b[0m")
