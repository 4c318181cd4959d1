"""Every fact firstlight can learn, on one page.

A *reading* is frozen, carries ``at`` (UTC seconds since the epoch, from the source's own clock where it has one, else
from the moment its bytes arrived) and a tag. Probes yield readings, operations yield readings, the recorder writes
them as JSON lines, replay and ``explain`` read them back: one vocabulary, so that all of these agree.

Adding a source is one struct here and one file beside it. Fields are only ever added, with defaults, never renamed:
recordings made by older versions must still be read (msgspec fills what is missing and ignores what it does not know).
"""

from __future__ import annotations

from typing import Any, Literal, Self

import msgspec
from msgspec import Struct

Source = Literal["unit", "systemd", "kernel", "journald", "other"]
"""Who speaks in a journal line: the unit's own processes, the service manager about the unit, the kernel, journald
about itself, anybody else (logind's session lines for a user unit, say)."""


class Reading(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Base of all readings. ``at``: UTC seconds. ``ref``: ``file:line`` for what comes from a saved file."""

    at: float
    ref: str = ""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Itself: nothing changes a reading, so a copy of a fold shares those it remembers."""
        return self


class JournalLine(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="journal", gc=False):
    """One record of the journal, or one line of a saved log.

    ``text`` is the MESSAGE as UTF-8; bytes that are not UTF-8 stand as ``\\xNN``; carriage returns and escape
    sequences are kept (they are shown escaped and never obeyed). Empty strings mean that the source does not say.
    """

    text: str
    cursor: str = ""
    source: Source = "unit"
    pid: int = 0
    comm: str = ""
    ident: str = ""
    unit: str = ""
    invocation: str = ""
    boot: str = ""
    priority: int = 6
    message_id: str = ""
    line_break: str = ""
    """journald's ``_LINE_BREAK``: ``line-max`` (goes on in the next record of the same stream and pid), ``eof``,
    ``nul``, ``pid-change``; empty for an ordinary newline."""
    stream: str = ""
    """journald's ``_STREAM_ID``."""
    truncated: bool = False
    """MESSAGE was null: journalctl ran without ``--all`` and the text had 4096 bytes or more."""
    timed: bool = True
    """False where the saved log gives no time for this line: ``at`` is then that of the line before."""


FOREVER = float(2**64 // 10**6)
"""systemd's infinity, in seconds: JSON has none of its own, and a recording must read back."""


class UnitReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="unit"):
    """``systemctl show`` of the unit. Times are UTC seconds (0: never); durations seconds (FOREVER: infinity)."""

    unit: str
    load: str = ""
    """LoadState: loaded, not-found, masked, bad-setting, error."""
    active: str = ""
    """ActiveState: active, activating, deactivating, inactive, failed, reloading."""
    sub: str = ""
    result: str = ""
    type: str = ""
    invocation: str = ""
    main_pid: int = 0
    control_pid: int = 0
    restarts: int = 0
    exit_code: int = 0
    """ExecMainCode (1 exited, 2 killed, 3 dumped; waitid's si_code)."""
    exit_status: int = 0
    state_changed: float = 0.0
    started: float = 0.0
    """InactiveExitTimestamp: when this start attempt began."""
    active_since: float = 0.0
    main_exited: float = 0.0
    exec_start: tuple[str, ...] = ()
    """argv as systemd shows it, split at blanks: quoting is lost there. See UnitFile for the text as written."""
    exec_start_pre: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    environment_files: tuple[str, ...] = ()
    control_group: str = ""
    memory_max: int = 0
    """bytes; 0: no limit."""
    timeout_start: float = 0.0
    timeout_stop: float = 0.0
    fragment: str = ""
    drop_ins: tuple[str, ...] = ()
    needs_reload: bool = False
    user: str = ""
    server_argv: tuple[str, ...] = ()
    """argv of the model server among the unit's processes, exact, whatever script started it; empty: not found (yet)"""
    server_packages: dict[str, str] = {}
    """Versions of torch, vllm, sglang that are installed beside the server's program, by name."""
    near: tuple[str, ...] = ()
    """Unit names like this one, when it does not exist."""


class UnitFile(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="unit-file"):
    """``systemctl cat``: the unit's text and its drop-ins. ``environment``: text of each environment file that can be
    read, by path."""

    unit: str
    text: str
    environment: dict[str, str] = {}


class GpuDevice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU at one moment. None: the device does not offer it (``[N/A]``, ``[Not Supported]``).

    ``used_mib`` is what nvidia-smi calls memory.used (NVML v2: without the reserved part). Power W, temperature °C.
    """

    index: int
    name: str = ""
    uuid: str = ""
    bus: str = ""
    used_mib: float | None = None
    total_mib: float | None = None
    reserved_mib: float | None = None
    utilization: float | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    sm_mhz: float | None = None
    mem_mhz: float | None = None
    pstate: str = ""
    throttle: int | None = None
    """NVML's clocks event reasons, a bit mask."""
    ecc_uncorrected: int | None = None
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_rx_mbs: float | None = None
    pcie_tx_mbs: float | None = None
    energy_j: float | None = None
    """energy used since the driver was loaded, J"""
    mig: str = ""
    """on, off, or empty where there is none"""
    parent: int | None = None
    """for a MIG device: the index of the GPU it is a part of"""
    error: str = ""
    """What the driver said instead of figures for this device."""
    memory_asked: bool = True
    """False: its memory was not asked for, so that its absence says nothing"""
    ref: str = ""


class GpuReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="gpu"):
    """All GPUs of the host at one moment."""

    devices: tuple[GpuDevice, ...]
    source: str = "nvidia-smi"
    driver: str = ""
    hung: float = 0.0
    """for how many seconds the driver has not answered: the figures are as old as that"""


