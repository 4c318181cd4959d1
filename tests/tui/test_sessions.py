"""Recordings from the command line: list, prune, report in a real browser, export; and what a session leaves."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from probes.readings import Note, Reading
from tests.tui.browser import Browser
from tests.watch import feeds
from tests.watch.fed import a_load
from tests.watch.test_telling import hostile
from tui.amounts import amount
from tui.cli import main
from tui.commands.report import at_end
from tui.reporting import beside, of_stretch
from watch.session import SessionWriter, new_header
from watch.session.shelf import CACHE, completed, listed, remember, remove, summarize

UNIT = "vllm-tiny-ngram.service"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "firstlight/sessions"


def keep(where: Path, readings: list[Reading], unit: str = UNIT, target: str = "llm-two") -> Path:
    writer = SessionWriter(new_header(target, unit, readings[0].at), where=where)
    for reading in readings:
        writer.write(reading)
    path = writer.close()
    assert path is not None
    return path


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def firstlight(*arguments: object, check: int | None = 0) -> Done:
    """The program in this process: a new one for each would take most of the time."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    status: object = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err), open(os.devnull) as nothing:
        patch.setattr(sys, "argv", ["firstlight", *map(str, arguments)])
        patch.setattr(sys, "stdin", nothing)
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
    texts = []
    for stream in (out, err):
        stream.flush()
        raw = stream.buffer
        assert isinstance(raw, io.BytesIO)
        texts.append(raw.getvalue().decode())
    done = Done(int(status) if isinstance(status, int) else 1, *texts)
    assert check is None or done.returncode == check, done.stderr
    return done


def failed_load() -> list[Reading]:
    return list(feeds.recording("cpu-fail-missing-shard")[1])


# ----- the list


def test_the_list_says_what_became_of_each(shelf: Path, recordings: Path) -> None:
    good = keep(shelf, a_load(recordings))
    bad = keep(shelf, failed_load(), "vllm-broken.service", "llm-nine")
    writer = SessionWriter(new_header("llm-two", "live.service", time.time()), where=shelf)
    (shelf / "20250101T000000Z-x-y.jsonl").write_bytes(b"\x00" * 10)
    try:
        text = firstlight("sessions").stdout
        rows = {row["unit"]: row for row in map(json.loads, firstlight("sessions", "--json").stdout.splitlines())}
        assert rows[UNIT]["outcome"] == "stopped"
        assert rows["vllm-broken.service"]["outcome"] == "failed"
        assert rows["live.service"]["outcome"] == "recording"
        assert rows[""]["outcome"] == "unreadable"
        assert rows[UNIT]["seconds"] == pytest.approx(73, abs=2)
        assert rows[UNIT]["bytes"] == good.stat().st_size
        for words in ("vllm-tiny-ngram @ llm-two", "✖ failed", "● recording", "1:13", good.name, bad.name):
            assert words in text
        only = firstlight("sessions", "--outcome", "failed", "--json").stdout
        assert [json.loads(line)["unit"] for line in only.splitlines()] == ["vllm-broken.service"]
        assert len(firstlight("sessions", "--unit", "TINY", "--json").stdout.splitlines()) == 1
        assert "No such recording" in firstlight("sessions", "--unit", "nothing").stderr
    finally:
        writer.close()


def test_an_outcome_is_found_without_reading_the_recording(shelf: Path, recordings: Path) -> None:
    path = keep(shelf, a_load(recordings))
    (recording,) = listed(shelf)
    assert recording.summary is None
    assert completed(recording).outcome == "stopped"
    (known,) = listed(shelf)
    assert known.summary == summarize(path)
    before = path.stat()
    damaged = bytearray(path.read_bytes())
    damaged[-20:] = bytes(20)
    path.write_bytes(bytes(damaged))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert listed(shelf)[0].outcome == "stopped"  # nothing but its first line was read
    path.touch()
    assert listed(shelf)[0].summary is None  # it is another file now
    (shelf / CACHE).write_bytes(b"{no cache")
    assert listed(shelf)[0].summary is None
    remember(path, summarize(path))
    assert listed(shelf)[0].outcome == "stopped"
    assert (shelf / CACHE).stat().st_mode & 0o077 == 0


def test_no_folder_is_no_recording(shelf: Path) -> None:
    assert listed(shelf) == []
    assert "No recording yet" in firstlight("sessions").stderr


