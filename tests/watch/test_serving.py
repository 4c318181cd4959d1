"""Serving: pages of a real vLLM, several engines, resets and torn pages; percentiles held to a real Prometheus."""

from __future__ import annotations

import gzip
import http.server
import itertools
import json
import lzma
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.metrics import PageParser
from probes.readings import HealthReading, JournalLine, MetricsReading, Sample, encode
from tests.watch.feeds import RECORDINGS, TESTS
from watch.metrics import figures, read_page, thinned
from watch.serving import Serving
from watch.state import WatchState

B1 = RECORDINGS / "gpu-h200x2" / "b1-ngram-cold-cache"
B2 = RECORDINGS / "gpu-h200x2" / "b2-baseline-worker-killed"


def pages(folder: Path) -> list[tuple[float, str]]:
    """(seconds, text) of every page that was answered with 200."""
    rows = map(json.loads, gzip.decompress((folder / "metrics.jsonl.gz").read_bytes()).splitlines())
    return [(row["t"], row["text"]) for row in rows if row.get("code") == 200]


def reading(at: float, text: str, *, truncated: bool = False) -> MetricsReading:
    return MetricsReading(at=at, status=200, samples=PageParser().parse(text.encode()), truncated=truncated)


def folded(rows: Sequence[tuple[float, str]]) -> Serving:
    serving = Serving()
    for at, text in rows:
        serving.apply(reading(at, text))
    return serving


def value(text: str, series: str) -> float:
    """One sample of a page, read as a person would: the line that begins with it."""
    return float(next(line for line in text.splitlines() if line.startswith(series)).rpartition(" ")[2])


def test_a_real_benchmark_reads_as_its_pages_say() -> None:
    rows = pages(B1)[5:12]
    view = folded(rows).view()
    assert view is not None
    (began, old), (ended, new) = rows[0], rows[-1]
    tokens = value(new, "vllm:generation_tokens_total") - value(old, "vllm:generation_tokens_total")
    accepted = value(new, "vllm:spec_decode_num_accepted_tokens_total") - value(
        old, "vllm:spec_decode_num_accepted_tokens_total"
    )
    drafts = value(new, "vllm:spec_decode_num_drafts_total") - value(old, "vllm:spec_decode_num_drafts_total")
    assert tokens > 10_000
    assert view.generation_tps == pytest.approx(tokens / (ended - began))
    assert view.acceptance_length == pytest.approx(1 + accepted / drafts)
    assert len(view.per_position) == 5
    assert sum(view.per_position) == pytest.approx(accepted / drafts), "each accepted token stands at one position"
    assert list(view.per_position) == sorted(view.per_position, reverse=True)
    assert view.running == value(new, "vllm:num_requests_running")
    assert view.itl_mean is not None
    assert view.ttft is not None
    assert view.ttft[0] <= view.ttft[1] <= view.ttft[2]
    assert view.window == pytest.approx(ended - began)


def test_a_version_without_speculation_says_so_and_shows_no_zero() -> None:
    view = folded(pages(B2)[3:8]).view()
    assert view is not None
    assert (view.acceptance_rate, view.acceptance_length, view.per_position) == (None, None, ())
    assert "drafts" in view.missing
    assert "TTFT" not in view.missing


