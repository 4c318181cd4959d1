"""The table of marks: every row against its own examples, and against all others'."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.watch.feeds import CASES, RECORDINGS
from watch.heads import plain
from watch.load import ORDER
from watch.marks import Mark, MarksError, read_marks, shipped
from watch.matching import Matcher

MARKS = shipped()
MATCHER = Matcher(MARKS.patterns)
ROWS = [(index, row.id, example) for index, row in enumerate(MARKS.rows) for example in row.examples]
KNOWN_PAIRS = {
    frozenset(pair)
    for pair in (
        ("argument-error", "arguments-rejected"),
        ("in-load-draft", "in-load-model"),
        ("kv-size", "kv-concurrency"),
        ("bar-deepgemm", "sglang-deepgemm"),
        ("ready", "sglang-api"),
        ("tasks", "offline-ready"),
    )
}


@pytest.mark.parametrize(("index", "name", "example"), ROWS, ids=[f"{name}-{i}" for i, (_, name, _) in enumerate(ROWS)])
def test_a_row_finds_its_examples_with_and_without_their_heads(index: int, name: str, example: str) -> None:
    assert index in MATCHER.rows(example)
    assert index in MATCHER.rows(plain(example))
    others = {MARKS.rows[row].id for row in MATCHER.rows(example)} - {name}
    assert all(frozenset((name, other)) in KNOWN_PAIRS for other in others), others


@pytest.mark.parametrize("mark", MARKS.marks, ids=[mark.id for mark in MARKS.marks])
def test_a_row_makes_sense(mark: Mark) -> None:
    assert mark.examples
    assert bool(mark.after) == bool(mark.instead)
    if mark.then:
        assert mark.event == "end"
        assert ORDER[mark.then] > ORDER[mark.phase]
    if mark.backdate:
        assert "(?P<seconds>" in mark.pattern
    if mark.unit:
        assert mark.event == "progress"


def test_named_groups_are_facts() -> None:
    text = (
        "(Worker_TP0 pid=3126) INFO 11-30 01:45:03 [weight_utils.py:849] Filesystem type for checkpoints: EXT4. "
        "Checkpoint size: 55.96 GiB. Available RAM: 246.66 GiB."
    )
    (row,) = MATCHER.rows(text)
    assert MARKS.fields(row, text) == {"filesystem": "EXT4", "checkpoint_gib": "55.96", "ram_gib": "246.66"}


def test_an_error_dump_is_no_beginning() -> None:
    assert not MATCHER.rows(
        "ERROR 09-20 09:12:12 [dump_input.py:69] Dumping input data for V1 LLM engine (v0.11.0) with config: model='x'"
    )


def test_free_memory_on_start_up_is_not_a_mark_of_failure() -> None:
    text = (
        "INFO 11-30 01:45:03 [gpu_worker.py:500] Free memory on device (137.2/139.8 GiB) on startup. "
        "Desired GPU memory utilization is (0.9, 125.82 GiB)."
    )
    assert not MATCHER.rows(text)


def test_client_errors_are_not_the_end_of_a_server() -> None:
    lines = (CASES / "C72-request-errors-after-ready" / "input.journal.jsonl").read_text()
    assert not [row for row in MATCHER.rows(lines) if MARKS.death(row)]


def test_a_healthy_load_has_no_line_after_which_it_cannot_become_ready() -> None:
    text = (RECORDINGS / "gpu-h200x2" / "b1-ngram-cold-cache" / "server.raw.txt").read_text()
    assert not [row for row in MATCHER.rows(text) if MARKS.death(row)]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[[mark]]\nid='a'\nphase='weights'\nevent='start'\npattern='('\nexamples=[]\n", "'a'"),
        ("[[mark]]\nid='a'\nphase='nowhere'\nevent='start'\npattern='x'\nexamples=[]\n", "phase"),
        ("[[mark]]\nid='a'\n", "required field"),
        ("[[notice]]\nid='a'\npattern='x'\nexamples=[]\n[[death]]\nid='a'\npattern='y'\nexamples=[]\n", "'a'"),
        ("[[mark", "end of document"),
    ],
)
def test_a_broken_table_is_one_sentence(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "marks.toml"
    path.write_text(text)
    with pytest.raises(MarksError) as caught:
        read_marks([path])
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)
