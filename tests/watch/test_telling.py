"""Reports of recordings: what they say, and that no word of a server is ever more than a word in them."""

from __future__ import annotations

import re
from datetime import UTC
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from probes.readings import (
    GpuDevice,
    GpuReading,
    JournalLine,
    MetricsReading,
    Note,
    OperatorAction,
    Reading,
    Sample,
    UnitFile,
    UnitReading,
)
from tests.watch import feeds
from tests.watch.fed import a_load
from watch.history import History, LoadRecord
from watch.load_key import load_key
from watch.pieces import PhaseSeen
from watch.series import Collector, Series, is_name, names, thinned
from watch.session import SessionReader, SessionWriter, new_header
from watch.state import WatchState
from watch.telling import Tale, gather, html, markdown
from watch.telling.markdown import text as in_markdown
from watch.telling.svg import Band, plot
from watch.view import BenchLevelView, BenchView

UNIT = "vllm-tiny-ngram.service"
EVIL = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;`[a](javascript:alert(3))`\x1b]52;c;x\x07\u202e| |"
)


def told(where: Path, readings: list[Reading], history: History | None = None, unit: str = UNIT) -> Tale:
    writer = SessionWriter(new_header("llm-two", unit, readings[0].at), where=where)
    for reading in readings:
        writer.write(reading)
    path = writer.close()
    assert path is not None
    with SessionReader(path) as reader:
        return gather(reader, lambda: WatchState("llm-two", unit), history)


def full(recordings: Path) -> list[Reading]:
    readings = a_load(recordings)
    at = readings[-1].at
    readings += [
        OperatorAction(at=at - 9, action="restart", step="begin", outcome="begun", who="ops@desk", unit=UNIT, id="1"),
        OperatorAction(at=at, action="restart", step="end", outcome="done", who="ops@desk", id="1", undo="nothing"),
        Note(at=at, text="paged the storage team", who="ops@desk"),
    ]
    return readings