@pytest.mark.parametrize("name", ["cpu-ngram", "cpu-small-ngram", "cpu-tp2", "cpu-baseline-cold"])
def test_recorded_cpu_servers_read_as_their_pages_say(name: str) -> None:
    """From the first to the last page, all within one window (the times are set close together)."""
    raw = lzma.decompress((RECORDINGS / name / "metrics.jsonl.xz").read_bytes()).splitlines()
    texts = [text for row in map(json.loads, raw) if "vllm:" in (text := row.get("body") or row.get("text") or "")]
    assert len(texts) > 1
    view = folded([(float(number), text) for number, text in enumerate([texts[0], texts[-1]])]).view()
    assert view is not None

    def grew(counter: str) -> float:
        return value(texts[-1], counter) - value(texts[0], counter)

    assert view.generation_tps == pytest.approx(grew("vllm:generation_tokens_total"))
    assert view.prompt_tps == pytest.approx(grew("vllm:prompt_tokens_total"))
    count = grew("vllm:inter_token_latency_seconds_count")
    assert count > 0
    assert view.itl_mean == pytest.approx(grew("vllm:inter_token_latency_seconds_sum") / count)
    if "vllm:spec_decode_num_drafts_total" in texts[-1]:
        drafts, accepted = (grew(f"vllm:spec_decode_num_{what}_total") for what in ("drafts", "accepted_tokens"))
        assert view.acceptance_length == pytest.approx(1 + accepted / drafts)
    else:
        assert view.acceptance_length is None


def test_cpu_page_of_032() -> None:
    text = (TESTS / "samples" / "metrics-vllm-0.32.0-cpu.prom").read_text()
    view = folded([(1.0, text)]).view()
    assert view is not None
    assert view.kv_cache == pytest.approx(value(text, "vllm:kv_cache_usage_perc"))
    assert {"TTFT", "ITL", "queue", "end to end", "running", "KV cache"}.isdisjoint(view.missing)


def engine(name: str, tokens: float, fast: float, slow: float) -> tuple[Sample, ...]:
    """``fast`` first tokens within 0.1 s, ``slow`` within 10 s."""
    labels = {"engine": name, "model_name": "m"}
    ttft = "vllm:time_to_first_token_seconds_bucket"
    return (
        Sample("vllm:generation_tokens_total", labels, tokens),
        Sample("vllm:generation_tokens_created", labels, 1.79e9),
        Sample("vllm:num_requests_running", labels, 2.0),
        Sample("vllm:kv_cache_usage_perc", labels, 0.25 if name == "0" else 0.75),
        Sample(ttft, labels | {"le": "0.1"}, fast),
        Sample(ttft, labels | {"le": "10.0"}, fast + slow),
        Sample(ttft, labels | {"le": "+Inf"}, fast + slow),
    )


def at(second: float, *parts: tuple[Sample, ...], truncated: bool = False) -> MetricsReading:
    return MetricsReading(at=second, status=200, samples=sum(parts, ()), truncated=truncated)


def test_engines_each_and_together() -> None:
    serving = Serving()
    serving.apply(at(0.0, engine("0", 0, 0, 0), engine("1", 0, 0, 0)))
    serving.apply(at(10.0, engine("0", 1000, 90, 0), engine("1", 500, 0, 10)))
    view = serving.view()
    assert view is not None
    assert (view.running, view.kv_cache, view.generation_tps) == (4.0, 0.5, 150.0)
    assert [(one.name, one.generation_tps, one.kv_cache) for one in view.each] == [("0", 100, 0.25), ("1", 50, 0.75)]
    assert view.ttft is not None
    assert view.ttft[0] < 0.1, "buckets are added: the mean of the two medians would be over 2 s"
    slow = view.each[1].ttft
    assert slow is not None
    assert slow[0] > 0.1


def test_the_old_engine_gives_the_share_of_accepted_drafts_itself() -> None:
    """vLLM up to 0.9.2 with its first engine: a gauge, no counter of drafts, so no length and no positions."""
    labels = 'model_name="m"'
    page = f"""vllm:num_requests_running{{{labels}}} 1.0
vllm:spec_decode_draft_acceptance_rate{{{labels}}} 0.62
vllm:spec_decode_efficiency{{{labels}}} 0.71
"""
    view = folded([(0.0, page), (10.0, page.replace("0.62", "0.58"))]).view()
    assert view is not None
    assert (view.acceptance_rate, view.acceptance_length, view.per_position) == (0.58, None, ())
    counted = page + (
        f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} %d\n"
        f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} %d\n"
    )
    view = folded([(0.0, counted % (1000, 600)), (10.0, counted % (1400, 900))]).view()
    assert view is not None
    assert view.acceptance_rate == pytest.approx(300 / 400), "where it counts too, what happened in the window"
    assert view.acceptance_length is None


