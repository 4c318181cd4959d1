"""Pictures made by hand: what the screen must show, without a fold behind it. All times are around 15:00 UTC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import msgspec

from probes.readings import GpuDevice, GpuProcess, IoReading, JournalLine, UnitReading
from tui.source import Batch, SourceStatus
from watch.bound import Pace
from watch.gpu_notes import GpuNote, notes
from watch.memory import holders
from watch.state import Changes
from watch.view import (
    EngineView,
    FindingView,
    ForecastView,
    GpuView,
    IoView,
    LinkView,
    LoadView,
    PhaseView,
    Progress,
    RankView,
    ServingView,
    SourceView,
    StallView,
    View,
)
from watch.words import PHASES, Phase

GIB = 1 << 30
NOW = 1_789_916_400.0
"""2026-09-20 15:00:00 UTC"""
STARTED = NOW - 41 * 60 - 12
TARGET = "llm-two"
UNIT = "kimi-k25-int4-ngram.service"
MODEL = "/srv/models/Kimi-K2.5-INT4"

_ORDER: tuple[Phase, ...] = PHASES[: PHASES.index("ready")]
_TOOK = {"pre-start": 10.0, "process-start": 39.0, "config": 12.0, "dist-init": 60.0, "weights": 3120.0}
_USUAL = {
    "pre-start": (8.0, 12.0),
    "process-start": (30.0, 50.0),
    "weights": (2700.0, 3300.0),
    "compile": (180.0, 300.0),
    "profile": (20.0, 40.0),
    "kv-cache": (2.0, 6.0),
    "graph-capture": (60.0, 120.0),
}


def phases(
    running: Phase, progress: Progress | None = None, note: str = "", failed: bool = False
) -> tuple[PhaseView, ...]:
    """All phases of a load; those before ``running`` are done, those after it to come."""
    rows: list[PhaseView] = []
    at = STARTED
    names = [name for name in _ORDER if name != "draft-weights"]
    here = names.index(running) if running in names else len(names)
    for number, name in enumerate(names):
        usual = _USUAL.get(name)
        if number < here:
            took = _TOOK.get(name, 30.0)
            rows.append(PhaseView(name=name, status="done", started=at, ended=at + took, usual=usual))
            at += took
        elif number == here:
            status = "failed" if failed else "running"
            rows.append(PhaseView(name=name, status=status, started=at, progress=progress, note=note, usual=usual))
        else:
            rows.append(PhaseView(name=name, status="pending", usual=usual))
    return tuple(rows)


def device(index: int, used: float, *, power: float = 85.0, busy: float = 0.0) -> GpuDevice:
    return GpuDevice(
        index=index,
        name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        used_mib=used * 1024,
        total_mib=97_887.0,
        utilization=busy,
        power=power,
        power_limit=600.0,
        temperature=38.0 + index % 3,
    )


def gpus(used: float = 71.2, count: int = 8, at: float = NOW) -> GpuView:
    history = tuple(
        tuple(
            (STARTED + second, (0.6 if second < 130 else max(0.0, used - 0.4 * (number % 3))) * 1024.0)
            for second in range(0, int(at - STARTED), 11)
        )
        for number in range(count)
    )
    return GpuView(
        at=at,
        source="nvidia-smi",
        devices=tuple(device(number, max(0.0, used - 0.4 * (number % 3))) for number in range(count)),
        history=history,
        step="weights are in place on every GPU; the KV cache comes next",
        expected_mib=71.0 * 1024,
    )


def io(at: float = NOW) -> IoView:
    return IoView(
        last=IoReading(
            at=at,
            read_bytes=320 * GIB,
            cpu_seconds=9120.0,
            page_cache=310 * GIB,
            mem_available=702 * GIB,
            mem_total=1007 * GIB,
            unit_memory=48 * GIB,
            shm_used=2 * GIB,
            shm_total=503 * GIB,
            model_path=MODEL,
            model_bytes=540 * GIB,
            model_mount="nfs4",
        ),
        read_rate=148e6,
        read_since_start=320 * GIB,
        cpu_rate=3.2,
        bound="the network mount: nfs4 gives 148 MB/s, its own most so far",
        history=tuple(
            (
                STARTED + second,
                (150 + 40 * ((second // 60) % 5) - 60 * ((second // 300) % 2)) * 1e6 if second > 130 else 0.0,
            )
            for second in range(0, int(at - STARTED), 11)
        ),
    )


UNSET = FindingView(
    id="systemd-unset-variable",
    kind="unit",
    layer="systemd",
    severity="warning",
    title="systemd expands $free to nothing in ExecStartPre",
    evidence=(
        f"{UNIT}: Referenced but unset environment variable evaluates to an empty string: free",
        "sh: line 1: [: -gt: integer expression expected",
    ),
    lines=("s=aaaa;i=1", "s=aaaa;i=2"),
    cause="The check before the start is a shell script in quotes. systemd replaces ${free} itself, before the shell "
    "sees it, and has no such variable: the shell compared nothing.",
    advice="Write $${free} in the unit file, or put the check into a script of its own.",
    count=1,
    ranks=(),
    first=STARTED + 2,
    last=STARTED + 2,
    load=1,
)
ALLREDUCE = FindingView(
    id="custom-allreduce-off",
    kind="comm",
    layer="vLLM",
    severity="info",
    title="custom all-reduce is off: more than two PCIe-only GPUs",
    evidence=("Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.",),
    lines=("s=aaaa;i=9",),
    cause="vLLM's own all-reduce needs NVLink for more than two GPUs.",
    advice="Nothing: this is expected on such a host.",
    count=8,
    ranks=tuple(f"Worker_TP{rank}" for rank in range(8)),
    first=STARTED + 90,
    last=STARTED + 91,
    load=1,
)


def busy_gpus() -> GpuView:
    """Eight GPUs of a load with a stranger on one of them, a narrow link and a rank behind."""
    plain = gpus()
    used = [device.used_mib or 0.0 for device in plain.devices]
    processes = (
        *(
            GpuProcess(
                gpu=number, pid=4100 + number, name=f"VLLM::Worker_TP{number}", used_mib=mib, unit=UNIT, user="vllm",
                started=STARTED + 30,
            )
            for number, mib in enumerate(used)
        ),
        GpuProcess(
            gpu=5, pid=999, name="python3", used_mib=2048.0, unit="user@1000.service", user="anna", started=NOW - 9000
        ),
    )  # fmt: skip
    devices = tuple(
        msgspec.structs.replace(
            device, pcie_gen=5, pcie_gen_max=5, pcie_width=8 if device.index == 6 else 16, pcie_width_max=16,
            sm_mhz=2430.0, mem_mhz=12481.0, pstate="P0", throttle=4, ecc_uncorrected=0, pcie_rx_mbs=812.0,
            pcie_tx_mbs=3.0, bus="00000000:41:00.0", reserved_mib=615.0,
        )
        for device in plain.devices
    )  # fmt: skip
    text = "behind the others (Worker_TP3): 0.6 GiB where they hold 71.0"
    return msgspec.structs.replace(
        plain,
        devices=devices,
        processes=processes,
        holders=holders(processes, UNIT, STARTED),
        notes=(*notes(devices), GpuNote(gpu=3, kind="behind", severity="warning", text=text)),
    )


SHARDS = Progress(
    done=38, total=64, unit="shards", at=NOW - 21, rate=1 / 35.4, label="Loading safetensors checkpoint shards"
)


def ranks(lagging: int | None = None) -> tuple[RankView, ...]:
    return tuple(
        RankView(
            pid=4100 + rank, name=f"Worker_TP{rank}", rank=rank, phase="weights", last_at=NOW - 21, lags=rank == lagging
        )
        for rank in range(8)
    )


def loading() -> View:
    """38 of 64 shards of a large model, on eight GPUs, 41 minutes in."""
    load = LoadView(
        number=1,
        invocation="5f0c9d6f1e2b4a0c8f0e6c7a9d3b2a11",
        started=STARTED,
        ended=None,
        state="loading",
        phase="weights",
        phases=phases("weights", SHARDS),
        progress=SHARDS,
        ranks=ranks(),
    )
    return View(
        now=NOW,
        target=TARGET,
        unit=UNIT,
        endpoint="http://127.0.0.1:8000",
        model=MODEL,
        engine="vLLM",
        version="0.32.0",
        state="loading",
        phase="weights",
        severity="warning",
        headline="Reading weights: shard 38 of 64, each takes about 35 s.",
        load=load,
        loads=(load,),
        forecast=ForecastView(
            low=NOW + 35 * 60, middle=NOW + 38 * 60, high=NOW + 44 * 60, basis="3 earlier loads of this unit"
        ),
        stall=None,
        findings=(UNSET, ALLREDUCE),
        asked=(),
        unit_reading=UnitReading(at=NOW, unit=UNIT, active="active", sub="running"),
        gpu=gpus(),
        io=io(),
        serving=None,
        link=LinkView(state="up", reason="", remedy="", rtt_ms=12.3, since=STARTED),
        sources=tuple(
            SourceView(probe=name, state="up", reason="", remedy="", since=STARTED, last=NOW)
            for name in ("journal", "unit", "gpu", "io", "health")
        ),
        last_load_seconds=82 * 60.0,
        lines=1284,
    )


def _with(view: View, **fields: object) -> View:
    return msgspec.structs.replace(view, **fields)


def _load(view: View, **fields: object) -> View:
    assert view.load is not None
    load = msgspec.structs.replace(view.load, **fields)
    return _with(view, load=load, loads=(load,))


def busy() -> View:
    """The same with all that the panes can say of a machine."""
    workers = tuple(Pace(4100 + rank, f"Worker_TP{rank}", 0.33, 1.0 if rank < 3 else 0.0) for rank in range(8))
    machine = msgspec.structs.replace(io(), workers=workers, devices=(("nvme0n1", 120e6), ("nvme1n1", 28e6)))
    return _with(loading(), gpu=busy_gpus(), io=machine)


def waiting() -> View:
    """Before any start was seen."""
    return _with(
        loading(),
        state="stopped",
        phase="n/a",
        severity="info",
        headline="The unit is not running.",
        load=None,
        loads=(),
        forecast=None,
        findings=(),
        model="",
        version="",
        engine="",
        gpu=msgspec.structs.replace(gpus(0.6), step="no memory is held", history=(), expected_mib=None),
        io=None,
        unit_reading=UnitReading(at=NOW, unit=UNIT, active="inactive", sub="dead"),
    )


def pre_start() -> View:
    view = _load(
        loading(),
        started=NOW - 6,
        phase="pre-start",
        phases=(
            PhaseView(
                name="pre-start",
                status="running",
                started=NOW - 6,
                note="waits until the GPUs are free: pid 3910 still holds 61.2 GiB",
                usual=(8.0, 12.0),
            ),
            *(PhaseView(name=name, status="pending", usual=_USUAL.get(name)) for name in _ORDER[1:]),
        ),
        progress=None,
        ranks=(),
    )
    gpu = gpus(0.6)
    held = GpuProcess(
        gpu=3, pid=3910, name="VLLM::Worker_TP3", used_mib=61.2 * 1024, unit="kimi-old.service", started=NOW - 7200
    )
    return _with(
        view,
        phase="pre-start",
        headline="ExecStartPre is running: it waits for free GPU memory.",
        forecast=ForecastView(
            low=NOW + 4000, middle=NOW + 4900, high=NOW + 7900, basis="priors: no earlier load of this unit"
        ),
        findings=(UNSET,),
        gpu=msgspec.structs.replace(gpu, processes=(held,), step="the GPUs are not all free yet", history=()),
        io=msgspec.structs.replace(io(), read_rate=0.0, read_since_start=0, history=(), bound=""),
    )


def stalled() -> View:
    view = _load(loading(), state="stalled", ranks=ranks(lagging=3))
    return _with(
        view,
        state="stalled",
        severity="error",
        headline="Nothing has moved for 9 minutes: shards, bytes read, GPU memory and CPU all stand still.",
        stall=StallView(
            since=NOW - 540,
            what="shards stopped at 38 of 64; nothing was read from nfs4 for 9 min",
            usual="a shard every 35 s",
        ),
        forecast=None,
    )


OOM = FindingView(
    id="cuda-out-of-memory",
    kind="memory",
    layer="torch",
    severity="fatal",
    title="No room for CUDA graphs: CUDA out of memory on GPU 3",
    evidence=(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. "
        "GPU 3 has a total capacity of 94.97 GiB of which 311.00 MiB is free.",
    ),
    lines=("s=aaaa;i=700",),
    cause="Weights and KV cache fill the share given by --gpu-memory-utilization; the graphs come on top of it.",
    advice="Lower --gpu-memory-utilization to 0.90, or capture fewer sizes (--cuda-graph-sizes).",
    count=1,
    ranks=("Worker_TP3",),
    first=NOW - 64,
    last=NOW - 64,
    load=1,
)
CORE = FindingView(
    id="engine-core-failed",
    kind="cause",
    layer="vLLM",
    severity="error",
    title="Engine core initialization failed",
    evidence=("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",),
    lines=("s=aaaa;i=760",),
    cause="Only follows from the failure of Worker_TP3.",
    advice="",
    count=1,
    ranks=("APIServer",),
    first=NOW - 60,
    last=NOW - 60,
    load=1,
    consequence_of="cuda-out-of-memory",
)


def failed() -> View:
    view = _load(
        loading(),
        state="failed",
        phase="graph-capture",
        ended=NOW - 58,
        phases=phases(
            "graph-capture",
            Progress(done=11, total=67, unit="graphs", at=NOW - 64, label="Capturing CUDA graphs"),
            failed=True,
        ),
        progress=Progress(done=11, total=67, unit="graphs", at=NOW - 64),
    )
    return _with(
        view,
        state="failed",
        phase="graph-capture",
        severity="fatal",
        headline="CUDA out of memory on GPU 3 while capturing graphs; the unit left with status 1.",
        forecast=None,
        findings=(OOM, CORE, UNSET, ALLREDUCE),
        gpu=msgspec.structs.replace(gpus(0.0), step="all memory was given back"),
        io=msgspec.structs.replace(io(), read_rate=0.0, cpu_rate=0.0, bound=""),
    )


def engines() -> View:
    """A server with four engines."""
    each = tuple(
        EngineView(
            name=str(number),
            running=6.0 + number,
            waiting=float(number),
            generation_tps=812.0 + number,
            kv_cache=0.3 + 0.1 * number,
            ttft=(0.12, 0.3, 0.9),
            itl=(0.011, 0.02, 0.05),
        )
        for number in range(4)
    )
    figures = msgspec.structs.replace(serving_figures(), engines=tuple(one.name for one in each), each=each)
    return _with(ready(), serving=figures)


def serving_figures(at: float = NOW) -> ServingView:
    return ServingView(
        at=at,
        running=3.0,
        waiting=0.0,
        prompt_tps=1204.0,
        generation_tps=86.4,
        kv_cache=0.12,
        prefix_hit=0.43,
        preemptions=0.0,
        ttft=(0.124, 0.341, 0.812),
        itl=(0.0113, 0.0142, 0.0305),
        queue=(0.0004, 0.002, 0.011),
        e2e=(2.41, 5.9, 9.2),
        acceptance_rate=0.61,
        acceptance_length=2.43,
        per_position=(0.81, 0.62, 0.41),
        engines=("0",),
        window=60.0,
    )


def ready() -> View:
    done = phases("ready")
    at = done[-1].ended
    assert at is not None
    now = at + 35
    view = _load(
        loading(),
        state="ready",
        phase="ready",
        progress=None,
        phases=(*done, PhaseView(name="ready", status="done", started=at, ended=at)),
    )
    gpu = gpus(88.6, at=now)
    return _with(
        view,
        now=now,
        state="ready",
        phase="ready",
        severity="info",
        headline="The server said it is ready, and /health answers 200.",
        forecast=None,
        gpu=msgspec.structs.replace(gpu, step="weights and KV cache are in place"),
        serving=serving_figures(now),
    )


def link_lost() -> View:
    return _with(
        loading(),
        link=LinkView(
            state="down",
            reason="No answer to keepalives for 15 s.",
            remedy="The load on the host goes on; the journal will be read from where it stopped.",
            rtt_ms=None,
            since=NOW - 83,
            retry_in=4.0,
        ),
        gpu=gpus(at=NOW - 84),
        io=io(at=NOW - 84),
    )


def no_gpu() -> View:
    return _with(
        loading(),
        gpu=None,
        sources=(
            SourceView(
                probe="gpu",
                state="missing",
                reason="nvidia-smi is not on this host.",
                remedy="Nothing to do on a CPU-only server; else install the driver's tools.",
                since=STARTED,
                last=STARTED,
            ),
        ),
    )


def demo() -> View:
    return _with(
        loading(), demo=True, target="demo", link=LinkView(state="up", reason="", remedy="", rtt_ms=0.4, since=STARTED)
    )


LIVE = SourceStatus(recording="/var/lib/firstlight/session.jsonl")
DEMO = SourceStatus(mode="demo", speed=30.0, label="recorded load of Kimi-K2.5 on 8 × RTX PRO 6000, played at 30×")
REPLAY = SourceStatus(mode="replay", speed=1.0, label="session of 2026-09-20")


_LEVELS = ("INFO", "INFO", "INFO", "INFO", "WARNING", "INFO", "INFO", "ERROR")
_SAYS = (
    "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER', 'TRITON_ATTN'].",
    "Loading weights on the device took 35.4 s for shard model-00038-of-00064.safetensors",
    "vLLM is using nccl==2.27.5",
    "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this warning, "
    "specify disable_custom_all_reduce=True explicitly.",
    "Using default MoE config. Performance might be sub-optimal! "
    "Config file not found at E=384,N=256,dtype=int4_w4a16.json",
    "Filesystem type for checkpoints: NFS4. Checkpoint size: 540.12 GiB. Available RAM: 702.33 GiB.",
    "Starting to load model /srv/models/Kimi-K2.5-INT4...",
    "[default_loader.py:268] a shard was read again after an I/O error",
)


def lines(count: int = 60, start: float = NOW - 600) -> list[JournalLine]:
    """Lines as a load prints them: systemd's own, ranks with heads, a bar of shards, an access line of ours."""
    rows = [
        JournalLine(
            at=start,
            text=f"Starting {UNIT} - vLLM serving Kimi...",
            source="systemd",
            pid=1,
            comm="systemd",
            cursor="s=aaaa;i=0",
        ),
        JournalLine(
            at=start + 0.2,
            text=f"{UNIT}: Referenced but unset environment variable evaluates to an empty string: free",
            source="systemd",
            pid=1,
            comm="(sh)",
            priority=4,
            cursor="s=aaaa;i=1",
        ),
    ]
    for number in range(2, count):
        at = start + number * 9.7
        rank = number % 8
        if number % 7 == 3:
            bar = f"{number % 100:2d}% Completed | {number % 64}/64 [22:41<15:12, 35.11s/it]"
            text = f"\rLoading safetensors checkpoint shards:  {bar}"
        elif number % 11 == 6:
            text = '(APIServer pid=4000) INFO:     127.0.0.1:51234 - "GET /health?firstlight HTTP/1.1" 200 OK'
        else:
            text = (
                f"(Worker_TP{rank} pid={4100 + rank}) {_LEVELS[number % 8]} 09-20 14:5{number % 10}:0{number % 6} "
                f"[gpu_model_runner.py:{100 + number}] {_SAYS[number % 8]}"
            )
        rows.append(JournalLine(at=at, text=text, pid=4100 + rank, comm="VLLM::Worker_TP", cursor=f"s=aaaa;i={number}"))
    return rows


