"""The journal pane says when it draws only some of the lines that come."""

from __future__ import annotations

from time import monotonic

from tests.tui.showing import showing
from tests.tui.test_journal import many, title
from tui.gauge import Gauge


def test_what_was_there_already_is_no_flood() -> None:
    gauge = Gauge()
    start = gauge._since
    gauge.add(1_000_000, start + 1.5)
    assert not gauge.floods(30)
    gauge.add(0, start + 3.0)
    assert not gauge.floods(30)


def test_a_flood_lasts_and_ends() -> None:
    gauge = Gauge()
    start = gauge._since
    for second in range(1, 4):
        gauge.add(50_000, start + second)
    assert gauge.floods(30)
    assert round(gauge.rate) == 50_000
    gauge.add(10, start + 4)
    assert not gauge.floods(30)


async def test_what_is_read_up_is_no_flood() -> None:
    async with showing(rows=many(10)) as shown:
        pane = shown.journal
        for age, came in ((60.0, 0), (1.0, 500)):
            pane._gauge._came = 0
            pane._gauge._since = monotonic() + 60
            rows = many(500, 10)
            shown.source.kept.extend(rows)
            places = range(len(shown.source.kept) - 500, len(shown.source.kept))
            pane.store.add(rows, list(places))
            pane.catch_up(rows[-1].at + age)
            assert pane._gauge._came == came


async def test_the_title_says_so_and_no_longer() -> None:
    async with showing(rows=many(10)) as shown:
        pane = shown.journal
        pane._gauge._before = pane._gauge.rate = 40_000.0
        await shown.feed(many(1, 10))
        assert "lines/s, not each is drawn" in title(shown)
        pane._gauge._before = pane._gauge.rate = 0.0
        await shown.feed(many(1, 11))
        assert "not each" not in title(shown)
