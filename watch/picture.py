"""From the fold to the picture: what the screen may know about a load, in frozen values and in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from watch.attempts import Attempt
from watch.forecast import Forecast, LoadSoFar
from watch.gpu import Gpus
from watch.io import Io
from watch.load import NO_WEIGHTS, ORDER, Load, Span
from watch.pieces import EarlierLoad, PhaseSeen
from watch.stalls import Signals
from watch.view import FindingView, GpuView, LoadView, PhaseView, Progress, StallView
from watch.words import PHASES, Phase, Severity, State, rank

_GIB = float(1 << 30)
_PARAMETERS = re.compile(r"(?<![A-Za-z0-9.])(\d{1,4}(?:\.\d{1,3})?)[bB](?![A-Za-z0-9])", re.ASCII)
_PAUSE = 1.0
"""Seconds between two phases from which on they are told: times are shown to the second."""
_SILENT_START = "imports: nothing is printed for the first 10 to 30 s"


def load_view(
    attempt: Attempt, now: float, state: State, *, forecast: Forecast | None = None, quiet: str = ""
) -> LoadView:
    """``quiet``: words for a silence that is known, from ``watch.stalls``."""
    load = attempt.load
    span = load.spans.get(load.phase)
    usual = {piece.name: (piece.low, piece.high) for piece in forecast.phases} if forecast is not None else {}
    phases = [_phase(load, name, state, usual.get(name), quiet) for name in _listed(load, state)]
    return LoadView(
        number=load.number,
        invocation=load.invocation,
        started=load.started,
        ended=load.ended if load.ended is not None else load.over_at,
        state=state,
        phase=load.phase,
        phases=_apart(load, phases, now),
        progress=_progress(span),
        ranks=attempt.ranks.views(now if load.ended is None else load.ended, load.phase),
        attached_late=load.attached_late,
    )


def _listed(load: Load, state: State) -> list[Phase]:
    """The phases to show: those seen, and those to come."""
    out: list[Phase] = []
    coming = state in ("loading", "stalled", "unknown")
    unwanted = {"pre-start", "serving", "stopping", "n/a"}
    if load.eager:
        unwanted |= {"compile", "graph-capture"}
    if not load.method or load.method in NO_WEIGHTS:
        unwanted.add("draft-weights")
    for name in PHASES:
        if name in load.spans or (coming and name not in unwanted and ORDER[name] > ORDER[load.phase]):
            out.append(name)
    return out


def _phase(load: Load, name: Phase, state: State, usual: tuple[float, float] | None, quiet: str) -> PhaseView:
    span = load.spans.get(name)
    if span is None:
        return PhaseView(name=name, status="pending", usual=usual)
    present = name == load.phase
    ended = span.ended
    if ended is None and (load.over_at is not None or not present):
        ended = max(span.started, load.over_at if load.over_at is not None and name != "stopping" else _last(load))
    status = "done"
    if present and state == "failed":
        status = "failed"
    elif present and span.ended is None and load.over_at is None:
        status = "awaited" if span.paused else "running"
    note = ""
    if present and load.over_at is None:
        note = load.note() or quiet
        if name == "process-start" and not note and load.first_line is None:
            note = _SILENT_START
    return PhaseView(
        name=name,
        status=status,
        started=span.started,
        ended=ended,
        progress=_progress(span),
        note=note,
        usual=usual if status in ("running", "awaited") else None,
    )


def _apart(load: Load, phases: list[PhaseView], now: float) -> tuple[PhaseView, ...]:
    """With the time between the phases up to ready that belongs to none, so that all of it adds up."""
    out: list[PhaseView] = []
    until = load.started
    for phase in phases:
        before = 0.0
        if phase.started is not None and phase.name not in ("pre-start", "serving", "stopping"):
            before = (now if phase.status == "awaited" else phase.started) - until
            until = max(until, phase.ended if phase.ended is not None else phase.started)
        out.append(replace(phase, before=round(before, 3)) if before >= _PAUSE else phase)
    return tuple(out)


def _last(load: Load) -> float:
    return load.ended or load.last_line or load.started


def _progress(span: Span | None) -> Progress | None:
    return span.track.view() if span is not None and span.track is not None else None


def seen(load: Load) -> tuple[PhaseSeen, ...]:
    """The phases as forecast and history take them."""
    spans = sorted(load.spans.values(), key=lambda span: (ORDER[span.name], span.started))
    return tuple(
        PhaseSeen(span.name, span.started, span.ended, tuple(span.track.points) if span.track is not None else ())
        for span in spans
    )


def so_far(
    load: Load, gpus: Gpus, io: Io, now: float, arguments: dict[str, str], earlier: tuple[EarlierLoad, ...]
) -> LoadSoFar:
    """Everything a forecast is made from."""
    facts = load.facts
    gib = number(facts.get("checkpoint_gib"))
    weights = gib * _GIB if gib else float(io.model_bytes) if io.model_bytes else None
    return LoadSoFar(
        started=load.started,
        now=now,
        first_line=load.first_line,
        engine="SGLang" if load.engine == "sglang" else "vLLM" if load.engine else "",
        version=facts.get("version", ""),
        gpu=next((device.name for device in gpus.last.devices), "") if gpus.last is not None else "",
        phases=seen(load),
        weights_bytes=weights,
        params_b=parameters(facts.get("model", "") or arguments.get("model", "")),
        bytes_read=io.read_since_start(),
        read_rate=io.read_rate(),
        tp=count(arguments.get("tensor_parallel_size")),
        pp=count(arguments.get("pipeline_parallel_size")),
        eager=load.eager if load.eager is not None or arguments.get("enforce_eager") != "True" else True,
        compiled=True if "compiled" in facts else None,
        compile_cache_warm=True if "cache_hit" in facts and "compiled" not in facts else None,
        cpu=load.cpu,
        draft=load.draft or bool(load.method and load.method not in NO_WEIGHTS),
        earlier=earlier,
    )


def parameters(model: str) -> float | None:
    """Billions of parameters, where the model's name says so (``Qwen3-235B-A22B``: 235)."""
    found = _PARAMETERS.search(model)
    return float(found[1]) if found is not None else None


