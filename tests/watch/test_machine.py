"""GPUs, storage and serving, folded from a real load on two H200 (b1: page cache cold) and from metrics pages."""

from __future__ import annotations

import gzip
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.readings import (
    GpuDevice,
    GpuProcess,
    GpuProcesses,
    GpuReading,
    IoReading,
    LinkReading,
    MetricsReading,
    ProbeReading,
    ProcessIo,
    Sample,
)
from tests.watch.feeds import CASES, RECORDINGS, recording
from watch.gpu import KEEP, Gpus, History
from watch.io import Io
from watch.serving import Serving
from watch.sources import Sources
from watch.state import WatchState
from watch.view import View

B1 = RECORDINGS / "gpu-h200x2" / "b1-ngram-cold-cache"
MIB = 2**20


def gpu_samples() -> list[GpuReading]:
    entries = [json.loads(line) for line in gzip.decompress((B1 / "nvml.jsonl.gz").read_bytes()).splitlines()]
    epoch = entries[0]["meta"]["t0"]
    return [
        GpuReading(
            at=epoch + entry["t"],
            source="nvml",
            devices=tuple(
                GpuDevice(
                    index=index,
                    used_mib=gpu["m2"]["used"] / MIB,
                    total_mib=gpu["m2"]["total"] / MIB,
                    utilization=gpu["util"]["gpu"],
                )
                for index, gpu in enumerate(entry["gpus"])
            ),
        )
        for entry in entries
        if "gpus" in entry
    ]


def io_samples() -> list[IoReading]:
    epoch = recording("gpu-h200x2/b1-ngram-cold-cache")[0]
    out = []
    for entry in map(json.loads, gzip.decompress((B1 / "host.jsonl.gz").read_bytes()).splitlines()):
        processes = tuple(
            ProcessIo(pid=p["pid"], name=p["comm"], cpu_seconds=p["cpu_s"], state=p["state"])
            for p in entry.get("server_procs", ())
        )
        out.append(
            IoReading(
                at=epoch + entry["t"],
                read_bytes=sum(disk["rd_sect"] for disk in entry["disk"].values()) * 512,
                cpu_seconds=sum(process.cpu_seconds for process in processes),
                processes=processes,
            )
        )
    return out


@pytest.fixture(scope="module")
def whole() -> dict[float, View]:
    """The load with its GPUs and its storage, looked at in the middle of things."""
    started, lines = recording("gpu-h200x2/b1-ngram-cold-cache")
    state = WatchState("llm-two", "vllm")
    feed = sorted([*lines, *gpu_samples(), *io_samples()], key=lambda reading: reading.at)
    moments = [30.0, 65.0, 90.0, 140.0, 180.0, 210.0]
    views: dict[float, View] = {}
    for reading in feed:
        while moments and reading.at - started > moments[0]:
            moment = moments.pop(0)
            views[moment] = state.view(started + moment)
        state.apply(reading)
    return views


def test_memory_goes_through_the_healthy_picture(whole: dict[float, View]) -> None:
    steps = {moment: view.gpu.step for moment, view in whole.items() if view.gpu is not None}
    assert "free" in steps[30.0]
    assert steps[90.0].startswith("weights allocated in one step: 30.1 GiB a GPU of about 28.0 expected")
    assert "flat while shards are read" in steps[90.0]
    assert steps[140.0].startswith("weights in place")
    assert steps[180.0].startswith("weights and KV cache allocated: 12")
    assert whole[90.0].gpu is not None
    assert whole[90.0].gpu.expected_mib == pytest.approx(55.96 * 1024 / 2)


def test_memory_is_flat_while_shards_are_read(whole: dict[float, View]) -> None:
    gpu = whole[90.0].gpu
    assert gpu is not None
    now = gpu.at
    flat = [used for at, used in gpu.history[0] if now - 20 < at <= now]
    assert len(flat) > 10
    assert max(flat) - min(flat) < 64


