"""The table of keys: complete, without clashes, and open to an operator's own keys."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from textual.widget import Widget

from tui.app import Firstlight
from tui.keys import PLACES, BadKey, bindings, by_id, first_key, keymap, table
from tui.screens.choice import Choice
from tui.screens.finding import FindingScreen
from tui.screens.help import HelpRows, HelpScreen
from tui.screens.line import LineScreen
from tui.screens.start import Choices
from tui.screens.watch import WatchScreen
from tui.widgets.findings import Findings
from tui.widgets.journal import Journal
from tui.widgets.load import Load
from tui.widgets.searchline import SearchLine

WHERE: dict[str, list[type]] = {
    "app": [Firstlight],
    "watch": [WatchScreen],
    "pane": [Load],
    "findings": [Findings],
    "journal": [Journal],
    "search": [SearchLine],
    "line": [LineScreen, FindingScreen],
    "help": [HelpScreen],
    "choice": [Choice],
    "start": [Choices],
}


def test_every_id_is_there_once() -> None:
    assert len(by_id()) == len(table())


def test_every_key_says_what_it_does_where_the_help_lists_it() -> None:
    for key in table():
        assert key.help
        assert key.where in PLACES


@pytest.mark.parametrize("where", WHERE)
def test_every_key_has_its_action(where: str) -> None:
    rows = [key for key in table() if key.where == where]
    assert rows
    for owner in WHERE[where]:
        for key in rows:
            name = key.action.split("(")[0]
            assert hasattr(owner, f"action_{name}"), f"{key.id}: {owner.__name__} has no action {name}"
        assert {key.id for key in rows} <= _bound(owner)


def _bound(owner: type) -> set[str | None]:
    assert issubclass(owner, Widget | Firstlight)
    return {binding.id for _, binding in owner._merge_bindings()}


def test_no_key_means_two_things_in_one_place() -> None:
    for where in PLACES:
        keys = [binding.key for row in bindings(where) for binding in type(row).make_bindings([row])]
        assert len(keys) == len(set(keys)), where


def test_an_operators_keys() -> None:
    assert keymap({}) == {}
    assert keymap({"journal.follow": "F,end"}) == {"journal.follow": "F,end"}
    assert keymap({"watch.search": "ctrl+s"}) == {"watch.search": "ctrl+s"}
    assert keymap({"watch.zoom": "s", "journal.severity": "X"})


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"journal.folow": "F"}, "did you mean 'journal.follow'"),
        ({"banana": "F"}, "the ids are app.help"),
        ({"journal.follow": "ctrl+foo"}, "'ctrl+foo', which is none"),
        ({"journal.follow": ""}, "which is none"),
        ({"watch.zoom": "s"}, "'watch.zoom' and 'journal.severity'"),
        ({"watch.zoom": "q"}, "'app.quit' and 'watch.zoom'"),
        ({"watch.zoom": "x", "watch.findings": "x"}, "'watch.findings' and 'watch.zoom'"),
        ({"findings.open": "z"}, "'watch.zoom' and 'findings.open'"),
    ],
)
def test_keys_that_cannot_be_are_named_with_what_would_be_right(wanted: dict[str, str], says: str) -> None:
    with pytest.raises(BadKey) as caught:
        keymap(wanted)
    assert says in str(caught.value)


def test_the_first_key_is_the_one_that_is_shown() -> None:
    assert first_key("journal.follow") == "G"
    assert first_key("app.help") == "question_mark"
    assert first_key("journal.follow", "F,end") == "F"


def test_the_keys_of_the_example_that_is_shipped_can_be_used() -> None:
    example = tomllib.loads((Path(__file__).parents[2] / "docs" / "firstlight.toml").read_text())
    assert set(keymap(example["keys"])) == {"journal.follow", "watch.zoom", "app.suspend"}


@pytest.mark.parametrize("width", [96, 130])
def test_the_help_has_every_name_whole(width: int) -> None:
    rows = HelpRows()
    rows._displays = lambda name, keys: [keys]  # type: ignore[method-assign]
    shown = [row.text for row in rows._lines(width)]
    for key in table():
        assert any(line.rstrip().endswith(f" {key.id}") and len(line) <= width for line in shown), key.id