def signals(
    load: Load,
    gpus: Gpus,
    io: Io,
    now: float,
    *,
    heard_at: float | None,
    link_up: bool,
    last_line: str,
    earlier: Sequence[EarlierLoad],
) -> Signals:
    """Everything a stall is judged from."""
    span = load.spans.get(load.phase)
    gap = load.gap_at is not None and (load.telling_at is None or load.gap_at >= load.telling_at)
    gib = number(load.facts.get("checkpoint_gib"))
    spent = [
        phase.ended - phase.started
        for entry in earlier
        for phase in entry.phases
        if phase.name == load.phase and phase.ended is not None
    ]
    return Signals(
        now=now,
        phase=load.phase,
        phase_since=span.started if span is not None else load.started,
        engine=load.engine,
        line_at=load.last_line,
        telling_at=load.telling_at,
        last_line=last_line,
        points=tuple(span.track.points) if span is not None and span.track is not None else (),
        gpu_mib=gpus.used_most(),
        gpu_moved_at=gpus.moved_at,
        gpu_since=gpus.since,
        gpu_busy=gpus.busy(),
        read_moved_at=io.moved_at,
        read_rate=io.read_rate(),
        cpu_rate=io.cpu_rate(),
        cpu_since=io.first_at,
        heard_at=heard_at,
        link_up=link_up,
        gap=gap,
        compilers=io.compilers(),
        weights_bytes=gib * _GIB if gib else float(io.model_bytes) if io.model_bytes else None,
        bytes_read=float(io.read_since_start() or 0) if io.last is not None else None,
        earlier_seconds=max(spent, default=None),
    )


def gpu_view(
    gpus: Gpus, io: Io, load: Load | None, now: float, phase: Phase, unit: str, arguments: dict[str, str]
) -> GpuView | None:
    """The GPUs, beside what the load asked of them."""
    return gpus.view(
        now,
        phase,
        alive=load is not None and not load.over,
        unit=unit,
        started=load.started if load is not None else 0.0,
        expected_mib=_expected_mib(load, io, arguments) if load is not None else None,
        ranks=_gpus_asked(arguments),
        stages=_stages_asked(arguments),
        system=io.system_mib(),
    )