def test_one_engine_that_begins_again_costs_the_other_nothing() -> None:
    serving = Serving()
    serving.apply(at(0.0, engine("0", 1000, 0, 0), engine("1", 5000, 40, 0)))
    serving.apply(at(10.0, engine("0", 1100, 10, 0), engine("1", 30, 0, 4)))
    serving.apply(at(20.0, engine("0", 1200, 20, 0), engine("1", 60, 0, 8)))
    view = serving.view()
    assert view is not None
    assert view.generation_tps == pytest.approx((200 + 60) / 20)
    assert [one.generation_tps for one in view.each] == [10.0, 3.0]


def test_a_page_cut_short_shows_no_jump_in_either_direction() -> None:
    whole = (engine("0", 1000, 10, 0), engine("1", 2000, 20, 0))
    serving = Serving()
    serving.apply(at(0.0, *whole))
    serving.apply(at(10.0, engine("0", 1100, 10, 0), truncated=True))
    view = serving.view()
    assert view is not None
    assert view.cut
    assert (view.generation_tps, view.running) == (10.0, 4.0)
    serving.apply(at(20.0, engine("0", 1200, 10, 0), engine("1", 2400, 20, 0)))
    view = serving.view()
    assert view is not None
    assert not view.cut
    assert view.generation_tps == pytest.approx((200 + 400) / 20)


def test_what_was_cut_from_the_first_page_is_no_growth_when_it_comes() -> None:
    serving = Serving()
    serving.apply(at(0.0, engine("0", 1000, 10, 0), truncated=True))
    serving.apply(at(10.0, engine("0", 1100, 10, 0), engine("1", 9000, 20, 0)))
    serving.apply(at(20.0, engine("0", 1200, 10, 0), engine("1", 9100, 20, 0)))
    view = serving.view()
    assert view is not None
    assert view.generation_tps == pytest.approx((200 + 100) / 20)


def test_nothing_within_the_window_is_nothing_and_not_the_past() -> None:
    serving = Serving()
    serving.apply(at(0.0, engine("0", 1000, 10, 0)))
    serving.apply(at(10.0, engine("0", 1000, 10, 0)))
    view = serving.view()
    assert view is not None
    assert view.ttft is None
    assert view.generation_tps == 0.0


def test_what_is_kept_of_a_page_tells_as_much_as_the_whole() -> None:
    whole, thin = Serving(), Serving()
    for at, text in pages(B1):
        page = reading(at, text)
        whole.apply(page)
        thin.apply(thinned(page))
        assert thin.view() == whole.view()
    assert len(encode(thinned(page))) < 0.5 * len(encode(page))


def test_a_page_of_nothing_known_is_kept_as_it_is() -> None:
    page = reading(1.0, "process_cpu_seconds_total 3.0\n")
    assert page.samples
    assert thinned(page) is page
    assert thinned(MetricsReading(at=1.0, error="refused")).error == "refused"


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (401, "needs an API key: set FIRSTLIGHT_API_KEY", "/health: needs an API key: set FIRSTLIGHT_API_KEY"),
        (404, "not offered at this address", "/health: not offered at this address"),
        (418, "", "/health: HTTP status 418"),
        (None, "its certificate is not accepted (self-signed certificate): …", "its certificate is not accepted"),
        (None, "refused", ""),
        (None, "no answer within 10 s", ""),
        (503, "the server says that its engine is dead", ""),
        (200, "", ""),
    ],
)
def test_a_server_that_may_not_be_asked_says_why_and_is_ready_by_its_own_word(
    status: int | None, error: str, said: str
) -> None:
    state = WatchState("llm-two", "vllm")
    start = JournalLine(at=10.0, text="INFO 09-20 14:00:00 [api_server.py:1] vLLM API server version 0.11.0", pid=7)
    state.apply(start)
    state.apply(HealthReading(at=20.0, status=None, error="refused"))
    state.apply(JournalLine(at=30.0, text="INFO:     Application startup complete.", pid=7))
    state.apply(HealthReading(at=31.0, status=status, error=error))
    view = state.view(32.0)
    found = [finding for finding in view.findings if finding.id == "endpoint-barred"]
    assert bool(found) == bool(said)
    assert view.state == ("ready" if said or status == 200 else "loading")
    if said:
        assert said in found[0].title
        assert view.serving is not None
        assert said in view.serving.error
        state.apply(HealthReading(at=40.0, status=200))
        (over,) = [finding for finding in state.view(41.0).findings if finding.id == "endpoint-barred"]
        assert (found[0].severity, over.severity) == ("warning", "info")
        assert state.view(41.0).serving is None, "no page yet"


