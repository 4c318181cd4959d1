"""Requests that run without a token: said in time, and never of a server that works."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.readings import JournalLine, LinkReading, MetricsReading, Sample
from watch.standstill import TELL, TELL_FIRST, TELL_SILENT, Standstill
from watch.state import WatchState

T0 = 1_789_896_000.0


def statistics(made: float, running: int = 16, *, kv: float = 12.4, prompt: float = 0.0, engine: str = "000") -> str:
    return (
        f"(APIServer pid=5) INFO 09-20 09:33:45 [loggers.py:259] Engine {engine}: Avg prompt throughput: {prompt} "
        f"tokens/s, Avg generation throughput: {made} tokens/s, Running: {running} reqs, Waiting: 4 reqs, "
        f"GPU KV cache usage: {kv}%, Prefix cache hit rate: 3.1%"
    )


def lines(*texts: str, every: float = 10.0) -> Standstill:
    fold = Standstill()
    for number, text in enumerate(texts):
        fold.line(T0 + number * every, text, f"log:{number + 1}")
    return fold


def page(at: float, made: float, running: float = 3.0, kv: float = 0.2, prefix: str = "vllm:") -> MetricsReading:
    figures = {"num_requests_running": running, "generation_tokens_total": made, "prompt_tokens_total": 50.0}
    if prefix == "vllm:":
        figures["kv_cache_usage_perc"] = kv
    samples = tuple(Sample(f"{prefix}{name}", {"engine": "0"}, value) for name, value in figures.items())
    return MetricsReading(at=at, samples=samples, status=200)


def test_lines_without_a_token_for_a_minute_are_a_standstill() -> None:
    fold = lines(statistics(500.0), *[statistics(0.0)] * 7)
    found = fold.view(T0 + 70)
    assert found is not None
    assert found.since == T0 + 10
    assert found.what == "16 requests run, 4 wait: no token for 60 s"
    assert found.refs == ("log:2", "log:8")
    assert lines(statistics(500.0), *[statistics(0.0)] * 6).view(T0 + 60) is None


@pytest.mark.parametrize(
    "last",
    [statistics(3.0), statistics(0.0, 0), statistics(0.0, prompt=120.0), statistics(0.0, kv=12.9)],
    ids=["a token", "nothing runs", "a prompt", "the cache fills"],
)
def test_what_moves_ends_it(last: str) -> None:
    assert lines(*[statistics(0.0)] * 12, last).view(T0 + 130) is None


def test_lines_far_apart_are_not_one_standstill() -> None:
    assert lines(statistics(0.0), statistics(0.0), every=600.0).view(T0 + 600) is None


def test_engines_are_told_apart() -> None:
    mixed = [statistics(9.0 * (number % 2), engine=f"00{number % 2}") for number in range(20)]  # 000 hangs, 001 works
    found = lines(*mixed).view(T0 + 190)
    assert found is not None
    assert found.since == T0
    healthy = [statistics(9.0, engine=f"00{number % 2}") for number in range(20)]
    assert lines(*healthy).view(T0 + 190) is None


def test_silence_after_a_line_without_tokens_counts_longer() -> None:
    fold = lines(statistics(500.0), statistics(0.0))
    assert fold.view(T0 + 10 + TELL + 30) is None
    assert fold.view(T0 + 10 + TELL_SILENT) is not None


def test_the_first_requests_may_compile_kernels_for_minutes() -> None:
    fold = lines(*[statistics(0.0)] * 40)
    assert lines(*[statistics(0.0)] * 30).view(T0 + TELL_FIRST - 10) is None
    assert fold.view(T0 + 390) is not None


def test_pages_that_stand_still() -> None:
    fold = Standstill()
    for second in range(0, int(TELL) + 5, 5):
        fold.page(page(T0 + second, 1000.0))
    assert fold.view(T0 + TELL) is not None
    fold.page(page(T0 + 65, 1001.0))
    assert fold.view(T0 + 65) is None


def test_pages_on_which_nothing_runs_or_the_cache_fills_do_not() -> None:
    idle, filling = Standstill(), Standstill()
    for second in range(0, 300, 5):
        idle.page(page(T0 + second, 1000.0, running=0.0))
        filling.page(page(T0 + second, 1000.0, kv=0.2 + second / 1000))
    assert idle.view(T0 + 300) is None
    assert filling.view(T0 + 300) is None


def test_a_page_that_moves_outweighs_the_silence_of_the_log() -> None:
    fold = lines(statistics(0.0))
    fold.page(page(T0 + 100, 1000.0))
    fold.page(page(T0 + 300, 2000.0))
    assert fold.view(T0 + 300) is None


def test_sglang_counts_when_a_request_is_over() -> None:
    fold = Standstill()
    for second in range(0, 300, 5):
        fold.page(page(T0 + second, 1000.0, prefix="sglang:"))
    assert fold.view(T0 + 300) is None


def _served(*texts: str) -> WatchState:
    state = WatchState("host", "vllm.service")
    said = [
        "INFO 09-20 09:30:00 [api_server.py:1] vLLM API server version 0.19.1",
        "INFO: Application startup complete.",
    ]
    state.apply_lines([JournalLine(at=T0 + 10 * n, text=text, pid=5) for n, text in enumerate([*said, *texts])])
    return state


def test_a_hung_server_is_not_called_healthy() -> None:
    state = _served(statistics(80.0), *[statistics(0.0)] * 9)
    view = state.view(T0 + 110)
    assert (view.state, view.phase, view.severity) == ("ready", "serving", "error")
    assert view.findings[0].id == "no-tokens"
    assert "no token" in view.headline
    assert not _served(*[statistics(0.0)] * 9, statistics(80.0)).view(T0 + 110).findings


def test_a_link_that_is_down_says_nothing_about_the_server() -> None:
    state = _served(statistics(500.0), statistics(0.0))
    state.apply(LinkReading(at=T0 + 40, state="down", reason="timeout"))
    assert state.view(T0 + 4000).stall is None


@given(st.lists(st.one_of(st.text(max_size=200), st.builds(statistics, st.sampled_from([0.0, 9.0]))), max_size=30))
def test_any_text_is_taken(texts: list[str]) -> None:
    lines(*texts).view(T0 + 1000)