def test_bytes_read_move_while_memory_does_not(whole: dict[float, View]) -> None:
    io = whole[90.0].io
    assert io is not None
    assert io.read_rate is not None
    assert 1.0e9 < io.read_rate < 1.7e9, "README: 1.2 to 1.6 GB/s from the disk"
    assert io.read_since_start is not None
    assert 30e9 < io.read_since_start < 45e9
    assert "disk" in io.bound
    assert whole[140.0].io is not None
    assert (whole[140.0].io.read_rate or 0.0) < 1e8


def test_a_history_never_holds_more_than_it_may_and_keeps_its_ends() -> None:
    history = History()
    for second in range(10_000):
        history.add(float(second), float(second % 7))
    assert len(history.points) <= KEEP
    assert history.points[0] == (0.0, 0.0)
    assert history.points[-1] == (9999.0, 9999 % 7)
    gaps = [b - a for (a, _), (b, _) in itertools.pairwise(history.points[:-1])]
    assert max(gaps) <= 2.1 * min(gaps), "old and new stand equally dense"


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), max_size=600))
def test_a_history_of_any_times_is_in_order(points: list[tuple[float, float]]) -> None:
    history = History()
    for at, value in points:
        history.add(at, value)
    times = [at for at, _ in history.points]
    assert times == sorted(times)
    assert len(times) <= KEEP


def test_before_a_start_it_is_said_who_holds_the_memory() -> None:
    gpus = Gpus()
    devices = tuple(GpuDevice(index=n, used_mib=60_000, total_mib=97_887) for n in range(2))
    gpus.apply(GpuReading(at=100.0, devices=devices))
    holder = GpuProcess(gpu=0, pid=4203, name="VLLM::Worker_TP0", used_mib=60_000, unit="vllm.service", user="vllm")
    gpus.apply_processes(GpuProcesses(at=100.0, processes=(holder,)))
    view = gpus.view(101.0, "n/a", alive=False, unit="vllm", started=0.0, expected_mib=None)
    assert view is not None
    assert "4203" in view.step
    assert "Worker_TP0" in view.step


def test_fields_that_do_not_exist_are_no_zeros() -> None:
    gpus = Gpus()
    gpus.apply(GpuReading(at=1.0, devices=(GpuDevice(index=0, name="NVIDIA GB10", temperature=38),)))
    view = gpus.view(2.0, "weights", alive=True, unit="", started=0.0, expected_mib=None)
    assert view is not None
    assert (view.step, view.history, gpus.used_most(), gpus.busy()) == ("", ((),), None, None)


def test_a_new_load_reads_from_zero_again() -> None:
    io = Io()
    for second in range(5):
        io.apply(IoReading(at=100.0 + second, read_bytes=second * 10**9, cpu_seconds=float(second)))
    assert io.read_since_start() == 4 * 10**9
    assert io.read_rate() == pytest.approx(1e9)
    assert io.cpu_rate() == pytest.approx(1.0)
    io.new_load()
    io.apply(IoReading(at=110.0, read_bytes=5 * 10**8, cpu_seconds=0.1))
    assert io.read_since_start() == 5 * 10**8, "the control group is new, and so are its counters"
    io.new_load()
    io.apply(IoReading(at=111.0, read_bytes=7 * 10**8, cpu_seconds=0.2))
    assert io.read_since_start() == 2 * 10**8, "the same counters go on"


def page(at: float, name: str) -> MetricsReading:
    """A metrics page as the probe gives it."""
    text = (CASES / "C63-metric-renames" / name).read_text()
    samples = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        head, _, value = line.rpartition(" ")
        base, _, labels = head.partition("{")
        pairs = dict(part.split("=", 1) for part in labels.rstrip("}").split(",") if "=" in part)
        samples.append(Sample(base, {key: text.strip('"') for key, text in pairs.items()}, float(value)))
    return MetricsReading(at=at, status=200, samples=tuple(samples))