def _expected_mib(load: Load, io: Io, arguments: dict[str, str]) -> float | None:
    """MiB of weights on each GPU: as loaded, else the checkpoint's size over the ranks. None: not known."""
    facts = load.facts
    if "weights_gib" in facts:
        return number(facts["weights_gib"]) * 1024
    whole = number(facts.get("checkpoint_gib")) * 1024 or (io.model_bytes or 0) / 2**20
    return whole / _ranks(arguments) if whole else None


def called(pid: int, gpus: Gpus, attempt: Attempt | None) -> str:
    """What a process of the host is known as: what NVML or nvidia-smi call it, else by its own lines; of a name with a
    rank and one without, that with it."""
    ranks = attempt.ranks if attempt is not None else None
    own = ranks.title(ranks.key(pid, 0, "")) if ranks is not None else ""
    names = [name for name in (gpus.role(pid), own) if name]
    return next((name for name in names if name[-1].isdigit()), names[0] if names else "")


def _gpus_asked(arguments: dict[str, str]) -> int:
    """How many GPUs the load asked for; 1 where it did not say."""
    return _ranks(arguments) * (count(arguments.get("data_parallel_size")) or 1)


def _stages_asked(arguments: dict[str, str]) -> int:
    """Stages of the pipeline that the load asked for; 1 where it did not say."""
    return count(arguments.get("pipeline_parallel_size")) or 1


def _ranks(arguments: dict[str, str]) -> int:
    """GPUs that share one copy of the weights."""
    tensor, pipeline = (count(arguments.get(f"{kind}_parallel_size")) or 1 for kind in ("tensor", "pipeline"))
    return tensor * pipeline


def severity(state: State, findings: Sequence[FindingView]) -> Severity:
    """The highest that still matters: harmless notices and mere consequences do not."""
    worst: Severity = {"failed": "fatal", "stalled": "error"}.get(state, "info")  # type: ignore[assignment]
    for finding in findings:
        if not finding.benign and not finding.consequence_of and rank(finding.severity) > rank(worst):
            worst = finding.severity
    if state in ("loading", "ready") and worst == "fatal":
        return "error"
    return worst


def headline(state: State, load: Load | None, cause: FindingView | None, stall: StallView | None, restarts: int) -> str:
    """One sentence: what it is doing, or why it ended."""
    if load is None:
        return {"failed": cause.title if cause is not None else "failed", "ready": "answers on /health"}.get(
            state, "nothing is known of a load yet"
        )
    loop = f"; started again {restarts} times" if restarts > 1 else ""
    match state:
        case "failed":
            why = cause.title if cause is not None else _ended(load)
            return f"failed in {load.phase}: {why}{loop}" if load.phase != "n/a" else f"failed: {why}{loop}"
        case "stopped":
            return _stopped(load)
        case "stalled":
            return f"stalled in {load.phase}: {stall.what}" if stall is not None else f"stalled in {load.phase}"
        case "ready":
            if stall is not None:
                return f"ready, but {stall.what}"
            return "serving requests" if load.phase == "serving" else "ready"
        case "unknown":
            return "no load is recognised in what was printed so far"
        case _:
            return _loading(load) + loop


def _ended(load: Load) -> str:
    if load.result and load.result != "success":
        exit = f" ({load.exit})" if load.exit else ""
        return f"systemd: {load.result}{exit}"
    return load.exit or "the server ended by itself"


def _stopped(load: Load) -> str:
    span = load.spans.get(load.phase)
    if load.ready_line is not None:
        return "stopped on request" if load.stop_at is not None else "ended"
    at = f" at {_count_words(span)}" if span is not None and span.track is not None else ""
    how = "stopped on request" if load.stop_at is not None else "ended"
    return f"{how} while loading, in {load.phase}{at}" if load.phase != "n/a" else how


def _loading(load: Load) -> str:
    span = load.spans.get(load.phase)
    if load.phase == "ready":
        return "the server says it is ready; waiting for /health to answer"
    note = load.note()
    if span is not None and span.track is not None:
        after = f"; {note}" if span.track.complete and note else ""
        return f"{load.phase}: {_count_words(span)}{after}"
    return f"{load.phase}: {note}" if note else load.phase


def _count_words(span: Span) -> str:
    track = span.track
    if track is None:
        return ""
    if track.unit == "bytes":
        return f"{track.done / _GIB:.1f} of {track.total / _GIB:.1f} GiB"
    return f"{track.done:g} of {track.total:g} {track.unit}"


def number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 6 else None
