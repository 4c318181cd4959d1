"""The fold of findings: what folds into one, what is the cause, what only follows, what is no alarm."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from probes.readings import (
    CommandReading,
    GpuDevice,
    GpuProcess,
    GpuProcesses,
    GpuReading,
    HealthReading,
    IoReading,
    JournalLine,
    LinkReading,
    ProbeReading,
    Source,
    UnitFile,
    UnitReading,
)
from watch.catalogue import shipped
from watch.findings import Findings
from watch.heads import parse_head
from watch.view import FindingView, StallView
from watch.words import Phase


class Told:
    """Findings fed with lines, one a second."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.at = 1_789_895_520.0
        self.number = 0

    def say(
        self,
        *texts: str,
        source: Source = "unit",
        pid: int = 0,
        ident: str = "",
        load: int = 1,
        phase: Phase = "weights",
        ready: bool = False,
        stopping: bool = False,
    ) -> Told:
        for text in texts:
            self.at += 1
            self.number += 1
            line = JournalLine(at=self.at, text=text, source=source, pid=pid, ident=ident, ref=f"log:{self.number}")
            head = parse_head(text)
            rows = self.findings.catalogue.matcher.rows(head.message)
            self.findings.see(line, head, rows, load=load, phase=phase, ready=ready, stopping=stopping)
        return self

    def seen(self, load: int = 1) -> dict[str, FindingView]:
        return {view.id: view for view in self.findings.views(load)}

    def cause(self, load: int = 1) -> str:
        found = self.findings.cause(load)
        return "" if found is None else found.id


def traceback(last: str, *, head: str = "", heading: str = "", file: str = "/opt/vllm/x.py") -> Iterable[str]:
    lines = [heading] if heading else []
    lines += ["Traceback (most recent call last):", f'  File "{file}", line 7, in f', "    g()", last]
    return [head + line for line in lines]


def error(rank: int) -> str:
    return f"(Worker_TP{rank} pid={5200 + rank}) ERROR 09-20 09:15:02 [multiproc_executor.py:857] "


# --------------------------------------------------------------------------------------------------------- one fact


def test_eight_ranks_are_one_finding() -> None:
    told = Told()
    for rank in range(8):
        told.say(*traceback("RuntimeError: odd thing 17", head=error(rank), heading="WorkerProc failed to start."))
    found = told.seen()["exception"]
    assert found.count == 8
    assert found.ranks == tuple(f"Worker_TP{rank}" for rank in range(8))
    assert found.last - found.first > 30
    assert found.title == "RuntimeError: odd thing 17"


def test_figures_that_differ_by_rank_are_still_one() -> None:
    told = Told()
    for rank in range(3):
        told.say(*traceback(f"RuntimeError: device {rank} at 0x7f{rank}", head=error(rank)))
    assert [view.count for view in told.findings.views(1)] == [3]


def test_two_gpus_are_two_findings_and_one_address_is_one() -> None:
    told = Told()
    told.say(
        "NVRM: Xid (PCI:0000:61:00): 79, GPU has fallen off the bus.",
        "NVRM: GPU 0000:61:00.0: GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
        source="kernel",
    )
    assert sorted(view.count for view in told.findings.views(1)) == [1, 2]


def test_the_same_failure_of_three_loads_is_told_once() -> None:
    told = Told()
    for load in (1, 2, 3):
        told.say("OSError: [Errno 98] Address already in use", load=load, phase="config")
    (found,) = told.findings.views(3)
    assert (found.count, found.lines, found.load) == (3, ("log:1", "log:2", "log:3"), 3)


def test_many_copies_keep_first_and_last_lines() -> None:
    told = Told().say(*["[Gloo] Rank 0 is connected to 7 peer ranks. x"] * 500)
    (found,) = told.findings.views(1)
    assert found.count == 500
    assert found.lines[0] == "log:1"
    assert found.lines[-1] == "log:500"
    assert len(found.lines) < 20
    assert len(found.evidence) < 5


