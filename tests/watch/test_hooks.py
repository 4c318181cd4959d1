"""Hooks as a configuration writes them, and what they are given."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watch.config import Config, ConfigError, Defaults, Deployment, Hooks, hooks_of, load_config
from watch.events import Event
from watch.hooks import PLACEHOLDERS, Hook, Value, facts, filled, parse, variables
from watch.redact import Redactor

EVENT = Event(
    kind="failed",
    at=1_789_916_400.0,
    target="llm-two",
    unit="kimi.service",
    message="kimi.service @ llm-two: failed. $(reboot); \x1b]0;x\x07 --api-key sk-abcdefghijklmnop",
    state="failed",
    phase="weights",
)


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (None, []),
        ([], []),
        (["say", "{deployment}"], ["command"]),
        (["desktop-notifier"], ["command"]),
        ("https://hooks.example/T0/x", ["webhook"]),
        ("desktop", ["desktop"]),
        (["desktop", "http://127.0.0.1:1/x", ["say", "x"]], ["desktop", "webhook", "command"]),
        ([["say", "x"], ["say", "y"]], ["command", "command"]),
        (["http://127.0.0.1:1"], ["webhook"]),
    ],
)
def test_what_a_hook_may_be(value: Value, kinds: list[str]) -> None:
    assert [hook.kind for hook in parse(value)] == kinds


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("notify", "is no hook"),
        ("ftp://x/", "is no hook"),
        ("http://a b", "is no hook"),
        ([[]], "at least one word"),
        (["say", "{deploymnet}"], 'did you mean "{deployment}"'),
        (["say", "{x}"], "known: event"),
        (["sh", "-c", "echo {message}"], '"$FIRSTLIGHT_MESSAGE"'),
        (["/bin/bash", "-ec", "echo {unit}"], "inside a script"),
        (["env", "A=1", "sh", "-c", "echo {message}"], "inside a script"),
        (["ssh", "pager", "say", "{message}"], "inside a script"),
        (["say", "\x00"], "NUL"),
    ],
)
def test_what_is_none_is_one_sentence(value: Value, says: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as caught:
        parse(value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_each_placeholder_is_filled_and_a_word_stays_one_word() -> None:
    told = facts(EVENT, "kimi", Redactor())
    assert set(told) == set(PLACEHOLDERS)
    assert told["time"] == "2026-09-20T15:00:00Z"
    words = filled(("say", "{deployment} {state}", "{message}", '{"a": 1}', "{{unit}}"), told)
    assert words[:2] == ("say", "kimi failed")
    assert len(words) == 5
    assert words[3:] == ('{"a": 1}', "{unit}")
    assert "$(reboot)" in words[2]  # a word of a command that no shell reads
    assert variables(told)["FIRSTLIGHT_STATE"] == "failed"


def test_nothing_that_is_told_is_a_secret_or_obeyed() -> None:
    told = facts(EVENT, "kimi", Redactor(["re+boot"]))
    assert "sk-abcdefghijklmnop" not in told["message"]
    assert "reboot" not in told["message"]
    assert "\x1b" not in told["message"]
    assert "\x07" not in told["message"]


@given(st.text())
def test_whatever_a_server_prints_is_one_printable_line_that_can_be_sent(text: str) -> None:
    told = facts(msgspec.structs.replace(EVENT, message=text), "", Redactor())
    assert told["message"].isprintable()
    msgspec.json.encode(told)
    assert told["deployment"] == "kimi.service"


def test_an_address_is_named_without_what_may_be_a_secret() -> None:
    assert Hook(kind="webhook", url="https://user:pw@hooks.example:8/T0/secret?x=1").title == "hooks.example:8"


def test_a_deployments_own_hooks_go_before_the_defaults() -> None:
    defaults = Defaults(hooks=Hooks(ready="desktop", failed=["a"], stalled=["b"]))
    own = Deployment(target="h", unit="u", hooks=Hooks(failed=["c"], stalled=[]))
    found = hooks_of(Config(defaults=defaults), own)
    assert {event: [hook.title for hook in hooks] for event, hooks in found.items()} == {
        "ready": ["desktop notification"],
        "failed": ["c"],
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[defaults.hooks]\nready = "notfy"\n', "f.toml:2: defaults.hooks.ready: 'notfy' is no hook"),
        (
            '[deployments.k]\ntarget = "h"\nunit = "u"\n[deployments.k.hooks]\n\nstalled = ["x", "{uint}"]\n',
            'f.toml:6: deployments.k.hooks.stalled: {uint} is filled in by nothing (did you mean "{unit}"?',
        ),
        ("[defaults.hooks]\nready = 5\n", "f.toml:2: defaults.hooks.ready must be text in quotes or a list"),
        ('[defaults.hooks]\nlink_lots = "desktop"\n', 'f.toml:2: unknown key "defaults.hooks.link_lots" (did you mean'),
    ],
)
def test_a_wrong_hook_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "f.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert says in str(caught.value)
