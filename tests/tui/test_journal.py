"""The journal pane, through its keys: it follows, it stands still, it filters, it searches, it shows lines whole."""

from __future__ import annotations

import base64

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual.geometry import Size

from probes.readings import JournalLine
from tests.tui import views
from tests.tui.showing import Showing, showing
from tui.screens.choice import Choice
from tui.screens.line import LineScreen
from tui.text import safe
from watch.lines import ERROR, WARNING


def line(number: int, text: str = "", **fields: object) -> JournalLine:
    return JournalLine(at=views.NOW + number, text=text or f"line number {number}", **fields)  # type: ignore[arg-type]


def many(count: int, start: int = 0) -> list[JournalLine]:
    return [line(number) for number in range(start, start + count)]


def visible(shown: Showing) -> list[str]:
    """The rows of the journal pane as drawn, without its border."""
    journal = shown.journal
    return [journal.render_line(y).text for y in range(journal.size.height)]


def title(shown: Showing) -> str:
    return str(shown.journal.border_title)


async def test_it_follows_the_newest_line() -> None:
    async with showing(rows=many(50)) as shown:
        assert "line number 49" in visible(shown)[-1]
        await shown.feed(many(5, 50))
        assert "line number 54" in visible(shown)[-1]
        assert "following · 55 lines" in title(shown)


async def test_lines_come_from_the_top_while_there_are_few() -> None:
    async with showing(rows=many(2)) as shown:
        rows = visible(shown)
        assert "line number 0" in rows[0]
        assert "line number 1" in rows[1]
        await shown.feed(many(1, 2))
        assert "line number 2" in visible(shown)[2]


async def test_scrolled_back_it_never_moves_and_says_what_is_new() -> None:
    async with showing(rows=many(200)) as shown:
        await shown.press("pageup", "pageup", "k")
        before = visible(shown)
        await shown.feed(many(500, 200))
        await shown.feed(many(7, 700))
        assert visible(shown) == before
        assert str(shown.journal.border_subtitle) == "+507 new, G follows"
        assert "following" not in title(shown)
        await shown.press("G")
        assert "line number 706" in visible(shown)[-1]
        assert str(shown.journal.border_subtitle) == ""
        assert "following" in title(shown)


@pytest.mark.parametrize(("keys", "at"), [("g", 0), ("home", 0), ("G", 99), ("end", 99)])
async def test_ends_of_the_journal(keys: str, at: int) -> None:
    async with showing(rows=many(100)) as shown:
        await shown.press("pageup", keys)
        assert shown.journal.current == at


@pytest.mark.parametrize(
    ("keys", "moved"),
    [
        (["k"], -1),
        (["up"], -1),
        (["k", "k", "j"], -1),
        (["k", "k", "down"], -1),
        (["pageup"], -8),
        (["ctrl+b"], -8),
        (["pageup", "pageup", "pagedown"], -8),
        (["pageup", "pageup", "space"], -8),
        (["pageup", "pageup", "ctrl+f"], -8),
    ],
)
async def test_moving(keys: list[str], moved: int) -> None:
    async with showing(rows=many(100)) as shown:
        assert shown.journal.size.height == 9
        await shown.press(*keys)
        assert shown.journal.current == 99 + moved


async def test_down_to_the_last_line_follows_again() -> None:
    async with showing(rows=many(100)) as shown:
        await shown.press("k", "k", "j", "j")
        assert shown.journal.following
        await shown.feed(many(1, 100))
        assert "line number 100" in visible(shown)[-1]


async def test_the_wheel_scrolls_back_and_returns() -> None:
    async with showing(rows=many(100)) as shown:
        journal = shown.journal
        journal.scroll_to(y=20, animate=False, immediate=True)
        await shown.pilot.pause()
        assert not journal.following
        assert journal.current is not None
        assert 20 <= journal.current < 29
        journal.scroll_to(y=journal.max_scroll_y, animate=False, immediate=True)
        await shown.pilot.pause()
        assert journal.following


async def test_it_goes_on_following_through_any_change_of_size() -> None:
    async with showing(rows=many(300)) as shown:
        for size in ((120, 60), (80, 24), (200, 50), (60, 12), (120, 35)):
            await shown.pilot.resize_terminal(*size)
            await shown.pilot.pause()
            assert shown.journal.following
            assert "line number 299" in visible(shown)[-1]


async def test_scrolled_back_it_keeps_its_line_through_any_change_of_size() -> None:
    async with showing(rows=many(300)) as shown:
        shown.journal.move_to(20)
        for size in ((120, 60), (80, 24), (200, 50)):
            await shown.pilot.resize_terminal(*size)
            await shown.pilot.pause()
            assert shown.journal.current == 20
            assert any("line number 20 " in row for row in visible(shown))


