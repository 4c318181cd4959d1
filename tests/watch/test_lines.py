"""How loud a line is, and who speaks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.readings import JournalLine
from watch.lines import ERROR, FATAL, INFO, PLAIN, WARNING, LineMark, LineMarker


def mark(text: str, **fields: object) -> LineMark:
    return LineMarker().mark(JournalLine(at=0.0, text=text, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "loudness", "process"),
    [
        ("(APIServer pid=1) INFO 09-20 14:50:00 [x.py:1] up", INFO, "APIServer"),
        ("(Worker_TP3 pid=4) WARNING 09-20 14:50:00 [x.py:1] w", WARNING, "Worker_TP3"),
        ("(EngineCore pid=2) ERROR 09-20 14:50:00 [x.py:1] e", ERROR, "EngineCore"),
        ("CRITICAL 09-20 14:50:00 [x.py:1] c", FATAL, "python3"),
        ("\rLoading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.00s/it]", PLAIN, "python3"),
        ("errors in /srv/models/fatal-error mean nothing", PLAIN, "python3"),
    ],
)
def test_loudness_comes_from_the_text(text: str, loudness: int, process: str) -> None:
    assert mark(text, comm="python3", priority=6) == LineMark(loudness, process, False)


@pytest.mark.parametrize(("priority", "loudness"), [(2, FATAL), (3, ERROR), (4, WARNING), (5, INFO), (6, INFO)])
def test_the_manager_sets_its_own_priority(priority: int, loudness: int) -> None:
    assert mark("Failed with result 'exit-code'.", source="systemd", priority=priority).loudness == loudness
    assert mark("ERROR 09-20 14:50:00 [x.py:1] e", source="unit", priority=6).loudness == ERROR


def test_a_bare_line_bears_the_last_name_of_its_process() -> None:
    marker = LineMarker()
    marker.mark(JournalLine(at=0.0, text="(Worker_TP0 pid=7) INFO 09-20 14:50:00 [x.py:1] a", pid=7))
    assert marker.mark(JournalLine(at=0.0, text="\rLoading:  1%", pid=7)).process == "Worker_TP0"
    assert marker.mark(JournalLine(at=0.0, text="\rLoading:  1%", pid=8, comm="VLLM::EngineCor")).process == "EngineCor"


TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/opt/vllm/engine.py", line 3, in run',
    "    raise ValueError(x)",
    "ValueError: Free memory on device cuda:0 is less than desired",
]


def test_a_bare_traceback_is_as_loud_as_an_error_whoever_speaks_between() -> None:
    marker = LineMarker()
    loud = []
    for text in TRACEBACK:
        loud.append(marker.mark(JournalLine(at=0.0, text=text, pid=7)).loudness)
        other = marker.mark(JournalLine(at=0.0, text="  an indented line of another process", pid=9))
        assert other.loudness == PLAIN
    assert loud == [ERROR] * 4
    assert marker.mark(JournalLine(at=0.0, text="and on it goes", pid=7)).loudness == PLAIN


def test_only_our_own_requests_are_ours() -> None:
    ours = 'INFO:     127.0.0.1:5 - "GET /health?firstlight HTTP/1.1" 200 OK'
    assert mark(ours).own
    assert mark(f"(APIServer pid=1) {ours}").own
    assert not mark('INFO:     127.0.0.1:5 - "GET /health HTTP/1.1" 200 OK').own
    assert not mark("INFO 09-20 14:50:00 [x.py:1] prompt: ?firstlight").own


@given(st.lists(st.tuples(st.text(), st.integers(0, 5), st.integers(-1, 9))))
def test_any_lines_at_all_are_marked(rows: list[tuple[str, int, int]]) -> None:
    marker = LineMarker()
    for text, pid, priority in rows:
        found = marker.mark(JournalLine(at=0.0, text=text, pid=pid, priority=priority))
        assert PLAIN <= found.loudness <= FATAL


TEXTS = st.sampled_from(
    [
        "(Worker_TP0 pid=77) INFO 11-30 01:55:00 [x.py:1] a line",
        "(EngineCore pid=78) ERROR 11-30 01:55:00 [x.py:1] Traceback (most recent call last):",
        "Traceback (most recent call last):",
        '  File "x.py", line 1, in f',
        "ValueError: no",
        'INFO:     127.0.0.1:5 - "GET /health?firstlight HTTP/1.1" 200 OK',
        "a bare line",
    ]
)


@given(
    st.lists(
        st.builds(
            JournalLine,
            at=st.just(0.0),
            text=TEXTS | st.text(max_size=5),
            pid=st.integers(0, 2),
            source=st.sampled_from(["unit", "unit", "systemd", "kernel", "other"]),
            priority=st.integers(0, 7),
            ident=st.sampled_from(["", "x"]),
            comm=st.sampled_from(["", "VLLM::Worker"]),
        )
    )
)
def test_many_lines_are_marked_as_each_by_itself(lines: list[JournalLine]) -> None:
    alone, together = LineMarker(), LineMarker()
    marks = [alone.mark(line) for line in lines]
    columns = [mark.loudness for mark in marks], [mark.own for mark in marks], [mark.process for mark in marks]
    assert together.mark_all(lines) == columns
