"""What the screen may know: frozen pictures of the state of one deployment.

``WatchState.view(now)`` makes a ``View``; nothing here refers back to the fold. All times are UTC seconds, durations
seconds, sizes bytes unless the name says MiB, ratios 0–1.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from probes.readings import GpuDevice, GpuProcess, IoReading, UnitReading
from watch.actions import ActionView
from watch.bound import Pace
from watch.gpu_notes import GpuNote
from watch.memory import Holder, MemoryView
from watch.words import Phase, Severity, State


class Progress(Struct, frozen=True, kw_only=True):
    done: float
    total: float
    unit: str
    """shards, tensors, bytes, graphs, profiles, kernels …"""
    at: float
    rate: float | None = None
    """units a second over the last minutes; None: too early to say."""
    label: str = ""
    """the bar's own words"""


class PhaseView(Struct, frozen=True, kw_only=True):
    name: Phase
    status: str
    """done, running, pending, failed; awaited: the phase before has ended, and its own beginning, which will be
    printed, was not seen yet"""
    started: float | None = None
    ended: float | None = None
    progress: Progress | None = None
    note: str = ""
    """what is going on where nothing is printed: "after the last shard: repacking, nothing is printed until …" """
    usual: tuple[float, float] | None = None
    """how long it takes: low, high, seconds; from history or priors"""
    before: float = 0.0
    """seconds between the end of what came before it and its own beginning, that belong to no phase; of one that is
    awaited: since that end"""


class RankView(Struct, frozen=True, kw_only=True):
    pid: int
    name: str
    """Worker_TP3, EngineCore, APIServer: the last name it bore"""
    rank: int | None = None
    phase: Phase = "n/a"
    last_at: float = 0.0
    lags: bool = False


class LoadView(Struct, frozen=True, kw_only=True):
    """One start attempt."""

    number: int
    invocation: str
    started: float
    ended: float | None
    state: State
    phase: Phase
    phases: tuple[PhaseView, ...]
    progress: Progress | None = None
    ranks: tuple[RankView, ...] = ()
    attached_late: bool = False
    """the first lines of this load were not seen: its start is the earliest line we have"""


class ForecastView(Struct, frozen=True, kw_only=True):
    """When it will be ready, as seen now. ``low``..``high`` holds the real time 8 times in 10."""

    low: float
    middle: float
    high: float
    basis: str
    """where it comes from: "3 earlier loads of this unit", "shard rate and priors" …"""


class StallView(Struct, frozen=True, kw_only=True):
    since: float
    what: str
    """what stopped, and when it last moved"""
    usual: str
    refs: tuple[str, ...] = ()
    """where the lines stand that show it, if lines do"""


