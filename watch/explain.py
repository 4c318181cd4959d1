"""Saved files in, one reading of the situation out: ``firstlight explain``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from watch.catalogue import Catalogue
from watch.formats.captured import age, loads
from watch.logfile import NotReadable
from watch.manager import same_unit
from watch.report import Report, render_text, report_json
from watch.situation import Files, Seen, collect, feed, unit_of
from watch.state import WatchState
from watch.texts import duration
from watch.view import FindingView, LoadView, View
from watch.words import Phase, Severity, State, rank

HOST_KINDS = frozenset(("gpu", "ssh", "bench", "journal", "unit"))
"""Kinds of findings that, without a load beside them, are about no phase of a load."""
ABOUT_READING = frozenset(("journal", "sglang"))
"""Kinds of information that say where in the log one has to look."""
_USED = {"vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc"}


class CannotExplain(Exception):
    """No reading can be given: one clear sentence with a remedy (a missing, empty or foreign file)."""


def explain(
    paths: Sequence[Path],
    *,
    at: float | None = None,
    unit: str = "",
    catalogue: Catalogue | None = None,
    history: object | None = None,
) -> Report:
    """Read the files and folders as one situation. ``at``: only what was known that many seconds after the start of
    the (last) load. ``unit``: whose lines count; empty: of several units, the one that is most of a model server.
    Raises CannotExplain."""
    try:
        files = collect([Path(path) for path in paths])
        state = WatchState("saved files", unit, catalogue=catalogue, history=history)  # type: ignore[arg-type]
        seen = feed(files, state)
        if unit and seen.units and not any(same_unit(name, unit) for name in seen.units):
            raise CannotExplain(f"There is no line of {unit} in these files, but of {', '.join(sorted(seen.units))}.")
        if not unit and (unit := unit_of(seen, files)):
            state = WatchState("saved files", unit, catalogue=catalogue, history=history)  # type: ignore[arg-type]
            files.notes += _others(unit, seen)
            seen = feed(files, state)
        if at is not None:
            load = state.view(seen.until).load
            if load is None:
                raise CannotExplain(
                    "There is no load in these files, so there is no moment so many seconds after its start."
                )
            until = load.started + at
            state = WatchState("saved files", unit, catalogue=catalogue, history=history)  # type: ignore[arg-type]
            seen = feed(files, state, until=until)
            seen.until = max(seen.until, until)
    except NotReadable as error:
        raise CannotExplain(f"{error.reason}. {error.remedy}".strip()) from None
    return _report(files, seen, state)


def _others(unit: str, seen: Seen) -> list[str]:
    """Which other model servers speak in the same journal."""
    servers = [name for name, told in seen.units.items() if told.server and not same_unit(name, unit)]
    if not servers:
        return []
    also = ", ".join(sorted(servers)[:8])
    return [f"The journal also holds lines of {also}; this is about {unit}. --unit NAME chooses another."]


def _report(files: Files, seen: Seen, state: WatchState) -> Report:
    view = state.view(seen.until)
    if _foreign(files, seen, view):
        names = ", ".join(saved.name for saved in files.logs)
        raise CannotExplain(
            f"{names}: none of the {seen.lines} lines is one of vLLM, SGLang, systemd or the kernel. "
            "Give what the service printed, journalctl's output in any format, a unit file or nvidia-smi's output."
        )
    _whole(files, seen, state, view)
    load = view.load
    number = load.number if load is not None else 0
    findings = state.findings.views(number, stall=view.stall, phase=view.phase, gpu=view.gpu, earlier=True)
    present = [finding for finding in findings if finding.load in (number, 0)]
    current = _state(view, seen, present)
    if current == "ready" and _clean(load, present):
        _note_clean(state, view, seen, number)
        findings = state.findings.views(number, stall=view.stall, phase=view.phase, gpu=view.gpu, earlier=True)
        present = [finding for finding in findings if finding.load in (number, 0)]
    counted = [f for f in present if not f.benign and (current == "failed" or not f.consequence_of)]
    severity: Severity = max((finding.severity for finding in counted), key=rank, default="info")
    phase = _phase(view, current, present, severity, seen)
    notes = [note for note in files.notes if "is empty" not in note]
    notes += state.findings.catalogue.problems
    notes = list(dict.fromkeys(notes))
    lines = [ref for ref in (seen.ready if current == "ready" else "", seen.last) if ref]
    lines += [meta.ref("seconds_since_last_record") for meta in seen.meta if meta.silence is not None]
    return Report(
        state=current,
        phase=phase,
        severity=severity,
        headline=_headline(view, current, present),
        lines=tuple(dict.fromkeys(lines)),
        findings=findings,
        view=view,
        progress_lines=(seen.bar,) if seen.bar else (),
        notes=tuple(notes),
    )


def _foreign(files: Files, seen: Seen, view: View) -> bool:
    """Text in which nothing at all means anything here."""
    if files.others or seen.kinds - {"text"} or not files.logs:
        return False
    known = view.load is not None and view.phase != "n/a"
    return not (known or view.findings)


def _state(view: View, seen: Seen, present: Sequence[FindingView]) -> State:
    """The fold's word where there is a load; else what the other facts say."""
    if view.load is not None and view.phase != "n/a" and view.load.phase != "n/a":
        return view.state
    if any(finding.severity == "fatal" for finding in present):
        return "failed"
    healthy = any(path == "/health" and answer.status == 200 for path, answer in seen.answers)
    if healthy or any(page.samples for page in seen.metrics) or view.state == "ready":
        return "ready"
    if seen.bench and not any(finding.id == "bench-refused" for finding in present):
        return "ready"  # the client failed by itself; nothing says that the server did
    return view.state if view.state in ("failed", "stopped") else "unknown"