@pytest.mark.parametrize("name", ["input.old.metrics.txt", "input.new.metrics.txt"])
def test_old_and_new_names_are_one_figure(name: str) -> None:
    serving = Serving()
    serving.apply(page(1.0, name))
    view = serving.view()
    assert view is not None
    assert (view.running, view.waiting, view.kv_cache) == (3, 1, pytest.approx(0.3171))
    assert view.itl_mean == pytest.approx(0.025)
    assert view.itl is None


def test_what_a_version_does_not_offer_is_missing_and_not_zero() -> None:
    old, new = Serving(), Serving()
    old.apply(page(1.0, "input.old.metrics.txt"))
    new.apply(page(1.0, "input.new.metrics.txt"))
    one, other = old.view(), new.view()
    assert one is not None
    assert other is not None
    assert one.acceptance_rate is None
    assert "draft tokens" in one.missing
    assert other.acceptance_rate == pytest.approx(0.59)
    assert "draft tokens" not in other.missing


def test_a_page_makes_a_server_ready_and_serving() -> None:
    state = WatchState("llm-two", "vllm")
    state.apply(page(1.0, "input.new.metrics.txt"))
    view = state.view(2.0)
    assert (view.state, view.phase) == ("ready", "serving")


def counters(at: float, tokens: float, count: float) -> MetricsReading:
    bucket = "vllm:time_to_first_token_seconds_bucket"
    return MetricsReading(
        at=at,
        status=200,
        samples=tuple(
            sample
            for engine in ("0", "1")
            for sample in (
                Sample("vllm:generation_tokens_total", {"engine": engine}, tokens),
                Sample(bucket, {"engine": engine, "le": "0.1"}, count),
                Sample(bucket, {"engine": engine, "le": "0.25"}, count * 2),
                Sample(bucket, {"engine": engine, "le": "+Inf"}, count * 2),
            )
        ),
    )


def test_rates_are_of_the_window_and_added_over_engines() -> None:
    serving = Serving()
    serving.apply(counters(100.0, 1000.0, 10.0))
    serving.apply(counters(110.0, 2000.0, 20.0))
    view = serving.view()
    assert view is not None
    assert view.generation_tps == pytest.approx(200.0)
    assert view.engines == ("0", "1")
    assert view.ttft is not None
    assert view.ttft[0] == pytest.approx(0.1)


def test_a_restarted_server_gives_no_negative_rate() -> None:
    serving = Serving()
    serving.apply(counters(100.0, 1000.0, 10.0))
    serving.apply(counters(110.0, 5.0, 1.0))
    view = serving.view()
    assert view is not None
    assert view.generation_tps == pytest.approx(1.0), "what the new one has counted: two engines, 5 tokens, 10 s"


def test_an_error_page_keeps_what_was_known_and_says_why() -> None:
    serving = Serving()
    serving.apply(counters(100.0, 1000.0, 10.0))
    serving.apply(MetricsReading(at=102.0, status=401, error="401: an API key guards this page"))
    view = serving.view()
    assert view is not None
    assert view.error
    assert view.at == 100.0


def test_the_state_of_a_source_keeps_its_beginning() -> None:
    sources = Sources()
    assert sources.up
    assert sources.link_view() is None
    sources.link(LinkReading(at=1.0, state="up", rtt_ms=12.0))
    sources.link(LinkReading(at=6.0, state="up"))
    sources.probe(ProbeReading(at=2.0, probe="gpu", state="failed", reason="no answer in 10 s"))
    sources.probe(ProbeReading(at=9.0, probe="gpu", state="failed", reason="no answer in 10 s"))
    link, (gpu,) = sources.link_view(), sources.views()
    assert link is not None
    assert (link.since, link.rtt_ms) == (1.0, 12.0)
    assert (gpu.since, gpu.last) == (2.0, 9.0)
    sources.link(LinkReading(at=20.0, state="down", reason="no answer to keepalives"))
    assert not sources.up