def test_prune_says_first_and_asks(shelf: Path, recordings: Path) -> None:
    old = keep(shelf, a_load(recordings))
    report = old.with_name(old.name.removesuffix(".jsonl.gz") + ".html")
    report.write_text("x")
    young = keep(shelf, failed_load(), "b.service")
    month = time.time() - 31 * 86_400
    os.utime(old, (month, month))
    done = firstlight("sessions", "prune", "--older-than", "30d", check=2)
    assert old.name in done.stdout
    assert young.name not in done.stdout
    assert "--yes" in done.stderr
    assert old.exists()
    assert "Nothing to be deleted" in firstlight("sessions", "prune", "--larger-than", "1G").stderr
    assert "1 deleted" in firstlight("sessions", "prune", "--older-than", "30d", "--yes").stderr
    assert not old.exists()
    assert not report.exists()
    assert young.exists()
    assert "1 deleted" in firstlight("sessions", "prune", "--larger-than", "1k", "--yes").stderr
    firstlight("sessions", "prune", check=2)
    firstlight("sessions", "prune", "--older-than", "soon", check=2)


def test_what_is_being_written_is_not_pruned(shelf: Path) -> None:
    writer = SessionWriter(new_header("t", "u", 1000.0), where=shelf)
    try:
        assert writer.path is not None
        os.utime(writer.path, (0, 0))
        assert "Nothing to be deleted" in firstlight("sessions", "prune", "--older-than", "1d", "--yes").stderr
        assert writer.path.exists()
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("text", "count"), [("2G", 2 << 30), ("500m", 500 << 20), ("1.5 GiB", 3 << 29), ("10", 10), ("1kb", 1024)]
)
def test_amounts(text: str, count: int) -> None:
    assert amount(text) == count


