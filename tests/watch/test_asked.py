"""Asked for and got."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.readings import JournalLine, UnitFile
from tests.watch.feeds import CASES, RECORDINGS, case, folded, recording
from watch import reprs
from watch.asked import Asked, from_argv, from_config, from_list, method
from watch.state import WatchState
from watch.view import AskedGot

B1 = "gpu-h200x2/b1-ngram-cold-cache"


def verdicts(views: tuple[AskedGot, ...]) -> dict[str, tuple[str, str, str]]:
    return {view.key: (view.asked, view.got, view.verdict) for view in views}


def line_with(name: str, words: str) -> str:
    return next(line.text for line in recording(name)[1] if words in line.text)


def test_the_list_of_arguments_of_a_real_server_is_read() -> None:
    values = from_list(line_with(B1, "non-default args"))
    assert values == {
        "model_tag": "/opt/models/demo-30b-a3b",
        "host": "127.0.0.1",
        "model": "/opt/models/demo-30b-a3b",
        "max_model_len": "8192",
        "served_model_name": "demo-30b-a3b",
        "tensor_parallel_size": "2",
        "disable_custom_all_reduce": "True",
        "gpu_memory_utilization": "0.9",
        "speculative_config.method": "ngram",
        "speculative_config.num_speculative_tokens": "5",
        "speculative_config.prompt_lookup_max": "4",
    }


def test_the_configuration_of_a_real_engine_is_read() -> None:
    values = from_config(line_with(B1, "Initializing a V1 LLM engine"))
    assert method(values) == "ngram"
    assert values["speculative_config.num_spec_tokens"] == "5"
    assert values["tensor_parallel_size"] == "2"
    assert values["max_seq_len"] == "8192"
    assert values["enforce_eager"] == "False"
    assert values["quantization"] == "None"
    assert values["served_model_name"] == "demo-30b-a3b"


def test_without_speculation_the_method_is_none_and_not_unknown() -> None:
    values = from_config(line_with("gpu-h200x2/b2-baseline-worker-killed", "Initializing a V1 LLM engine"))
    assert method(values) == "none"
    assert method({}) == ""


def test_arguments_of_old_versions_and_of_sglang_are_read() -> None:
    old = from_list(
        "INFO 04-02 10:11:12 [a.py:9] args: Namespace(model='m', tensor_parallel_size=4, speculative_config=None)"
    )
    assert (old["model"], old["tensor_parallel_size"], method(old)) == ("m", "4", "none")
    sglang = from_config(
        "[2026-06-11 04:11:07] server_args=ServerArgs(model_path='/m', tp_size=8, speculative_algorithm='EAGLE3')"
    )
    assert (sglang["model"], sglang["tensor_parallel_size"], method(sglang)) == ("/m", "8", "eagle3")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vllm serve /m -tp 8 --enforce-eager", {"tensor_parallel_size": "8", "enforce_eager": "True"}),
        ("vllm serve /m --max-model-len=128k", {"max_model_len": "128k"}),
        ("api_server --model /m --no-enable-prefix-caching", {"enable_prefix_caching": "False"}),
        ("vllm serve /m --speculative-config.method mtp", {"speculative_config.method": "mtp"}),
        ("vllm serve /m --served-model-name a b", {"served_model_name": "a"}),
        ("/opt/bin/vllm serve /m -q awq --dtype half", {"quantization": "awq", "dtype": "half"}),
    ],
)
def test_options_are_found_however_they_are_written(line: str, expected: dict[str, str]) -> None:
    assert from_argv(line.split()) == {"model": "/m", **expected}


def test_json_values_and_scripts_are_looked_into() -> None:
    values = from_argv(["vllm", "serve", "/m", "-sc", '{"method": "ngram", "num_speculative_tokens": 4}'])
    assert values["speculative_config.method"] == "ngram"
    assert values["speculative_config.num_speculative_tokens"] == "4"
    script = "exec vllm serve /m --spec-method ngram # --tp 2"
    assert from_argv(["/bin/sh", "-c", script]) == {"model": "/m", "speculative_config.method": "ngram"}


def test_a_clean_load_got_what_its_unit_asked_for() -> None:
    state = WatchState("llm-two", "vllm-tiny-ngram")
    folder = RECORDINGS / "host-systemd-ngram"
    state.apply(UnitFile(at=0.0, unit="vllm-tiny-ngram", text=(folder / "unit.service.txt").read_text()))
    before = verdicts(state.view(1.0).asked)
    assert before["speculation"] == ("ngram", "", "waiting")
    _, lines = recording("cpu-small-ngram")
    state.apply_lines(lines[:40])
    after = verdicts(state.view(lines[40].at).asked)
    assert after["speculation"] == ("ngram", "ngram", "same")
    assert after["speculative tokens"] == ("5", "5", "same")
    assert after["prompt lookup max"] == ("4", "4", "same")
    assert after["eager"] == ("yes", "yes", "same")
    assert after["weight type"] == ("float32", "torch.float32", "same")


def test_a_speculative_config_lost_on_the_way_is_seen_with_the_first_line_of_arguments() -> None:
    unit = (
        "[Service]\nExecStart=/opt/vllm/bin/vllm serve /opt/models/demo-30b-a3b --tensor-parallel-size 2\n"
        '  --speculative-config \'{"method": "ngram", "num_speculative_tokens": 5}\'\n'
    )
    state = WatchState("llm-two", "vllm")
    state.apply(UnitFile(at=0.0, unit="vllm", text=unit))
    started, lines = recording("gpu-h200x2/b2-baseline-worker-killed")
    for line in lines:
        state.apply(line)
        found = verdicts(state.view(line.at).asked)["speculation"]
        if found[2] != "waiting":
            break
    assert found == ("ngram", "none", "differs")
    assert line.at - started < 60
    assert "non-default args" in line.text
    state.apply_lines([line for line in lines if line.at - started < 60])
    assert verdicts(state.view(lines[-1].at).asked)["speculation"] == ("ngram", "none", "differs")


def test_the_engine_has_the_last_word_over_the_list_of_arguments() -> None:
    asked = Asked()
    asked.args = {"speculative_config.method": "deepseek_mtp", "tensor_parallel_size": "8"}
    asked.config = {"speculative_config.method": "mtp", "tensor_parallel_size": "4"}
    found = verdicts(asked.views())
    assert found["speculation"] == ("deepseek_mtp", "mtp", "same")
    assert found["tensor parallel"] == ("8", "4", "differs")


@pytest.mark.parametrize(
    ("option", "asked", "config", "got", "verdict"),
    [
        ("max_model_len", "128k", "max_seq_len", "128000", "same"),
        ("max_model_len", "128K", "max_seq_len", "131072", "same"),
        ("max_model_len", "auto", "max_seq_len", "8192", "same"),
        ("max_model_len", "32768", "max_seq_len", "8192", "differs"),
        ("kv_cache_dtype", "fp8", "kv_cache_dtype", "fp8_e4m3", "same"),
        ("kv_cache_dtype", "fp8", "kv_cache_dtype", "auto", "differs"),
        ("quantization", "awq", "quantization", "awq_marlin", "same"),
        ("quantization", "awq", "quantization", "None", "differs"),
        ("gpu_memory_utilization", "0.90", "", "", "waiting"),
        ("dtype", "half", "dtype", "torch.float16", "same"),
        ("enforce_eager", "True", "enforce_eager", "False", "differs"),
    ],
)
def test_values_are_compared_by_what_they_mean(option: str, asked: str, config: str, got: str, verdict: str) -> None:
    both = Asked()
    both.unit_values = {option: asked}
    if config:
        both.config = {config: got}
    assert [view.verdict for view in both.views() if view.asked] == [verdict]


def test_a_truncated_configuration_line_leaves_the_verdict_open() -> None:
    state = folded(case("C17", "input.noall.journal.jsonl"))
    found = verdicts(state.view(0.0).asked)
    assert found["tensor parallel"] == ("8", "8", "same")
    whole = folded(case("C17", "input.all.journal.jsonl"))
    assert verdicts(whole.view(0.0).asked)["speculation"][1] == "eagle3"


def test_the_unquoted_unit_shows_what_was_meant() -> None:
    state = WatchState("llm-two", "vllm.service")
    state.apply(
        UnitFile(at=0.0, unit="vllm.service", text=(CASES / "C03-spec-json-unquoted" / "input.service").read_text())
    )
    assert verdicts(state.view(1.0).asked)["speculation"][0] == "ngram"


def test_a_new_load_waits_for_its_own_answers() -> None:
    started, lines = recording(B1)
    state = WatchState("llm-two", "vllm")
    state.apply_lines([JournalLine(at=line.at, text=line.text, invocation="one") for line in lines[:60]])
    assert verdicts(state.view(started).asked)["speculation"][1] == "ngram"
    state.apply(JournalLine(at=started + 500, text="hello", invocation="two"))
    assert state.view(started + 500).asked == ()


@given(st.text(max_size=300))
def test_any_text_is_taken_apart_without_harm(text: str) -> None:
    reprs.fields(text)
    reprs.items(text)
    reprs.mapping(text)
    from_list("non-default args: {" + text)
    from_config("with config: " + text)
    from_argv(text.split(" "))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_", min_size=1, max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,10}", fullmatch=True), _VALUES, max_size=5))
def test_a_dictionary_as_python_writes_it_comes_apart_at_its_own_commas(values: dict[str, object]) -> None:
    assert reprs.fields(repr(values)) == {name: repr(value) for name, value in values.items()}