def _phase(view: View, state: State, present: Sequence[FindingView], severity: Severity, seen: Seen) -> Phase:
    """What the reading is about: where the load failed, where the most severe finding struck, else where it stands."""
    main = next((f for f in present if not f.benign and not f.consequence_of), None)
    if view.load is None or view.load.phase == "n/a":
        if main is not None and main.kind in HOST_KINDS:
            return "pre-start" if state == "failed" and main.kind == "unit" and seen.lines else "n/a"
        if any(page.samples for page in seen.metrics):
            return "serving"
        if state == "ready" and not seen.bench:
            return "ready"
        return main.phase if main is not None else "n/a"
    if main is None or main.phase == "n/a":
        return view.phase
    if state == "failed" and main.severity == "fatal":
        return main.phase
    if state in ("loading", "stalled") and main.severity == severity != "info":
        return main.phase
    if severity == "info" and main.kind in ABOUT_READING and (main.kind == "journal" or state == "ready"):
        return main.phase
    return view.phase


def _headline(view: View, state: State, present: Sequence[FindingView]) -> str:
    if view.load is not None and state == view.state:
        return view.headline
    main = next((f for f in present if not f.benign and not f.consequence_of), None)
    return main.title if main is not None else view.headline


def _clean(load: LoadView | None, present: Sequence[FindingView]) -> bool:
    return load is not None and not load.attached_late and all(f.benign or f.severity == "info" for f in present)


def _note_clean(state: WatchState, view: View, seen: Seen, number: int) -> None:
    load = view.load
    if load is None:
        return
    done = [phase for phase in load.phases if phase.started is not None and phase.ended is not None]
    ready = next((p.started for p in load.phases if p.name == "ready" and p.started is not None), load.ended)
    spans = [
        f"{p.name} {duration((p.ended or 0) - (p.started or 0))}" for p in done if p.name not in ("ready", "serving")
    ]
    values = {"took": duration((ready or seen.until) - load.started), "phases": ", ".join(spans)}
    state.findings.note("clean-load", values, load=number, at=seen.until, phase="ready", refs=(seen.ready,))


