"""Lengths of time as they are typed."""

from __future__ import annotations

import pytest

from tui.spans import span


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("90s", 90.0), ("1.5h", 5400.0), ("1h30m", 5400.0), ("2 h", 7200.0), ("30d", 2_592_000.0),
     ("15min", 900.0), ("0s", 0.0), ("1H", 3600.0)],
)  # fmt: skip
def test_lengths(text: str, seconds: float) -> None:
    assert span(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "2y", "-5", "1h-", "inf", "nan", "5s later"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="no length of time"):
        span(text)