# ----------------------------------------------------------------------------------------------------------- the cause


def test_the_first_exception_that_is_no_consequence() -> None:
    told = Told()
    told.say(
        *traceback(
            "OSError: [Errno 5] Input/output error: '/m/12'", head=error(5), heading="WorkerProc failed to start."
        )
    )
    told.say(
        *["(Worker_TP0 pid=5200) INFO 09-20 09:13:14 [x.py:7] Parent process exited, terminating worker queues"] * 90
    )
    told.say(*traceback("Exception: WorkerProc initialization failed due to an exception in a background process."))
    told.say(*traceback("RuntimeError: Engine core initialization failed. See root cause above."))
    cause = told.findings.cause(1)
    assert cause is not None
    assert cause.id == "input-output-error"
    assert cause.lines == ("log:5",)
    assert "/m/12" in cause.title
    assert any('File "/opt/vllm/x.py", line 7, in f' in text for text in cause.evidence)
    seen = told.seen()
    assert seen["engine-core-failed"].consequence_of == "input-output-error"
    assert seen["worker-failed"].consequence_of == "input-output-error"
    assert told.findings.fatal(1)
    assert told.findings.views(1)[0].id == "input-output-error"


def test_an_unknown_exception_is_the_cause_too() -> None:
    told = Told().say(*traceback("weird.ZeroStateError: no state", heading="Process EngineCore:"))
    assert told.cause() == "exception"
    assert "ZeroStateError: no state" in told.seen()["exception"].title


def test_of_a_chain_the_known_one_speaks() -> None:
    told = Told()
    told.say(*traceback("KeyError: 'q'"), "", "During handling of the above exception, another exception occurred:", "")
    told.say(*traceback("ValueError: No available memory for the cache blocks."))
    assert told.cause() == "no-cache-memory"


def test_what_was_logged_and_went_on_is_no_failure() -> None:
    told = Told()
    told.say(*traceback("RuntimeError: optional thing", head="(APIServer pid=1) ERROR 09-20 09:12:09 [x.py:1] "))
    assert not told.findings.fatal(1)
    assert told.seen()["exception"].severity == "warning"
    told.say("(APIServer pid=1) INFO:     Application startup complete.", phase="ready", ready=True)
    assert told.seen()["exception"].severity == "info"
    assert told.findings.cause(1) is None


def test_what_was_logged_counts_once_the_load_failed() -> None:
    told = Told()
    told.say(*traceback("RuntimeError: odd", head="(EngineCore pid=1) ERROR 09-20 09:12:09 [x.py:1] "))
    told.say("(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.")
    assert told.cause() == "exception"
    assert told.seen()["exception"].severity == "fatal"


def test_exceptions_that_python_ignores_are_no_cause() -> None:
    told = Told().say(
        "Exception ignored in: <function Pool.__del__>", *traceback("OSError: [Errno 9] Bad file descriptor")
    )
    assert not told.findings.fatal(1)


def test_a_general_failure_follows_from_the_special_one() -> None:
    told = Told().say(
        "h:1:2 [0] shm.cc:1 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x (size 3), "
        "error: No space left on device (28)",
        *traceback(
            "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", head=error(0)
        ),
        "RuntimeError: Engine core initialization failed. See root cause above.",
        phase="dist-init",
    )
    assert told.cause() == "shm-full"
    assert told.seen()["nccl-error"].consequence_of == "shm-full"


def test_left_over_processes_explain_taken_memory() -> None:
    told = Told().say(
        "vllm.service: Unit process 4203 (VLLM::Worker_TP) remains running after unit stopped.",
        source="systemd",
        load=1,
    )
    memory = (
        "ValueError: Free memory on device cuda:0 (3.11/94.97 GiB) on startup is less than desired GPU memory "
        "utilization (0.92, 87.37 GiB)."
    )
    told.say(*traceback(memory, heading="Process EngineCore:"), load=2, phase="dist-init")
    cause = told.findings.cause(2)
    assert cause is not None
    assert (cause.id, cause.severity, cause.phase) == ("leftover-process", "fatal", "dist-init")
    assert "4203" in cause.advice
    assert told.findings.views(2)[0].id == "leftover-process"
    assert "utilization" not in cause.advice