async def test_severity_goes_round() -> None:
    async with showing() as shown:
        everything = len(shown.app.store.shown)
        for loudness, words in ((WARNING, "warnings and worse"), (ERROR, "errors and worse")):
            await shown.press("s")
            await shown.until(lambda wanted=loudness: shown.app.store.filter.loudness == wanted)
            assert words in title(shown)
            assert all(shown.app.store.loudness(index) >= loudness for index in shown.app.store.shown)
        await shown.press("s")
        await shown.until(lambda: len(shown.app.store.shown) == everything)
        assert shown.journal.following


async def test_the_line_under_the_cursor_stays_when_the_filter_changes() -> None:
    async with showing(rows=views.lines(400)) as shown:
        shown.journal.move_to(50)
        while shown.app.store.loudness(shown.journal.current or 0) < WARNING:
            await shown.press("j")
        kept = shown.journal.current
        await shown.press("s")
        await shown.until(lambda: shown.app.store.filter.loudness == WARNING)
        assert shown.journal.current == kept


async def test_one_process_is_chosen_from_those_that_spoke() -> None:
    async with showing() as shown:
        await shown.press("p")
        assert isinstance(shown.app.screen, Choice)
        text = shown.text()
        assert "all processes" in text
        assert "Worker_TP7" in text
        await shown.press("down", "enter")
        await shown.until(lambda: shown.app.store.filter.process == "APIServer")
        assert "only APIServer" in title(shown)
        await shown.press("p", "escape")
        assert shown.app.store.filter.process == "APIServer"
        await shown.press("p", "home", "enter")
        await shown.until(lambda: shown.app.store.filter.process is None)


async def test_our_own_requests_are_hidden_until_asked_for() -> None:
    async with showing() as shown:
        assert not any("?firstlight" in row for row in visible(shown))
        await shown.press("a")
        await shown.until(lambda: shown.app.store.filter.own)
        assert len(shown.app.store.shown) == len(shown.app.store)
        assert "with our own requests" in title(shown)


async def test_a_search_jumps_to_the_newest_line_found_then_up_and_down() -> None:
    rows = many(100)
    for number in (5, 40, 70):
        rows[number] = line(number, "vLLM is using NCCL==2.27.5")
    async with showing(rows=rows) as shown:
        await shown.press("slash", *"nccl", "enter")
        await shown.until(lambda: shown.journal.search is not None and shown.journal.search.done)
        assert shown.journal.current == 70
        assert "/nccl: 3 of 3" in title(shown)
        for key, at in (("N", 40), ("N", 5), ("N", 70), ("n", 5), ("n", 40)):
            await shown.press(key)
            assert shown.journal.current == at
        await shown.press("escape")
        assert shown.journal.search is None
        assert shown.journal.current == 40


async def test_a_search_begun_further_up_goes_down_from_there() -> None:
    rows = many(3000)
    for number in (5, 40, 2900):
        rows[number] = line(number, "needle")
    async with showing(rows=rows) as shown:
        shown.journal.move_to(6)
        await shown.press("slash", *"needle", "enter")
        await shown.until(lambda: shown.journal.search is not None and shown.journal.search.done)
        assert shown.journal.current == 40


async def test_a_search_finds_what_comes_later() -> None:
    async with showing(rows=many(30)) as shown:
        await shown.press("slash", *"needle", "enter")
        await shown.until(lambda: "/needle: none" in title(shown))
        await shown.feed([line(30, "a needle"), line(31)])
        await shown.until(lambda: shown.journal.found == 1)


async def test_a_search_can_be_left_and_ended() -> None:
    async with showing() as shown:
        await shown.press("slash", *"abc", "escape")
        assert shown.journal.search is None
        assert shown.journal.has_focus
        await shown.press("slash", *"nccl", "enter")
        assert shown.journal.search is not None
        await shown.press("slash", "ctrl+u", "enter")
        assert shown.journal.search is None


async def test_keys_typed_into_the_search_line_are_text() -> None:
    async with showing() as shown:
        await shown.press("slash", *"q/f:?", "enter")
        assert shown.journal.search is not None
        assert shown.journal.search.wanted == "q/f:?"


async def test_a_line_is_shown_whole_with_its_fields() -> None:
    async with showing() as shown:
        await shown.press("g", "enter")
        assert isinstance(shown.app.screen, LineScreen)
        await shown.press("n")
        text = shown.text()
        assert "Referenced but unset environment variable" in text
        assert "2026-09-20 14:50:00.200 UTC" in text
        assert "(sh)" in text
        assert "s=aaaa;i=1" in text
        assert "WARN" in text
        assert "systemd expands $free to nothing in ExecStartPre" in text  # what it means
        assert "Write $${free}" in text
        await shown.press("N")
        assert "Starting kimi" in shown.text()
        await shown.press("escape")
        assert not isinstance(shown.app.screen, LineScreen)
        await shown.press("e")
        assert isinstance(shown.app.screen, LineScreen)


