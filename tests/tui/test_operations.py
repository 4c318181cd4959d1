"""Acting through the keys, on operations that ask no host: what is offered, what is asked, and how much it takes to
say yes. What is really done is tried on the real host (``tests/host/test_operate_screen.py``)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from probes.operate.orders import UnderWay
from tests.tui import views
from tests.tui.acting import (
    LINEAGE,
    NONE,
    STOPPING,
    UNDOABLE,
    acting,
    action_view,
    operations_of,
    serving,
    troubled,
    unit,
)
from tests.tui.showing import Showing, showing
from tui.operations.ask import Ask
from tui.operations.confirm import Confirm
from tui.operations.difference import change_rows, text_rows
from tui.operations.revisions import RevisionsScreen
from tui.operations.steps import StepsScreen
from tui.operations.told import ByHandScreen
from tui.widgets.flow import flow
from watch.lineage import Lineage
from watch.revisions import Change, argument_changes, setting_changes


async def to_the_question(shown: Showing, *keys: str) -> Ask:
    await shown.press(*keys)
    await shown.until(lambda: isinstance(shown.app.screen, Ask) and shown.app.screen.proposal.whole)
    screen = shown.app.screen
    assert isinstance(screen, Ask)
    return screen


KEYS = ["r", "S", "R", "U", "d", "enter", "y", "Y", "space", "1", "tab", "right", "escape", "q", "n"]


@pytest.mark.parametrize("key", KEYS)
async def test_no_single_key_says_yes(key: str) -> None:
    async with acting() as shown:
        await to_the_question(shown, "r")
        await shown.press(key)
        assert operations_of(shown).done == []


@pytest.mark.parametrize("keys", [("tab", "enter"), ("right", "enter"), ("l", "enter"), ("shift+tab", "enter")])
async def test_the_other_button_and_enter_say_yes(keys: tuple[str, str]) -> None:
    async with acting() as shown:
        await to_the_question(shown, "r")
        await shown.press(*keys)
        await shown.until(lambda: operations_of(shown).done != [])
        ((proposal, _),) = operations_of(shown).done
        assert proposal.action == "restart"
        assert isinstance(shown.app.screen, StepsScreen)


async def test_until_the_host_has_answered_nobody_can_say_yes() -> None:
    async with acting() as shown:
        operations_of(shown).silent = True
        await shown.press("r")
        await shown.until(lambda: "is not known yet" in shown.text())
        assert "(not now)" in shown.text()
        await shown.press("tab", "enter")
        assert operations_of(shown).done == []


async def test_memory_that_others_hold_is_accepted_only_in_words() -> None:
    async with acting(picture=troubled()) as shown:
        await to_the_question(shown, "r")
        assert "GPU memory is held by python3 (pid 999" in shown.text()
        assert "Restart it, though GPU memory is held" in shown.text()
        await shown.press("tab", "enter")
        await shown.until(lambda: operations_of(shown).done != [])
        ((_, check),) = operations_of(shown).done
        assert check.accept_held
        assert check.reload


async def test_what_turns_up_while_yes_is_chosen_is_read_first() -> None:
    async with acting() as shown:
        screen = await to_the_question(shown, "r")
        await shown.press("tab")
        assert screen.buttons.at == 1
        await shown.look(troubled())
        await shown.until(lambda: screen.buttons.at == 0)
        assert "GPU memory is held" in shown.text()


async def test_what_would_fail_cannot_be_said_yes_to() -> None:
    masked = serving(unit_reading=unit("inactive", load="masked"))
    async with acting(picture=masked) as shown:
        await to_the_question(shown, "r")
        assert "The unit is masked" in shown.text()
        await shown.press("tab", "enter")
        assert operations_of(shown).done == []


async def test_another_operator_is_named() -> None:
    async with acting() as shown:
        operations_of(shown).other = UnderWay(unit=views.UNIT, id="b2", action="stop", who="bob@desk")
        await to_the_question(shown, "r")
        assert "bob@desk is at it" in shown.text()
        await shown.press("tab", "enter")
        assert operations_of(shown).done == []


@pytest.mark.parametrize(
    ("active", "sub", "asks"),
    [("active", "running", "Stop"), ("failed", "failed", "Start"), ("activating", "auto-restart", "Start or stop?")],
)
async def test_start_or_stop_is_what_applies(active: str, sub: str, asks: str) -> None:
    async with acting(picture=serving(unit_reading=unit(active, sub=sub))) as shown:
        await shown.press("S")
        await shown.until(lambda: f"{asks}" in shown.text() and shown.app.screen.is_modal)
        if "or" in asks:
            await shown.press("enter")
            await shown.until(lambda: f"Stop {views.UNIT} on {views.TARGET}?" in shown.text())


async def test_a_roll_back_goes_by_the_list_and_the_difference() -> None:
    async with acting() as shown:
        await shown.press("R")
        await shown.until(lambda: "to which revision?" in shown.text())
        await shown.press("enter")
        await shown.until(lambda: "R Roll back to it" in shown.footer())
        assert "[-0.97-]{+0.90+}" in shown.text()
        await shown.press("R")
        await to_the_question(shown)
        await shown.press("tab", "enter")
        await shown.until(lambda: operations_of(shown).done != [])
        ((proposal, _),) = operations_of(shown).done
        assert proposal.action == "rollback"
        assert proposal.plan is not None
        assert "--gpu-memory-utilization 0.90" in (proposal.plan.edits[0].text or "")


@pytest.mark.parametrize(
    ("known", "fallback", "stuck"), [(0, "", True), (1, "", True), (1, "old", False), (2, "", False)]
)
async def test_with_nothing_to_go_back_to_that_is_said_and_how_there_would_be(
    known: int, fallback: str, stuck: bool
) -> None:
    async with acting() as shown:
        found = Lineage(rows=LINEAGE.rows[:known])
        screen = RevisionsScreen(found, views.UNIT, shown.app.zone, going_back=True, fallback=fallback)
        await shown.app.push_screen(screen)
        await shown.until(lambda: "Roll back" in shown.text())
        assert ("there is nothing to go back to" in shown.text()) is stuck
        assert ("to which revision?" in shown.text()) is not stuck
        assert ("[deployments.NAME]" in shown.text()) is stuck


async def test_the_way_back_from_the_difference_is_the_list() -> None:
    async with acting() as shown:
        await shown.press("R")
        await shown.until(lambda: "to which revision?" in shown.text())
        await shown.press("enter")
        await shown.until(lambda: "R Roll back to it" in shown.footer())
        await shown.press("escape")
        await shown.until(lambda: "to which revision?" in shown.text())
        await shown.press("escape")
        await shown.until(lambda: shown.app.screen is shown.app.watching)


async def test_undo_is_offered_only_where_there_is_something() -> None:
    async with acting() as shown:
        await shown.press("U")
        assert shown.app.screen is shown.app.watching
    async with acting(undoable=UNDOABLE) as shown:
        assert "U Undo" in shown.footer()


async def test_without_rights_the_commands_are_shown() -> None:
    async with acting(rights=NONE) as shown:
        await shown.press("r")
        await shown.until(lambda: isinstance(shown.app.screen, ByHandScreen))
        assert "systemctl stop" in shown.text()
        assert operations_of(shown).done == []


async def test_kill_now_asks_too() -> None:
    async with acting(picture=action_view(STOPPING)) as shown:
        await shown.press("A")
        await shown.until(lambda: "K Kill now" in shown.footer())
        await shown.press("K")
        await shown.until(lambda: isinstance(shown.app.screen, Confirm))
        await shown.press("enter")
        assert operations_of(shown).killed == 0
        await shown.until(lambda: isinstance(shown.app.screen, StepsScreen))
        await shown.press("K")
        await shown.until(lambda: isinstance(shown.app.screen, Confirm))
        await shown.press("tab", "enter")
        await shown.until(lambda: operations_of(shown).killed == 1)


async def test_an_action_is_told_in_the_header_and_its_steps_are_a_key_away() -> None:
    async with acting(picture=action_view(STOPPING)) as shown:
        assert "▶ roll back: stop 0:3" in shown.text()
        await shown.press("A")
        await shown.until(lambda: isinstance(shown.app.screen, StepsScreen))
        assert "SIGTERM was sent; systemd sends SIGKILL in 0:5" in shown.text()
        await shown.press("q")
        assert shown.app.screen is shown.app.watching


async def test_nothing_is_offered_without_a_desk() -> None:
    async with showing(replace(serving(), action=action_view(STOPPING).action)) as shown:
        for word in ("Restart", "Roll back", "Start, stop", "Diagnose", "Revisions", "Undo"):
            assert word not in shown.footer()
        await shown.press("r", "R", "S", "d", "v", "U")
        assert shown.app.screen is shown.app.watching
        await shown.press("A")  # a replay shows the steps
        assert "Roll back of" in shown.text()
        assert "Kill now" not in shown.footer()


async def test_a_lost_link_hides_the_keys_and_the_palette_says_why() -> None:
    async with acting() as shown:
        assert "r Restart" in shown.footer()
        await shown.look(replace(views.link_lost(), unit_reading=unit()))
        await shown.until(lambda: "r Restart" not in shown.footer())
        await shown.press("r")
        assert shown.app.screen is shown.app.watching
        commands = {command.title: command.help for command in shown.app.get_system_commands(shown.app.screen)}
        assert "the link to the host is lost" in commands["Restart the unit"]
        assert "Revisions of the unit" in commands


# ----- rows


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=60)


@given(st.lists(st.tuples(WORDS, st.just("text")), max_size=6), st.integers(8, 60), st.integers(0, 6))
def test_pieces_flow_into_the_width(pieces: list[tuple[str, str]], width: int, indent: int) -> None:
    for row in flow(pieces, width, indent=indent):
        assert cell_len(row.text.rstrip(" ")) <= width


@given(WORDS, WORDS, st.integers(20, 90))
def test_any_two_texts_can_be_compared(old: str, new: str, width: int) -> None:
    changes = (*argument_changes(old, new), *setting_changes(old, new))
    rows = [*change_rows("Arguments", changes, width), *text_rows(old, new, width)]
    if old.splitlines() == new.splitlines():
        assert not text_rows(old, new, width)
    assert all("\n" not in row.text for row in rows)


def test_a_change_is_told_without_colour() -> None:
    changes = (
        Change("--seed", None, "7"),
        Change("--enforce-eager", "", None),
        Change("--max-model-len", "8192", "4096"),
    )
    text = "\n".join(row.text for row in change_rows("Arguments", changes, 80, failed=(changes[2],)))
    assert "+ --seed" in text
    assert "− --enforce-eager" in text
    assert "~ --max-model-len" in text
    assert "[-8192-]{+4096+}" in text
    assert "⚠ the last load failed with it" in text
