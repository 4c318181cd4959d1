"""Pictures of actions made by hand, and operations that ask no host: for the looks and the keys of the screens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from msgspec.structs import replace

from probes.bench.orders import BenchOrder
from probes.clock import StoryClock
from probes.host import Host
from probes.operate.orders import Action, File, Rights, UnderWay, UnitFiles
from probes.readings import CommandReading, OperatorAction, UnitReading
from tests.tui import views
from tests.tui.showing import QUIET, Showing
from tui.app import Firstlight
from tui.benchmarks.bencher import Bencher
from tui.desk import Desk
from tui.operations.conductor import Conductor
from tui.operations.core import Operations, Undoable
from watch.actions import Actions, ActionView
from watch.benchmarks.measure import order_for
from watch.config import Config, Deployment
from watch.history import Benchmark, Revision
from watch.lineage import Lineage, RevisionRow
from watch.memory import Holder
from watch.plan import plan
from watch.precheck import Precheck
from watch.proposal import Proposal
from watch.redact import Redactor
from watch.revisions import joined
from watch.view import View
from watch.watching import Watching

PATH = f"/etc/systemd/system/{views.UNIT}"
GOOD = """[Unit]
Description=Kimi K2.5 INT4
[Service]
Environment=VLLM_USE_V1=1
ExecStart=/opt/vllm/bin/vllm serve /srv/models/Kimi-K2.5-INT4 --served-model-name kimi-k25 \\
  --tensor-parallel-size 8 --gpu-memory-utilization 0.90 --max-model-len 131072 \\
  --speculative-config '{"method": "ngram", "num_speculative_tokens": 5}'
