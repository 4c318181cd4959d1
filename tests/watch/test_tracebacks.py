"""Tracebacks of many processes in one stream: heads on every line, prefixes, or nothing at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probes.readings import JournalLine
from watch.heads import parse_head
from watch.tracebacks import Step, Tracebacks

BARE = """Process EngineCore:
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/process.py", line 314, in _bootstrap
    self.run()
    ^^^^^^^^^^
  File "/opt/vllm/site/vllm/v1/engine/core.py", line 1482, in run_engine_core
    raise ValueError(
ValueError: no room
"""
CHAINED = """Traceback (most recent call last):
  File "/opt/vllm/site/vllm/a.py", line 1, in f
    x["y"]
KeyError: 'y'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/vllm/site/vllm/a.py", line 3, in f
    raise RuntimeError("no y")
RuntimeError: no y
"""


def steps(text: str, *, pid: int = 0, head: str = "") -> list[Step]:
    traces = Tracebacks()
    out = []
    for number, line in enumerate(text.splitlines()):
        step = take(traces, head + line, pid=pid, at=number)
        if step is not None:
            out.append(step)
    return out


def take(traces: Tracebacks, text: str, *, pid: int = 0, at: float = 0.0) -> Step | None:
    return traces.take(JournalLine(at=at, text=text, pid=pid), parse_head(text))


def raised(found: list[Step]) -> list[tuple[str, str]]:
    return [(step.type, step.text) for step in found if step.what == "raised"]


def test_a_bare_traceback() -> None:
    found = steps(BARE)
    assert raised(found) == [("ValueError", "no room")]
    block = found[-1].block
    assert block is not None
    assert block.uncaught
    assert block.heading == "Process EngineCore:"
    assert block.telling is not None
    assert block.telling.name == "run_engine_core"


def test_a_head_on_every_line() -> None:
    head = "(Worker_TP5 pid=5208) ERROR 09-20 09:13:14 [multiproc_executor.py:857] "
    found = steps(BARE, head=head)
    assert raised(found) == [("ValueError", "no room")]
    assert found[-1].block is not None
    assert not found[-1].block.uncaught


def test_a_prefix_on_every_line() -> None:
    assert raised(steps(BARE, head="(APIServer pid=5101) ")) == [("ValueError", "no room")]


def test_the_exceptions_of_a_chain_belong_together() -> None:
    found = steps(CHAINED)
    assert raised(found) == [("KeyError", "'y'"), ("RuntimeError", "no y")]
    assert len({step.block.chain for step in found if step.block is not None}) == 1


def test_two_processes_do_not_disturb_each_other() -> None:
    traces = Tracebacks()
    one, other = BARE.splitlines(), BARE.replace("no room", "no key").splitlines()
    found = []
    for a, b in zip(one, other, strict=True):
        for text, pid in ((a, 1), (b, 2)):
            step = take(traces, text, pid=pid)
            if step is not None and step.what == "raised":
                found.append(step.text)
    assert found == ["no room", "no key"]


def test_an_orphans_bar_between_the_lines_does_not_end_it() -> None:
    lines = BARE.splitlines()
    lines.insert(4, "\rLoading safetensors checkpoint shards:  94% Completed | 15/16 [00:00<00:00, 22.61it/s]")
    assert raised(steps("\n".join(lines).replace("\r", ""))) == [("ValueError", "no room")]


def test_more_of_the_message_is_detail() -> None:
    text = BARE.replace(
        "ValueError: no room",
        "pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\nmethod\n  Input should be 'ngram'",
    )
    details = [step.text.strip() for step in steps(text) if step.what == "detail"]
    assert details == ["method", "Input should be 'ngram'"]


def test_a_line_of_another_place_ends_it() -> None:
    traces = Tracebacks()
    head = "(APIServer pid=1) ERROR 09-20 09:12:44 [serving_chat.py:200] "
    for line in BARE.splitlines():
        take(traces, head + line)
    assert traces.open
    take(traces, "(APIServer pid=1) INFO 09-20 09:12:54 [loggers.py:259] Engine 000: Avg prompt throughput")
    assert not traces.open


def test_it_is_closed_when_nothing_more_comes() -> None:
    traces = Tracebacks()
    take(traces, "Traceback (most recent call last):", pid=7)
    assert traces.open
    for _ in range(1000):
        take(traces, "hello", pid=8)
    assert not traces.open


def test_an_exception_without_a_traceback() -> None:
    (step,) = steps("RuntimeError: Engine process failed to start")
    assert (step.what, step.type) == ("lone", "RuntimeError")


def test_a_name_of_a_level_is_no_exception() -> None:
    assert steps("ERROR: something") == []
    assert steps("WARNING:  Invalid HTTP request received.") == []


def test_groups_of_exceptions() -> None:
    text = """  + Exception Group Traceback (most recent call last):
  |   File "/usr/lib/python3.11/asyncio/runners.py", line 118, in run
  |     return self._loop.run_until_complete(task)
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
"""
    assert raised(steps(text))[0][0] == "ExceptionGroup"


@given(st.lists(st.tuples(st.sampled_from([*BARE.splitlines(), *CHAINED.splitlines()]) | st.text(), st.integers(0, 3))))
def test_any_lines_in_any_order(lines: list[tuple[str, int]]) -> None:
    traces = Tracebacks()
    for text, pid in lines:
        take(traces, text, pid=pid)