def test_without_left_over_processes_somebody_else_is_looked_for() -> None:
    told = Told().say(
        *traceback(
            "ValueError: Free memory on device (3.1/94.9 GiB) on startup is less than "
            "desired GPU memory utilization (0.92, 87.37 GiB)."
        )
    )
    holder = GpuProcess(gpu=0, pid=77, name="python3", used_mib=61440.0)
    told.findings.judge(GpuProcesses(at=told.at, processes=(holder,)), load=1, phase="dist-init")
    assert "pid 77 (python3) with 60.0 GiB" in told.seen()["memory-taken"].cause


def test_a_silent_death_says_that_nothing_was_printed() -> None:
    told = Told().say(
        "(EngineCore pid=7) ERROR 09-20 09:15:04 [core.py:1107] EngineCore failed to start.",
        *traceback(
            "Exception: WorkerProc initialization failed due to an exception in a background process.",
            head="(EngineCore pid=7) ERROR 09-20 09:15:04 [core.py:1107] ",
        ),
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.",
    )
    cause = told.findings.cause(1)
    assert cause is not None
    assert cause.id == "worker-failed"
    assert "without a word" in cause.title


def test_an_orphan_that_loses_contact_is_no_cause() -> None:
    told = Told().say("(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. {}")
    told.say(
        *traceback("BrokenPipeError: [Errno 32] Broken pipe", head=error(0), heading="WorkerProc failed to start.")
    )
    assert told.cause() == "engine-core-failed"


def test_memory_of_graphs_is_told_from_memory_of_weights() -> None:
    oom = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 24.00 MiB. GPU 0 has a total capacity of 94.97 "
        "GiB of which 14.69 MiB is free."
    )
    for phase, name in (("weights", "oom-weights"), ("warmup", "oom-warm-up"), ("graph-capture", "oom-graph-capture")):
        told = Told().say(*traceback(oom, heading="Process EngineCore:"), phase=phase)  # type: ignore[arg-type]
        assert told.cause() == name
    told = Told().say(
        *traceback(oom, heading="Process E:", file="/opt/vllm/compilation/cuda_graph.py"), phase="kv-cache"
    )
    assert told.cause() == "oom-graph-capture"


def test_draft_and_target_are_told_apart() -> None:
    last = "KeyError: 'model.embed_tokens.weight'"
    assert Told().say(*traceback(last, heading="Process E:"), phase="draft-weights").cause() == "draft-mismatch"
    assert Told().say(*traceback(last, heading="Process E:"), phase="weights").cause() == "weights-mismatch"


# ------------------------------------------------------------------------------------------------------------ no alarm


def test_words_in_a_path_mean_nothing() -> None:
    told = Told().say(
        "(APIServer pid=1) INFO 09-20 09:12:09 [utils.py:299] vLLM server version 0.19.1, serving model /error-FAILED",
        "(Worker_TP0 pid=2) INFO 09-20 09:12:45 [x.py:4735] Starting to load model /m/fatal-Exception-OOM...",
    )
    assert told.findings.views(1) == ()


def test_what_a_client_sent_is_not_what_the_server_says() -> None:
    told = Told().say(
        "(APIServer pid=1) INFO 09-20 09:12:09 [logger.py:39] Received request cmpl-1: prompt: 'CUDA out of memory. "
        "Tried to allocate 2 GiB. NVRM: Xid (PCI:0000:61:00): 79, x', params: SamplingParams(n=1)",
        ready=True,
        phase="serving",
    )
    assert told.findings.views(1) == ()