class GpuProcess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    gpu: int
    pid: int
    name: str = ""
    used_mib: float | None = None
    unit: str = ""
    user: str = ""
    started: float = 0.0
    state: str = ""
    """/proc/PID/stat's state letter, Z or X while it dies; empty: not known, or (from NVML) alive"""


class GpuProcesses(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="gpu-processes"):
    processes: tuple[GpuProcess, ...]


class HealthReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="health"):
    """GET /health. ``status`` None: no HTTP answer, and ``error`` says why (``refused`` is normal while loading)."""

    status: int | None = None
    error: str = ""
    ms: float = 0.0
    endpoint: str = ""


class Sample(Struct, frozen=True, array_like=True):
    """One sample of a metrics page: full name (with _bucket, _total, …), labels, value."""

    name: str
    labels: dict[str, str]
    value: float


class MetricsReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="metrics"):
    """One /metrics page, thinned to the engine's own samples. ``error``: why there are none, as one sentence."""

    samples: tuple[Sample, ...] = ()
    status: int | None = None
    error: str = ""
    bytes: int = 0
    truncated: bool = False


class ProcessIo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process of the unit's cgroup. Counters since its start: bytes read from storage, CPU seconds."""

    pid: int
    name: str = ""
    read_bytes: int = 0
    rchar: int = 0
    cpu_seconds: float = 0.0
    rss_bytes: int = 0
    state: str = ""


class MountIo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    device: str
    read_bytes: int = 0
    """counter since boot (diskstats sectors × 512), or the cgroup's io.stat rbytes."""


class IoReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="io"):
    """Storage and CPU of the unit. Counters, in bytes and CPU seconds; None: not readable."""

    read_bytes: int | None = None
    """bytes read from storage by the unit (its cgroup's io.stat, else the sum over its processes)."""
    cpu_seconds: float | None = None
    page_cache: int | None = None
    mem_available: int | None = None
    mem_total: int | None = None
    unit_memory: int | None = None
    unit_memory_max: int | None = None
    shm_used: int | None = None
    shm_total: int | None = None
    processes: tuple[ProcessIo, ...] = ()
    devices: tuple[MountIo, ...] = ()
    model_path: str = ""
    model_bytes: int | None = None
    """size of the checkpoint's weight files; None: not known."""
    model_mount: str = ""
    """file system type of the model's folder: ext4, xfs, nfs4, fuse.…"""
    error: str = ""


LinkState = Literal["connecting", "up", "down", "refused"]


class LinkReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="link"):
    """State of the way to the host. ``refused``: will not come up by itself (host key, no right to log in)."""

    state: LinkState
    reason: str = ""
    remedy: str = ""
    rtt_ms: float | None = None
    retry_in: float | None = None
    never_up: bool = False
    """No connection has succeeded since the watch began: a wrong name or port rather than a loss."""


ProbeState = Literal["up", "failed", "ended", "missing", "gap"]


class ProbeReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="probe"):
    """How a source itself is doing: ``up`` (again), ``failed`` (will be tried again), ``ended`` (end of stream),
    ``missing`` (the host cannot offer it), ``gap`` (lines lost: how many and why). One sentence and a remedy."""

    probe: str
    state: ProbeState
    reason: str = ""
    remedy: str = ""


class BacklogReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="backlog"):
    """What is newest in a journal whose back-log is still being read, ahead of its turn.

    For showing only, never recorded: each of ``lines`` (oldest first; some may be left out between two of these
    readings) comes again as a ``JournalLine`` of its own when its turn comes. ``share``: how much of the back-log has
    been read, 0 to 1; None: all of it has.
    """

    lines: tuple[JournalLine, ...] = ()
    share: float | None = None


class CommandReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="command"):
    """A captured command: what was run, what it said, how it ended. ``exit_code`` None: it did not end."""

    command: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float | None = None
    timed_out: bool = False


class BenchReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="bench"):
    """One moment of a benchmark.

    ``stage``, in this order: ``arm`` (it is to begin when the load is ready, or no longer); ``begin``; ``look`` (what
    is there to run it with; ``facts``); ``ready`` (one completion of the server's); ``help`` (which options this vLLM
    has); then for each of ``parts`` runs ``level`` (it begins), ``progress``, ``result`` (``result``: vLLM's JSON,
    whole); ``verdict`` (against the baseline, by the watch); ``end``. ``link`` in between. ``outcome``: begun, wait,
    note, warn (``text``: a reason to doubt the result), done, failed; at the end also refused (nothing was run),
    cancelled, unknown. ``text``: one sentence for the operator.
    """

    run: str
    """id of the benchmark, the same for all of its readings"""
    stage: str
    done: int | None = None
    """requests of this level that have ended, well or not"""
    total: int | None = None
    failed: int | None = None
    text: str = ""
    result: dict[str, object] | None = None
    outcome: str = ""
    unit: str = ""
    who: str = ""
    preset: str = ""
    part: int = 0
    """which run of the benchmark this is of, from 1 on"""
    parts: int = 0
    concurrency: int = 0
    repeat: int = 0
    """which repeat of its level, from 1 on"""
    began: float = 0.0
    """with a result: UTC seconds at which its run began"""
    before: tuple[Sample, ...] = ()
    """with a result: the server's /metrics before the run, and after it"""
    after: tuple[Sample, ...] = ()
    facts: dict[str, str] = {}
    """look: model, tokenizer, command, topology, …; verdict: word, baseline, regression, …"""
    differs: tuple[tuple[str, str, str], ...] = ()
    """verdict: what else differs: (fact, of the baseline, of this one)"""


class OperatorAction(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="action"):
    """What an operator did through firstlight, step by step.

    ``step``: begin, check, verify, save, write, reload, stop, leftovers, memory, start, end. ``outcome``: begun, wait
    (``detail``: for what), done, skipped, failed, undo (``detail``: what would undo it), state (``detail``: in what
    state the host is), note; refused, unknown and cancelled at the end only. ``undo`` is told at the end as well.
    """

    action: str
    step: str = ""
    outcome: str = ""
    detail: str = ""
    who: str = ""
    unit: str = ""
    undo: str = ""
    id: str = ""
    """of the action: the same for all of its steps"""


class Note(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="note"):
    text: str
    who: str = ""


class EarlierReading(Reading, frozen=True, kw_only=True, omit_defaults=True, tag="earlier"):
    """What the history said of earlier loads when a load was first held against them, so that its forecast is the same
    wherever the recording is read. ``before``: when that load began, UTC seconds; ``model`` and ``arguments``: what the
    loads have in common with it; ``loads``: ``watch.pieces.EarlierLoad``, as JSON has it."""

    before: float
    model: str = ""
    arguments: str = ""
    loads: tuple[dict[str, Any], ...] = ()


AnyReading = (
    JournalLine
    | UnitReading
    | UnitFile
    | GpuReading
    | GpuProcesses
    | HealthReading
    | MetricsReading
    | IoReading
    | LinkReading
    | ProbeReading
    | CommandReading
    | BenchReading
    | OperatorAction
    | Note
    | EarlierReading
)

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding JSON that others wrote may raise: no JSON or of another shape, no UTF-8, nested without end."""

_ENCODER = msgspec.json.Encoder()

encode = _ENCODER.encode
"""A reading to one line of JSON (no newline in it)."""

encode_lines = _ENCODER.encode_lines
"""Many readings, each to one line of JSON with a newline at its end."""

decode = msgspec.json.Decoder(AnyReading).decode
"""The other way. Raises msgspec.ValidationError or msgspec.DecodeError on anything that is not a reading."""
