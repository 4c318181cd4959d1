"""The benchmarks' own rules: what no clock is in can fail a run, a time never does; what is lost is counted as lost."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench import __main__ as runner
from bench import deluge
from bench.figures import Figure, Unable, table
from bench.peers import FIGURES, SHORT, WHOLE, Row, behind, figures, never
from bench.peers import table as peers_table
from probes.readings import JournalLine
from watch.session import SessionWriter, new_header

SLOW = Figure(name="a key", value=900, unit="ms", goal="≤ 100 ms", good=False)
LOST = Figure(name="lines", value=9, unit="lines", floor=10, goal="all", good=False, must=True)
KEPT = Figure(name="lines", value=10, unit="lines", floor=10, goal="all", good=True, must=True)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """``running(*argv, gives=…)``: the exit status of a run whose benchmark gives these figures, or raises this."""

    def run(*argv: str, gives: list[Figure] | Exception) -> int:
        module = importlib.import_module("bench.deluge")

        def given() -> list[Figure]:
            if isinstance(gives, Exception):
                raise gives
            return gives

        monkeypatch.setattr(module, "figures", given)
        monkeypatch.setattr(module, "short", given)
        monkeypatch.setattr("sys.argv", ["bench", *argv])
        return runner.main()

    monkeypatch.delenv("FIRSTLIGHT_REQUIRE_HOST", raising=False)
    return run


@pytest.mark.parametrize("form", [["deluge"], ["--short", "deluge"]])
def test_a_time_is_told_and_what_must_be_fails(running: Callable[..., int], form: list[str]) -> None:
    assert running(*form, gives=[SLOW, KEPT]) == 0
    assert running(*form, gives=[SLOW, LOST]) == 1
    assert running(*form, gives=TimeoutError("its last line was never on the screen")) == 1


def test_what_cannot_run_fails_where_it_must_run(
    running: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert running("deluge", gives=Unable("a real host needs root")) == 0
    monkeypatch.setenv("FIRSTLIGHT_REQUIRE_HOST", "1")
    assert running("deluge", gives=Unable("a real host needs root")) == 1
    assert capsys.readouterr().err.count("deluge: left out: a real host needs root") == 2


def test_every_short_form_is_there(running: Callable[..., int]) -> None:
    for name in runner.SHORT:
        module = importlib.import_module(f"bench.{name}")
        assert callable(module.short), name
    assert running("--short", "paint", gives=[]) == 2
    assert running("nothing-of-this-name", gives=[]) == 2


def test_the_table_says_which_miss_is_a_failure() -> None:
    _, slow, lost, kept = table([SLOW, LOST, KEPT]).splitlines()
    assert slow.endswith("MISSED")
    assert lost.endswith("FAILED")
    assert kept.endswith("reached")


@pytest.mark.parametrize(
    ("numbers", "counted"),
    [
        ([0, 1, 2, 3], (4, 0)),
        ([0, 1, 3], (3, 0)),  # one that is missing shows in the number
        ([0, 1, 1, 2], (3, 1)),
        ([0, 2, 1, 3], (4, 1)),
    ],
)
def test_lines_of_a_recording_are_counted_once_each_and_in_order(
    tmp_path: Path, numbers: list[int], counted: tuple[int, int]
) -> None:
    where = tmp_path / ".local/state/firstlight/sessions"
    where.mkdir(parents=True)
    writer = SessionWriter(new_header("llm-two", "vllm.service", 1.0), where=where)
    for number in numbers:
        text = f"(Worker_TP0 pid=77) INFO 11-30 01:55:00 [x.py:1] line {number}"
        writer.write(
            JournalLine(at=2.0, text=text, pid=7, unit="vllm.service", invocation="a" * 32, cursor=f"c{number}")
        )
    writer.close()
    assert deluge._recorded(tmp_path) == counted


def row(name: str, value: float, full: bool = True) -> Row:
    return Row(name, full, dict.fromkeys(FIGURES, value))


def test_the_peers_table_has_ratios_and_hides_nothing() -> None:
    ours, theirs, plain = row("firstlight", 10.0), row("lnav", 5.0), row("journalctl -f", 1.0, full=False)
    theirs.values["p99"] = None
    text = peers_table([ours, theirs, plain], SHORT)
    assert "| 10 s | 5 s (0.5 ×) | 1 s (0.1 ×) |" in text
    assert "| 10 ms | never | 1 ms (0.1 ×) |" in text
    assert "100,000 in the journal" in text
    assert "a million in the journal" in peers_table([ours], WHOLE)
    ahead = behind([ours, theirs, plain], SHORT)
    assert len(ahead) == len(FIGURES) - 2  # all but the flood, of which more is better, and what never came
    assert not any("journalctl" in one for one in ahead)


def test_what_our_program_never_came_to_is_said() -> None:
    assert never(row("firstlight", 1.0), SHORT) == []
    incomplete = row("firstlight", 1.0)
    incomplete.values["flood"] = None
    del incomplete.values["newest"]
    wanted = figures(SHORT)
    assert never(incomplete, SHORT) == [wanted["newest"][1], wanted["flood"][1]]
    assert figures(replace(SHORT, lines=5000))["memory"][1] == "memory with 5,000 lines"