def test_errors_of_requests_are_benign_after_ready() -> None:
    head = "(APIServer pid=5101) ERROR 09-20 09:12:44 [serving_chat.py:200] "
    told = Told().say(
        'INFO:     192.0.2.40:51022 - "GET / HTTP/1.1" 404 Not Found',
        head + "Error in preprocessing prompt inputs",
        *traceback(
            "ValueError: This model's maximum context length is 131072 tokens. However, you requested 142946", head=head
        ),
        *traceback("TypeError: unhashable", head=head),
        *traceback("KeyError: 'lm_head.weight'", head=head),
        ready=True,
        phase="serving",
    )
    assert not told.findings.fatal(1)
    assert all(view.benign and view.severity == "info" for view in told.findings.views(1))


def test_the_engine_of_a_running_server_may_die() -> None:
    head = "(EngineCore pid=88) ERROR 09-20 09:30:00 [core.py:1110] "
    told = Told().say("x", ready=True, phase="serving")
    told.say(
        head + "EngineCore encountered a fatal error.",
        *traceback("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", head=head),
        *traceback(
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
            head="(APIServer pid=1) ERROR 09-20 09:30:00 [async_llm.py:708] ",
        ),
        ready=True,
        phase="serving",
    )
    assert told.findings.fatal(1)
    assert told.cause() == "cuda-illegal-access"


def test_the_kernel_speaks_of_hardware_after_ready_too() -> None:
    told = Told().say("NVRM: Xid (PCI:0000:61:00): 79, x", source="kernel", ready=True, phase="serving")
    (found,) = told.findings.views(1)
    assert found.severity == "fatal"
    assert not told.findings.fatal(1), "whether the load goes on is for the load to show"


def test_how_processes_end_once_told_to_is_no_failure() -> None:
    told = Told().say(
        "WorkerProc was terminated",
        *traceback("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."),
        *traceback("KeyboardInterrupt: terminated"),
        stopping=True,
    )
    assert not told.findings.fatal(1)
    assert {view.severity for view in told.findings.views(1)} == {"info"}


def test_the_broadcast_notice_only_means_something_while_serving() -> None:
    text = "INFO 09-20 09:17:24 [shm_broadcast.py:801] No available shared memory broadcast block found in 60 seconds."
    assert Told().say(text, phase="warmup").seen()["broadcast-wait"].severity == "info"
    assert Told().say(text, phase="serving", ready=True).seen()["broadcast-hang"].severity == "warning"


def test_a_warning_of_the_load_is_history_once_it_is_ready() -> None:
    told = Told().say(
        "Network filesystem (NFS4) detected but checkpoint total size (554.33 GiB) exceeds 90% "
        "of available RAM (497.20 GiB)."
    )
    assert told.seen()["slow-network-files"].severity == "warning"
    told.say("x", ready=True, phase="ready")
    assert told.seen()["slow-network-files"].severity == "info"


def test_what_is_mended_is_over() -> None:
    told = Told().say("nfs: server 10.0.0.5 not responding, still trying", source="kernel")
    assert told.seen()["nfs-not-responding"].severity == "error"
    told.say("nfs: server 10.0.0.5 OK", source="kernel")
    assert told.seen()["nfs-not-responding"].severity == "info"


# ------------------------------------------------------------------------------------------------------ the flagship


UNSET = "vllm.service: Referenced but unset environment variable evaluates to an empty string: free"
UNIT = """[Service]
Type=simple
ExecStartPre=/bin/sh -c 'free=$(nvidia-smi); test "${free}" -gt 88000 || sleep 30'
ExecStart=/opt/vllm/bin/vllm serve /m
"""


