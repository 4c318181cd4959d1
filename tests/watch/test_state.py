"""The fold itself: loads made for one question each, any order, any cut, any text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from probes.readings import (
    CommandReading,
    GpuDevice,
    GpuReading,
    HealthReading,
    IoReading,
    JournalLine,
    LinkReading,
    MetricsReading,
    Note,
    ProbeReading,
    Reading,
    Sample,
    UnitFile,
    UnitReading,
)
from tests.watch.feeds import CASES, case, folded, journal_json, recording, same
from watch.state import Changes, WatchState
from watch.view import LoadView, View
from watch.words import PHASES

T = 1_789_895_520.0
INV = "2002fc4e2d8ab97de9f1ccb24a6a05d2"


def said(at: float, text: str, process: str = "", pid: int = 0, invocation: str = INV) -> JournalLine:
    head = f"({process} pid={pid}) " if process else ""
    return JournalLine(at=T + at, text=head + text, pid=pid, invocation=invocation, unit="vllm.service")


def logged(at: float, message: str, process: str, pid: int) -> JournalLine:
    return said(at, f"INFO 09-20 09:12:00 [x.py:1] {message}", process, pid)


def manager(at: float, text: str, invocation: str = INV) -> JournalLine:
    return JournalLine(at=T + at, text=text, source="systemd", unit="vllm.service", invocation=invocation)


def shards(at: float, done: int, total: int, pid: int = 7, elapsed: int | None = None) -> JournalLine:
    clock = at if elapsed is None else elapsed
    minutes, seconds = divmod(int(clock), 60)
    bar = f"{100 * done // total:3}% Completed | {done}/{total} [{minutes:02}:{seconds:02}<?, ?it/s]"
    return said(at, f"\rLoading safetensors checkpoint shards: {bar}", "", pid)


BEGINNING = [
    manager(0, "Starting vllm.service - vLLM..."),
    manager(0, "Started vllm.service - vLLM."),
    logged(10, "vLLM server version 0.26.0, serving model /models/m", "APIServer", 5),
    logged(10, "non-default args: {'model': '/models/m', 'tensor_parallel_size': 2}", "APIServer", 5),
]


def engine(at: float, speculation: str = "None", eager: bool = False) -> JournalLine:
    text = f"Initializing a V1 LLM engine (v0.26.0) with config: model='/models/m', speculative_config={speculation}, "
    return logged(at, text + f"enforce_eager={eager}, tensor_parallel_size=2", "EngineCore", 6)


def phases(view: View) -> dict[str, tuple[str, float | None, float | None]]:
    assert view.load is not None
    return {
        phase.name: (
            phase.status,
            None if phase.started is None else phase.started - T,
            None if phase.ended is None else phase.ended - T,
        )
        for phase in view.load.phases
    }


def test_nothing_is_known_of_nothing() -> None:
    view = WatchState("llm-two", "vllm").view(T)
    assert (view.state, view.phase, view.severity, view.load) == ("unknown", "n/a", "info", None)
    assert view.headline


def test_the_time_before_a_process_starts_is_its_own_phase() -> None:
    state = folded([manager(0, "Starting vllm.service - vLLM...")], "vllm.service")
    assert state.view(T + 5).phase == "pre-start"
    state.apply(manager(32, "Started vllm.service - vLLM."))
    view = state.view(T + 33)
    assert phases(view)["pre-start"] == ("done", 0, 32)
    assert phases(view)["process-start"][:2] == ("running", 32)


def test_an_mtp_drafts_second_bar_from_zero_is_a_phase_of_its_own() -> None:
    mtp = "SpeculativeConfig(method='mtp', model='/models/m', num_spec_tokens=2)"
    lines = [
        *BEGINNING,
        engine(20, mtp),
        logged(30, "Loading model from scratch...", "Worker_TP0", 7),
        shards(40, 0, 46, elapsed=0),
        shards(100, 46, 46, elapsed=60),
        logged(100, "Loading weights took 60.1 seconds", "Worker_TP0", 7),
        shards(113, 0, 46, elapsed=0),
        shards(120, 23, 46, elapsed=7),
    ]
    view = folded(lines, "vllm.service").view(T + 121)
    assert view.phase == "draft-weights"
    assert view.load is not None
    assert view.load.progress is not None
    assert view.load.progress.done == 23
    assert phases(view)["weights"] == ("done", 30, 113)
    state = folded(lines, "vllm.service")
    state.apply_lines(
        [shards(130, 46, 46, elapsed=17), logged(131, "Loading weights took 18 seconds", "Worker_TP0", 7)]
    )
    assert "repacked" in next(p for p in _load(state.view(T + 132)).phases if p.name == "draft-weights").note
    state.apply(logged(133, "Model loading took 75.86 GiB memory and 103.2 seconds", "Worker_TP0", 7))
    assert phases(state.view(T + 134))["draft-weights"] == ("done", 113, 133)
    assert state.view(T + 134).phase == "compile"


def _load(view: View) -> LoadView:
    assert view.load is not None
    return view.load


def test_a_second_bar_without_speculation_is_still_the_models_own() -> None:
    lines = [
        *BEGINNING,
        engine(20),
        logged(30, "Starting to load model /models/m...", "Worker_TP0", 7),
        shards(40, 4, 4, elapsed=10),
        shards(42, 1, 9, elapsed=1),
    ]
    view = folded(lines, "vllm.service").view(T + 43)
    assert (view.phase, _load(view).progress.done, _load(view).progress.total) == ("weights", 1, 9)


@pytest.mark.parametrize("method", ["ngram", "suffix"])
def test_a_drafter_that_has_no_weights_is_no_phase(method: str) -> None:
    lines = [
        *BEGINNING,
        engine(20, f"SpeculativeConfig(method='{method}', model=None, num_spec_tokens=3)"),
        logged(30, "Starting to load model /models/m...", "Worker_TP0", 7),
        logged(31, "Loading drafter model...", "Worker_TP0", 7),
    ]
    assert folded(lines, "vllm.service").view(T + 32).phase == "weights"


def test_another_ranks_bar_does_not_turn_progress_back() -> None:
    lines = [*BEGINNING, engine(20), shards(40, 0, 64), shards(50, 10, 64), shards(51, 1, 64, pid=8), shards(52, 9, 64)]
    state = folded(lines, "vllm.service")
    assert _load(state.view(T + 53)).progress.done == 10
    state.apply(shards(60, 11, 64))
    assert _load(state.view(T + 61)).progress.done == 11


def test_capture_before_the_kv_cache_is_sized_is_profiling() -> None:
    """Model Runner V2 captures twice, and says `Graph capturing finished` once a rank."""
    capture = "\rCapturing CUDA graphs (PIECEWISE): 100%|##########| 51/51 [00:10<00:00,  5.1it/s]"
    done = "Graph capturing finished in 10 secs, took 0.6 GiB"
    lines = [
        *BEGINNING,
        engine(20),
        logged(30, "Loading model from scratch...", "Worker_TP0", 7),
        logged(60, "Model loading took 30.1 GiB memory and 30.0 seconds", "Worker_TP0", 7),
        logged(61, "Model loading took 30.1 GiB memory and 31.0 seconds", "Worker_TP1", 8),
        logged(100, "torch.compile took 38.00 s in total", "Worker_TP0", 7),
        said(115, capture, "Worker_TP0", 7),
        logged(115, done, "Worker_TP0", 7),
        logged(116, done, "Worker_TP1", 8),
    ]
    state = folded(lines, "vllm.service")
    assert state.view(T + 117).phase == "profile"
    state.apply_lines(
        [
            logged(120, "Available KV cache memory: 94.1 GiB", "Worker_TP0", 7),
            logged(121, "GPU KV cache size: 2,055,616 tokens, Maximum concurrency for 8,192 tokens", "EngineCore", 6),
            said(140, capture, "Worker_TP0", 7),
        ]
    )  # fmt: skip
    assert state.view(T + 141).phase == "graph-capture"
    state.apply_lines([logged(140, done, "Worker_TP0", 7), logged(141, done, "Worker_TP1", 8)])
    view = phases(state.view(T + 142))
    assert view["weights"] == ("done", 30, 61), "the slowest rank decides"
    assert view["compile"] == ("done", 62, 100)
    assert view["profile"] == ("done", 100, 120)
    assert view["graph-capture"][1:] == (130, 141)


def test_kernels_prepared_before_the_kv_cache_do_not_hide_it() -> None:
    lines = case("C38")
    state = folded(lines, "vllm.service")
    last = lines[-1].at - T
    assert state.view(lines[-1].at + 1).phase == "warmup"
    state.apply(logged(last + 400, "Available KV cache memory: 9.87 GiB", "Worker_TP0", 5203))
    state.apply(logged(last + 401, "GPU KV cache size: 147,872 tokens", "EngineCore", 5188))
    view = state.view(lines[-1].at + 402)
    assert view.phase == "warmup"
    assert phases(view)["profile"][2] == pytest.approx(last + 400)
    assert phases(view)["kv-cache"][1:] == (pytest.approx(last + 400), pytest.approx(last + 401))


def test_bytes_are_counted_in_bytes() -> None:
    bar = "\rLoading safetensors using InstantTensor loader:  12% Completed | 123G/1.03T [01:00<07:30, 2.0GB/s]"
    view = folded([*BEGINNING, engine(20), said(90, bar, "Worker_TP0", 7)], "vllm.service").view(T + 91)
    progress = _load(view).progress
    assert (progress.unit, progress.total) == ("bytes", pytest.approx(1.03 * 2**40))
    assert "GiB" in view.headline


def test_a_worker_that_stays_behind_is_named() -> None:
    workers = [(f"Worker_TP{n}", 10 + n) for n in range(8)]
    lines = [*BEGINNING, engine(20)]
    for n, (name, pid) in enumerate(workers):
        lines.append(logged(30, f"world_size=8 rank={n} local_rank={n} distributed_init_method=tcp://x", name, pid))
    for name, pid in workers:
        if name != "Worker_TP5":
            lines.append(logged(40, "Loading model from scratch...", name, pid))
    state = folded(lines, "vllm.service")
    assert not any(rank.lags for rank in _load(state.view(T + 41)).ranks), "a moment later is no lag"
    late = [rank for rank in _load(state.view(T + 60)).ranks if rank.lags]
    assert [(rank.name, rank.rank, rank.phase) for rank in late] == [("Worker_TP5", 5, "dist-init")]
    state.apply(logged(61, "Loading model from scratch...", *workers[5]))
    assert not any(rank.lags for rank in _load(state.view(T + 80)).ranks)


def test_a_worker_keeps_its_pid_through_its_names() -> None:
    lines = [
        *BEGINNING,
        engine(20),
        logged(25, "hello", "VllmWorker-1", 8),
        logged(26, "world_size=2 rank=1 local_rank=1 distributed_init_method=tcp://x", "Worker", 8),
        logged(27, "Starting to load model /models/m...", "Worker_TP1", 8),
    ]
    ranks = [rank for rank in _load(folded(lines, "vllm.service").view(T + 30)).ranks if rank.pid == 8]
    assert [(rank.name, rank.rank) for rank in ranks] == [("Worker_TP1", 1)]


def test_a_server_that_was_ready_before_we_came_is_ready() -> None:
    steady = (
        "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 10.0 tokens/s, Running: 1 reqs"
    )
    view = folded([logged(0, steady, "APIServer", 5)], "vllm.service").view(T + 1)
    assert (view.state, view.phase) == ("ready", "serving")
    assert _load(view).attached_late
    access = said(0, 'INFO:     127.0.0.1:1 - "GET /v1/models HTTP/1.1" 200 OK', "", 5)
    assert folded([access], "vllm.service").view(T + 1).state == "ready"


def test_a_server_known_only_by_its_unit_and_its_health_is_ready() -> None:
    state = WatchState("llm-two", "vllm")
    state.apply(
        UnitReading(at=T, unit="vllm.service", active="active", sub="running", invocation=INV, started=T - 9e4,
                    active_since=T - 9e4, main_pid=5)
    )  # fmt: skip
    assert state.view(T + 1).state == "unknown"
    state.apply(HealthReading(at=T + 2, status=200))
    view = state.view(T + 3)
    assert (view.state, view.phase) == ("ready", "ready")
    assert _load(view).started == T - 9e4


def test_the_backlog_of_a_ready_server_still_shows_its_phases() -> None:
    started, lines = recording("cpu-small-baseline")
    state = WatchState("llm-two", "vllm")
    state.apply(
        UnitReading(at=started + 60, unit="vllm.service", active="active", sub="running", invocation=INV,
                    started=started, active_since=started, main_pid=5)
    )  # fmt: skip
    state.apply(HealthReading(at=started + 60.5, status=200))
    assert state.view(started + 60.6).state == "ready"
    backlog = [JournalLine(at=line.at, text=line.text, invocation=INV) for line in lines if line.at < started + 60]
    state.apply_lines(backlog)
    view = state.view(started + 61)
    assert (view.state, view.phase) == ("ready", "ready")
    assert {"config", "weights", "api-start"} <= {phase.name for phase in _load(view).phases}


def test_the_backlog_of_a_failed_unit_says_where_it_failed() -> None:
    lines = case("C40")
    state = WatchState("llm-two", "vllm.service")
    state.apply(
        UnitReading(at=lines[-1].at + 60, unit="vllm.service", active="failed", sub="failed", result="exit-code",
                    invocation=lines[0].invocation, main_exited=lines[-1].at)
    )  # fmt: skip
    assert state.view(lines[-1].at + 61).state == "failed"
    state.apply_lines(lines)
    view = state.view(lines[-1].at + 62)
    assert (view.state, view.phase) == ("failed", "graph-capture")
    assert len(view.loads) == 1


def test_a_load_that_we_join_in_the_middle_says_so() -> None:
    view = folded([shards(0, 20, 64, elapsed=200), shards(10, 21, 64, elapsed=210)], "vllm.service").view(T + 11)
    load = _load(view)
    assert (view.state, view.phase, load.attached_late) == ("loading", "weights", True)
    assert load.started == T - 200, "the bar says how long it has been running"


def test_a_restart_in_a_log_without_ids_is_a_new_load() -> None:
    _, lines = recording("cpu-small-baseline")
    again = [JournalLine(at=line.at + 500, text=line.text.replace("pid=1", "pid=2")) for line in lines[:60]]
    view = folded([*lines, *again]).view(again[-1].at + 1)
    assert [load.state for load in view.loads] == ["stopped", "loading"]
    assert _load(view).started >= again[0].at


def test_a_restart_in_a_container_has_the_same_pid_and_is_a_new_load() -> None:
    banner = "vllm-1  | (APIServer pid=1) INFO 09-20 09:12:00 [u.py:1] vLLM server version 0.19.1, serving model /m"
    loading = "vllm-1  | (Worker_TP0 pid=99) INFO 09-20 09:12:30 [g.py:1] Starting to load model /m..."
    lines = [JournalLine(at=T + at, text=text) for at, text in ((0, banner), (30, loading), (90, banner))]
    view = folded(lines).view(T + 91)
    assert [load.number for load in view.loads] == [1, 2]
    assert (view.phase, _load(view).started) == ("process-start", T + 90)


def test_two_servers_of_one_deployment_are_one_load() -> None:
    lines = [
        *BEGINNING,
        logged(11, "vLLM server version 0.26.0, serving model /models/m", "APIServer_DP1", 9),
        engine(20),
    ]
    assert len(folded(lines, "vllm.service").view(T + 21).loads) == 1


def test_lines_of_another_unit_are_none_of_ours() -> None:
    other = JournalLine(at=T, text="Started other.service - x.", source="systemd", unit="other.service", invocation="9")
    state = folded([*BEGINNING, other], "vllm.service")
    assert len(state.view(T + 11).loads) == 1
    assert state.view(T + 11).phase == "config"


def test_a_failure_that_was_none_is_taken_back_when_the_server_is_ready() -> None:
    lines = [*BEGINNING, engine(20), logged(30, "EngineCore failed to start.", "EngineCore", 6)]
    state = folded(lines, "vllm.service")
    assert state.view(T + 31).state == "failed"
    state.apply(said(60, "INFO:     Application startup complete.", "APIServer", 5))
    assert state.view(T + 61).state == "ready"


def test_exit_zero_without_a_word_is_an_end_not_a_success() -> None:
    state = folded([*BEGINNING, engine(20), manager(40, "vllm.service: Deactivated successfully.")], "vllm.service")
    assert state.view(T + 41).state == "stopped"


def test_a_unit_that_is_restarting_by_itself_has_failed() -> None:
    state = folded([*BEGINNING, engine(20)], "vllm.service")
    state.apply(
        UnitReading(at=T + 50, unit="vllm.service", active="activating", sub="auto-restart", result="exit-code",
                    invocation=INV, restarts=4)
    )  # fmt: skip
    view = state.view(T + 51)
    assert view.state == "failed"
    assert "4 times" in view.headline


def test_silence_turns_into_a_stall_with_time_alone() -> None:
    lines = case("C32")
    state = folded(lines, "vllm.service")
    assert state.view(lines[-1].at + 10).state == "loading"
    state.apply(
        GpuReading(
            at=lines[-1].at + 660,
            devices=tuple(GpuDevice(index=n, used_mib=612, total_mib=97887, utilization=100) for n in range(8)),
        )
    )
    view = state.view(lines[-1].at + 661)
    assert view.state == "stalled"
    assert view.stall is not None
    assert view.severity == "error"
    assert "dist-init" in view.headline


def test_a_link_that_is_down_stalls_nothing() -> None:
    lines = case("C32")
    state = folded(lines, "vllm.service")
    state.apply(LinkReading(at=lines[-1].at + 5, state="down", reason="no answer to keepalives"))
    view = state.view(lines[-1].at + 5000)
    assert view.state == "loading"
    assert view.link is not None
    assert view.link.reason


def test_the_view_changes_nothing() -> None:
    lines = case("C26")
    state = folded(lines, "vllm.service")
    now = lines[-1].at + 3
    first = state.view(now)
    state.view(now + 100)
    state.view(now - 100)
    assert same(state.view(now), first)


def test_a_forecast_is_never_before_now() -> None:
    lines = case("C26")
    state = folded(lines, "vllm.service")
    for later in (0.4, 10.7, 60.2):
        found = state.view(lines[-1].at + later).forecast
        assert found is not None
        assert lines[-1].at + later <= found.low <= found.middle <= found.high


def test_what_changed_is_named() -> None:
    state = WatchState("llm-two", "vllm.service")
    assert state.apply(BEGINNING[0]) & (Changes.JOURNAL | Changes.LOAD) == Changes.JOURNAL | Changes.LOAD
    assert state.apply(IoReading(at=T)) & Changes.IO
    assert state.apply(GpuReading(at=T, devices=())) & Changes.GPU
    assert state.apply(MetricsReading(at=T)) & Changes.SERVING
    assert state.apply(LinkReading(at=T, state="up")) & Changes.LINK
    assert not state.apply(LinkReading(at=T + 5, state="up", rtt_ms=7.0)) & Changes.LINK
    assert state.apply(LinkReading(at=T + 9, state="down", reason="cut")) & Changes.LINK
    assert state.apply(LinkReading(at=T + 9, state="down", reason="cut", retry_in=3.0)) & Changes.LINK
    assert state.apply(ProbeReading(at=T, probe="gpu", state="missing")) & Changes.SOURCES
    assert state.apply(UnitFile(at=T, unit="vllm", text="")) & Changes.UNIT
    unit = UnitReading(at=T, unit="vllm.service", load="loaded", active="active", sub="running")
    assert state.apply(unit) & Changes.UNIT
    assert not state.apply(replace(unit, at=T + 5)) & Changes.UNIT
    assert state.apply(replace(unit, at=T + 10, sub="exited")) & Changes.UNIT
    assert state.apply(Note(at=T, text="x")) & Changes.ACTION
    state.apply_lines([*BEGINNING, engine(20)])
    assert state.apply(said(30, "nothing known", "EngineCore", 6)) == Changes.JOURNAL


def test_with_data_parallelism_the_last_engine_decides() -> None:
    done = "init engine (profile, create kv cache, warmup model) took 96.98 s"
    other = engine(21).text.replace("(EngineCore pid=6)", "(EngineCore_DP1 pid=66)")
    lines = [*BEGINNING, engine(20), said(21, other, pid=66), logged(90, done, "EngineCore", 6)]
    state = folded(lines, "vllm.service")
    assert state.view(T + 91).phase != "api-start"
    state.apply(logged(95, done, "EngineCore_DP1", 66))
    assert phases(state.view(T + 96))["api-start"][:2] == ("running", 95)


def test_a_pre_start_command_that_fails_is_a_failure_before_the_start() -> None:
    lines = [
        manager(0, "Starting vllm.service - vLLM..."),
        manager(1, "vllm.service: Control process exited, code=exited, status=1/FAILURE"),
        manager(1, "vllm.service: Failed with result 'exit-code'."),
        manager(1, "Failed to start vllm.service - vLLM."),
    ]
    view = folded(lines, "vllm.service").view(T + 2)
    assert (view.state, view.phase) == ("failed", "pre-start")


def test_a_lost_option_is_a_finding_before_the_weights_are_read() -> None:
    unit = '[Service]\nExecStart=/v serve /models/m -tp 2\n  --speculative-config \'{"method": "ngram"}\'\n'
    state = WatchState("llm-two", "vllm.service")
    state.apply(UnitFile(at=T, unit="vllm.service", text=unit))
    state.apply_lines([*BEGINNING, engine(20)])
    view = state.view(T + 21)
    found = [finding for finding in view.findings if finding.id == "asked-differs"]
    assert [finding.title for finding in found] == ["Asked for and not got: speculation: asked ngram, got none"]
    assert view.severity == "warning"
    assert view.state == "loading"


def test_what_only_systemd_can_expand_is_not_compared() -> None:
    unit = "[Service]\nExecStart=/v serve /models/%i -tp ${TP} --speculative-config ${SPEC} $MORE\n"
    state = WatchState("llm-two", "vllm@m.service")
    state.apply(UnitFile(at=T, unit="vllm@m.service", text=unit))
    lines = [
        JournalLine(at=line.at, text=line.text, source=line.source, pid=line.pid, invocation=line.invocation)
        for line in (*BEGINNING, engine(20))
    ]
    state.apply_lines(lines)
    assert not [view for view in state.view(T + 21).asked if view.verdict == "differs"]


CONTENT = [
    *case("C76"),
    *case("C22"),
    *case("C74")[30:70],
    *journal_json(CASES / "C49-ecc-uncorrectable" / "input.journal.jsonl")[30:],
    *(JournalLine(at=line.at, text=line.text) for line in recording("cpu-tp2")[1][::3]),
]
_lines = st.lists(st.sampled_from(CONTENT), max_size=60)


@given(_lines, st.lists(st.integers(0, 60), max_size=8))
def test_any_order_and_any_cut_give_the_same_picture(lines: list[JournalLine], cuts: list[int]) -> None:
    one = WatchState("llm-two", "vllm.service")
    for line in lines:
        one.apply(line)
    many = WatchState("llm-two", "vllm.service")
    edges = sorted({0, len(lines), *(cut for cut in cuts if cut < len(lines))})
    for start, stop in itertools.pairwise(edges):
        many.apply_lines(lines[start:stop])
    now = max((line.at for line in lines), default=T) + 1
    assert same(one.view(now), many.view(now))


_texts = st.one_of(
    st.text(max_size=120),
    st.sampled_from([line.text for line in CONTENT]).flatmap(
        lambda text: st.integers(0, len(text)).map(lambda cut: text[:cut])
    ),
)
_any_lines = st.builds(
    JournalLine,
    at=st.one_of(st.floats(), st.floats(T, T + 5000)),
    text=_texts,
    source=st.sampled_from(["unit", "systemd", "kernel", "journald", "other"]),
    pid=st.integers(-1, 2**40),
    unit=st.sampled_from(["", "vllm.service", "other.service", "x"]),
    invocation=st.sampled_from(["", "a", "b"]),
    message_id=st.sampled_from(["", "39f53479d3a045ac8e11786248231fbf", "de5b426a63be47a7b6ac3eaac82e2f6f"]),
    truncated=st.booleans(),
    line_break=st.sampled_from(["", "line-max", "eof"]),
)
_other = st.one_of(
    st.builds(HealthReading, at=st.floats(T, T + 5000), status=st.sampled_from([None, 200, 503])),
    st.builds(
        UnitReading,
        at=st.floats(T, T + 5000),
        unit=st.just("vllm.service"),
        active=st.sampled_from(["active", "activating", "failed", "inactive", "deactivating", "?"]),
        sub=st.sampled_from(["running", "start-pre", "auto-restart", "dead", ""]),
        invocation=st.sampled_from(["", "a", "b", "c"]),
        started=st.floats(0, T),
        main_pid=st.integers(0, 9),
    ),
    st.builds(
        GpuReading,
        at=st.floats(T, T + 5000),
        devices=st.lists(
            st.builds(GpuDevice, index=st.integers(0, 9), used_mib=st.none() | st.floats(0, 1e6)), max_size=3
        ).map(tuple),
    ),
    st.builds(
        IoReading,
        at=st.floats(T, T + 5000),
        read_bytes=st.none() | st.integers(0, 2**50),
        cpu_seconds=st.none() | st.floats(0, 1e9),
    ),
    st.builds(
        MetricsReading,
        at=st.floats(T, T + 5000),
        samples=st.lists(
            st.builds(
                Sample,
                name=st.sampled_from(["vllm:num_requests_running", "vllm:time_to_first_token_seconds_bucket", "x"]),
                labels=st.dictionaries(st.sampled_from(["le", "engine"]), st.sampled_from(["+Inf", "0.1", "q"])),
                value=st.floats(),
            ),
            max_size=4,
        ).map(tuple),
    ),
    st.builds(LinkReading, at=st.floats(T, T + 5000), state=st.sampled_from(["up", "down", "connecting", "refused"])),
    st.builds(CommandReading, at=st.floats(T, T + 5000), stdout=st.text(max_size=20)),
    st.builds(UnitFile, at=st.floats(T, T + 5000), unit=st.just("vllm"), text=st.text(max_size=80)),
)


@given(st.lists(st.one_of(_any_lines, _other), max_size=30), st.floats(T - 10, T + 9000))
def test_no_reading_and_no_order_of_them_does_harm(readings: list[Reading], now: float) -> None:
    state = WatchState("llm-two", "vllm.service")
    for reading in readings:
        state.apply(reading)
    view = state.view(now)
    assert view.phase in PHASES
    for load in view.loads:
        for phase in load.phases:
            if phase.started is not None and phase.ended is not None:
                assert phase.ended >= phase.started


# ------------------------------------------------------------------------------------------- SGLang's drafts, LLM()


def test_sglangs_draft_comes_after_the_capture_and_reopens_only_what_goes_on() -> None:
    stamp = "[2026-01-04 07:16:32 TP0] "
    steps = [
        (0, "server_args=ServerArgs(model_path='/m')"),
        (10, "Load weight begin. avail mem=60.79 GB"),
        (50, "Load weight end. type=X, avail mem=33.17 GB, mem usage=27.62 GB."),
        (51, "KV Cache is allocated. #tokens: 441600, K size: 9.90 GB, V size: 9.90 GB"),
        (51, "Memory pool end. avail mem=13.37 GB"),
        (52, "Capture cuda graph begin. This can take up to several minutes. avail mem=13.37 GB"),
        (75, "Capture cuda graph end. Time elapsed: 23.04 s. mem usage=3.54 GB. avail mem=9.82 GB."),
        (76, "Load weight begin. avail mem=9.82 GB"),
        (77, "Load weight end. type=Eagle3, avail mem=9.51 GB, mem usage=0.31 GB."),
        (78, "Capture draft cuda graph begin. This can take up to several minutes. avail mem=9.41 GB"),
        (83, "Capture draft cuda graph end. Time elapsed: 4.98 s. mem usage=0.07 GB. avail mem=9.34 GB."),
        (90, "max_total_num_tokens=441600, chunked_prefill_size=8192"),
        (95, "The server is fired up and ready to roll!"),
    ]
    state = WatchState("host", "vllm.service")
    for at, text in steps:
        state.apply(said(at, stamp + text, pid=7))
        if at in (76, 78):
            assert phases(state.view(T + at))["api-start"] == ("pending", None, None)
    found = phases(state.view(T + 100))
    assert found["draft-weights"][1:] == (76, 77)
    assert found["graph-capture"][1:] == (52, 83)
    assert found["api-start"][1:] == (90, 95)
    assert all(start is None or end is None or start <= end for _, start, end in found.values())


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("INFO 09-20 09:12:00 [llm.py:343] Supported tasks: ['generate']", "ready"),
        ("Processed prompts:  25%|██▌  | 1/4 [00:01<00:03,  1.16s/it, est. speed input: 5.2 toks/s]", "serving"),
    ],
)
def test_an_engine_in_a_program_of_ones_own_is_ready_without_a_server(text: str, phase: str) -> None:
    state = WatchState("host", "vllm.service")
    state.apply_lines([*BEGINNING[:2], engine(10), logged(12, "Starting to load model /models/m...", "EngineCore", 6)])
    state.apply(logged(60, "init engine (profile, create kv cache, warmup model) took 30.00 seconds", "EngineCore", 6))
    assert state.view(T + 61).state == "loading"
    state.apply(said(62, text, pid=3))
    assert (state.view(T + 63).state, state.view(T + 63).phase) == ("ready", phase)


UNKNOWN = [
    "a line of a program that nobody knows",
    "(Worker_TP0 pid=78) INFO 09-20 09:12:00 [x.py:1] Received request 1: x",
    "(Worker_TP0 pid=78) INFO 09-20 09:12:00 [x.py:1] a line",
    "(Other pid=5) a line",
    "(Worker_TP0 pid=99) a line",
    "Traceback (most recent call last):",
    '  File "/a/vllm/x.py", line 3, in f',
    "    f()",
    "ValueError: no",
    "Process EngineCore_0:",
    "torch.OutOfMemoryError: CUDA out of memory.",
    'INFO:     127.0.0.1:5 - "GET /v1/models HTTP/1.1" 200 OK',
    "Engine core initialization failed. See root cause above.",
]


@given(
    st.lists(st.tuples(st.sampled_from(UNKNOWN), st.integers(0, 6), st.floats(-3, 3)), min_size=1, max_size=40),
    st.integers(1, 40),
)
def test_lines_that_say_nothing_are_passed_over_without_a_difference(
    rows: list[tuple[str, int, float]], step: int
) -> None:
    """A load of which nothing is known prints: the short way leaves all behind that the long way does."""

    class Thorough(WatchState):
        def _murmur(self, *_: object) -> bool:
            return False

    lines = [
        JournalLine(at=T + number + late, text=text, pid=pid, invocation=INV, unit="vllm.service")
        for number, (text, pid, late) in enumerate(rows)
    ]
    short, long = WatchState("h", "vllm.service"), Thorough("h", "vllm.service")
    for start in range(0, len(lines), step):
        assert short.apply_lines(lines[start : start + step]) == long.apply_lines(lines[start : start + step])
    assert short.view(T + 100) == long.view(T + 100)
    assert left(short) == left(long)


def left(state: WatchState) -> tuple[object, ...]:
    """What is remembered of the lines, for those to come."""
    findings = state.findings
    attempts = [(vars(one.load), one.ranks.all, one.ranks._host) for one in state.attempts.all]
    traces = findings._traces
    return attempts, findings._seen, findings._pids, traces._seen, traces._headings, traces._blocks, state.heard_at
