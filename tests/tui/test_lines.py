"""The store of lines: filters and searches agree with the plain way of doing them, however lines arrive."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.readings import JournalLine
from tui.lines import Filter, LineStore, Search
from watch.lines import ERROR, INFO, PLAIN, WARNING, LineMarker

PROCESSES = ("APIServer", "EngineCore", "Worker_TP0", "Worker_TP1")
LEVELS = ("INFO", "WARNING", "ERROR")

ROW = st.builds(
    lambda process, level, own, word: JournalLine(
        at=0.0,
        text=f'({process} pid=1) INFO:     127.0.0.1:5 - "GET /health?firstlight HTTP/1.1" 200 OK'
        if own
        else f"({process} pid=1) {level} 09-20 14:50:00 [x.py:1] {word}",
    ),
    st.sampled_from(PROCESSES),
    st.sampled_from(LEVELS),
    st.integers(0, 4).map(lambda number: number == 0),
    st.sampled_from(("nccl", "NCCL", "shard", "kv cache", "", "x nccl x")),
)
FILTER = st.builds(
    Filter,
    st.sampled_from((PLAIN, INFO, WARNING, ERROR)),
    st.sampled_from((None, *PROCESSES, "nobody")),
    st.booleans(),
)


class Kept:
    """Lines as a session file would keep them."""

    def __init__(self) -> None:
        self.rows: list[JournalLine] = []
        self.reads = 0

    def read(self, place: int) -> JournalLine:
        self.reads += 1
        return self.rows[place // 10]

    def add(self, store: LineStore, rows: list[JournalLine]) -> int:
        start = len(self.rows)
        self.rows.extend(rows)
        return store.add(rows, [10 * place for place in range(start, len(self.rows))])


def plain(rows: list[JournalLine], wanted: Filter) -> list[int]:
    marker = LineMarker()
    shown = []
    for index, row in enumerate(rows):
        mark = marker.mark(row)
        if mark.loudness < wanted.loudness or (mark.own and not wanted.own):
            continue
        if wanted.process is None or mark.process == wanted.process:
            shown.append(index)
    return shown


@given(st.lists(st.lists(ROW, max_size=8), max_size=6), FILTER, st.integers(0, 6))
def test_a_filter_shows_what_it_should_whenever_it_is_set(
    batches: list[list[JournalLine]], wanted: Filter, when: int
) -> None:
    kept, store = Kept(), LineStore(lambda place: kept.read(place))
    for number, rows in enumerate(batches):
        if number == when:
            list(store.refilter(wanted))
        before = len(store.shown)
        assert kept.add(store, rows) == len(store.shown) - before
    if when >= len(batches):
        list(store.refilter(wanted))
    assert list(store.shown) == plain(kept.rows, wanted)
    assert sum(store.counts) == len(store)


def test_lines_that_come_while_a_filter_is_being_set_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.lines._SLICE", 10)
    kept, store = Kept(), LineStore(lambda place: kept.read(place))
    row = JournalLine(at=0.0, text="(Worker_TP0 pid=1) ERROR 09-20 14:50:00 [x.py:1] e")
    quiet = JournalLine(at=0.0, text="(Worker_TP0 pid=1) INFO 09-20 14:50:00 [x.py:1] i")
    kept.add(store, [row, quiet] * 20)
    wanted = Filter(ERROR)
    for _ in store.refilter(wanted):
        kept.add(store, [row, quiet]) if len(store) < 60 else None
    kept.add(store, [row])
    assert list(store.shown) == plain(kept.rows, wanted)


def test_a_second_filter_wins_over_one_still_being_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.lines._SLICE", 10)
    kept, store = Kept(), LineStore(lambda place: kept.read(place))
    kept.add(
        store, [JournalLine(at=0.0, text=f"({name} pid=1) INFO 09-20 14:50:00 [x.py:1] i") for name in PROCESSES] * 10
    )
    first = store.refilter(Filter(process="APIServer"))
    next(first)
    list(store.refilter(Filter(process="EngineCore")))
    list(first)
    assert list(store.shown) == plain(kept.rows, Filter(process="EngineCore"))


@given(st.lists(ROW, max_size=30), st.lists(ROW, max_size=10), st.sampled_from(("nccl", "NCCL", "shard", "zebra")))
def test_a_search_finds_what_is_shown_and_nothing_else(
    rows: list[JournalLine], later: list[JournalLine], wanted: str
) -> None:
    kept, store = Kept(), LineStore(lambda place: kept.read(place))
    kept.add(store, rows)
    search = Search(store, wanted)
    search.step()
    kept.add(store, later)
    while search.step():
        pass
    exact = wanted != wanted.lower()
    hits = [
        index
        for index in store.shown
        if wanted in (text := kept.rows[index].text) or (not exact and wanted in text.lower())
    ]
    assert search.count == len(hits)
    assert search.newest == (hits[-1] if hits else None)
    assert search.done
    assert search.share == 1.0
    for place, index in enumerate(hits):
        assert search.place(index) == place + 1
        assert search.after(index) == hits[(place + 1) % len(hits)]
        assert search.before(index) == hits[place - 1]
    if not hits:
        assert search.after(0) is None


def test_a_search_goes_from_the_newest_line_back() -> None:
    kept, store = Kept(), LineStore(lambda place: kept.read(place))
    kept.add(store, [JournalLine(at=0.0, text=f"line {number}") for number in range(2000)])
    search = Search(store, "line")
    assert search.step()
    assert search.newest == 1999
    assert 0 < search.share < 1
    assert search.passed(1990)
    assert not search.passed(10)


def test_a_wanted_text_is_marked_where_it_stands() -> None:
    search = Search(LineStore(lambda place: JournalLine(at=0.0, text="")), "nccl")
    assert search.spans("NCCL is nccl") == [(0, 4), (8, 12)]
    assert Search(LineStore(lambda place: JournalLine(at=0.0, text="")), "NCCL").spans("NCCL is nccl") == [(0, 4)]
    assert Search(LineStore(lambda place: JournalLine(at=0.0, text="")), "İ").spans("an İ") == [(3, 4)]


@pytest.mark.parametrize("error", [OSError("disk gone"), ValueError("no journal line at 3")])
def test_a_line_that_cannot_be_read_back_says_so(error: Exception) -> None:
    def read(place: int) -> JournalLine:
        raise error

    store = LineStore(read)
    store.add([JournalLine(at=0.0, text="x")], [3])
    assert str(error) in store.line(0).text


def test_lines_are_read_back_once_while_they_are_in_sight() -> None:
    kept, store = Kept(), LineStore(lambda place: kept.read(place))
    kept.add(store, [JournalLine(at=0.0, text=f"line {number}") for number in range(50)])
    assert kept.reads == 0
    for _ in range(3):
        assert store.line(7).text == "line 7"
    assert kept.reads == 1


def test_more_names_than_a_byte_holds() -> None:
    kept, store = Kept(), LineStore(lambda place: kept.read(place))
    kept.add(store, [JournalLine(at=0.0, text="x", comm=f"p{number}") for number in range(300)])
    assert len(store.names) == 255
    assert store.process(299) == ""
    assert store.process(3) == "p3"


@settings(max_examples=20)
@given(st.integers(0, 200))
def test_a_million_lines_cost_fourteen_bytes_each(count: int) -> None:
    kept, store = Kept(), LineStore(lambda place: kept.read(place))
    kept.add(store, [JournalLine(at=0.0, text="x")] * count)
    assert store.columns.offsets.itemsize + store.shown.itemsize + 2 == 14
    assert (
        len(store.columns.offsets) == len(store.columns.loud) == len(store.columns.process) == len(store.shown) == count
    )