def test_the_unset_variable() -> None:
    told = Told()
    told.findings.judge(UnitFile(at=1.0, unit="vllm.service", text=UNIT, ref="vllm.service:1"), load=0, phase="n/a")
    assert told.seen(0)["unit-variable"].lines == ("vllm.service:3",)
    told.say(UNSET, source="systemd", pid=4101, ident="(sh)", phase="pre-start")
    told.say("/bin/sh: 1: test: Illegal number:", pid=4101, ident="sh", phase="pre-start")
    seen = told.seen()
    assert set(seen) == {"unset-variable"}, "what the text let us expect has come true"
    found = seen["unset-variable"]
    assert found.lines == ("log:1", "vllm.service:3", "log:2")
    assert found.phase == "pre-start"
    for words in ("$free", "vllm.service", "ExecStartPre", "compared nothing", "Illegal number"):
        assert words in found.title + found.cause
    assert "$$free" in found.advice


def test_the_unset_variable_alone() -> None:
    found = Told().say(UNSET + ", used", source="systemd", phase="pre-start").seen()["unset-variable"]
    assert "free, used" in found.cause
    assert "compared nothing" not in found.cause
    assert "…" not in found.title + found.cause + found.advice


def test_a_shell_error_without_it_stands_for_itself() -> None:
    found = Told().say("/bin/bash: line 1: [: : integer expression expected", phase="pre-start").seen()
    assert set(found) == {"shell-compared-nothing"}


# ------------------------------------------------------------------------------------------------------ other readings


def judged(*readings: object, phase: Phase = "n/a") -> dict[str, FindingView]:
    told = Told()
    for reading in readings:
        told.findings.judge(reading, load=0, phase=phase)  # type: ignore[arg-type]
    return told.seen(0)


def test_a_notify_unit_that_is_healthy() -> None:
    unit = UnitReading(
        at=100.0,
        unit="v.service",
        load="loaded",
        active="activating",
        type="notify",
        started=10.0,
        timeout_start=3600.0,
    )
    found = judged(unit, HealthReading(at=101.0, status=200))["notify-healthy"]
    assert found.severity == "warning"
    assert "in 58 min" in found.cause
    active = UnitReading(at=110.0, unit="v.service", load="loaded", active="active", type="notify", started=10.0)
    told = Told()
    for reading in (unit, HealthReading(at=101.0, status=200), active):
        told.findings.judge(reading, load=0, phase="n/a")
    assert told.seen(0)["notify-healthy"].severity == "info"


def test_a_unit_text_with_unquoted_json() -> None:
    text = '[Service]\nExecStart=/opt/vllm/bin/vllm serve /m --speculative-config {"method": "ngram", "n": 4}\n'
    found = judged(UnitFile(at=1.0, unit="v.service", text=text, ref="v.service:1"))["unit-json"]
    assert found.lines == ("v.service:2",)
    assert "--speculative-config" in found.title
    right = text.replace("{", "'{").replace("}", "}'")
    assert "unit-json" not in judged(UnitFile(at=1.0, unit="v.service", text=right))


def test_a_unit_text_with_type_notify() -> None:
    text = "[Service]\nType=notify\nExecStart=/opt/vllm/bin/vllm serve /m\n"
    assert judged(UnitFile(at=1.0, unit="v", text=text, ref="v:1"))["unit-notify"].lines == ("v:2",)


def test_variables_that_systemd_gives_are_set() -> None:
    text = "[Service]\nEnvironment=A=1\nExecStart=/bin/x $MAINPID ${HOME} $A $$B\n"
    assert judged(UnitFile(at=1.0, unit="v", text=text)) == {}


def test_nvidia_smi_in_its_own_words() -> None:
    command = CommandReading(
        at=1.0,
        command="nvidia-smi -L",
        stdout="Failed to initialize NVML: Driver/library version mismatch\n",
        ref="out",
    )
    found = judged(command)["driver-mismatch"]
    assert (found.severity, found.lines) == ("warning", ("out:1",))
    assert "Do not restart" in found.advice