def _worker(gpu: int, mib: float) -> GpuProcess:
    name = f"VLLM::Worker_TP{gpu}"
    return GpuProcess(gpu=gpu, pid=500 + gpu, name=name, used_mib=mib, unit="vllm.service", started=90.0)


def test_a_rank_behind_the_others_is_named_after_a_while_and_no_longer_once_it_is_level() -> None:
    gpus = Gpus()

    def look(at: float, *used: float) -> list[str]:
        devices = tuple(GpuDevice(index=n, used_mib=mib, total_mib=97_887) for n, mib in enumerate(used))
        gpus.apply(GpuReading(at=at, devices=devices))
        gpus.apply_processes(GpuProcesses(at=at, processes=tuple(_worker(n, mib) for n, mib in enumerate(used))))
        view = gpus.view(at, "weights", alive=True, unit="vllm", started=80.0, expected_mib=None, ranks=4)
        assert view is not None
        return [note.text for note in view.notes]

    assert look(100.0, 500, 500, 500, 500) == []
    assert look(101.0, 30_000, 30_000, 600, 30_000) == [], "ranks allocate up to some seconds apart"
    assert look(112.0, 30_000, 30_000, 600, 30_000) == ["behind the others (Worker_TP2): 0.6 GiB where they hold 29.3"]
    assert look(113.0, 30_000, 30_000, 30_000, 30_000) == []


def test_the_step_is_that_of_the_gpus_that_the_load_uses() -> None:
    gpus = Gpus()
    idle = tuple(GpuDevice(index=n, used_mib=0, total_mib=97_887) for n in range(4))
    gpus.apply(GpuReading(at=90.0, devices=idle))
    devices = tuple(GpuDevice(index=n, used_mib=30_720 if n < 2 else 0, total_mib=97_887) for n in range(4))
    gpus.apply(GpuReading(at=100.0, devices=devices))
    gpus.apply_processes(GpuProcesses(at=100.0, processes=(_worker(0, 30_720), _worker(1, 30_720))))
    view = gpus.view(101.0, "weights", alive=True, unit="vllm", started=80.0, expected_mib=28 * 1024)
    assert view is not None
    assert view.step.startswith("weights allocated in one step: 30.0 GiB a GPU of about 28.0 expected")


def test_a_driver_that_hangs_ages_its_figures_and_says_so() -> None:
    gpus = Gpus()
    devices = (GpuDevice(index=0, used_mib=30_000, total_mib=97_887),)
    gpus.apply(GpuReading(at=100.0, devices=devices))
    gpus.apply(GpuReading(at=105.0, devices=devices, hung=5.0))
    view = gpus.view(105.0, "weights", alive=True, unit="vllm", started=80.0, expected_mib=None)
    assert view is not None
    assert (view.at, view.hung) == (100.0, 5.0), "its age is that of the last answer, so the pane greys"
    assert "has not answered for 5 s" in view.step
    gpus.apply(GpuReading(at=110.0, devices=devices))
    view = gpus.view(110.0, "weights", alive=True, unit="vllm", started=80.0, expected_mib=None)
    assert view is not None
    assert view.hung == 0.0


def test_unified_memory_is_the_systems_and_marked_as_shared() -> None:
    state = WatchState("spark", "vllm")
    state.apply(GpuReading(at=1.0, devices=(GpuDevice(index=0, name="NVIDIA GB10", temperature=38),)))
    gib = 1 << 30
    state.apply(IoReading(at=1.0, mem_total=int(121.7 * gib), mem_available=int(43.3 * gib)))
    gpu = state.view(2.0).gpu
    assert gpu is not None
    assert gpu.step == "memory is the system's, shared with the CPU: 78.4 of 121.7 GiB in use"
    assert gpu.shared is not None
