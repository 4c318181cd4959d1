"""Benchmarks in a watch: presets, the fold of their readings, energy, growth, what is kept and how it is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.metrics import PageParser
from probes.readings import (
    BenchReading,
    GpuDevice,
    GpuProcess,
    GpuProcesses,
    GpuReading,
    JournalLine,
    MetricsReading,
    Reading,
    Sample,
)
from watch.benchmarks.compare import Comparison
from watch.benchmarks.energy import Energy
from watch.benchmarks.growth import growth
from watch.benchmarks.keep import (
    compare_kept,
    earlier_runs,
    keep,
    name_of,
    results_of,
    side_of,
    verdict_reading,
    word_of,
)
from watch.benchmarks.presets import BadPreset, levels, preset, presets
from watch.benchmarks.told import comparison_json, comparison_markdown, kept_json, outcome, summaries
from watch.config import Config, Preset
from watch.explain import explain, render_text, report_json
from watch.history import Benchmark, History, Key, LoadRecord
from watch.session import SessionWriter, new_header
from watch.state import WatchState
from watch.view import View

RECORDINGS = Path(__file__).parent.parent / "recordings"
T = 1_796_000_000.0
RUN = "ab12cd"


def raw(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDINGS / path).read_bytes())
    return found


def page(path: str) -> tuple[Sample, ...]:
    return PageParser().parse((RECORDINGS / path).read_bytes())


def said(stage: str, outcome: str = "", at: float = T, text: str = "", **more: Any) -> BenchReading:
    values = {"unit": "vllm.service", "who": "ann@laptop", "preset": "quick", "parts": 2, **more}
    return BenchReading(at=at, run=RUN, stage=stage, outcome=outcome, text=text, **values)


def folded(*readings: Reading) -> View:
    state = WatchState("llm-two", "vllm")
    for reading in readings:
        state.apply(reading)
    return state.view(T + 1000)


def gpus(at: float, *devices: tuple[float | None, float | None]) -> GpuReading:
    """(energy, power) of each"""
    listed = [GpuDevice(index=n, energy_j=energy, power=power) for n, (energy, power) in enumerate(devices)]
    return GpuReading(at=at, devices=tuple(listed))


RESULT = raw("cpu-ngram/bench-c4-result.json")
BEGIN = (
    said("begin", "begun"),
    said("look", "done", facts={"gpu": "2 × H200", "topology": "NV18 between all"}),
    said("ready", "done", facts={"model": "tiny", "invocation": "f00"}),
)


def result(part: int = 1, at: float = T + 60, **more: Any) -> BenchReading:
    values = {"result": RESULT, "failed": 0, "done": 16, "began": T + 10, "concurrency": 4, "repeat": part, **more}
    return said("result", "done", at=at, part=part, **values)


# ----- presets


def test_all_that_ship_measure_something() -> None:
    for name, one in presets(Config()).items():
        assert levels(name, one), name
        assert one.title
    assert [level.concurrency for level in levels("sweep", preset(Config(), "sweep"))] == [1, 4, 16, 64]


def test_own_presets_take_the_place_of_ours() -> None:
    config = Config(presets={"quick": Preset(concurrency=(2,)), "mine": Preset()})
    assert preset(config, "quick").concurrency == (2,)
    assert {"quick", "mine", "standard"} <= set(presets(config))


def test_a_wrong_name_is_told_the_nearest() -> None:
    with pytest.raises(BadPreset, match='did you mean "standard"'):
        preset(Config(), "standart")


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": ()},
        {"concurrency": (0,)},
        {"prompts": 0},
        {"repeats": 0},
        {"output_len": -1},
        {"limit": 0.0},
        {"repeats": 1000},
        {"extra": ("--x", "a\nb")},
    ],
)
def test_what_measures_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadPreset):
        levels("mine", Preset(**wrong))


@given(st.lists(st.integers(1, 64), min_size=1, max_size=5), st.integers(1, 4), st.integers(0, 50))
def test_no_two_runs_have_the_same_prompts(concurrency: list[int], repeats: int, earlier: int) -> None:
    made = levels("mine", Preset(concurrency=tuple(concurrency), repeats=repeats), earlier=earlier)
    assert len({level.seed for level in made}) == len(made) == len(concurrency) * repeats
    assert min(level.seed for level in made) >= earlier
    assert [level.concurrency for level in made[: len(concurrency)]] == concurrency, "all loads before a repeat"


# ----- energy and growth


def test_energy_by_counters() -> None:
    energy = Energy()
    for second in range(0, 101, 10):
        energy.take(gpus(T + second, (1000.0 + 500 * second, 1.0), (9000.0 + 300 * second, 1.0)))
    assert energy.used(T + 15, T + 75) == pytest.approx(60 * 800)
    assert energy.used(T + 15, T + 75, frozenset((1,))) == pytest.approx(60 * 300)


def test_energy_by_power_where_there_is_no_counter() -> None:
    energy = Energy()
    for second in range(0, 101, 10):
        energy.take(gpus(T + second, (None, 100.0 + second)))
    # the mean of a straight line from 120 W to 180 W, over 60 s
    assert energy.used(T + 20, T + 80) == pytest.approx(60 * 150)


def test_no_energy_where_nobody_looked() -> None:
    energy = Energy()
    assert energy.used(T, T + 10) is None
    for second in (0, 1):
        energy.take(gpus(T + second, (float(second), 1.0)))
    assert energy.used(T, T + 60) is None
    assert energy.used(T - 60, T + 1) is None
    reset = Energy()
    for second, joules in ((0, 500.0), (30, 700.0), (60, 100.0)):
        reset.take(gpus(T + second, (joules, None)))
    assert reset.used(T, T + 60) is None, "the counter began anew in between"


def test_growth_of_a_real_run() -> None:
    grown = growth(page("cpu-ngram/metrics-first.txt"), page("cpu-ngram/metrics-last.txt"))
    assert grown is not None
    # 484 drafts, of whose 1927 tokens 1457 were accepted: 403, 311, 296, 225, 222 by position
    assert grown.acceptance_length == pytest.approx(1 + 1457 / 484)
    assert grown.acceptance_rate == pytest.approx(1457 / 1927)
    assert grown.positions == pytest.approx([count / 484 for count in (403, 311, 296, 225, 222)])
    assert grown.preemptions == 0


def test_a_server_started_anew_in_between_has_no_growth() -> None:
    assert growth(page("cpu-ngram/metrics-last.txt"), page("cpu-ngram/metrics-first.txt")) is None
    assert growth((), page("cpu-ngram/metrics-first.txt")) is None


# ----- the fold


def test_how_it_goes_on() -> None:
    level = said("level", "begun", at=T + 10, part=1, concurrency=4, total=16, text="run 1 of 2: concurrency 4")
    view = folded(
        *BEGIN,
        said("ready", "warn", text="3 requests of others were at work when it began"),
        level,
        said("progress", at=T + 20, part=1, done=5, total=16),
        MetricsReading(at=T + 20, samples=(Sample("vllm:generation_tokens_total", {}, 100.0),)),
        MetricsReading(at=T + 22, samples=(Sample("vllm:generation_tokens_total", {}, 400.0),)),
    ).benchmark
    assert view is not None
    assert (view.state, view.part, view.parts, view.concurrency, view.done, view.total) == ("running", 1, 2, 4, 5, 16)
    assert view.generation_tps == pytest.approx(150.0)
    assert view.warnings == ("3 requests of others were at work when it began",)
    assert view.facts["topology"] == "NV18 between all"
    assert view.invocation == "f00"


def test_armed_before_the_load() -> None:
    armed = said("arm", "begun", text="armed: quick begins by itself when the load is ready")
    view = folded(armed).benchmark
    assert view is not None
    assert (view.state, view.text) == ("armed", armed.text)
    begun = folded(armed, *BEGIN).benchmark
    assert begun is not None
    assert begun.state == "running"
    off = folded(armed, said("arm", "cancelled", text="no longer armed")).benchmark
    assert off is not None
    assert off.state == "cancelled"


def test_a_result_with_energy_and_acceptance() -> None:
    devices = [gpus(T + second, (1000.0 * second, None), (1000.0 * second, None)) for second in range(0, 80, 5)]
    mine = GpuProcesses(at=T, processes=(GpuProcess(gpu=1, pid=7, unit="vllm.service"), GpuProcess(gpu=0, pid=8)))
    view = folded(*BEGIN, mine, *devices, result(), said("end", "done", at=T + 61, text="measured")).benchmark
    assert view is not None
    assert (view.state, view.ended) == ("done", T + 61)
    (level,) = view.levels
    assert level.output_tps == RESULT["output_throughput"]
    assert level.acceptance_length == pytest.approx(3.92, abs=0.01)
    # GPU 1 alone is the unit's: 50 s of 1000 W for 1024 tokens
    assert level.joules_per_token == pytest.approx(50_000 / 1024)
    assert level.watts == pytest.approx(1000.0)
    assert level.unusable == ""


def test_failures_are_counted_and_judged() -> None:
    dies = raw("cpu-bench-server-killed/bench-dies-result.json")
    text = "2 of 40 requests completed (first error: Connection refused)"
    view = folded(*BEGIN, result(result=dies, done=2, failed=38, text=text)).benchmark
    assert view is not None
    assert (view.failed, view.first_error) == (38, "Connection refused")
    assert "38 of its 40 requests failed" in view.levels[0].unusable


def access(status: str, at: float = T + 15, path: str = "/v1/completions", source: str = "unit") -> JournalLine:
    text = f'(APIServer pid=7) INFO:     127.0.0.1:4{status[:3]} - "POST {path} HTTP/1.1" {status}'
    return JournalLine(at=at, source=source, unit="vllm.service", text=text)


def test_requests_that_fail_are_counted_while_it_goes_on() -> None:
    """vLLM's benchmark tells of them at its end, the server's access log at once."""
    first = said("level", "begun", at=T + 10, part=1, concurrency=4, total=16)
    so_far = (
        access("500 Internal Server Error", T + 5),
        *BEGIN,
        access("500 Internal Server Error", T + 6),
        first,
        access("200 OK"),
        access("503 Service Unavailable"),
        access("500 Internal Server Error", path="/v1/chat/completions"),
        access("404 Not Found", path="/v1/embeddings"),
        access("500 Internal Server Error", source="kernel"),
    )
    view = folded(*so_far).benchmark
    assert view is not None
    assert view.failed == 2
    assert view.first_error == "HTTP status 503 Service Unavailable (POST /v1/completions)"
    ended = folded(*so_far, result(failed=3, text="13 of 16 requests completed (first error: Service Unavailable)"))
    assert ended.benchmark is not None
    assert (ended.benchmark.failed, ended.benchmark.first_error) == (3, "Service Unavailable"), "each once"
    others = folded(*so_far, result(failed=0)).benchmark
    assert others is not None
    assert (others.failed, others.first_error) == (0, ""), "they were another's"
    second = said("level", "begun", at=T + 70, part=2, concurrency=8, total=16)
    again = folded(*so_far, result(failed=3), second, access("429 Too Many Requests", T + 75)).benchmark
    assert again is not None
    assert again.failed == 4


def test_others_load_and_a_warm_prefix_cache_are_doubts() -> None:
    def at(requests: float, queries: float, hits: float) -> tuple[Sample, ...]:
        return (
            Sample("vllm:e2e_request_latency_seconds_count", {}, requests),
            Sample("vllm:prefix_cache_queries_total", {}, queries),
            Sample("vllm:prefix_cache_hits_total", {}, hits),
        )

    view = folded(*BEGIN, result(before=at(10, 0, 0), after=at(46, 1000, 400))).benchmark
    assert view is not None
    assert view.levels[0].marks == (
        "the server answered 20 requests of others meanwhile",
        "40% of the prompt tokens came from the prefix cache",
    )
    clean = folded(*BEGIN, result(before=at(10, 0, 0), after=at(28, 1000, 10))).benchmark
    assert clean is not None
    assert clean.levels[0].marks == (), "a warm-up request and the server's own check are ours"


def test_a_refused_one_does_not_hide_the_one_that_runs() -> None:
    other = msgspec.structs.replace(said("end", "refused", at=T + 5, text="ann is at it"), run="ffff")
    view = folded(*BEGIN, other).benchmark
    assert view is not None
    assert (view.run, view.state) == (RUN, "running")


def test_the_verdict_closes_the_loads_story_in_its_report(tmp_path: Path) -> None:
    header = new_header("llm-two", "vllm", T)
    writer = SessionWriter(header, where=tmp_path)
    verdict = said("verdict", at=T + 61, text="n-gram: 0.87 × baseline", facts={"word": "worse", "baseline": "1"})
    for one in (*BEGIN, result(), verdict, said("end", "done", at=T + 62, text="measured")):
        writer.write(one)
    path = writer.close()
    assert path is not None
    report = explain([path])
    text = render_text(report)
    assert "benchmark quick: done" in text
    assert "concurrency 4: 9.3 output tokens per second" in text
    assert "n-gram: 0.87 × baseline" in text
    assert json.loads(report_json(report))["benchmark"]["word"] == "worse"


def test_a_saved_result_in_an_explained_folder_is_no_run() -> None:
    assert folded(BenchReading(at=T, run="bench.json", stage="result", result=RESULT)).benchmark is None


VALUES = st.one_of(st.none(), st.floats(), st.integers(), st.text(max_size=5), st.lists(st.floats(), max_size=2))


@given(st.lists(st.tuples(st.sampled_from(("begin", "level", "progress", "result", "verdict", "end", "x")),
                          st.sampled_from(("", "begun", "done", "failed", "warn")),
                          st.dictionaries(st.sampled_from(sorted(RESULT)), VALUES, max_size=6),
                          st.integers(-3, 10**6)), max_size=8))  # fmt: skip
def test_no_reading_and_no_order_of_them_does_harm(steps: list[tuple[str, str, dict[str, Any], int]]) -> None:
    readings = [
        said(stage, outcome, part=number, done=number, result={**RESULT, **values}, facts={"regression": "x.y"})
        for stage, outcome, values, number in steps
    ]
    folded(*readings)


# ----- what is kept


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History.open(tmp_path / "history.sqlite")


def load(history: History, invocation: str, text: str, at: float) -> None:
    revision = history.keep_revision("llm-two", "vllm", text, at)
    key = Key(target="llm-two", unit="vllm", model="/m", arguments="")
    history.record_load(
        LoadRecord(key=key, invocation=invocation, started=at, ended=at + 60, outcome="ready", revision=revision)
    )


def kept(history: History, recording: str, invocation: str, run: str, at: float) -> tuple[Benchmark, BenchReading]:
    values = raw(recording) | {"preset": "quick"}
    readings = [
        *(msgspec.structs.replace(one, run=run) for one in BEGIN[:2]),
        msgspec.structs.replace(said("ready", "done", facts={"invocation": invocation}), run=run),
        msgspec.structs.replace(result(result=values), run=run),
    ]
    found = keep(history, folded(*readings), readings[3:], target="llm-two", unit="vllm", at=at)
    assert found is not None
    return found


BASE, NGRAM = "cpu-baseline/bench-c4-result.json", "cpu-ngram/bench-c4-result.json"
UNIT = "[Service]\nExecStart=/v/bin/vllm serve /m --port 8000{}\n"


def test_the_first_result_is_the_baseline_and_later_ones_are_judged_by_it(history: History) -> None:
    load(history, "f00", UNIT.format(""), T)
    load(history, "f01", UNIT.format(" --max-num-seqs 8"), T + 1000)
    first, word = kept(history, BASE, "f00", "r1", T + 100)
    assert first.baseline
    assert word.facts["word"] == "baseline"
    assert (first.revision, first.invocation) == (1, "f00")
    second, word = kept(history, NGRAM, "f01", "r2", T + 1100)
    assert not second.baseline
    assert word.facts["word"] == "worse"
    assert word.facts["baseline"] == "1"
    # the same tokens in 97.9281 s and in 110.3269 s
    assert float(word.facts["regression"]) == pytest.approx(1 - 97.9281 / 110.3269, abs=1e-5)
    assert word.text.startswith("revision 2: 0.89 × baseline output tokens per second, acceptance length 3.9")
    assert "one run each" in word.text
    assert ("--max-num-seqs", "–", "8") in word.differs
    view = folded(*BEGIN, msgspec.structs.replace(word, run=RUN)).benchmark
    assert view is not None
    assert (view.word, view.baseline, view.verdict) == ("worse", "1", word.text), "so in a replay too"
    assert view.regression == pytest.approx(0.1124, abs=1e-4)
    assert view.differs == word.differs


def test_a_failed_run_becomes_no_baseline(history: History) -> None:
    first, word = kept(history, "cpu-bench-server-killed/bench-dies-result.json", "f00", "r1", T)
    assert not first.baseline
    assert word.facts["word"] == "refused"
    assert "38 of its 40 requests failed" in word.text
    assert history.baseline("llm-two", "vllm") is None


def test_another_preset_gets_no_verdict(history: History) -> None:
    kept(history, BASE, "f00", "r1", T)
    one, two = history.baseline("llm-two", "vllm"), kept(history, NGRAM, "f00", "r2", T + 1)[0]
    assert one is not None
    found = compare_kept(history, one, msgspec.structs.replace(two, preset="sweep"))
    assert found.verdict == ""
    assert word_of(found) == "refused"
    assert any("different presets" in why for why in found.refused)


def test_one_measured_through_a_tunnel_is_kept_as_such_and_gets_no_verdict(history: History) -> None:
    kept(history, BASE, "f00", "r1", T)
    way = "through the SSH tunnel from laptop"
    readings = [
        *(msgspec.structs.replace(one, run="r2") for one in BEGIN),
        msgspec.structs.replace(said("ready", "warn", text=f"measured {way}", facts={"measured": way}), run="r2"),
        msgspec.structs.replace(result(result=raw(BASE) | {"preset": "quick"}), run="r2"),
    ]
    found = keep(history, folded(*readings), readings[-1:], target="llm-two", unit="vllm", at=T + 9)
    assert found is not None
    made, word = found
    assert f"measured {way}" in side_of(made).marks
    assert word.facts["word"] == "refused"
    assert word.text == (
        f"no verdict against the baseline (run 1): measured differently: baseline on the server's own host, run 2 {way}"
    )


def test_it_is_kept_whole(history: History) -> None:
    made, _ = kept(history, NGRAM, "f00", "r1", T)
    back = history.benchmark(made.id)
    assert back is not None
    assert {key: back.result[key] for key in raw(NGRAM)} == raw(NGRAM)
    (one,) = results_of(back)
    assert one.output_tps == raw(NGRAM)["output_throughput"]
    assert side_of(back).facts["topology"] == "NV18 between all"
    (level,) = summaries(back)
    assert level.acceptance_length == pytest.approx(3.92, abs=0.01)
    assert json.dumps(kept_json(back))
    assert earlier_runs(history, "llm-two", "vllm", "f00") == 1
    assert earlier_runs(history, "llm-two", "vllm", "f01") == 0


def test_energy_and_acceptance_measured_beside_a_result_are_compared(history: History) -> None:
    """Before 0.14 vLLM's result says nothing of speculation; /metrics does."""
    old = {key: value for key, value in raw(NGRAM).items() if not key.startswith("spec_decode")} | {"preset": "quick"}
    sides = []
    for number, watts in ((1, 100.0), (2, 80.0)):
        readings = [
            *BEGIN,
            *(gpus(T + second, (watts * second, None)) for second in range(0, 80, 5)),
            result(result=old, before=page("cpu-ngram/metrics-first.txt"), after=page("cpu-ngram/metrics-last.txt")),
        ]
        readings = [msgspec.structs.replace(one, run=f"r{number}") if isinstance(one, BenchReading) else one
                    for one in readings]  # fmt: skip
        last = readings[-1]
        assert isinstance(last, BenchReading)
        found = keep(history, folded(*readings), [last], target="llm-two", unit="vllm", at=T + number)
        assert found is not None
        sides.append(found[0])
    point = compare_kept(history, *sides).points[0]
    energy = next(ratio for ratio in point.ratios if ratio.name == "GPU energy")
    # 50 s of 100 W and of 80 W for the same 1024 tokens
    assert (energy.a, energy.b) == (pytest.approx(5000 / 1024), pytest.approx(4000 / 1024))
    assert (energy.ratio, energy.word) == (pytest.approx(0.8), "better")
    assert "acceptance length 4.0" in compare_kept(history, *sides).verdict


