"""The catalogue: every row that ships does what it says, and an operator's rows are read beside them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from watch import catalogue
from watch.catalogue import Catalogue, Row
from watch.texts import places

OURS = catalogue.shipped()
KINDS = {
    "unit", "args", "journal", "weights", "memory", "comm", "compile", "gpu", "ssh", "metrics", "bench", "leftover",
    "cause", "benign", "engine", "sglang", "clean", "stall",
}  # fmt: skip
GIVEN = {"unit", "process", "rank", "detail", "where", "type", "text", "index"}
"""Values that come with any line, an exception or a device, and need no group of the pattern."""


def hits(row: Row, line: str) -> bool:
    found = OURS.matcher.rows(line)
    return any(OURS.owners[index] is row for index in found)


@pytest.mark.parametrize("row", OURS.rows, ids=lambda row: row.id)
def test_a_row_finds_its_lines_and_no_others(row: Row) -> None:
    for line in row.match:
        assert hits(row, line), f"not found in {line!r}"
    for line in row.nomatch:
        assert not hits(row, line), f"found in {line!r}"


@pytest.mark.parametrize("row", OURS.rows, ids=lambda row: row.id)
def test_a_row_is_complete(row: Row) -> None:
    catalogue.check(row)
    assert row.kind in KINDS
    assert row.title
    assert row.cause or row.same_as
    if row.source != ("judged",):
        assert row.match, "a row shows a line that it finds"
        assert row.nomatch, "and one that it does not"
    if row.severity in ("warning", "error", "fatal") and not row.consequence and not row.same_as:
        assert row.remedy, "who is alarmed is told what to do"
    for name in (*row.after, *row.refines, *row.because, *row.cleared_by, *filter(None, (row.same_as, row.joins))):
        assert name in OURS.by_id, f"there is no row {name}"


@pytest.mark.parametrize("row", [row for row in OURS.rows if row.pattern], ids=lambda row: row.id)
def test_texts_only_need_what_every_pattern_gives(row: Row) -> None:
    given = []
    for index, owner in enumerate(OURS.owners):
        if owner is row:
            names = catalogue.re2.compile(OURS.patterns[index]).groupindex
            given.append({name.rstrip("0123456789") for name in names})
    sure = set.intersection(*given)
    for text in (row.title, row.cause, row.remedy, row.fold):
        wanted = places(text) - GIVEN
        some = set.union(*given)
        assert wanted <= some, f"{wanted - some} is in no pattern"
        if text is row.title and len(row.pattern) == 1:
            assert wanted <= sure


@pytest.mark.parametrize("fact", OURS.facts, ids=lambda fact: fact.pattern[:40])
def test_a_fact_finds_its_lines(fact: catalogue.Fact) -> None:
    index = next(i for i, owner in enumerate(OURS.owners) if owner is fact)
    for line in fact.match:
        found = OURS.find(index, line)
        assert found is not None
        assert found[1]
    for line in fact.nomatch:
        assert OURS.find(index, line) is None


def test_one_name_one_row() -> None:
    assert [name for name, count in Counter(row.id for row in OURS.rows).items() if count > 1] == []


def test_ordinary_lines_of_a_clean_load_raise_no_alarm() -> None:
    text = (Path(__file__).parents[1] / "recordings/gpu-h200x2/b1-ngram-cold-cache/server.raw.txt").read_text()
    for line in text.splitlines():
        for index in OURS.matcher.rows(line):
            owner = OURS.owners[index]
            assert not isinstance(owner, Row) or owner.severity == "info" or owner.when, f"{owner.id}: {line!r}"


# ------------------------------------------------------------------------------------------------- an operator's rows


GOOD = """
[[row]]
id = "site-license"
kind = "unit"
layer = "site"
severity = "error"
pattern = 'license server (?P<host>\\S+) says no'
match = "license server lic-1 says no"
title = "No licence from {host}"
cause = "{host} has none left."
remedy = "Ask for one."
"""


def write(folder: Path, text: str, name: str = "findings.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_an_operators_row_is_read(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    loaded = catalogue.load(tmp_path)
    assert not loaded.problems
    assert "site-license" in loaded.by_id
    assert len(loaded.rows) == len(OURS.rows) + 1
    assert any(
        loaded.owners[i] is loaded.by_id["site-license"] for i in loaded.matcher.rows("license server x says no")
    )


def test_an_operators_row_takes_the_place_of_ours(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("site-license", "port-in-use"))
    loaded = catalogue.load(tmp_path)
    assert loaded.by_id["port-in-use"].layer == "site"
    assert len(loaded.rows) == len(OURS.rows)


def test_without_a_folder_or_a_file_it_is_what_ships(tmp_path: Path) -> None:
    assert catalogue.load(None) is OURS
    assert catalogue.load(tmp_path) is OURS


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (GOOD.replace("kind =", "kin ="), "kin"),
        (GOOD.replace('severity = "error"', 'severity = "loud"'), "loud"),
        (GOOD.replace("(?P<host>\\S+)", "(?P<host>\\S+"), "no RE2 expression"),
        (GOOD.replace("license server (?P<host>\\S+) says no", ".*"), "found in every line"),
        (GOOD.replace('id = "site-license"', 'id = "Site License"'), "small letters"),
        (GOOD.replace("pattern =", "patern ="), "patern"),
        (GOOD.replace('title = "No', 'title = "No\nNo'), "not valid TOML"),
    ],
)
def test_a_broken_row_is_named_and_the_rest_work(tmp_path: Path, broken: str, said: str) -> None:
    path = write(tmp_path, broken + GOOD.replace("site-license", "site-other"))
    loaded = catalogue.load(tmp_path)
    assert "site-other" in loaded.by_id
    assert len(loaded.problems) == 1
    assert f"{path}:2" in loaded.problems[0]
    assert said in loaded.problems[0]
    assert "the others work" in loaded.problems[0]


def test_a_file_that_is_no_list_of_rows_is_named(tmp_path: Path) -> None:
    write(tmp_path, "hello")
    write(tmp_path, "[[rows]]\nid = 'x'\n", "findings/a.toml")
    (tmp_path / "findings" / "b.toml").write_bytes(b"\xff\xfe\x00")
    problems = catalogue.load(tmp_path).problems
    assert len(problems) == 3
    assert "findings.toml:1" in problems[0]
    assert "a.toml:1" in problems[1]
    assert "[[row]] and [[fact]]" in problems[1]
    assert "b.toml" in problems[2]


def test_two_rows_of_one_name_are_told(tmp_path: Path) -> None:
    write(tmp_path, GOOD + GOOD)
    assert "two rows called site-license" in catalogue.load(tmp_path).problems[0]


def test_a_name_that_does_not_exist_is_told(tmp_path: Path) -> None:
    write(tmp_path, GOOD + 'because = ["no-such-row"]\n')
    loaded = catalogue.load(tmp_path)
    assert "no-such-row" in loaded.problems[0]
    assert "site-license" in loaded.by_id


def test_an_empty_catalogue_finds_nothing() -> None:
    empty = Catalogue(())
    assert not [i for i in empty.matcher.rows("Out of memory: Killed process 1 (x)") if empty.owners[i] is not None]


@pytest.mark.parametrize(
    ("written", "one"),
    [
        ("0000:61:00", "0000:61:00.0"),
        ("00000000:61:00.0", "0000:61:00.0"),
        ("61:00.0", "0000:61:00.0"),
        ("0000:AB:00", "0000:ab:00.0"),
    ],
)
def test_a_device_has_one_address(written: str, one: str) -> None:
    index = next(i for i, owner in enumerate(OURS.owners) if owner is OURS.by_id["xid-other"])
    found = OURS.find(index, f"NVRM: Xid (PCI:{written}): 62, pid=1, name=x, y")
    assert found is not None
    assert found[1]["bdf"] == one
