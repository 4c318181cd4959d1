"""Plots: what is drawn stands for what was measured."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.plot import braille, chart, named_marks

POINTS = st.lists(
    st.tuples(st.floats(0, 1000, allow_nan=False), st.floats(-10, 200, allow_nan=False)), max_size=60
).map(sorted)


def dots(rows: list[str]) -> list[int]:
    """Height of each column in dots."""
    heights: list[int] = []
    for cell in range(len(rows[0])):
        for bits in ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08)):
            height = 0
            for row in reversed(rows):
                code = ord(row[cell]) - 0x2800 if row[cell] != " " else 0
                height += sum(1 for bit in bits if code & bit)
            heights.append(height)
    return heights


def test_a_step_is_drawn_as_a_step() -> None:
    series = [(float(at), 0.0 if at < 50 else 100.0) for at in range(100)]
    heights = dots(braille(series, 20, 2, start=0, end=100, top=100))
    assert heights[:20] == [0] * 20
    assert heights[20:] == [8] * 20


def test_half_is_half_and_a_little_is_seen() -> None:
    assert dots(braille([(0, 50.0)], 1, 2, start=0, end=1, top=100))[0] == 4
    assert dots(braille([(0, 0.01)], 1, 2, start=0, end=1, top=100))[0] == 1


def test_nothing_is_drawn_after_the_last_point_and_before_the_first() -> None:
    heights = dots(braille([(40.0, 100.0), (60.0, 100.0)], 50, 1, start=0, end=100, top=100))
    assert heights[:40] == [0] * 40
    assert heights[63:] == [0] * 37
    assert all(heights[40:60])


def test_a_peak_between_two_columns_is_kept() -> None:
    series = [(at / 10, 100.0 if at == 55 else 1.0) for at in range(100)]
    assert 4 in dots(braille(series, 5, 1, start=0, end=10, top=100))


@given(POINTS, st.integers(1, 40), st.integers(1, 5), st.floats(-5, 1000), st.floats(-5, 1000), st.floats(-1, 200))
def test_any_points_fill_exactly_their_room(
    series: list[tuple[float, float]], width: int, height: int, start: float, end: float, top: float
) -> None:
    rows = braille(series, width, height, start=start, end=end, top=top)
    assert [len(row) for row in rows] == [width] * height


def test_a_chart_has_its_size_its_axes_and_its_marks() -> None:
    series = [[(float(at), 70.0) for at in range(100)], [(float(at), 40.0) for at in range(100)]]
    rows = chart(series, 60, 10, start=0, end=100, top=96, marks=[(50, "weights")], expected=90, labels=[(0, "15:00")])
    assert len(rows) == 10
    assert all(len(row.text.rstrip()) <= 60 for row in rows)
    text = "\n".join(row.text for row in rows)
    assert "96" in text
    assert "15:00" in text
    assert "│" in rows[3].text[5:]
    styles = {style for row in rows for _, style in row}
    assert {"plot-1", "plot-2"} <= styles


def test_marks_close_together_name_as_many_as_have_room() -> None:
    marks = [(2.0, "config"), (3.0, "weights"), (90.0, "compile"), (96.0, "profile"), (98.0, "kv-cache")]
    row = named_marks(marks, 60, 2, 0.0, 100.0).text
    assert len(row) == 60
    assert "╷weights" in row, "to its right"
    assert "compile╷" in row, "to its left, where the next line is too near"
    assert "config" not in row
    places = [row.index("╷weights"), row.index("compile╷") + len("compile")]
    assert places == [2 + round(at / 100 * 57) for at in (3.0, 90.0)], "each above its own line"


def test_a_chart_of_nothing_is_empty_axes() -> None:
    assert len(chart([[], []], 40, 8, start=0, end=0, top=1)) == 8


def test_a_chart_is_not_held_to_the_terminal_it_runs_in() -> None:
    rows = chart([[(0.0, 1.0), (9.0, 1.0)]], 180, 6, start=0, end=9, top=2)
    assert max(len(row.text) for row in rows) == 180