def test_nvidia_smi_that_hangs() -> None:
    found = judged(CommandReading(at=1.0, command="nvidia-smi -L", timed_out=True, seconds=20.0, ref="m:4"))[
        "smi-timeout"
    ]
    assert "20 s" in found.title


def test_a_device_that_gives_an_error_and_comes_back() -> None:
    broken = GpuReading(at=1.0, devices=(GpuDevice(index=3, error="[GPU requires reset]"),))
    whole = GpuReading(at=2.0, devices=(GpuDevice(index=3, used_mib=1.0, total_mib=2.0),))
    assert judged(broken)["gpu-requires-reset"].severity == "error"
    assert judged(broken, whole)["gpu-requires-reset"].severity == "info"


def test_unified_memory_takes_the_systems() -> None:
    device = GpuReading(at=1.0, devices=(GpuDevice(index=0, name="NVIDIA GB10", ref="g:2"),))
    memory = IoReading(at=1.0, mem_total=127601452 * 1024, mem_available=45402112 * 1024, ref="m:1")
    for order in ((device, memory), (memory, device)):
        found = judged(*order)["unified-memory"]
        assert "121.7 GiB" in found.cause
        assert set(found.lines) == {"g:2", "m:1"}


def test_a_link_that_is_lost_and_found() -> None:
    down = LinkReading(at=1.0, state="down", reason="Server not responding to keepalive")
    up = LinkReading(at=2.0, state="up")
    assert judged(down)["link-dead"].severity == "warning"
    assert judged(down, up)["link-dead"].severity == "info"


def test_an_unknown_host_key() -> None:
    found = judged(LinkReading(at=1.0, state="refused", reason="Host key is not trusted for host gpu-host"))["host-key"]
    assert "gpu-host" in found.title
    assert "never turned off" in found.advice


def test_a_probe_without_rights() -> None:
    reading = ProbeReading(
        at=1.0, probe="journal", state="failed", reason="No journal files were opened due to insufficient permissions."
    )
    assert judged(reading)["journal-no-right"].severity == "error"


def test_a_stall_in_the_first_collective_names_the_reason() -> None:
    told = Told()
    stall = StallView(since=told.at, what="nothing since `vLLM is using nccl==2.28.9`", usual="a few seconds")
    (found,) = told.findings.views(1, stall=stall, phase="dist-init")
    assert (found.id, found.kind, found.severity) == ("nccl-hang", "comm", "error")
    (other,) = told.findings.views(1, stall=StallView(since=0.0, what="no shard", usual="9 s"), phase="weights")
    assert (other.id, other.kind) == ("stalled", "weights")
    assert told.findings.views(1) == ()


# ----------------------------------------------------------------------------------------------------------- any input


EXAMPLES = [line for row in shipped().rows for line in row.match]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(EXAMPLES) | st.text(),
            st.sampled_from(["unit", "systemd", "kernel", "journald", "other"]),
            st.integers(0, 3),
            st.integers(0, 3),
            st.sampled_from(["pre-start", "weights", "graph-capture", "ready", "stopping"]),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_any_lines_in_any_order(lines: list[tuple[str, Source, int, int, Phase, bool]]) -> None:
    told = Told()
    for text, source, pid, load, phase, ready in lines:
        told.say(text, source=source, pid=pid, load=load, phase=phase, ready=ready)
    for load in range(4):
        views = told.findings.views(load, earlier=True)
        assert len({(view.id, view.title, view.load) for view in views}) == len(views)
        cause = told.findings.cause(load)
        if cause is not None:
            assert not cause.consequence_of
        for view in views:
            assert view.count >= 1
            assert view.first <= view.last
            assert not view.benign or view.severity == "info"


def test_loads_of_a_crash_loop_do_not_pile_up() -> None:
    told = Told()
    for load in range(1, 400):
        told.say("OSError: [Errno 98] Address already in use", load=load, phase="config")
    assert len(told.findings._kept.by_load) < 80
    assert told.cause(399) == "port-in-use"
