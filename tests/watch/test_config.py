"""The configuration: what is wrong is named with its line and the nearest right word."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watch.config import (
    Config,
    ConfigError,
    Defaults,
    Deployment,
    Hooks,
    Preset,
    hooks_of,
    load_config,
    place,
)

GOOD = """\
[defaults]
worse_by = 3.5

[deployments.kimi]
target = "root@llm-two"
unit = "kimi-k25-int4-ngram"
fallback = "vllm-kimi-k25-int4"
read_only = true

[deployments.kimi.hooks]
ready = ["notify-send", "{deployment} is ready"]

[presets.mine]
concurrency = [1, 8]
"""


def load(tmp_path, text):
    file = tmp_path / "firstlight.toml"
    file.write_text(text)
    return load_config(file)


def test_a_whole_configuration(tmp_path):
    config = load(tmp_path, GOOD)
    assert config.deployments["kimi"].fallback == "vllm-kimi-k25-int4"
    assert config.deployments["kimi"].hooks.ready == ["notify-send", "{deployment} is ready"]
    assert config.defaults.worse_by == 3.5
    assert config.presets["mine"].concurrency == (1, 8)


def test_without_a_file_everything_is_default(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_config() == Config()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (GOOD.replace("fallback", "falback"), 7, 'unknown key "deployments.kimi.falback" (did you mean "fallback"?)'),
        (GOOD.replace("[deployments.kimi]", "[deployment.kimi]"), 4, '(did you mean "deployments"?)'),
        (GOOD.replace("ready =", "redy ="), 11, '(did you mean "ready"?)'),
        (GOOD.replace("worse_by = 3.5", "gpu_interval = 0.01"), 2, "defaults.gpu_interval must be at least 0.1"),
        (GOOD.replace("3.5", '"much"'), 2, "defaults.worse_by must be a number, not text"),
        (GOOD.replace("= true", '= "yes"'), 8, "deployments.kimi.read_only must be true or false, not text"),
        (GOOD.replace("[1, 8]", "8"), 14, "presets.mine.concurrency must be a list, not a number"),
        (GOOD.replace("[1, 8]", "[1.5]"), 14, "presets.mine.concurrency[0] must be a whole number, not a number with"),
        (GOOD.replace("worse_by = 3.5", 'report = "pdf"'), 2, "defaults.report must be html, markdown or none, not"),
        (
            GOOD.replace('["notify-send", "{deployment} is ready"]', "3"),
            11,
            "ready must be text in quotes or a list, not",
        ),
        ("[deployments]\nx = 3\n", 2, "deployments.x must be a table, not a number"),
        ("defaults = 3\n", 1, "defaults must be a table, not a number"),
        ("redact = 3\n", 1, "redact must be a list, not a number"),
        ("redact = [3]\n", 1, "redact[0] must be text in quotes, not a number"),
        ("[keys]\nx = 1\n", 2, "keys.x must be text in quotes, not a number"),
        (GOOD.replace('unit = "kimi-k25-int4-ngram"\n', ""), 4, "deployments.kimi needs unit"),
        (GOOD.replace("fallback =", "endpoint ="), 7, "deployments.kimi.endpoint: "),
        (GOOD.replace('"vllm-kimi-k25-int4"', '"kimi-k25-int4-ngram"'), 4, "its fallback is the unit itself"),
        (GOOD.replace('"kimi-k25-int4-ngram"', '"--force"'), 4, "is no name of a unit. Names of units"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path, text, line, words):
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    assert f"firstlight.toml:{line}: " in str(error.value)
    assert words in str(error.value)


def test_a_file_that_was_asked_for_must_exist(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "none.toml")


@given(st.text(max_size=80))
def test_any_text_is_a_configuration_or_one_sentence(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_text(text, encoding="utf-8", errors="replace")
    said = ""
    try:
        load_config(file)
    except ConfigError as error:
        said = str(error)
    assert "\n" not in said.strip()


EXAMPLE = Path(__file__).parents[2] / "docs" / "firstlight.toml"


def test_the_example_that_is_shipped_is_right_and_names_every_key():
    config = load_config(EXAMPLE)
    assert list(config.deployments) == ["kimi", "small"]
    assert [hook.kind for hook in hooks_of(config, config.deployments["kimi"])["failed"]] == [
        "desktop",
        "webhook",
        "command",
    ]
    assert set(hooks_of(config, config.deployments["small"])) == {"ready", "failed"}
    raw = tomllib.loads(EXAMPLE.read_text())
    assert set(raw) == set(Config.__struct_fields__) - {"path"}
    assert set(raw["defaults"]) == set(Defaults.__struct_fields__)
    assert set(raw["presets"]["chat"]) == set(Preset.__struct_fields__)
    kimi = raw["deployments"]["kimi"]
    assert set(kimi) == set(Deployment.__struct_fields__)
    assert set(kimi["hooks"]) == set(Hooks.__struct_fields__)


def test_where_a_key_stands(tmp_path):
    file = tmp_path / "firstlight.toml"
    file.write_text(GOOD)
    config = load_config(file)
    assert place(config, "deployments", "kimi", "fallback") == f"{file}:7"
    file.unlink()
    assert place(config, "keys", "x") == str(file)