class Page(HTMLParser):
    """The elements and the text of a page, with the attributes that could do something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.words: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_it_says_what_became_of_the_load(tmp_path: Path, recordings: Path) -> None:
    page = Page(html(told(tmp_path, full(recordings)), UTC))
    text = " ".join(page.words)
    assert "Ready after 0:50, then stopped on request." in text or re.search(r"Ready after \d:\d\d, then stopped", text)
    for words in ("pre-start", "weights", "to ready", "paged the storage team", "restart", "ops@desk", "done"):
        assert words in text
    assert "systemd expands $free to nothing" in text
    assert "evaluates to an empty string: free" in text
    assert page.tags["svg"] == 2
    assert page.tags["title"] >= 3
    assert page.tags["desc"] == 2
    assert "script" not in page.tags


def test_phases_stand_beside_those_of_the_loads_before(tmp_path: Path, recordings: Path) -> None:
    readings = full(recordings)
    start = readings[0].at
    with History.open(tmp_path / "history.sqlite") as history:
        for number, took in enumerate((100.0, 200.0)):
            began = start - 10_000 * (number + 1)
            history.record_load(
                LoadRecord(
                    key=load_key("llm-two", UNIT, "/opt/models/small", {}),
                    invocation=f"{number}",
                    started=began,
                    first_line=began + 1,
                    ended=began + took,
                    outcome="ready",
                    phases=(PhaseSeen("weights", began + 10, began + 10 + took / 2),),
                )
            )
        tale = told(tmp_path, readings, history)
    text = markdown(tale, UTC)
    (weights,) = [row for row in text.splitlines() if row.startswith("| weights")]
    assert weights.endswith("| 0:50 | 1:40 |")
    assert "| Load before | 2 before |" in text
    assert "shorter than the median of the 2 loads before" in text


def test_a_failure_is_told_with_its_evidence(tmp_path: Path) -> None:
    _, lines = feeds.recording("cpu-fail-missing-shard")
    tale = told(tmp_path, list(lines), unit="")
    text = html(tale, UTC)
    assert 'class="outcome failed"' in text
    assert "It failed in weights." in text
    assert "<pre>" in text


def test_a_benchmark_is_told_with_its_verdict(tmp_path: Path, recordings: Path) -> None:
    tale = told(tmp_path, full(recordings))
    level = BenchLevelView(
        part=1, level="concurrency 16", concurrency=16, repeat=1, began=1.0, ended=61.0, completed=128, failed=2,
        unusable="", output_tps=1234.5, requests_per_second=4.0, ttft=(120.0, 340.0), tpot=(11.0, None),
        itl=(None, None), e2el=(None, None), joules_per_token=0.42,
    )  # fmt: skip
    bench = BenchView(
        run="r7", unit=UNIT, preset="standard", who="ops@desk", state="done", text="128 of 130 requests answered",
        started=1.0, levels=(level,), verdict="4 % fewer tokens per second than the baseline r3",
        first_error=EVIL, baseline="r3", differs=(("vllm", "0.11.0", "0.12.0"),), warnings=("cold caches",),
    )  # fmt: skip
    tale = msgspec.structs.replace(tale, view=msgspec.structs.replace(tale.view, benchmark=bench))
    for text in (html(tale, UTC), markdown(tale, UTC).replace("\\", "")):
        for words in (
            "4 % fewer tokens",
            "concurrency 16",
            "1,234",
            "120, 340",
            "11, –",
            "0.42",
            "0.12.0",
            "cold caches",
        ):
            assert words in text
    assert "script" not in Page(html(tale, UTC)).tags


def test_an_empty_recording_has_a_report(tmp_path: Path) -> None:
    tale = told(tmp_path, [Note(at=1000.0, text="nothing came")])
    assert "nothing came" in html(tale, UTC)
    assert "Nothing is known of a load yet." in markdown(tale, UTC)


def hostile() -> list[Reading]:
    at = 1000.0
    return [
        UnitReading(at=at, unit=EVIL, load="loaded", active="activating", invocation="a", started=at),
        UnitFile(at=at, unit=EVIL, text=f"[Service]\nExecStart=/usr/bin/vllm serve {EVIL} --host {EVIL}\n"),
        JournalLine(at=at, text=f"(APIServer pid=1) INFO vLLM API server version {EVIL}", invocation="a", pid=1),
        JournalLine(at=at + 1, text=f"ValueError: {EVIL}", invocation="a", pid=1),
        JournalLine(at=at + 1, text=f"(Worker{EVIL} pid=1) ERROR 01-01 00:00:00 [x.py:1] {EVIL}", pid=1),
        GpuReading(at=at, devices=(GpuDevice(index=0, name=EVIL, used_mib=1.0, total_mib=2.0),)),
        GpuReading(at=at + 5, devices=(GpuDevice(index=0, name=EVIL, used_mib=2.0, total_mib=2.0),)),
        OperatorAction(at=at, action=EVIL, step="begin", outcome=EVIL, detail=EVIL, who=EVIL, unit=EVIL, id=EVIL),
        OperatorAction(at=at, action=EVIL, step="end", outcome=EVIL, detail=EVIL, who=EVIL, undo=EVIL, id=EVIL),
        Note(at=at + 9, text=EVIL, who=EVIL),
    ]


def test_no_word_of_a_server_is_markup(tmp_path: Path) -> None:
    tale = told(tmp_path, hostile(), unit=EVIL)
    text = html(tale, UTC)
    page = Page(text)
    assert not {"script", "img", "a", "iframe", "object", "form", "link "} & page.tags.keys()
    assert not [name for name in page.attributes if name.startswith("on") or name in ("style", "src", "srcset")]
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<script>alert(1)</script>" in " ".join(page.words)
    assert "Content-Security-Policy" in text
    assert "default-src 'none'" in text
    plain = markdown(tale, UTC)
    outside = re.sub(r"(?ms)^(`{3,})$.*?^\1$", "", plain)
    assert "<script" not in outside.replace("\\<script", "")
    assert not re.search(r"(?<!\\)\]\(javascript", outside)
    assert "\x1b" not in plain
    for row in plain.splitlines():
        if row.startswith(("| Note", "| When")):
            assert row.count("|") == row.replace("\\|", "").count("|")


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("2026-11-30 14:00:05 UTC, +1 s", "2026-11-30 14:00:05 UTC, +1 s"),
        ("gpu_memory_utilization 0.9 #2!", "gpu_memory_utilization 0.9 #2!"),
        ("--tensor-parallel-size", "\\--tensor-parallel-size"),
        ("took 1. of 2, {x} & > y", "took 1. of 2, {x} & > y"),
        ("- item", "\\- item"),
        ("+ item", "\\+ item"),
        ("# head #", "\\# head \\#"),
        ("## head", "\\## head"),
        ("> said", "\\> said"),
        ("12. item", "12\\. item"),
        ("1) item", "1\\) item"),
        ("__init__", "\\_\\_init\\_\\_"),
        ("*a* [b](c) `d` ~~e~~ <f> &amp; |", "\\*a\\* \\[b\\](c) \\`d\\` \\~\\~e\\~\\~ \\<f> \\&amp; \\|"),
        ("---", "\\---"),
        ("===", "\\==="),
    ],
)
def test_only_what_would_be_markup_there_is_escaped(words: str, written: str) -> None:
    assert in_markdown(words) == written


@given(text=st.text(max_size=60))
def test_any_text_is_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    tale = told(tmp_path_factory.mktemp("told"), [Note(at=1000.0, text=f"{text}", who=text)])
    page = Page(html(tale, UTC))
    assert page.tags.keys() <= {
        "html", "head", "meta", "link", "title", "style", "body", "main", "h1", "h2", "p", "table", "thead", "tbody",
        "tr", "th", "td", "ul", "li",
    }  # fmt: skip
    markdown(tale, UTC).encode()


# ----- plots and series


def test_a_plot_is_well_formed_and_says_itself_in_words() -> None:
    series = [
        Series(name="gpu.memory", unit="MiB", labels=(("gpu", str(n)),), points=((0.0, 0.0), (60.0, 1024.0 * n)))
        for n in range(20)
    ]
    drawing = plot("Memory & <more>", series, [Band(0.0, 30.0, EVIL), Band(30.0, 60.0, "weights")], 0.0, 60.0, "p")
    root = ElementTree.fromstring(drawing)
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "Memory & <more>"  # type: ignore[union-attr]
    assert "gpu 3: from 0 B to 3 GiB" in (root.find(f"{space}desc").text or "")  # type: ignore[union-attr]
    assert len(root.findall(f"{space}polyline")) == 20
    assert root.attrib["role"] == "img"
    for text in root.iter(f"{space}text"):
        assert 0 <= float(text.attrib["x"]) <= 920


@given(points=st.lists(st.tuples(st.floats(0, 1e6), st.floats(allow_nan=True, allow_infinity=True)), max_size=30))
@example([(0.0, 5e-324), (1.0, 0.0)])
@example([(0.0, 1.7e308), (1.0, 0.0)])
def test_any_figures_are_drawn(points: list[tuple[float, float]]) -> None:
    points.sort(key=lambda point: point[0])
    if not points:
        return
    one = Series(name="x", unit="bytes/s", labels=(), points=tuple(points))
    drawing = plot("x", [one], [], points[0][0], points[-1][0], "p")
    ElementTree.fromstring(drawing)
    assert "inf" not in re.sub(r"<desc.*?</desc>", "", drawing)


@given(st.lists(st.floats(-1e6, 1e6), max_size=3000), st.integers(4, 500))
def test_thinned_it_keeps_ends_and_extremes(values: list[float], most: int) -> None:
    points = tuple((float(number), value) for number, value in enumerate(values))
    out = thinned(points, most)
    assert len(out) <= (len(points) if len(points) <= most else most + 6)
    if points:
        assert (out[0], out[-1]) == (points[0], points[-1])
        assert min(value for _, value in out) == min(values)
        assert max(value for _, value in out) == max(values)
        assert list(out) == sorted(out)


def test_every_series_by_its_name(recordings: Path) -> None:
    readings = a_load(recordings)
    at = readings[-1].at
    for second in range(3):
        samples = (
            Sample("vllm:num_requests_running", {"engine": "0"}, 2.0 + second),
            Sample("vllm:generation_tokens_total", {"engine": "0"}, 100.0 * second),
        )
        readings.append(MetricsReading(at=at + 10 * second, samples=samples, status=200))
    collector = Collector([*names(), "vllm:num_requests_running"])
    for reading in readings:
        collector.take(reading)  # type: ignore[arg-type]
    found = {one.title: one for one in collector.series()}
    assert found['gpu.memory{gpu="0"}'].unit == "MiB"
    assert [value for _, value in found['vllm:num_requests_running{engine="0"}'].points] == [2.0, 3.0, 4.0]
    assert found["serving.running"].points[-1][1] == 4.0
    assert found["serving.generation_tps"].points[-1][1] == pytest.approx(10.0)
    assert all(value >= 0 for _, value in found["io.read_rate"].points)
    assert not is_name("gpu.memroy")
    assert is_name("vllm:anything_at_all")


def test_a_stretch_of_time_and_no_more_than_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = [GpuReading(at=float(at), devices=(GpuDevice(index=0, used_mib=1.0),)) for at in range(100)]
    collector = Collector(["gpu.memory"], since=10.0, until=20.0)
    for reading in readings:
        collector.take(reading)
    assert len(collector.series()[0].points) == 11
    monkeypatch.setattr("watch.series.MOST_POINTS", 5)
    collector = Collector(["gpu.memory"])
    for reading in readings:
        collector.take(reading)
    assert len(collector.series()[0].points) == 5
    assert collector.full