TimeoutStopSec=90
Restart=no
"""
BAD = (
    GOOD.replace("0.90", "0.97")
    .replace('tokens": 5', 'tokens": 8')
    .replace("131072", "262144 --enable-expert-parallel")
    .replace("TimeoutStopSec=90", "TimeoutStopSec=600")
    .replace("Environment=VLLM_USE_V1=1\n", "")
)
FULL = Rights(level="full", how="root", login="root")
NONE = Rights(level="none", login="guest", reason="guest may not manage units: sudo: a password is required")
WHO = "ann@laptop"


VERSIONS = {"vllm": "0.25.1", "torch": "2.9.0+cu128", "driver": "580.95.05"}


def revision(id: int, text: str, age: float, **more: object) -> Revision:
    at = views.NOW - age
    more.setdefault("versions", VERSIONS if id > 1 else {**VERSIONS, "vllm": "0.24.0"})
    made = Revision(
        id=id, target=views.TARGET, unit=views.UNIT, text=joined([File(PATH, text)]), first_seen=at, last_seen=at
    )
    return replace(made, **more)


def measured(id: int, tps: float, ttft: float) -> Benchmark:
    result: dict[str, object] = {"output_throughput": tps, "median_ttft_ms": ttft}
    return Benchmark(
        target=views.TARGET, unit=views.UNIT, at=views.NOW, run=f"r{id}", preset="standard", result=result, revision=id
    )


LINEAGE = Lineage(
    rows=(
        RevisionRow(
            revision=revision(3, BAD, 2500, loads=1, last_outcome="failed"),
            runs=True,
            cause="No room for CUDA graphs",
        ),
        RevisionRow(
            revision=revision(2, GOOD, 90_000, loads=4, known_good=True, last_outcome="ready", load_seconds=3120.0),
            best=True,
            benchmark=measured(2, 1412.0, 124.0),
        ),
        RevisionRow(
            revision=revision(
                1, GOOD.replace("131072", "65536"), 900_000, loads=2, known_good=True, last_outcome="stopped",
                load_seconds=2950.0,
            ),
            benchmark=measured(1, 1388.0, 119.0),
        ),
    )
)  # fmt: skip


class Still(Operations):
    """Knows what a test says; what would be done is only noted down."""

    def __init__(self, desk: Desk, rights: Rights = FULL) -> None:
        super().__init__(desk, who=WHO)
        self.rights = rights
        self.other: UnderWay | None = None
        self.silent = False
        """the host has not answered yet"""
        self.done: list[tuple[Proposal, Precheck]] = []
        self.killed = 0

    async def attach(self) -> OperatorAction | None:
        return None

    async def look(self) -> OperatorAction | None:
        return None

    async def complete(self, draft: Proposal) -> Proposal:
        if self.silent:
            return draft
        picture = self.desk.watching.view(views.NOW)
        load = picture.unit_reading.load if picture.unit_reading is not None else "loaded"
        files = UnitFiles(unit=self.unit, load=load, files=(File(PATH, BAD),))
        made = plan(files, draft.wanted) if draft.wanted else None
        return replace(draft, rights=self.rights, other=self.other, files=files, plan=made, whole=True)

    def lineage(self, invocation: str = "") -> Lineage:
        return LINEAGE

    async def carry_out(self, proposal: Proposal, check: Precheck) -> OperatorAction | None:
        self.done.append((proposal, check))
        return None

    async def kill(self) -> str:
        self.killed += 1
        return ""

    async def diagnose(self) -> AsyncIterator[CommandReading]:
        at = views.NOW
        yield CommandReading(at=at, command="ps", exit_code=0, stdout=PS)
        yield CommandReading(at=at, command="py-spy dump of 4711 (VLLM::Worker_TP0)", exit_code=0, stdout=STACK)
        yield CommandReading(
            at=at, command="the kernel's last lines", exit_code=0, stdout="nfs: server nas1 not responding"
        )


PS = """    PID    PPID STAT ELAPSED     TIME   RSS WCHAN                    COMMAND
   4711    4702 Dl      2471 00:18:44 51200 folio_wait_bit_common    VLLM::Worker_TP0
   4712    4702 Sl      2471 00:18:40 50112 futex_wait_queue         VLLM::Worker_TP1"""
STACK = """Thread 4711 (idle): "MainThread"
    safetensors_weights_iterator (weight_utils.py:611)
    load_weights (kimi_k25.py:412)
    token=hf_abcdefghijklmnopqrstuvwxyz012345 [31mred"""


class Idle:
    """Measures nothing."""

    def order_of(self, desk: Desk, preset: str = "", *, id: str = "") -> BenchOrder:
        return order_for(desk.config, desk.deployment, who=WHO, preset_name=preset)

    async def arm(self, desk: Desk, order: BenchOrder, *, off: bool = False) -> None:
        pass

    async def refuse(self, desk: Desk, order: BenchOrder, why: str) -> None:
        pass

    async def measured(self, desk: Desk, order: BenchOrder, say: object) -> None:
        return None

    async def show_running(self, desk: Desk) -> None:
        return None

    async def cancel(self, desk: Desk) -> str:
        return ""


def desk_of(app_source: object, *, rights: Rights = FULL, read_only: bool = False, fallback: str = "") -> Desk:
    class Name:
        name = views.TARGET

        async def up(self) -> None:
            pass

    return Desk(
        host=cast(Host, Name()),
        watching=cast(Watching, app_source),
        config=Config(),
        deployment=Deployment(target=views.TARGET, unit=views.UNIT, fallback=fallback),
        clock=StoryClock(views.NOW, 1.0),
        redactor=Redactor(),
        read_only=read_only,
    )


def acting_app(
    picture: View | None = None,
    *,
    rights: Rights = FULL,
    read_only: bool = False,
    fallback: str = "vllm-kimi-k25-int4.service",
    undoable: Undoable | None = None,
    **options: object,
) -> Firstlight:
    """The app on a desk whose operations are ``Still``."""
    from datetime import UTC

    source = views.Fixed(picture or serving(), views.LIVE)
    source.feed(views.lines())
    desk = desk_of(source, rights=rights, read_only=read_only, fallback=fallback)
    app = Firstlight(source, desk=desk, zone=UTC, alerts=QUIET, **options)  # type: ignore[arg-type]
    operations = Still(desk, rights)
    operations.undoable = undoable
    app.conductor = Conductor(app, desk, operations=operations)
    app.bencher = Bencher(app, desk, work=Idle())
    return app


@asynccontextmanager
async def acting(size: tuple[int, int] = (120, 35), **how: object) -> AsyncIterator[Showing]:
    app = acting_app(**how)  # type: ignore[arg-type]
    async with app.run_test(size=size) as pilot:
        shown = Showing(app, pilot, app.source)  # type: ignore[arg-type]
        await shown.until(lambda: shown.journal.shown_lines == 60 and app.watching.picture is not None)
        yield shown


def operations_of(shown: Showing) -> Still:
    conductor = shown.app.conductor
    assert conductor is not None
    assert isinstance(conductor.operations, Still)
    return conductor.operations


def unit(active: str = "active", **more: object) -> UnitReading:
    made = UnitReading(at=views.NOW, unit=views.UNIT, load="loaded", active=active, sub="running", timeout_stop=90.0)
    return replace(made, **more)


def serving(**more: object) -> View:
    return replace(views.ready(), **{"unit_reading": unit(), "last_load_seconds": 3120.0, **more})


def troubled() -> View:
    """Serving, with all that can stand in the way of a restart."""
    view = serving(unit_reading=unit(needs_reload=True, result="start-limit-hit"))
    assert view.gpu is not None
    held = Holder(
        pid=999, role="python3", unit="user@1000.service", user="anna", mib=2048.0, gpus=(5,), since=views.NOW - 900,
        dying=False, ours=False,
    )  # fmt: skip
    return replace(view, gpu=replace(view.gpu, holders=(held,)))


def told(action: Action, now: float, *rows: tuple[str, str, str, float]) -> ActionView:
    """(step, outcome, detail, seconds before now)"""
    fold = Actions()
    for step, outcome, detail, ago in rows:
        fold.apply(
            OperatorAction(
                at=now - ago, action=action, step=step, outcome=outcome, detail=detail, who=WHO, unit=views.UNIT,
                id="a1", undo=UNDO if step == "end" and outcome == "failed" else "",
            )
        )  # fmt: skip
    view = fold.view()
    assert view is not None
    return view


UNDO = f"the files of before are in /var/lib/firstlight/{views.UNIT}/a1: undo brings them back"
UNDOABLE = Undoable("brings back the files from before ann@laptop's rollback")
FILES = (
    ("begin", "begun", f"rollback of {views.UNIT}", 40.0),
    ("check", "begun", "are the files as they were shown?", 40.0),
    ("check", "done", "unchanged since", 39.0),
    ("verify", "begun", "systemd-analyze verify", 39.0),
    ("verify", "done", "accepted", 38.0),
    ("save", "done", f"/var/lib/firstlight/{views.UNIT}/a1", 38.0),
    ("write", "done", "written", 37.0),
    ("reload", "done", "the unit reads as wanted", 36.0),
)
STOPPING = (
    *FILES,
    ("stop", "begun", f"stopping {views.UNIT}", 35.0),
    (
        "stop",
        "wait",
        "35 s, ends by SIGKILL after 1min 30s; still there: 4702 (VLLM::EngineCor) 4711 (VLLM::Worker_TP)",
        0.5,
    ),
)
MEMORY = (
    *FILES,
    ("stop", "begun", "", 35.0),
    ("stop", "done", f"{views.UNIT} stopped after 12 s", 20.0),
    ("leftovers", "begun", "", 20.0),
    ("leftovers", "done", "none", 19.0),
    ("memory", "begun", "waiting until the GPUs are free", 19.0),
    ("memory", "wait", "18 s, 72912 MiB in use 4711 (GPU-5a3e, 72912, VLLM::Worker_TP0)", 0.5),
)
DONE = (
    *MEMORY,
    ("memory", "done", "free after 18 s (4 MiB in use)", 6.0),
    ("start", "begun", f"starting {views.UNIT}", 6.0),
    ("start", "done", f"{views.UNIT} is active, invocation 3f2c", 1.0),
    ("end", "done", f"rollback of {views.UNIT} is done", 1.0),
)
FAILED = (
    *MEMORY,
    ("memory", "done", "free after 18 s (4 MiB in use)", 6.0),
    ("start", "begun", f"starting {views.UNIT}", 6.0),
    ("start", "failed", f"{views.UNIT} failed at once (exit-code, status 1)", 1.0),
    ("start", "state", f"{views.UNIT} is failed (failed)", 1.0),
    ("end", "failed", f"{views.UNIT} failed at once (exit-code, status 1)", 1.0),
)


def action_view(rows: tuple[tuple[str, str, str, float], ...]) -> View:
    """The watch while this is done."""
    state = {STOPPING: serving, DONE: views.pre_start, FAILED: views.failed}.get(rows, views.waiting)
    picture = state()
    if rows is MEMORY:
        gpu = views.gpus(71.2)
        held = Holder(
            pid=4711, role="Worker_TP0", unit=views.UNIT, user="vllm", mib=72912.0, gpus=(0,), since=views.NOW - 900,
            dying=True, ours=True,
        )  # fmt: skip
        picture = replace(picture, gpu=replace(gpu, holders=(held,)))
    return replace(picture, action=told("rollback", picture.now, *rows))