def test_a_plain_result_in_the_history_is_a_side_too() -> None:
    plain = Benchmark(target="t", unit="u", at=T, run="r", preset="p", result=raw(NGRAM))
    assert len(results_of(plain)) == 1
    assert results_of(msgspec.structs.replace(plain, result={"a": 1})) == ()


def test_what_a_side_is_called() -> None:
    def one(id: int, method: str, **more: Any) -> Benchmark:
        result = {"firstlight": {"facts": {"speculation": method}}}
        return Benchmark(id=id, target="t", unit="u", at=T, run=str(id), preset="p", result=result, **more)

    base = one(1, "none", baseline=True)
    assert name_of(base, None) == "baseline"
    assert name_of(one(2, "ngram"), base) == "n-gram"
    assert name_of(one(3, "none", revision=7), base) == "revision 7"
    assert name_of(one(4, "none"), base) == "run 4"


def found_of(before: str, after: str) -> Comparison:
    sides = [Benchmark(id=n, target="t", unit="u", at=T, run=str(n), preset="p", result=raw(path)) for n, path in
             enumerate((before, after), 1)]  # fmt: skip
    return compare_kept(None, *sides)


def test_for_programs_and_to_paste() -> None:
    found = found_of(BASE, NGRAM)
    assert outcome(found, 5.0) == "worse"
    assert outcome(found, 15.0) == "not-worse"
    out = comparison_json(found, 5.0)
    assert out["outcome"] == "worse"
    assert out["levels"][0]["figures"][0]["ratio"] == pytest.approx(0.8875, abs=1e-3)
    assert json.loads(json.dumps(out)) == out
    text = comparison_markdown(found)
    assert "| concurrency 4 | output throughput (tokens/s) | 10.5 | 9.28 | 0.89 | – | worse |" in text
    refused = found_of(BASE, "cpu-bench-refused/bench-result.json")
    assert outcome(refused, 5.0) == "no-verdict"
    assert "No verdict: " in comparison_markdown(refused)


def test_hostile_words_stay_words_in_markdown() -> None:
    hostile = "<img src=x> | `rm` **bold** [a](b)\n# head \x1b[31m"
    one = Benchmark(id=1, target="t", unit="u", at=T, run="1", preset="p",
                    result={**raw(BASE), "firstlight": {"runs": [{}], "facts": {hostile: hostile}}})  # fmt: skip
    text = comparison_markdown(compare_kept(None, one, msgspec.structs.replace(one, id=2, result=raw(BASE))))
    assert "<img" not in text.replace("\\<img", "")
    assert "\x1b" not in text
    assert "\n# head" not in text


def test_a_verdict_needs_a_result() -> None:
    nothing = Benchmark(id=1, target="t", unit="u", at=T, run="1", preset="p", result={})
    assert verdict_reading(nothing, None, None, T).facts["word"] == "refused"
