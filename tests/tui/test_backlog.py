"""The journal pane while a long back-log is read: the newest lines, then all, and what was chosen stays chosen."""

from __future__ import annotations

from dataclasses import replace

from tests.tui import views
from tests.tui.showing import Showing, showing
from tests.tui.test_journal import many, title, visible
from tui.projector import Projector
from tui.units import Zone
from watch.batch import Batch
from watch.changes import Changes


async def ahead(shown: Showing, first: int, last: int, share: float | None) -> None:
    """The source tells of its newest lines; share None: the back-log is over."""
    status = replace(shown.source.state, backlog=share)
    shown.source.state = status
    newest = many(last - first, first)
    shown.source._queue.put_nowait(Batch(Changes.JOURNAL, newest=newest, backlog=share))
    await shown.until(lambda: shown.journal.backlog == share)


async def test_the_newest_are_shown_and_the_rest_is_counted() -> None:
    async with showing(rows=many(30), size=(160, 45)) as shown:
        await ahead(shown, 900, 1000, 0.03)
        assert "line number 999" in visible(shown)[-1]
        assert "3% of the back-log read" in title(shown)
        assert "reading back-log 3%" in shown.text()
        shown.source.feed(many(970, 30))
        await shown.until(lambda: len(shown.app.store) == 1000)
        await ahead(shown, 0, 0, None)
        await shown.until(lambda: shown.journal.shown_lines == 1000)
        assert "line number 999" in visible(shown)[-1]
        assert "following · 1,000 lines" in title(shown)
        assert "back-log" not in shown.text()


async def test_who_reads_an_earlier_line_is_not_moved() -> None:
    async with showing(rows=many(30), size=(160, 45)) as shown:
        await ahead(shown, 900, 1000, 0.03)
        await shown.press("k", "k", "k")
        current = shown.journal.current
        assert current is not None
        chosen = shown.journal.store.line(current).text
        shown.source.feed(many(970, 30))
        await shown.until(lambda: len(shown.app.store) == 1000)
        await ahead(shown, 0, 0, None)
        await shown.until(lambda: shown.journal.shown_lines == 1000)
        current = shown.journal.current
        assert current is not None
        assert shown.journal.store.line(current).text == chosen


async def test_a_line_shown_whole_stays_that_line() -> None:
    async with showing(rows=many(30), size=(160, 45)) as shown:
        await ahead(shown, 900, 1000, 0.03)
        await shown.press("k", "enter")
        before = shown.text()
        assert "line number 998" in before
        shown.source.feed(many(970, 30))
        shown.source.state = replace(shown.source.state, backlog=None)
        shown.source._queue.put_nowait(Batch(Changes.JOURNAL, backlog=None))
        await shown.until(lambda: len(shown.app.store) == 1000)
        assert "line number 998" in shown.text()
        await shown.press("escape")
        await shown.until(lambda: shown.journal.shown_lines == 1000)
        assert "following" in title(shown) or "line 999" in title(shown)


async def test_what_comes_once_the_screen_is_gone_is_let_go() -> None:
    """Else painting would never wait again, and nothing else would get its turn: the program could not end."""
    projector = Projector(views.Fixed(views.loading()), Zone())
    projector._urgent.set()
    projector.flush()
    assert not projector._urgent.is_set()