async def test_a_line_is_copied_safe_to_paste(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    async with showing(rows=[line(0, "\x1b[31mred\x1b[0m\x1b[2J\nrm -rf /")]) as shown:
        driver = shown.app._driver
        assert driver is not None
        monkeypatch.setattr(driver, "write", written.append)
        await shown.press("y")
        copied = next(text for text in written if text.startswith("\x1b]52;c;"))
        assert base64.b64decode(copied[7:-1]).decode() == "red␛[2J␊rm -rf /"


async def test_long_lines_move_sideways_and_say_that_there_is_more() -> None:
    text = "".join(f"{number:05d} " for number in range(200))
    async with showing(rows=[line(0, text)]) as shown:
        assert "00000 00001" in visible(shown)[0]
        assert visible(shown)[0].endswith("›")
        await shown.press("l")
        row = visible(shown)[0]
        assert "00000" not in row
        assert "‹" in row
        await shown.press(*["right"] * 22)
        assert "00199" in visible(shown)[0]
        assert not visible(shown)[0].endswith("›")
        await shown.press(*["h"] * 22)
        assert "00000 00001" in visible(shown)[0]


async def test_a_line_of_a_megabyte_is_not_drawn_whole() -> None:
    text = "(Worker_TP0 pid=1) INFO 09-20 14:50:00 [x.py:1] " + "日本" * 250_000 + "the end"
    async with showing(rows=[line(0, text), line(1)]) as shown:
        row = visible(shown)[0]
        assert "Worker_TP0" in row
        assert len(row) < 300
        await shown.press("g", "enter")
        screen = shown.app.screen
        assert isinstance(screen, LineScreen)
        await shown.until(lambda: "the end" in "".join(row.text for row in screen.whole.rows[-3:]))
        await shown.press("G")
        assert "the end" in shown.text()


async def test_wide_characters_keep_the_columns() -> None:
    async with showing(rows=[line(0, "日本語の" * 80), line(1, "e\u0301" * 300), line(2, "🙂" * 90)]) as shown:
        journal = shown.journal
        for y in range(3):
            assert journal.render_line(y).cell_length == journal.inner.width


HOSTILE = st.text(
    st.one_of(
        st.characters(codec=None), st.characters(max_codepoint=0x9F), st.sampled_from("\u202e\u200b\u0301日🙂\ufe0f")
    )
)


async def test_whatever_is_printed_only_text_reaches_a_strip() -> None:
    async with showing(rows=[]) as shown:
        journal = shown.journal
        source = shown.source
        place = len(source.kept)
        source.kept.append(line(0))
        journal.store.add([line(0)], [place])
        journal.catch_up()
        await shown.pilot.pause()

        @settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=200)
        @given(HOSTILE, HOSTILE, st.integers(0, 30))
        def check(text: str, comm: str, start: int) -> None:
            source.kept[place] = JournalLine(at=0.0, text=text, comm=comm)
            journal.store._cache.clear()
            journal._strips.clear()
            journal._from = start
            for width in (40, 90, 130):
                strip = journal.strip(journal._row(0, width, ""), width)
                assert strip.text == safe(strip.text)
                assert strip.cell_length == width

        check()
        for name in ("\x1b[2J", "a\nb", "\u202egnp"):
            source.kept.append(JournalLine(at=0.0, text="x", comm=name))
            journal.store.add([source.kept[-1]], [len(source.kept) - 1])
            journal.catch_up()
        journal._from = 0
        assert all(row == safe(row) for row in visible(shown))


async def test_nothing_is_read_back_that_is_not_drawn() -> None:
    async with showing(rows=many(5000)) as shown:
        assert shown.source.reads < 200


async def test_a_colour_theme_repaints_old_lines() -> None:
    async with showing() as shown:
        before = [segment.style for segment in shown.journal.render_line(0)]
        shown.app.theme = "firstlight-light"
        await shown.pilot.pause()
        assert [segment.style for segment in shown.journal.render_line(0)] != before


async def test_an_empty_journal_offers_no_keys_that_cannot_work() -> None:
    async with showing(rows=[]) as shown:
        assert "no lines" in title(shown)
        footer = shown.footer()
        assert "Whole line" not in footer
        assert "Copy" not in footer
        await shown.press("enter", "y", "k", "g", "pagedown")
        await shown.feed(many(2))
        assert "Whole line" in shown.footer()
        assert shown.journal.virtual_size == Size(shown.journal.virtual_size.width, 2)