def test_every_name_of_the_table_stands_in_it_once_and_says_where_it_was_seen() -> None:
    names = [name for figure in figures() for name, _ in figure.names]
    assert len(names) == len(set(names))
    assert all(seen for figure in figures() for _, seen in figure.names)
    for figure in figures():
        assert all(name.endswith("_total") == (figure.kind in ("counter", "positions")) for name, _ in figure.names)


_labels = st.dictionaries(st.sampled_from(["engine", "le", "position"]), st.text(max_size=4) | st.just("+Inf"))
_names = [name for figure in figures() for name, _ in figure.names]
_samples = st.builds(
    Sample,
    st.sampled_from([f"{name}{end}" for name in _names for end in ("", "_bucket", "_sum")]),
    _labels,
    st.floats(),
)


@given(st.lists(st.lists(_samples, max_size=12), max_size=5))
def test_any_samples_are_survived_and_no_rate_is_negative(rows: list[list[Sample]]) -> None:
    serving = Serving()
    for number, samples in enumerate(rows):
        read_page(samples)
        serving.apply(MetricsReading(at=float(number), samples=tuple(samples), truncated=number % 2 == 1))
    view = serving.view()
    assert view is None or view.generation_tps is None or not view.generation_tps < 0


# ------------------------------------------------------------------------------------------------ a real Prometheus


class Scraped:
    """A server of pages, one after the other at each scrape, the last one for ever, and a Prometheus that reads it."""

    def __init__(self, texts: Sequence[str], folder: Path) -> None:
        given = iter(texts)
        last = texts[-1]
        self.all_read = threading.Event()
        read = self.all_read

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = next(given, None)
                if text is None:
                    read.set()
                body = (text or last).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
            "scrape_configs:\n  - job_name: vllm\n    static_configs:\n"
            f"      - targets: ['127.0.0.1:{self._server.server_port}']\n"
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._url = f"http://127.0.0.1:{free.getsockname()[1]}"
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address={self._url.removeprefix('http://')}"],
            stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def ask(self, query: str, when: float) -> list[dict[str, list[list[object]]]]:
        words = urllib.parse.urlencode({"query": query, "time": f"{when:.3f}"})
        with urllib.request.urlopen(f"{self._url}/api/v1/query?{words}", timeout=10) as answer:
            found: list[dict[str, list[list[object]]]] = json.load(answer)["data"]["result"]
        return found

    def number(self, query: str, when: float) -> float:
        (one,) = self.ask(query, when)
        return float(str(one["value"][1]))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._server.shutdown()
        self._server.server_close()
        self._log.close()


def two_engines() -> list[str]:
    """Pages of two real servers as one with two engines."""
    out = []
    for (_, first), (_, second) in zip(pages(B1)[4:12], pages(B2)[2:10], strict=True):
        samples = [line for line in second.splitlines() if 'engine="0"' in line and "config_info" not in line]
        out.append("\n".join([first.rstrip("\n"), *samples]) + "\n")
    return [renamed(text) for text in out]