@pytest.mark.parametrize("text", ["", "G", "-1", "2 X", "1e9"])
def test_no_amounts(text: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        amount(text)


# ----- report


def test_a_report_from_the_command_line(shelf: Path, recordings: Path, tmp_path: Path) -> None:
    path = keep(shelf, a_load(recordings))
    beside = Path(firstlight("report", path).stderr.strip())
    assert beside.name == path.name.removesuffix(".jsonl.gz") + ".html"
    assert beside.stat().st_mode & 0o077 == 0
    by_name = firstlight("report", path.name.removesuffix(".jsonl.gz"), "--markdown", "-o", "-", "--utc").stdout
    assert by_name.startswith("# vllm")
    out = tmp_path / "out.md"
    firstlight("report", path, "-o", out)
    assert out.read_text().startswith("# vllm")
    firstlight("report", path, "--html", "--markdown", check=2)
    assert "cannot be written" in firstlight("report", path, "-o", tmp_path / "no/where.html", check=5).stderr
    assert "no recording" in firstlight("report", __file__, check=5).stderr


async def test_a_report_in_a_real_browser(shelf: Path, recordings: Path) -> None:
    """No complaint in the console, the plots drawn, nothing fetched, nothing of the server's run."""
    nice, nasty = keep(shelf, a_load(recordings)), keep(shelf, hostile(), "evil.service")
    firstlight("report", nice)
    firstlight("report", nasty)
    async with Browser() as browser:
        for path in (nice, nasty):
            page = path.with_name(path.name.removesuffix(".jsonl.gz") + ".html")
            await browser.open(page.as_uri())
            await browser.until("document.readyState === 'complete' && document.querySelector('h1') !== null")
            assert await browser.value("document.querySelectorAll('script, img, iframe, object').length") == 0
            assert await browser.value("performance.getEntriesByType('resource').length") == 0
        await browser.open(nice.with_name(nice.name.removesuffix(".jsonl.gz") + ".html").as_uri())
        await browser.until("document.querySelectorAll('svg polyline').length >= 2")
        assert await browser.value("document.querySelector('polyline').getBoundingClientRect().width") > 100
        assert await browser.value("getComputedStyle(document.querySelector('h1')).fontSize") != "32px"
        assert await browser.value("document.querySelector('svg').getAttribute('role')") == "img"
        assert browser.complaints == []


# ----- export


def test_series_as_csv_and_json(shelf: Path, recordings: Path, tmp_path: Path) -> None:
    path = keep(shelf, a_load(recordings))
    listing = firstlight("export", path, "--list").stdout
    assert "gpu.memory" in listing
    assert "serving.running" not in listing
    rows = list(csv.DictReader(io.StringIO(firstlight("export", path, "--series", "gpu.memory,io.read").stdout)))
    assert {row["series"] for row in rows} == {'gpu.memory{gpu="0"}', "io.read"}
    assert rows[0]["unit"] == "MiB"
    assert rows[0]["time"].endswith("Z")
    out = tmp_path / "x.json"
    done = firstlight("export", path, "--series", "gpu.memory", "--series", "serving.running", "--json", "-o", out)
    assert "no figures for serving.running" in done.stderr
    (series,) = json.loads(out.read_text())["series"]
    assert len(series["points"]) == 23
    few = firstlight("export", path, "--series", "gpu.memory", "--from", "10s", "--to", "30s").stdout
    assert 1 < len(few.splitlines()) < 23
    assert "Did you mean gpu.memory" in firstlight("export", path, "--series", "gpu.memroy", check=2).stderr
    firstlight("export", path, check=2)
    firstlight("export", path, "--series", "gpu.memory", "--csv", "--json", check=2)
    firstlight("export", path, "--svg", tmp_path / "x.svg", "--size", "9x9", check=2)


def test_the_screen_as_a_picture_and_a_film(shelf: Path, recordings: Path, tmp_path: Path) -> None:
    path = keep(shelf, [*a_load(recordings), Note(at=2e9, text="handed over")])
    svg, cast = tmp_path / "x.svg", tmp_path / "x.cast"
    firstlight("export", path, "--svg", svg, "--at", "30s", "--cast", cast, "--speed", "60", "--size", "120x35")
    ElementTree.fromstring(svg.read_text())
    assert "http" not in re.sub(r'xmlns="[^"]*"|http://127[^<]*', "", svg.read_text())
    head, *events = [json.loads(line) for line in cast.read_text().splitlines()]
    assert (head["version"], head["term"]["cols"], head["term"]["rows"]) == (3, 120, 35)
    assert {code for _, code, _ in events} == {"o", "m"}
    assert "weights" in [data for _, code, data in events if code == "m"]
    assert sum(seconds for seconds, _, _ in events) == pytest.approx(73 / 60 + 1, abs=0.3)
    screen = played(head["term"]["rows"], [data for _, code, data in events if code == "o"][:-1])
    assert any("STOPPED" in row for row in screen)
    assert any("1:13" in row for row in screen)


def played(rows: int, output: list[str]) -> list[str]:
    """What a terminal shows after these: rows put in their places, styles left out."""
    screen = [""] * rows
    for data in output:
        for place, text in re.findall(r"\x1b\[(\d+);1H(.*?)(?=\x1b\[\d+;1H|$)", data, re.S):
            screen[int(place) - 1] = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    return screen


def test_why_a_watch_that_ends_leaves_no_report(
    shelf: Path, recordings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = keep(shelf, a_load(recordings))
    assert at_end(path, "none") == ""
    monkeypatch.setattr("tui.commands.report._LONG", 10)
    assert at_end(path, "html") == ""
    assert "writing the report" in capsys.readouterr().err
    written = beside(path, False)
    assert written.exists()
    written.unlink()
    monkeypatch.setattr("tui.commands.report.LARGEST", 10)
    assert f"firstlight report {path}" in at_end(path, "html")
    assert not written.exists()
    monkeypatch.setattr("tui.commands.report.LARGEST", 1 << 30)
    written.mkdir()
    assert f"firstlight report {path}" in at_end(path, "html")  # no file can take its place


def test_a_report_of_a_stretch(shelf: Path, recordings: Path, tmp_path: Path) -> None:
    """What came later is not in it, what was before is known; it goes with its recording."""
    start = a_load(recordings)[0].at
    notes = [Note(at=start + second, text=f"note of {second}") for second in (5, 20, 60)]
    path = keep(shelf, sorted([*a_load(recordings), *notes], key=lambda reading: reading.at))
    text = firstlight("report", path, "--markdown", "-o", "-", "--from", "10s", "--to", "40s").stdout
    assert "note of 20" in text
    assert "note of 5" not in text
    assert "note of 60" not in text
    assert "0:10 to 0:40 after its beginning" in text
    assert "stopped" not in text
    assert "weights" in firstlight("report", path, "--markdown", "-o", "-").stdout
    firstlight("report", path, "--from", "40s", "--to", "40s", check=2)
    firstlight("report", path, "--from", "10s", "--to", "40s")
    (report,) = shelf.glob("*.range-10s-40s.html")
    assert of_stretch(path, 10.0, 40.0, UTC) == report
    (recording,) = listed(shelf)
    assert remove([recording]) == []
    assert not report.exists()