def _whole(files: Files, seen: Seen, state: WatchState, view: View) -> None:
    """What only shows when everything is seen together becomes findings too."""
    findings, load = state.findings, view.load
    number = load.number if load is not None else 0
    for full, cut in seen.twins.items():
        findings.learn("message-cut", {"found": f"Their text is in {full.rpartition(':')[0]}."}, (cut, full))
    for saved in files.others:
        if saved.kind == "ssh":
            loaded = loads(saved.whole())
            if loaded is not None and isinstance(loaded[0], dict):
                findings.learn("link-dead", age(loaded[0]))
    findings.learn("page-cut", {}, seen.cut)
    _metrics(seen, state, number)
    refused = [(path, answer) for path, answer in seen.answers if answer.status in (401, 403)]
    healthy = [answer for path, answer in seen.answers if path in ("/health", "/metrics") and answer.status == 200]
    if refused and healthy:
        refs = (refused[0][1].ref, healthy[-1].ref)
        findings.note("api-key", {"path": refused[0][0]}, load=number, at=seen.until, phase="ready", refs=refs)
    if load is None and seen.answers and all(answer.status is None for _, answer in seen.answers):
        silent = [answer.ref for _, answer in seen.answers]
        why = next((answer.error for _, answer in seen.answers if answer.error), "")
        findings.note("endpoint-refused", {"why": why}, load=0, at=seen.until, phase="n/a", refs=silent)
    if load is not None and load.number > 1 and len(view.loads) > 1:
        before = next((one for one in reversed(view.loads) if one.number == load.number - 1), None)
        if before is not None and before.state in ("stopped", "ready", "unknown"):
            _note_earlier(state, load, before, seen)
    there = findings.views(number)
    if view.state == "loading" and seen.bar and all(finding.benign for finding in there):
        if seen.prefix:
            values = {"prefix": seen.prefix}
            findings.note("container-prefix", values, load=number, at=seen.until, phase=view.phase, refs=(seen.bar,))
        elif seen.as_bytes and "journal-json" in seen.kinds:
            findings.note("progress-as-bytes", {}, load=number, at=seen.until, phase=view.phase, refs=(seen.bar,))


def _note_earlier(state: WatchState, load: LoadView, before: LoadView, seen: Seen) -> None:
    stops = [f for f in state.findings.views(before.number) if f.load == before.number and f.id == "stop-requested"]
    values = {
        "number": str(load.number),
        "before": str(before.number),
        "ended": "was stopped on request" if before.state == "stopped" else "had ended",
    }
    if before.progress is not None:
        progress = before.progress
        values |= {"done": f"{progress.done:g}", "total": f"{progress.total:g}", "of": progress.unit}
    refs = [ref for finding in stops for ref in finding.lines]
    state.findings.note(
        "earlier-attempt", values, load=load.number, at=load.started, phase=load.phase, refs=(*refs, seen.bar)
    )


def _metrics(seen: Seen, state: WatchState, number: int) -> None:
    """Two pages of different versions hold the same figures under two names."""
    pages = [page for page in seen.metrics if page.samples]
    if not pages or number:
        return
    values: dict[str, str] = {}
    refs: list[str] = []
    names: dict[str, str] = {}
    for page in pages:
        found = {sample.name: sample.value for sample in page.samples}
        for old, new in _USED.items():
            for name in (old, new):
                if name in found:
                    values["kv"] = f"{found[name] * 100:.1f}"
                    names[name] = name
                    refs.append(seen.metric_refs.get((page.ref, name), page.ref))
        for stem in ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"):
            count = found.get(f"{stem}_count")
            if count:
                values["itl"] = f"{found.get(f'{stem}_sum', 0.0) / count * 1000:.0f}"
        for key, name in (("running", "vllm:num_requests_running"), ("waiting", "vllm:num_requests_waiting")):
            if name in found:
                values[key] = f"{sum(s.value for s in page.samples if s.name == name):g}"
        drafted = found.get("vllm:spec_decode_num_draft_tokens_total")
        if drafted:
            accepted = found.get("vllm:spec_decode_num_accepted_tokens_total", 0.0)
            values["acceptance"] = f"{accepted / drafted * 100:.1f}"
    renamed = [(old, new) for old, new in _USED.items() if old in names and new in names]
    row = "metrics-figures"
    if renamed:
        row = "metrics-renamed"
        values |= {"old": renamed[0][0], "new": renamed[0][1]}
    state.findings.note(row, values, load=0, at=seen.until, phase="serving", refs=refs)


__all__ = ["CannotExplain", "Report", "explain", "render_text", "report_json"]