@dataclass
class Fixed:
    """A source whose picture and lines a test decides. ``feed`` hands lines over; ``look`` changes the picture."""

    picture: View
    state: SourceStatus = LIVE
    kept: list[JournalLine] = field(default_factory=list)
    reads: int = 0

    def __post_init__(self) -> None:
        self._queue: asyncio.Queue[Batch | Exception | None] = asyncio.Queue()
        self.closed = False

    def feed(self, rows: Sequence[JournalLine]) -> None:
        start = len(self.kept)
        self.kept.extend(rows)
        self._queue.put_nowait(Batch(Changes.JOURNAL, tuple(rows), tuple(range(start, len(self.kept)))))

    def look(self, picture: View, changes: Changes = Changes.LOAD) -> None:
        self.picture = picture
        self._queue.put_nowait(Batch(changes))

    def end(self) -> None:
        self._queue.put_nowait(None)

    def fail(self, error: Exception) -> None:
        self._queue.put_nowait(error)

    async def batches(self) -> AsyncIterator[Batch]:
        try:
            while (batch := await self._queue.get()) is not None:
                if isinstance(batch, Exception):
                    raise batch
                yield batch
        finally:
            self.closed = True

    def now(self) -> float:
        return self.picture.now

    def view(self, now: float) -> View:
        return self.picture

    def line(self, offset: int) -> JournalLine:
        self.reads += 1
        return self.kept[offset]

    def status(self) -> SourceStatus:
        return self.state