class FindingView(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    """unit, args, journal, weights, memory, comm, compile, gpu, ssh, metrics, bench, leftover, cause, benign …"""
    layer: str
    severity: Severity
    title: str
    evidence: tuple[str, ...]
    """the lines as printed"""
    lines: tuple[str, ...]
    """where they stand: ``file:line`` in a saved log, a journal cursor live"""
    cause: str
    advice: str
    count: int
    ranks: tuple[str, ...]
    first: float
    last: float
    load: int
    """number of the load it belongs to; 0: the host, whatever the load"""
    consequence_of: str = ""
    """id of the finding that this one only follows from"""
    phase: Phase = "n/a"
    """where the load stood when it was first seen"""
    benign: bool = False
    """harmless by itself: counted and shown apart, never an alarm"""


class AskedGot(Struct, frozen=True, kw_only=True):
    key: str
    asked: str
    got: str
    verdict: str
    """same, differs, waiting (vLLM has not said yet), unasked"""
    ref: str = ""


class SourceView(Struct, frozen=True, kw_only=True):
    """How one probe is doing."""

    probe: str
    state: str
    reason: str
    remedy: str
    since: float
    last: float
    """when it last gave a reading"""


class LinkView(Struct, frozen=True, kw_only=True):
    state: str
    reason: str
    remedy: str
    rtt_ms: float | None
    since: float
    retry_in: float | None = None


class EngineView(Struct, frozen=True, kw_only=True):
    """One engine of several (data parallelism), as ``ServingView``."""

    name: str
    running: float | None = None
    waiting: float | None = None
    generation_tps: float | None = None
    kv_cache: float | None = None
    ttft: tuple[float, float, float] | None = None
    itl: tuple[float, float, float] | None = None


class ServingView(Struct, frozen=True, kw_only=True):
    """After ready, from /metrics, over all engines. None: not offered by this version, too early, or nothing to take
    it from within the window."""

    at: float
    running: float | None = None
    waiting: float | None = None
    prompt_tps: float | None = None
    generation_tps: float | None = None
    kv_cache: float | None = None
    prefix_hit: float | None = None
    preemptions: float | None = None
    ttft: tuple[float, float, float] | None = None
    """p50, p90, p99 in seconds over the window"""
    itl: tuple[float, float, float] | None = None
    itl_mean: float | None = None
    """seconds; all that a page without buckets can tell"""
    queue: tuple[float, float, float] | None = None
    e2e: tuple[float, float, float] | None = None
    acceptance_rate: float | None = None
    acceptance_length: float | None = None
    per_position: tuple[float, ...] = ()
    engines: tuple[str, ...] = ()
    each: tuple[EngineView, ...] = ()
    """where there are several"""
    window: float = 0.0
    """seconds that rates and percentiles are of; 0: one page so far, all since the server began"""
    error: str = ""
    cut: bool = False
    """the last page was cut short: what it lacks stands as it was"""
    missing: tuple[str, ...] = ()


class IoView(Struct, frozen=True, kw_only=True):
    last: IoReading
    read_rate: float | None
    """bytes a second over the last seconds"""
    read_since_start: int | None
    cpu_rate: float | None
    """cores in use"""
    bound: str = ""
    """in words: what holds the load up now"""
    workers: tuple[Pace, ...] = ()
    """the unit's processes over the last seconds, the busiest first; those that did nothing left out"""
    devices: tuple[tuple[str, float], ...] = ()
    """(device, bytes a second read from it), the busiest first; those that were not read left out"""
    history: tuple[tuple[float, float], ...] = ()
    """(at, bytes a second), thinned to at most 240 points"""


class GpuView(Struct, frozen=True, kw_only=True):
    at: float
    source: str
    devices: tuple[GpuDevice, ...]
    processes: tuple[GpuProcess, ...] = ()
    history: tuple[tuple[tuple[float, float], ...], ...] = ()
    """per device: (at, used MiB), thinned to at most 240 points over the load"""
    step: str = ""
    """in words: where in the healthy picture the memory is"""
    expected_mib: float | None = None
    """the weights' share of each GPU: a line to reach"""
    holders: tuple[Holder, ...] = ()
    """who holds memory, by role, most first"""
    memory: MemoryView | None = None
    """where nothing of the unit runs yet: is the memory free for the next start?"""
    notes: tuple[GpuNote, ...] = ()
    """what stands out about single GPUs"""
    shared: tuple[float, float] | None = None
    """(in use, total) MiB of system memory, where the GPUs have none of their own (unified memory)"""
    hung: float = 0.0
    """seconds for which the driver has not answered; the figures are from before (``at``)"""


class BenchLevelView(Struct, frozen=True, kw_only=True):
    """One run of a benchmark that has ended. Latencies: (median, p99) in ms. None: not measured."""

    part: int
    level: str
    """as shown: "concurrency 16" """
    concurrency: int
    repeat: int
    began: float
    ended: float
    completed: int
    failed: int
    unusable: str
    """why no verdict may rest on it, one sentence; empty when it may"""
    output_tps: float
    requests_per_second: float
    ttft: tuple[float | None, float | None]
    tpot: tuple[float | None, float | None]
    itl: tuple[float | None, float | None]
    e2el: tuple[float | None, float | None]
    acceptance_length: float | None = None
    acceptance_rate: float | None = None
    per_position: tuple[float, ...] = ()
    preemptions: float | None = None
    queue_mean: float | None = None
    """seconds a request waited on average"""
    joules_per_token: float | None = None
    """energy of all GPUs by output token"""
    watts: float | None = None
    """mean power of all GPUs together"""
    marks: tuple[str, ...] = ()
    """reasons to doubt it"""


BenchState = Literal["armed", "running", "done", "failed", "refused", "cancelled", "unknown"]


class BenchView(Struct, frozen=True, kw_only=True):
    """The benchmark that runs or is armed, or the last one of this watch. Tokens a second, TTFT and KV cache while it
    runs stand in ``View.serving``, power in ``View.gpu``."""

    run: str
    unit: str
    preset: str
    who: str
    state: BenchState
    text: str
    """one sentence: what it does now, or how it ended"""
    started: float
    ended: float | None = None
    part: int = 0
    """the run that is under way, from 1 on, of ``parts``"""
    parts: int = 0
    concurrency: int = 0
    level_began: float = 0.0
    done: int = 0
    """requests of this run that have ended"""
    total: int = 0
    failed: int = 0
    """of all runs; of the one that is under way those that the server's access log tells of"""
    first_error: str = ""
    generation_tps: float | None = None
    """tokens a second since this run began, from /metrics"""
    warnings: tuple[str, ...] = ()
    levels: tuple[BenchLevelView, ...] = ()
    facts: dict[str, str] = {}
    invocation: str = ""
    """of the load that it measured"""
    verdict: str = ""
    """one sentence against the baseline; empty: none (yet)"""
    word: str = ""
    """better, worse, level; "refused" where there can be no verdict; "baseline" where this one became it"""
    baseline: str = ""
    """run id of the baseline"""
    regression: float | None = None
    """worst loss of output tokens per second over the levels, 0–1"""
    differs: tuple[tuple[str, str, str], ...] = ()
    """what else differs: (fact, of the baseline, of this one)"""


class NoteView(Struct, frozen=True, kw_only=True):
    """A line that an operator wrote into the session."""

    at: float
    text: str
    who: str = ""


class View(Struct, frozen=True, kw_only=True):
    """Everything about one deployment at ``now``."""

    now: float
    target: str
    unit: str
    endpoint: str
    model: str
    engine: str
    """vLLM, SGLang or empty"""
    version: str
    state: State
    phase: Phase
    severity: Severity
    headline: str
    """one sentence: what it is doing, or why it ended"""
    load: LoadView | None
    loads: tuple[LoadView, ...]
    forecast: ForecastView | None
    stall: StallView | None
    findings: tuple[FindingView, ...]
    asked: tuple[AskedGot, ...]
    unit_reading: UnitReading | None
    gpu: GpuView | None
    io: IoView | None
    serving: ServingView | None
    link: LinkView | None
    sources: tuple[SourceView, ...]
    last_load_seconds: float | None = None
    lines: int = 0
    demo: bool = False
    benchmark: BenchView | None = None
    action: ActionView | None = None
    """what an operator is doing to the unit, or did last"""
    notes: tuple[NoteView, ...] = ()
    """oldest first"""
