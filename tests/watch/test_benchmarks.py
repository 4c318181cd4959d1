"""Benchmark results and their comparison, over recorded runs; the ratios are worked out by hand from the raw JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watch.benchmarks.compare import Comparison, Side, compare
from watch.benchmarks.result import BadResult, BenchResult, read_result

RECORDINGS = Path(__file__).parent.parent / "recordings"


def raw(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDINGS / path).read_bytes())
    return found


def side(name: str, *paths: str, **facts: str) -> Side:
    return Side(name=name, runs=tuple(read_result((RECORDINGS / path).read_bytes()) for path in paths), facts=facts)


def pair(before: list[str], after: list[str]) -> Comparison:
    return compare(side("baseline", *before), side("n-gram", *after))


def test_gpu_ngram_against_its_baseline() -> None:
    found = pair(
        ["gpu-h200x2/b2-baseline-worker-killed/bench.base.json"], ["gpu-h200x2/b1-ngram-cold-cache/bench.spec.json"]
    )
    # 147,456 tokens in 52.218 s against the same tokens in 44.650 s
    (point,) = found.points
    assert point.throughput.b == pytest.approx(147456 / 52.21805059600001)
    assert point.throughput.ratio == pytest.approx(2823.85 / 3302.48, abs=1e-4)
    assert point.throughput.word == "worse"
    assert found.verdict == (
        "n-gram: 0.86 × baseline output tokens per second, acceptance length 4.2; worse at concurrency 32"
    )
    assert "one run each: how much two runs of the same configuration differ is unknown" in found.doubts
    assert found.regression() == pytest.approx(1 - 2823.85 / 3302.48, abs=1e-4)
    by_name = {ratio.name: ratio for ratio in point.ratios}
    # 384 requests in the same times; latencies in ms as vLLM has them, lower is better
    for name, before, after, word in (
        ("request throughput", 384 / 44.6501, 384 / 52.2181, "worse"),
        ("TTFT median", 200.70, 116.52, "better"),
        ("TTFT p99", 1634.65, 2231.95, "worse"),
        ("TPOT median", 8.74, 7.58, "better"),
        ("TPOT p99", 11.94, 33.45, "worse"),
    ):
        ratio = by_name[name]
        assert (ratio.a, ratio.b) == (pytest.approx(before, rel=1e-3), pytest.approx(after, rel=1e-3)), name
        assert ratio.ratio == pytest.approx(after / before, rel=2e-3)
        assert ratio.word == word
    # 108050 tokens accepted in 34164 drafts
    (run,) = side("n-gram", "gpu-h200x2/b1-ngram-cold-cache/bench.spec.json").runs
    assert run.speculation is not None
    assert run.speculation.length == pytest.approx(1 + 108050 / 34164)


def test_cpu_ngram_loses_with_the_larger_model() -> None:
    found = pair(
        ["cpu-baseline/bench-c4-result.json", "cpu-baseline/bench-rate-result.json"],
        ["cpu-ngram/bench-c4-result.json", "cpu-ngram/bench-rate-result.json"],
    )
    ratios = {point.level: round(point.throughput.ratio, 3) for point in found.points}
    # 9.28 / 10.46 tokens a second at concurrency 4; 8.85 / 10.58 at 0.5 requests a second
    assert ratios == {"concurrency 4": 0.888, "0.5 requests/s": 0.836}
    # 1024 tokens in 97.9281 s and in 110.3269 s; 512 in 48.3956 s and in 57.8725 s
    assert [point.throughput.ratio for point in found.points] == [
        pytest.approx(97.9281 / 110.3269, abs=1e-5),
        pytest.approx(48.3956 / 57.8725, abs=1e-5),
    ]
    # the geometric mean of both; (1024 × 3.9213 + 512 × 3.4711) / 1536 tokens a step
    assert found.verdict == (
        "n-gram: 0.86 × baseline output tokens per second, acceptance length 3.8; worse at every load level"
    )


def test_cpu_ngram_wins_with_the_small_model() -> None:
    found = pair(
        ["cpu-small-baseline/bench-c1-result.json", "cpu-small-baseline/bench-c4-result.json"],
        ["cpu-small-ngram/bench-c1-result.json", "cpu-small-ngram/bench-c4-result.json"],
    )
    # 114.89 / 31.54 and 297.84 / 103.72
    assert [round(point.throughput.ratio, 2) for point in found.points] == [3.64, 2.87]
    # 768 tokens in 24.3475 s and in 6.6848 s; 2048 in 19.7457 s and in 6.8763 s
    assert [point.throughput.ratio for point in found.points] == [
        pytest.approx(24.3475 / 6.6848, abs=1e-4),
        pytest.approx(19.7457 / 6.8763, abs=1e-4),
    ]
    # √(3.642 × 2.872); (768 × 5.3529 + 2048 × 5.4624) / 2816 tokens a step
    assert found.verdict == (
        "n-gram: 3.23 × baseline output tokens per second, acceptance length 5.4; better at every concurrency"
    )
    assert found.regression() == 0.0


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("cpu-bench-server-killed/bench-dies-result.json", "38 of its 40 requests failed"),
        ("cpu-bench-refused/bench-result.json", "none of its 4 requests completed"),
        ("cpu-bench-wrong-model/bench-badmodel-result.json", "none of its 4 requests completed"),
    ],
)
def test_a_run_with_failures_gets_no_verdict_however_healthy_its_rates(path: str, why: str) -> None:
    found = compare(side("baseline", "cpu-baseline/bench-c4-result.json"), side("new", path))
    assert found.verdict == ""
    assert found.regression() is None
    assert why in " ".join(found.refused)


def changed(path: str, **values: object) -> BenchResult:
    return read_result(raw(path) | values)


def test_another_way_of_measuring_is_named_and_refused() -> None:
    base = "cpu-small-baseline/bench-c4-result.json"
    longer = changed(base, total_output_tokens=4096, num_prompts=32)
    found = compare(side("a", base), Side(name="b", runs=(longer,)))
    assert found.verdict == ""
    assert "measured differently at concurrency 4: number of prompts 16 against 32" in found.refused


def test_measured_through_a_tunnel_and_on_the_server_is_not_the_same() -> None:
    base = "cpu-small-baseline/bench-c4-result.json"
    way = "through the SSH tunnel from laptop"
    there, here = side("baseline", base), side("run 2", base, measured=way)
    found = compare(there, here)
    assert found.verdict == ""
    assert found.regression() is None
    assert f"measured differently: baseline on the server's own host, run 2 {way}" in found.refused
    assert compare(here, there).verdict == ""
    alike = compare(here, side("run 3", base, measured="through the SSH tunnel from desk"))
    assert alike.verdict, "with its like"
    assert ("measured", way, "through the SSH tunnel from desk") in alike.differs


def test_what_else_differs_stands_beside_the_verdict() -> None:
    base = "cpu-small-baseline/bench-c4-result.json"
    found = compare(side("a", base, vllm="0.31.0", gpu="H200"), side("b", base, vllm="0.32.0", gpu="H200"))
    assert found.differs == (("vllm", "0.31.0", "0.32.0"),)
    assert found.verdict.endswith("level at concurrency 4")


def test_repeats_give_an_interval_and_the_same_one_each_time() -> None:
    base = "cpu-small-baseline/bench-c4-result.json"
    runs = [changed(base, output_throughput=100.0 + n) for n in (0, 2, 4)]
    slower = [changed(base, output_throughput=90.0 + n) for n in (0, 2, 4)]
    found = compare(Side(name="a", runs=tuple(runs)), Side(name="b", runs=tuple(slower)))
    ratio = found.points[0].throughput
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < 92 / 102 < ratio.high < 1
    assert ratio.word == "worse"
    assert not any("one run each" in doubt for doubt in found.doubts)
    again = compare(Side(name="a", runs=tuple(runs)), Side(name="b", runs=tuple(slower)))
    assert again.points[0].throughput == ratio


def test_peak_tokens_of_a_speculating_server_are_never_read() -> None:
    result = read_result(raw("gpu-h200x2/b1-ngram-cold-cache/bench.spec.json"))
    # 1307 "tokens a second" at its peak, below its own mean of 2824: stream chunks
    shown = msgspec.structs.asdict(result) | {"raw": None}
    assert 1307.0 not in shown.values()


@pytest.mark.parametrize(
    ("data", "says"), [(b"", "empty"), (b'{"completed": 4, "dur', "cut short"), (b"[]", "cut short")]
)
def test_a_broken_file_is_one_sentence(data: bytes, says: str) -> None:
    with pytest.raises(BadResult, match=says):
        read_result(data)


def test_of_appended_results_the_last_is_meant() -> None:
    one = (RECORDINGS / "cpu-small-baseline/bench-c1-result.json").read_bytes()
    other = (RECORDINGS / "cpu-small-baseline/bench-c4-result.json").read_bytes()
    assert read_result(one + b"\n" + other).concurrency == 4


@given(st.binary(max_size=200))
def test_any_bytes_are_a_result_or_one_sentence(data: bytes) -> None:
    with pytest.raises(BadResult):
        read_result(data)


values = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.lists(st.floats(), max_size=3)


@given(st.dictionaries(st.sampled_from(sorted(raw("cpu-small-ngram/bench-c4-result.json"))), values, max_size=4))
@example({"output_throughput": False})
@example({"output_throughput": float("nan"), "mean_ttft_ms": float("inf")})
def test_a_result_with_odd_values_is_read_compared_or_refused(odd: dict[str, Any]) -> None:
    base = raw("cpu-small-ngram/bench-c4-result.json")
    said = ""
    try:
        result = read_result(base | odd)
    except BadResult as error:
        said = str(error)
        assert "\n" not in said
        return
    compare(Side(name="a", runs=(read_result(base),)), Side(name="b", runs=(result,)))