def renamed(text: str) -> str:
    """The second occurrence of each series becomes engine 1; families stay together as the format demands."""
    families: dict[str, list[str]] = {}
    heads: dict[str, list[str]] = {}
    seen: set[str] = set()
    for line in text.splitlines():
        if line.startswith("#"):
            heads.setdefault(line.split()[2], []).append(line)
            continue
        series, _, number = line.rpartition(" ")
        if series in seen:
            series = series.replace('engine="0"', 'engine="1"')
        seen.add(series)
        families.setdefault(re.sub(r"(_bucket|_sum|_count)?(\{.*)?$", "", series), []).append(f"{series} {number}")
    return "".join("\n".join([*heads.get(name, []), *lines]) + "\n" for name, lines in families.items())


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scraped, list[str]]]:
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus on this machine: apt-get install prometheus")
    texts = two_engines()
    one = Scraped(texts, tmp_path_factory.mktemp("prometheus"))
    try:
        assert one.all_read.wait(60), "Prometheus has not read all pages within a minute"
        yield one, texts
    finally:
        one.close()


def stamps(one: Scraped, texts: Sequence[str]) -> list[float]:
    """When Prometheus read each page, told by the counter that differs from page to page."""
    deadline = time.monotonic() + 20
    wanted = {value(text, 'vllm:prompt_tokens_total{engine="0"') for text in texts}
    while True:
        try:
            (series,) = one.ask('vllm:prompt_tokens_total{engine="0"}[5m]', time.time())
            first: dict[float, float] = {}
            for when, number in series["values"]:
                first.setdefault(float(str(number)), float(str(when)))
            if first.keys() >= wanted:
                return [first[value(text, 'vllm:prompt_tokens_total{engine="0"')] for text in texts]
        except (ValueError, urllib.error.URLError):
            pass
        assert time.monotonic() < deadline, "the pages are not in Prometheus' store"
        time.sleep(0.1)


FAMILIES = {
    "ttft": "vllm:time_to_first_token_seconds",
    "itl": "vllm:inter_token_latency_seconds",
    "queue": "vllm:request_queue_time_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
}


def test_percentiles_are_those_of_a_real_prometheus(scraped: tuple[Scraped, list[str]]) -> None:
    one, texts = scraped
    times = stamps(one, texts)
    assert times == sorted(times)
    for first, last in itertools.combinations(range(0, len(texts), 3), 2):
        view = folded([(when, text) for when, text in zip(times, texts, strict=True)][first : last + 1]).view()
        assert view is not None
        for field, family in FAMILIES.items():
            ours: tuple[float, float, float] | None = getattr(view, field)
            grown = f"{family}_bucket @ {times[last]:.3f} - {family}_bucket @ {times[first]:.3f}"
            for quantile, own in zip((0.5, 0.9, 0.99), ours or (None, None, None), strict=True):
                theirs = one.number(f"histogram_quantile({quantile}, sum by (le) ({grown}))", times[-1])
                if own is None:
                    assert theirs != theirs, f"{field}: nothing was observed"
                else:
                    assert own == pytest.approx(theirs, rel=1e-9), (field, quantile, first, last)


def test_the_median_by_rate_is_ours_but_for_prometheus_extrapolation(scraped: tuple[Scraped, list[str]]) -> None:
    one, texts = scraped
    times = stamps(one, texts)
    view = folded(list(zip(times, texts, strict=True))).view()
    assert view is not None
    assert view.ttft is not None
    span = times[-1] - times[0] + 0.1
    for quantile, own in zip((0.5, 0.9), view.ttft[:2], strict=True):
        query = f"histogram_quantile({quantile}, sum by (le) (rate({FAMILIES['ttft']}_bucket[{span * 1000:.0f}ms])))"
        assert one.number(query, times[-1]) == pytest.approx(own, rel=0.05)
