"""Nothing that a server prints reaches the terminal as anything but visible text."""

from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.text import chop, clip, crop, pad, right, safe, uncoloured, wrap

ANY = st.text(st.characters(codec=None))
NASTY = st.text(
    st.one_of(
        st.characters(codec=None),
        st.characters(max_codepoint=0x9F),
        st.sampled_from("\u202e\u2066\u200b\u200d\ufeff\u0301\u20dd\ufe0f\u3164\u2028\U000e0041\ud800日🙂\U0001f468"),
    )
)


@given(NASTY)
@example("\x1b]52;c;cm0gLXJmIC8=\x07")
@example("\x1b[2J\x1b[H")
@example("a\ud800b")
def test_safe_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = safe(text)
    assert not any(category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in shown)
    shown.encode()


@given(NASTY)
def test_safe_text_is_left_as_it_is(text: str) -> None:
    assert safe(safe(text)) == safe(text)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_left_as_it_is(text: str) -> None:
    assert safe(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("[bold]x[/bold] [Worker] x [/y]", "[bold]x[/bold] [Worker] x [/y]"),
        ("50 %\r100 %", "50 %␍100 %"),
        ("a\nb\x00c\x07", "a␊b␀c␇"),
        ("a\tb", "a    b"),
        ("\x9b31m", "\\x9b31m"),
        ("\x7f", "␡"),
        ("gnp.exe\u202etxt", "gnp.exe<U+202E>txt"),
        ("a\u200bb", "a<U+200B>b"),
        ("\udcff", "\\udcff"),
        ("e\u0301", "e\u0301"),
        ("e\u0301\u0301\u0301\u0301", "e\u0301\u0301<U+0301><U+0301>"),
        ("\u0301a", "<U+0301>a"),
        ("\u26a0\ufe0f", "\u26a0"),
        ("日本語 🙂", "日本語 🙂"),
        ("हिन्दी", "हिन्दी"),
    ],
)
def test_what_is_shown_instead(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_only_colours_are_left_out() -> None:
    assert uncoloured("\x1b[1;36m(APIServer pid=1)\x1b[0;0m x\x1b[2J") == "(APIServer pid=1) x\x1b[2J"


WIDTHS = st.integers(0, 40)


@given(NASTY, WIDTHS)
def test_clip_fits_and_says_that_it_cut(text: str, width: int) -> None:
    shown = safe(text)
    cut = clip(shown, width)
    assert cell_len(cut) <= width
    assert cut == shown or cut == "" or cut.endswith("…")


@given(NASTY, WIDTHS)
def test_columns_are_exact(text: str, width: int) -> None:
    shown = safe(text)
    assert cell_len(pad(shown, width)) == width
    assert cell_len(right(shown, width)) == width
    assert cell_len(crop(shown, width)) == width


@given(NASTY, st.integers(2, 40))
def test_chopped_text_loses_nothing(text: str, width: int) -> None:
    shown = safe(text)
    rows = chop(shown, width)
    assert "".join(rows) == shown
    assert all(cell_len(row) <= width for row in rows)


@given(NASTY, st.integers(2, 40))
def test_wrapped_text_loses_only_blanks_at_the_breaks(text: str, width: int) -> None:
    shown = safe(text)
    rows = wrap(shown, width)
    assert all(cell_len(row) <= width for row in rows)
    assert "".join(rows).replace(" ", "") == shown.replace(" ", "")


def test_words_stay_whole_where_they_can() -> None:
    assert wrap("the quick brown fox", 10) == ["the quick", "brown fox"]
    assert wrap("abcdefghijkl mn", 5) == ["abcde", "fghij", "kl mn"]
