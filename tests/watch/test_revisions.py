"""What differs between two texts of a unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watch.revisions import (
    Change,
    File,
    argument_changes,
    arguments_of,
    digest,
    environment_changes,
    failed_before,
    joined,
    setting_changes,
    split_files,
    version_changes,
    word_pieces,
)

UNIT = """[Unit]
Description=x
[Service]
Environment=A=1 "B=two words"
ExecStart=/opt/vllm serve /models/kimi --tensor-parallel-size 8 --enable-x \\
  --speculative-config '{"method": "ngram", "n": 5}'
"""


def test_arguments() -> None:
    new = UNIT.replace("size 8", "size 4").replace("--enable-x", "--port=8001").replace('"n": 5', '"n": 3')
    assert argument_changes(UNIT, new) == (
        Change("--tensor-parallel-size", "8", "4"),
        Change("--enable-x", "", None),
        Change("--speculative-config.n", "5", "3"),
        Change("--port", None, "8001"),
    )
    assert [change.kind for change in argument_changes(UNIT, new)] == ["changed", "removed", "changed", "added"]
    assert argument_changes(UNIT, UNIT) == ()


def test_the_same_said_in_another_way_is_no_change() -> None:
    other = UNIT.replace("--tensor-parallel-size 8", "--tensor_parallel_size=8")
    assert argument_changes(UNIT, other) == ()


def with_json(*words: str) -> str:
    return UNIT.replace("""--speculative-config '{"method": "ngram", "n": 5}'""", " ".join(words))


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (("""--speculative-config '{"n":5,"method":"ngram"}'""",), ()),
        (("--speculative-config.method ngram", "--speculative-config.n=5"), ()),
        (
            ("""--speculative-config '{"method":"eagle3","model":"/m/e","n":5}'""",),
            (
                Change("--speculative-config.method", "ngram", "eagle3"),
                Change("--speculative-config.model", None, "/m/e"),
            ),
        ),
        (
            ("""--speculative-config '{"method": "ngram", "n": {"a": [1, 2], "b": true}}'""",),
            (
                Change("--speculative-config.n", "5", None),
                Change("--speculative-config.n.a", None, "[1, 2]"),
                Change("--speculative-config.n.b", None, "true"),
            ),
        ),
        (("--speculative-config", "ngram"), (Change("--speculative-config", '{"method": "ngram", "n": 5}', "ngram"),)),
        ((), (Change("--speculative-config", '{"method": "ngram", "n": 5}', None),)),
    ],
)
def test_json_is_compared_key_by_key(words: tuple[str, ...], changes: tuple[Change, ...]) -> None:
    assert argument_changes(UNIT, with_json(*words)) == changes
    swapped = {Change(change.key, change.new, change.old) for change in changes}
    assert set(argument_changes(with_json(*words), UNIT)) == swapped


def test_arguments_are_found_by_the_names_that_their_changes_have() -> None:
    new = with_json("""--speculative-config '{"method": "ngram", "n": 7}'""")
    for change in argument_changes(UNIT, new):
        assert arguments_of(new)[change.key] == change.new


def test_within_a_line_json_is_compared_between_its_signs() -> None:
    pieces = word_pieces("""x --c '{"method":"ngram","n":5}' y""", """x --c '{"method":"ngram","n":8}' y""")
    assert [(piece.kind, piece.text) for piece in pieces if piece.kind != "same"] == [("removed", "5"), ("added", "8")]
    paths = word_pieces("/a/b:c d", "/a/x:c d")
    assert [piece.text for piece in paths] == ["/a/b:c ", "/a/x:c ", "d"]


def test_environment_files_by_variable() -> None:
    old, new = {"/e": "# A=0\nA=1\nB=2\n", "/f": "C=3"}, {"/e": "A=1\nB=4\n"}
    assert environment_changes(old, new) == (Change("/e B", "2", "4"),)  # who knows whether /f could be read


def test_versions_are_compared_where_both_are_known() -> None:
    old, new = {"vllm": "0.11", "driver": "570"}, {"vllm": "0.12", "torch": "2.9"}
    assert version_changes(old, new) == (Change("vllm", "0.11", "0.12"),)


def test_the_model_is_a_change() -> None:
    assert argument_changes(UNIT, UNIT.replace("kimi", "other")) == (Change("word 2", "/models/kimi", "/models/other"),)


def test_settings() -> None:
    new = UNIT.replace("A=1", "A=2").replace("two words", "2 words").replace("Description=x\n", "After=y\n")
    assert set(setting_changes(UNIT, new)) == {
        Change("Unit.Description", "x", None),
        Change("Unit.After", None, "y"),
        Change("Service.Environment A", "1", "2"),
        Change("Service.Environment B", "two words", "2 words"),
    }


def test_an_argument_that_failed_before() -> None:
    changes = argument_changes(UNIT, UNIT.replace("size 8", "size 16"))
    assert failed_before(changes, {"--tensor-parallel-size": "16"}) == changes
    assert failed_before(changes, {"--tensor-parallel-size": "4"}) == ()


LINES = st.lists(st.sampled_from(["", "a", "# words", "# /looks/like.conf", "[Service]", "x=1 "]), max_size=6)
TEXT = LINES.map(lambda lines: "".join(line + "\n" for line in lines))


@given(st.lists(TEXT, min_size=1, max_size=4))
def test_files_are_split_where_they_were_joined(texts: list[str]) -> None:
    files = tuple(File(f"/etc/systemd/system/u.service.d/{number}.conf", text) for number, text in enumerate(texts))
    assert split_files(joined(files), [file.path for file in files]) == files


@given(st.text(), st.text())
def test_pieces_are_both_lines(old: str, new: str) -> None:
    pieces = word_pieces(old, new)
    assert "".join(piece.text for piece in pieces if piece.kind in ("same", "removed")) == old
    assert "".join(piece.text for piece in pieces if piece.kind in ("same", "added")) == new


@given(st.text(), st.text())
def test_any_text_can_be_compared(old: str, new: str) -> None:
    argument_changes("[Service]\nExecStart=" + old, "[Service]\nExecStart=" + new)
    setting_changes(old, new)
    assert argument_changes(old, old) == ()


def test_the_digest_is_sha256_of_the_bytes() -> None:
    # printf 'a\nb\n\377' | sha256sum
    files = [File("/x", "a\n"), File("/y", "b\n\udcff")]
    assert digest(files) == "7d691526c0b4d775dc4b6c2e7ba1ab01b8cf538493dc2ee6cf1d9d98c74417dc"
