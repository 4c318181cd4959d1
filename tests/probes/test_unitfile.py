"""Units' texts, read as systemd reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.unitfile import BadQuoting, commands, effective, environment, settings, stray, words
from tests.watch.feeds import CASES, RECORDINGS


def argv(text: str, key: str = "ExecStart") -> tuple[str, ...]:
    (command,) = commands(settings(text), key)
    return command.argv


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ("'one word' \"and another\"", ["one word", "and another"]),
        ("--x='a b'c", ["--x=a bc"]),
        ('--sc \'{"method": "ngram"}\'', ["--sc", '{"method": "ngram"}']),
        ('--sc "{\\"method\\": \\"ngram\\"}"', ["--sc", '{"method": "ngram"}']),
        ('--sc {"method": "ngram"}', ["--sc", "{method:", "ngram}"]),
        ("a\\x20b \\u00e9 \\101 \\s \\\\", ["a b", "é", "A", " ", "\\"]),
        ("''", [""]),
        ("", []),
    ],
)
def test_words_are_split_at_blanks_and_quotes_vanish(text: str, split: list[str]) -> None:
    assert [word.text for word in words(text)] == split


@pytest.mark.parametrize("text", ["'open", 'a "b', "\\q", "\\x1", "end\\", "\\777", "\\x00"])
def test_what_systemd_refuses_is_refused(text: str) -> None:
    with pytest.raises(BadQuoting):
        words(text)


def test_the_unit_with_unquoted_json_gives_vllm_what_it_complained_about() -> None:
    text = (CASES / "C03-spec-json-unquoted" / "input.service").read_text()
    assert "{method:" in argv(text)


def test_a_real_unit_reads_as_systemd_showed_it() -> None:
    folder = RECORDINGS / "host-systemd-ngram"
    shown = (folder / "systemctl-show.txt").read_text()
    text = (folder / "unit.service.txt").read_text()
    (command,) = commands(settings(text))
    assert f"argv[]={' '.join(command.argv)} ;" in shown
    assert command.argv[-1] == '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}'
    assert command.path == "/etc/systemd/system/vllm-tiny-ngram.service"
    assert environment(settings(text))["VLLM_CPU_KVCACHE_SPACE"] == "1"


def test_lines_go_on_after_a_backslash_with_comments_in_between() -> None:
    text = (
        "[Service]\nExecStart=/opt/vllm serve m \\\n# a word on the next\n"
        "  --tp 8 \\\n; and another\n  -q awq\nUser=x\n"
    )
    assert argv(text) == ("/opt/vllm", "serve", "m", "--tp", "8", "-q", "awq")
    assert [setting.line for setting in settings(text)] == [2, 7]


def test_a_drop_in_replaces_a_command_after_an_empty_assignment() -> None:
    text = (
        "# /etc/u.service\n[Service]\nExecStart=/a 1\nEnvironment=A=1\n\n"
        "# /etc/u.service.d/x.conf\n[Service]\nExecStart=\nExecStart=/b $A ${A}x $$A\n"
    )
    (command,) = commands(settings(text))
    assert command.argv == ("/b", "1", "1x", "$A")
    assert (command.path, command.line) == ("/etc/u.service.d/x.conf", 9)


def test_an_unknown_variable_stays_as_written() -> None:
    assert argv("[Service]\nExecStart=/a $MORE ${MODEL}/x\n") == ("/a", "$MORE", "${MODEL}/x")


def test_prefixes_of_the_program_are_taken_off() -> None:
    (command,) = commands(settings("[Service]\nExecStart=-@/bin/x called $A\n"))
    assert (command.prefix, command.argv) == ("-@", ("/bin/x", "$A"))
    assert argv("[Service]\nExecStart=:/bin/x $A\n") == ("/bin/x", "$A")


def test_a_semicolon_by_itself_separates_commands() -> None:
    found = commands(settings("[Service]\nExecStartPre=/a 1 ; /b ';' \\; 2\n"), "ExecStartPre")
    assert [command.argv for command in found] == [("/a", "1"), ("/b", ";", ";", "2")]


def test_a_command_that_cannot_be_split_says_why() -> None:
    (command,) = commands(settings("[Service]\nExecStart=/a 'b\n"))
    assert command.argv == ()
    assert "not closed" in command.problem


def test_options_after_a_missing_backslash_are_stray() -> None:
    lost = "[Service]\nExecStart=/opt/vllm serve m \\\n  --tp 8\n  -x\n  --spec-tokens 3 \\\n  --eager\nUser=x\n"
    assert [number for number, _ in stray(lost)] == [5, 6]
    assert stray("[Service]\nExecStart=/opt/vllm serve m \\\n  --tp 8 \\\n  --eager\n") == ()


def test_only_the_last_assignments_of_a_section_count() -> None:
    found = settings("[Unit]\nExecStart=/no\n[Service]\nExecStart=/a\nExecStart=\n")
    assert effective(found, "ExecStart") == ()


@given(st.text(max_size=400))
def test_any_text_is_taken(text: str) -> None:
    found = settings(text)
    commands(found)
    environment(found)
    stray(text)


@given(st.lists(st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8), max_size=6))
def test_quoted_words_come_back(parts: list[str]) -> None:
    quoted = " ".join('"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"' for part in parts)
    assert [word.text for word in words(quoted)] == parts
