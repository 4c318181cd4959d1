"""What differs between two texts of a unit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from watch.revisions import (
    Change,
    File,
    argument_changes,
    digest,
    failed_before,
    joined,
    setting_changes,
    split_files,
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
        Change("--speculative-config", '{"method": "ngram", "n": 5}', '{"method": "ngram", "n": 3}'),
        Change("--port", None, "8001"),
    )
    assert [change.kind for change in argument_changes(UNIT, new)] == ["changed", "removed", "changed", "added"]
    assert argument_changes(UNIT, UNIT) == ()


def test_the_same_said_in_another_way_is_no_change() -> None:
    other = UNIT.replace("--tensor-parallel-size 8", "--tensor_parallel_size=8")
    assert argument_changes(UNIT, other) == ()


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
