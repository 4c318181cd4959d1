"""Every number has its unit, and reads the way operators write it."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.units import Zone, about, between, elapsed, number, pace, percent, rate, size, size_of

GIB = 1 << 30


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (10.9, "0:10"), (2472, "41:12"), (3732, "1:02:12"), (90000, "1 d 1:00:00"), (float("inf"), "∞")],
)
def test_elapsed(seconds: float, shown: str) -> None:
    assert elapsed(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0004, "0.4 ms"),
        (0.124, "124 ms"),
        (2.41, "2.4 s"),
        (5.0, "5 s"),
        (45, "45 s"),
        (2280, "38 min"),
        (4200, "70 min"),
        (7200, "2 h"),
        (7920, "2 h 12 min"),
        (300_000, "3 d 11 h"),
    ],
)
def test_about(seconds: float, shown: str) -> None:
    assert about(seconds) == shown


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (2100, 2640, "35–44 min"),
        (60, 120, "1–2 min"),
        (8, 12, "8–12 s"),
        (3000, 7200, "50 min – 2 h"),
        (4020, 7920, "67 min – 2 h 12 min"),
        (30, 30, "30 s"),
        (50, 300, "50 s – 5 min"),
        (0.367, 26, "0.4–26 s"),
        (0.01, 2, "0–2 s"),
    ],
)
def test_between(low: float, high: float, shown: str) -> None:
    assert between(low, high) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (640 * 1024, "640 KiB"), (71.2 * GIB, "71.2 GiB"), (1007 * GIB, "1,007 GiB"), (20 << 40, "20.0 TiB")],
)
def test_size(count: float, shown: str) -> None:
    assert size(count) == shown


def test_sizes_of_a_whole_share_its_unit() -> None:
    assert size_of(320 * GIB, 540 * GIB) == "320 of 540 GiB"
    assert size_of(0, 540 * GIB) == "0.0 of 540 GiB"


@pytest.mark.parametrize(
    ("count", "shown"), [(148e6, "148 MB/s"), (1.24e9, "1.2 GB/s"), (12_000, "12.0 kB/s"), (0, "0 B/s")]
)
def test_rate(count: float, shown: str) -> None:
    assert rate(count) == shown


def test_pace_reads_the_way_that_has_whole_numbers() -> None:
    assert pace(1 / 35.4, "shards") == "35 s a shard"
    assert pace(2.1, "graphs") == "2.1 graphs/s"
    assert pace(148e6, "bytes") == "148 MB/s"
    assert pace(0.0, "shards") == ""


def test_numbers_and_shares() -> None:
    assert number(1204.0) == "1,204"
    assert number(2.43, 2) == "2.43"
    assert percent(0.594) == "59 %"
    assert percent(float("nan")) == "–"


AT = 1_789_916_400.0


def test_times_name_their_zone() -> None:
    assert Zone(UTC).full(AT) == "2026-09-20 15:00:00.000 UTC"
    assert Zone(ZoneInfo("Europe/Berlin")).full(AT) == "2026-09-20 17:00:00.000 CEST"
    assert Zone(timezone(timedelta(hours=5, minutes=30))).name(AT) == "UTC+05:30"
    assert Zone(ZoneInfo("America/Sao_Paulo")).name(AT) == "UTC-03:00"
    assert Zone(UTC).clock(AT + 0.112, millis=True) == "15:00:00.112"
    assert Zone(UTC).clock(AT, seconds=False) == "15:00"


@given(st.floats())
def test_any_number_at_all_is_shown(value: float) -> None:
    zone = Zone(UTC)
    for shown in (elapsed(value), about(value), percent(value), zone.clock(value), zone.full(value), zone.name(value)):
        assert shown
