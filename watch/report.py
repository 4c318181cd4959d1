"""A reading of saved files, as JSON for programs and as text for a tired person."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from watch.texts import duration
from watch.view import BenchView, FindingView, ForecastView, LoadView, PhaseView, Progress, View
from watch.words import Phase, Severity, State


class Report(Struct, frozen=True, kw_only=True):
    """What the files show at their last moment (or at ``at`` seconds after the load's start)."""

    state: State
    phase: Phase
    severity: Severity
    headline: str
    lines: tuple[str, ...]
    """``file:line`` that carry the state"""
    findings: tuple[FindingView, ...]
    view: View
    progress_lines: tuple[str, ...] = ()
    """``file:line`` of the last progress"""
    notes: tuple[str, ...] = ()
    """about the reading itself: files that could not be read, broken catalogue rows"""


# ------------------------------------------------------------------------------------------------------------- JSON


def report_json(report: Report) -> bytes:
    """The object that ``explain --json`` prints, with a newline at its end."""
    view = report.view
    out: dict[str, Any] = {
        "state": report.state,
        "phase": report.phase,
        "severity": report.severity,
        "headline": report.headline,
        "lines": list(report.lines),
    }
    progress = view.load.progress if view.load is not None else None
    if progress is not None:
        out["progress"] = {**_progress(progress), "lines": list(report.progress_lines)}
    if view.model:
        out["model"] = view.model
    if view.engine:
        out["engine"] = view.engine
    if view.version:
        out["version"] = view.version
    if view.unit:
        out["unit"] = view.unit
    out["loads"] = [_load(load) for load in view.loads]
    out["findings"] = [_finding(finding) for finding in report.findings]
    if view.forecast is not None:
        out["forecast"] = _forecast(view.forecast, view)
    if view.stall is not None:
        out["stall"] = {"since": _time(view.stall.since), "what": view.stall.what, "usual": view.stall.usual}
    if view.asked:
        out["asked"] = [
            {
                "key": a.key,
                "asked": a.asked,
                "got": a.got,
                "verdict": a.verdict,
                **({"lines": [a.ref]} if a.ref else {}),
            }
            for a in view.asked
        ]
    if view.benchmark is not None:
        out["benchmark"] = _benchmark(view.benchmark)
    if view.sources:
        out["sources"] = [{"probe": s.probe, "state": s.state, "reason": s.reason} for s in view.sources]
    if report.notes:
        out["notes"] = list(report.notes)
    return json.dumps(out, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace") + b"\n"


def _progress(progress: Progress) -> dict[str, Any]:
    out: dict[str, Any] = {"done": _whole(progress.done), "total": _whole(progress.total), "unit": progress.unit}
    if progress.rate:
        out["rate"] = round(progress.rate, 6)
    return out


def _load(load: LoadView) -> dict[str, Any]:
    phases = []
    for phase in load.phases:
        if phase.started is None:
            continue
        one: dict[str, Any] = {"name": phase.name, "started": _time(phase.started), "status": phase.status}
        if phase.before:
            one["seconds_before"] = phase.before
        if phase.ended is not None:
            one["seconds"] = round(phase.ended - phase.started, 3)
        if phase.progress is not None:
            one["progress"] = _progress(phase.progress)
        if phase.note:
            one["note"] = phase.note
        phases.append(one)
    out: dict[str, Any] = {
        "invocation": load.invocation,
        "started": _time(load.started),
        "state": load.state,
        "phase": load.phase,
        "phases": phases,
    }
    if load.ended is not None:
        out["ended"] = _time(load.ended)
    if load.attached_late:
        out["attached_late"] = True
    return out


def _benchmark(bench: BenchView) -> dict[str, Any]:
    out: dict[str, Any] = {
        "run": bench.run,
        "preset": bench.preset,
        "state": bench.state,
        "text": bench.text,
        "levels": [
            {
                "level": level.level,
                "output_tokens_per_second": round(level.output_tps, 3),
                "completed": level.completed,
                "failed": level.failed,
                **({"unusable": level.unusable} if level.unusable else {}),
            }
            for level in bench.levels
        ],
    }
    if bench.verdict:
        out["verdict"] = bench.verdict
        out["word"] = bench.word
    return out


def _finding(finding: FindingView) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": finding.id,
        "kind": finding.kind,
        "layer": finding.layer,
        "severity": finding.severity,
        "title": finding.title,
        "lines": list(finding.lines),
        "evidence": "\n".join(finding.evidence),
        "cause": finding.cause,
        "advice": finding.advice,
        "phase": finding.phase,
        "load": finding.load,
        "count": finding.count,
        "first": _time(finding.first),
        "last": _time(finding.last),
    }
    if finding.ranks:
        out["ranks"] = list(finding.ranks)
    if finding.consequence_of:
        out["consequence_of"] = finding.consequence_of
    if finding.benign:
        out["benign"] = True
    return out


def _forecast(forecast: ForecastView, view: View) -> dict[str, Any]:
    out = {
        "low": _time(forecast.low),
        "middle": _time(forecast.middle),
        "high": _time(forecast.high),
        "basis": forecast.basis,
    }
    if view.load is not None:
        out["now"] = _time(view.now)
        out["seconds_after_start"] = [
            round(at - view.load.started, 1) for at in (forecast.low, forecast.middle, forecast.high)
        ]
    return out


def _time(at: float) -> float:
    return round(at, 3)


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value


# ------------------------------------------------------------------------------------------------------------- text

_SIGNS: dict[Severity, str] = {"fatal": "✖", "error": "✖", "warning": "⚠", "info": "·"}
_STATES: dict[State, tuple[str, str]] = {
    "loading": ("▶", "36"),
    "stalled": ("‖", "33"),
    "ready": ("✔", "32"),
    "failed": ("✖", "31"),
    "stopped": ("■", "33"),
    "unknown": ("?", "33"),
}
_PHASE_SIGNS = {"done": "✔", "running": "▶", "failed": "✖", "pending": "·", "awaited": "▶"}


def render_text(report: Report, *, width: int = 100, colour: bool = False) -> str:
    """For a person: verdict, cause with its own lines, remedy, phases, other findings. Control characters of the
    logs are shown, never sent."""
    return "\n".join(_Text(report, max(40, width), colour).lines()) + "\n"


class _Text:
    def __init__(self, report: Report, width: int, colour: bool) -> None:
        self._report = report
        self._width = width
        self._colour = colour

    def lines(self) -> Iterator[str]:
        report = self._report
        view = report.view
        sign, code = _STATES[report.state]
        words = [report.state.upper()]
        if report.phase not in ("n/a", report.state):
            words.append(report.phase)
        progress = view.load.progress if view.load is not None else None
        if progress is not None and report.state in ("loading", "stalled", "failed", "stopped"):
            words.append(f"{_whole(progress.done)}/{_whole(progress.total)} {progress.unit}")
        about = [part for part in (view.unit, view.model, _engine(view)) if part]
        yield self._paint(f"{sign} {'  '.join(words)}", f"1;{code}") + (
            "   " + shown(" · ".join(about)) if about else ""
        )
        if report.headline != report.state:
            yield from self._wrapped(report.headline, "  ")
        if view.forecast is not None and report.state in ("loading", "stalled"):
            yield from self._wrapped(self._expected(view.forecast), "  ")
        main = [f for f in report.findings if self._matters(f)]
        for finding in main:
            yield ""
            yield from self._full(finding)
        yield from self._loads()
        yield from self._rest([f for f in report.findings if f not in main])
        yield from self._asked()
        yield from self._measured()
        for note in report.notes:
            yield ""
            yield from self._wrapped(f"Note: {note}", "")

    def _matters(self, finding: FindingView) -> bool:
        """To be told in full: what is wrong, and what it comes from; not what only follows."""
        if finding.benign or finding.consequence_of:
            return False
        current = self._report.view.load.number if self._report.view.load is not None else 0
        if finding.load not in (current, 0):
            return False
        return finding.severity != "info" or finding.kind in ("journal", "sglang", "ssh", "metrics", "gpu")

    def _full(self, finding: FindingView) -> Iterator[str]:
        code = {"fatal": "31", "error": "31", "warning": "33", "info": "36"}[finding.severity]
        head = f"{_SIGNS[finding.severity]} {finding.severity}: {shown(finding.title)}"
        yield from (self._paint(line, f"1;{code}") for line in self._wrapped(head, "", hang="  "))
        where = _where(finding)
        if where:
            yield from self._wrapped(where, "  ")
        for text in finding.evidence[:4]:
            yield from self._quoted(text)
        if finding.cause:
            yield from self._wrapped(f"Why: {finding.cause}", "  ", hang="       ")
        if finding.advice:
            yield from self._wrapped(f"Do:  {finding.advice}", "  ", hang="       ")

    def _quoted(self, text: str) -> Iterator[str]:
        room = self._width - 6
        words = shown(text.rpartition("\r")[2] if "\r" in text else text)
        # words and paths stay whole, so that they can be copied
        lines = textwrap.wrap(
            words[: room * 6], room, max_lines=6, placeholder=" …", break_long_words=False, break_on_hyphens=False
        )
        for line in lines:
            yield self._paint(f"    │ {line}", "2")

    def _loads(self) -> Iterator[str]:
        loads = [load for load in self._report.view.loads if any(phase.started for phase in load.phases)]
        for load in loads[-3:]:
            yield ""
            title = f"Load {load.number}" if len(self._report.view.loads) > 1 else "Load"
            yield self._paint(f"{title}: began {_clock(load.started)}, {load.state}", "1") + (
                "  (its beginning is not in these files)" if load.attached_late else ""
            )
            for phase in load.phases:
                if phase.before:
                    yield self._between(phase, load)
                if phase.started is not None and phase.status != "awaited":
                    yield self._phase(phase, load)

    def _between(self, phase: PhaseView, load: LoadView) -> str:
        """The time before a phase that belongs to none."""
        now = phase.status == "awaited"
        began = (self._report.view.now if now else phase.started or load.started) - phase.before - load.started
        words = (
            f"  {'▶' if now else '·'} {'between':<14} {'+' + duration(max(0.0, began)):>10} {duration(phase.before):>9}"
        )
        return f"{words}  {shown(phase.note)}"[: self._width + 40] if now and phase.note else words

    def _phase(self, phase: PhaseView, load: LoadView) -> str:
        started = phase.started or load.started
        took = duration(phase.ended - started) if phase.ended is not None else "…"
        parts = [
            f"  {_PHASE_SIGNS.get(phase.status, '·')} {phase.name:<14} {'+' + duration(started - load.started):>10}"
        ]
        parts.append(f"{took:>9}")
        if phase.progress is not None:
            progress = phase.progress
            parts.append(f" {_whole(progress.done)}/{_whole(progress.total)} {progress.unit}")
        if phase.note:
            parts.append(f" {phase.note}")
        return shown(" ".join(parts))[: self._width + 40]

    def _rest(self, findings: list[FindingView]) -> Iterator[str]:
        if not findings:
            return
        yield ""
        yield self._paint("Also seen", "1")
        for finding in findings:
            count = f" ×{finding.count}" if finding.count > 1 else ""
            follows = " (only follows)" if finding.consequence_of else ""
            where = f"  [{finding.lines[0]}{' …' if len(finding.lines) > 1 else ''}]" if finding.lines else ""
            text = f"{_SIGNS[finding.severity]} {finding.title}{count}{follows}{where}"
            yield from self._wrapped(text, "  ", hang="    ")

    def _asked(self) -> Iterator[str]:
        differing = [asked for asked in self._report.view.asked if asked.verdict == "differs"]
        if not differing:
            return
        yield ""
        yield self._paint("Asked for, but got otherwise", "1")
        for asked in differing:
            yield from self._wrapped(f"{asked.key}: asked {asked.asked}, got {asked.got}", "  ", hang="    ")

    def _measured(self) -> Iterator[str]:
        bench = self._report.view.benchmark
        if bench is None or bench.state in ("running", "armed"):
            return
        yield ""
        yield self._paint("Measured", "1")
        yield from self._wrapped(f"benchmark {bench.preset}: {bench.state}", "  ")
        for level in bench.levels:
            text = level.unusable or f"{level.output_tps:,.1f} output tokens per second"
            yield from self._wrapped(f"{level.level}: {text}", "  ", hang="    ")
        yield from self._wrapped(bench.verdict or bench.text, "  ", hang="    ")

    def _expected(self, forecast: ForecastView) -> str:
        now = self._report.view.now
        return (
            f"Ready about {_clock(forecast.middle)}, in {duration(forecast.middle - now)} "
            f"({duration(forecast.low - now)} to {duration(forecast.high - now)}; {forecast.basis})."
        )

    def _wrapped(self, text: str, indent: str, *, hang: str | None = None) -> Iterator[str]:
        yield from textwrap.wrap(
            shown(text),
            self._width,
            initial_indent=indent,
            subsequent_indent=indent if hang is None else hang,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


def shown(text: str) -> str:
    """The text with every control character made visible: nothing of a log reaches the terminal as a command."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == " " else f"\\x{ord(char):02x}" if ord(char) < 256 else "�"
        for char in text
    )


def _engine(view: View) -> str:
    return f"{view.engine} {view.version}".strip()


def _where(finding: FindingView) -> str:
    lines = list(finding.lines)
    words = ", ".join(lines[:4]) + (f" and {len(lines) - 4} more" if len(lines) > 4 else "")
    if finding.count > 1:
        words += f" (×{finding.count})"
    if finding.ranks:
        words += f"; {ranks(finding.ranks)}"
    return words


def ranks(names: tuple[str, ...]) -> str:
    """Worker_TP0, Worker_TP1 … Worker_TP7 (8)."""
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} … {names[-1]} ({len(names)})"


def _clock(at: float) -> str:
    if at < 86400 * 366:
        return f"+{duration(at)}"
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "?"
