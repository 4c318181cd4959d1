"""The fold: all readings of one deployment, in, and a picture of it, out. No clock, no I/O, no await."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from probes.readings import (
    BenchReading,
    EarlierReading,
    GpuProcesses,
    GpuReading,
    HealthReading,
    IoReading,
    JournalLine,
    LinkReading,
    MetricsReading,
    Note,
    OperatorAction,
    ProbeReading,
    Reading,
    UnitFile,
    UnitReading,
)
from probes.unitfile import commands, settings, stray
from watch import picture
from watch.actions import Actions
from watch.asked import Asked
from watch.attempts import Attempt, Attempts
from watch.bars import parse_bar
from watch.benchmarks.fold import Benchmarks
from watch.catalogue import Catalogue
from watch.changes import Changes
from watch.comparing import Comparing
from watch.findings import Findings
from watch.forecast import Forecast
from watch.gpu import Gpus
from watch.heads import Head, parse_head, plain, sglang_style
from watch.io import Io
from watch.load import Load
from watch.loads import Loads
from watch.manager import unit_event
from watch.marks import Marks, shipped
from watch.matching import shared
from watch.notes import Notes
from watch.outlook import Earlier, Outlook, forecast_view
from watch.ranks import Rank
from watch.serving import Serving
from watch.sources import Sources
from watch.stalls import judge, quiet
from watch.standstill import Standstill
from watch.view import StallView, View
from watch.words import Phase, State

_STRETCH = 256
"""Lines that are matched at once."""
_LATEST = 1e11
"""UTC seconds; what claims to be later has no time that means anything."""


class WatchState:
    """Understands one deployment.

    ``endpoint``: base URL of the server, for showing. ``catalogue``: None takes the one that ships. ``history``:
    earlier loads, asked once a load, when its model and arguments are known. ``marks``: None takes those that ship.
    """

    def __init__(
        self,
        target: str,
        unit: str,
        *,
        endpoint: str = "",
        demo: bool = False,
        catalogue: Catalogue | None = None,
        history: Earlier | None = None,
        marks: Marks | None = None,
    ) -> None:
        self.target, self.unit, self.endpoint, self.demo = target, unit, endpoint, demo
        self.marks = marks if marks is not None else shipped()
        self.findings = Findings(catalogue, unit=unit)
        everything = (*self.marks.patterns, *self.findings.patterns)
        self.matcher = shared(everything)
        quiet_rows = self.marks.steady()
        self._numbers = [row for row in range(len(everything)) if row not in quiet_rows]
        self._steady = shared(tuple(everything[row] for row in self._numbers))
        self.attempts = Attempts(unit)
        self.asked = Asked()
        self.gpus, self.io, self.serving, self.sources = Gpus(), Io(), Serving(), Sources()
        self.standstill = Standstill()
        self.actions = Actions()
        self.benchmarks = Benchmarks(unit)
        self.notes = Notes()
        self.lines = 0
        self.heard_at: float | None = None
        self._number = 0
        self._comparing = Comparing(self.asked, self.findings)
        self._outlook = Outlook(target, unit, history)
        self._unit_reading: UnitReading | None = None
        self._health: HealthReading | None = None
        self._loads = Loads()

    # ------------------------------------------------------------------------------------------------------ readings

    def apply(self, reading: Reading) -> Changes:
        """Take in one reading, of any kind, in any order. Never raises."""
        if isinstance(reading, JournalLine):
            return self.apply_lines((reading,))
        if not 0.0 <= reading.at < _LATEST:
            return Changes.NONE
        self._heard(reading.at)
        before = self._stamp()
        changes = self._take(reading)
        load = self._load()
        if self.findings.judge(
            reading, load=load.number if load is not None else 0, phase=self._phase(load), state=self._state(load)
        ):
            changes |= Changes.FINDINGS
            if self._fatal(load, reading.at):
                changes |= Changes.LOAD
        if before != self._stamp():
            changes |= Changes.LOAD
        return changes

    def apply_lines(self, lines: Sequence[JournalLine]) -> Changes:
        """Take in many journal lines at once: the same result as ``apply`` on each, faster."""
        changes = Changes.JOURNAL if lines else Changes.NONE
        self.lines += len(lines)
        if self.benchmarks.measuring:
            ours = [line for line in lines if line.source == "unit" and self.attempts.ours(line)]
            changes |= Changes.BENCH if self.benchmarks.lines(ours) else Changes.NONE
        start = 0
        while start < len(lines):
            start, more = self._stretch(lines, start)
            changes |= more
        return changes

    def _stretch(self, lines: Sequence[JournalLine], start: int) -> tuple[int, Changes]:
        """Some lines from ``start`` on, as far as one machine serves: once requests are served, their access lines and
        the notices say nothing that is not known, and are not even looked for."""
        serving = self._phase(self._load()) == "serving"
        matcher, numbers = (self._steady, self._numbers) if serving else (self.matcher, None)
        end = min(len(lines), start + _STRETCH)
        matched = matcher.batch([lines[index].text for index in range(start, end)])
        changes, position = Changes.NONE, 0
        following = start + matched[0][0] if matched else -1
        ours, notice = self.attempts.ours, self.marks.notice
        current, thorough, unknown = self._at_work()
        ranks: dict[int, Rank] = {}
        for index in range(start, end):
            line = lines[index]
            rows: Sequence[int] = ()
            if index == following:
                rows = matched[position][1] if numbers is None else [numbers[row] for row in matched[position][1]]
                position += 1
                following = start + matched[position][0] if position < len(matched) else -1
            at = line.at
            if (
                current is None
                or thorough
                or (rows and not all(map(notice, rows)))
                or line.source != "unit"
                or not 0.0 < at < _LATEST
                or line.invocation != current.load.invocation
                or not ours(line)
                or line.truncated
                or line.line_break == "line-max"
                or (unknown and not self._murmur(current, line))
            ):
                more = self._line(line, rows)
                if more is not changes:
                    changes |= more
                if serving != (self._phase(self._load()) == "serving"):
                    return index + 1, changes
                current, thorough, unknown = self._at_work()
                ranks.clear()
                continue
            # A line that says nothing new: a sign of life, no more.
            load = current.load
            if self.heard_at is None or at > self.heard_at:
                self.heard_at = at
            load.heard(at)
            if not rows and (load.telling_at is None or at >= load.telling_at):
                load.telling_at, load.telling_line = at, line.text
            if line.pid and not unknown:
                rank = ranks.get(line.pid)
                if rank is None:
                    ranks[line.pid] = current.ranks.heard(current.ranks.key(line.pid, 0, ""), at)
                elif at > rank.last_at:
                    rank.last_at = at
        return end, changes

    def _at_work(self) -> tuple[Attempt | None, bool, bool]:
        """The present load, whether each of its lines has to be looked at, and whether nothing is known of it yet: only
        a thorough look changes any of these."""
        current = self.attempts.current
        return current, self.findings.hungry, current is not None and current.load.phase == "n/a"

    def _murmur(self, attempt: Attempt, line: JournalLine) -> bool:
        """A line without a match, of a load that nothing is known of: a program may print millions of them that is no
        model server. Does of ``_line`` what is left to do then; False: it must do it all."""
        load, ranks, text = attempt.load, attempt.ranks, line.text
        if load.stop_at is not None or load.ready_line is not None or '" 200 OK' in text:
            return False
        head = parse_head(text)
        rank = ranks.all.get(ranks.key(line.pid, head.pid, head.process))
        if rank is None or (head.process and head.process != rank.name):
            return False
        if not self.findings.passes(line, head if head.process else self._named(head, line, attempt), load=load.number):
            return False
        rank.last_at = max(rank.last_at, line.at)
        return True

    def _line(self, line: JournalLine, rows: Sequence[int]) -> Changes:
        """One line, thoroughly."""
        if not 0.0 <= line.at < _LATEST:
            return Changes.NONE
        self._heard(line.at)
        changes = Changes.NONE
        head: Head | None = None
        attempt: Attempt | None = None
        speaker: int | str = ""
        if line.source == "unit" and self.attempts.ours(line):
            number = self._number
            attempt = self.attempts.owner(line)
            self._follow()
            head = parse_head(line.text)
            speaker = attempt.ranks.key(line.pid, head.pid, head.process)
            attempt, changed = self._own_line(attempt, line, head, rows, speaker)
            if changed or number != self._number:
                changes = Changes.LOAD
        elif line.source == "systemd" and self.attempts.ours(line):
            event = unit_event(line)
            attempt = self.attempts.manager(event, line) if event is not None else self.attempts.owner(line)
            self._follow()
            changes = Changes.LOAD if event is not None else Changes.NONE
        elif line.source == "journald" and self.attempts.current is not None and "uppressed" in line.text:
            self.attempts.current.load.gap_at = line.at
        if not self.attempts.ours(line) and (line.source == "unit" or line.unit.endswith(".service")):
            return changes  # another service in the same journal: what it says is not about this one
        attempt = attempt or self.attempts.current
        load = attempt.load if attempt is not None else None
        own = len(self.marks)
        found = [row - own for row in rows if row >= own]
        if self.findings.see(
            line,
            self._named(head, line, attempt),
            found,
            load=load.number if load is not None else 0,
            phase=self._phase(load),
            ready=load is not None and load.ready_line is not None,
            stopping=load is not None and load.stop_at is not None,
        ):
            changes |= Changes.FINDINGS
            if self._fatal(load, line.at, speaker):
                changes |= Changes.LOAD
        return changes

    def _own_line(
        self, attempt: Attempt, line: JournalLine, head: Head, rows: Sequence[int], speaker: int | str
    ) -> tuple[Attempt, bool]:
        """A line of the unit's own processes: marks, ranks, signs of life. Whose it is, and whether the load
        changed."""
        marks, own = self.marks, len(self.marks)
        known = [(row, mark) for row in rows if row < own and (mark := marks.mark(row)) is not None]
        if any(mark.banner for _, mark in known):
            attempt = self.attempts.first_words(attempt, line.at, speaker, line.invocation)
            self._follow()
        load, ranks, at = attempt.load, attempt.ranks, line.at
        rank = ranks.heard(speaker, at, head.process)
        load.heard(at)
        if (load.telling_at is None or at >= load.telling_at) and not any(map(marks.notice, rows)):
            load.telling_at, load.telling_line = at, line.text
        changed = False
        if not known and load.phase == "n/a" and '" 200 OK' in line.text:
            load.attached_late = True  # it answers requests, so it was ready before we came
            changed = load.up(at, "ready")
        if known:
            text = plain(line.text)
            if not load.engine and len(known) > 1 and len({mark.engine for _, mark in known} - {"any"}) > 1:
                wanted = "sglang" if sglang_style(text) else "vllm"
                known = [(row, mark) for row, mark in known if mark.engine in (wanted, "any")]
            for row, mark in known:
                fields = marks.fields(row, text)
                bar = parse_bar(text) if mark.unit else None
                if mark.reads == "statistics":
                    self.standstill.line(at, text, line.ref or line.cursor)
                elif mark.reads:
                    present = attempt is self.attempts.current
                    self._comparing.listed(load, mark, text, at, line.ref or line.cursor, present=present)
                changed = load.mark(at, mark, fields, speaker, bar) or changed
                if not mark.unit and not mark.weak:
                    ranks.marked(rank, at, mark.id, mark.phase, fields)
        if any(map(marks.death, rows)):
            changed = load.fail(at, speaker=speaker) or changed
        return attempt, changed

    def _named(self, head: Head | None, line: JournalLine, attempt: Attempt | None) -> Head:
        """The head, with the process that the pid is known by where the line itself does not name it."""
        head = head if head is not None else parse_head(line.text)
        if head.process or attempt is None or line.source != "unit" or not line.pid:
            return head
        key = attempt.ranks.key(line.pid, 0, "")
        name = attempt.ranks.name(key)
        pid = key if isinstance(key, int) else line.pid
        return Head(name, pid, head.level, head.place, head.message) if name else head

    def _take(self, reading: Reading) -> Changes:
        load = self._load()
        match reading:
            case UnitReading():
                before = self._unit_reading
                if before is None or reading.at >= before.at:
                    self._unit_reading = reading
                    self.attempts.reading(reading)
                    self._follow()
                    if self.asked.unit_values is None and reading.exec_start:
                        self.asked.unit_argv(reading.exec_start, reading.ref)
                same = before is not None and replace(reading, at=before.at, ref=before.ref) == before
                return Changes.NONE if same else Changes.UNIT
            case UnitFile():
                found = settings(reading.text)
                lost = [text for _, text in stray(reading.text)]
                self.asked.unit(commands(found), lost, reading.ref or reading.unit)
                if load is not None:
                    self._comparing.compare(load, reading.at)
                return Changes.UNIT
            case GpuReading():
                self.gpus.apply(reading)
                self.benchmarks.gpu(reading)
                return Changes.GPU
            case GpuProcesses():
                self.gpus.apply_processes(reading)
                self.benchmarks.processes(reading)
                return Changes.GPU
            case IoReading():
                self.io.apply(reading)
                return Changes.IO
            case HealthReading():
                self._health = reading
                self.serving.health(reading)
                if load is not None and reading.status == 200 and not load.over and reading.at >= load.started:
                    load.healthy_at = load.healthy_at or reading.at
                return Changes.SERVING
            case MetricsReading():
                self.standstill.page(reading, self.serving.apply(reading))
                self.benchmarks.page(reading)
                if load is not None and load.ready_line is not None and self.serving.busy() and not load.over:
                    load.up(reading.at, "serving")
                return Changes.SERVING
            case LinkReading():
                return Changes.LINK if self.sources.link(reading) else Changes.SOURCES
            case ProbeReading():
                self.sources.probe(reading)
                if reading.state == "gap" and reading.probe == "journal" and load is not None:
                    load.gap_at = reading.at
                return Changes.SOURCES
            case Note():
                self.notes.apply(reading)
                return Changes.ACTION
            case EarlierReading():
                self._outlook.told(reading)
                return Changes.LOAD
            case OperatorAction():
                self.actions.apply(reading)
                return Changes.ACTION
            case BenchReading():
                self.benchmarks.apply(reading)
                return Changes.BENCH
        return Changes.NONE

    # ------------------------------------------------------------------------------------------------------- the load

    def _heard(self, at: float) -> None:
        if self.heard_at is None or at > self.heard_at:
            self.heard_at = at

    def _stamp(self) -> tuple[object, ...]:
        """Everything of the present load that the screen shows, cheap to compare."""
        attempt = self.attempts.current
        if attempt is None:
            return ()
        load = attempt.load
        span = load.spans.get(load.phase)
        done = span.track.done if span is not None and span.track is not None else None
        over = (load.ended, load.failed_at, load.stop_at, load.ready_line, load.healthy_at)
        return (load.number, load.phase, len(load.spans), span and span.ended, done, over)

    def _follow(self) -> None:
        """A new load begins everything anew."""
        attempt = self.attempts.current
        if attempt is not None and attempt.load.number != self._number:
            self._number = attempt.load.number
            self.asked.new_load()
            self.gpus.new_load()
            self.io.new_load()
            self.serving.new_load()
            self.standstill.new_load()

    def _fatal(self, load: Load | None, at: float, speaker: int | str = "") -> bool:
        if load is None or load.over or not self.findings.fatal(load.number):
            return False
        return load.fail(at, speaker=speaker)

    def _load(self) -> Load | None:
        return self.attempts.current.load if self.attempts.current is not None else None

    def _phase(self, load: Load | None) -> Phase:
        return load.phase if load is not None else "n/a"

    def _state(self, load: Load | None) -> State:
        health = self._health
        if load is not None and load.phase != "n/a":
            silent = load.first_line is None and load.healthy_at is not None and not load.over
            return (
                "ready"
                if silent
                else load.state(probed=health is not None and health.at >= load.started and not self.serving.barred)
            )
        if self.findings.fatal(load.number if load is not None else 0):
            return "failed"
        if load is not None and load.over:
            return load.state(probed=False)
        if (health is not None and health.status == 200) or self.serving.up():
            return "ready"
        reading = self._unit_reading
        if reading is not None and reading.active in ("inactive", "failed"):
            return "failed" if reading.active == "failed" else "stopped"
        return "unknown"

    # ------------------------------------------------------------------------------------------------------- the view

    def view(self, now: float) -> View:
        """The picture at ``now`` (UTC seconds; ages and forecasts are counted from it). Changes nothing."""
        attempt = self.attempts.current
        load = attempt.load if attempt is not None else None
        state, phase = self._state(load), self._phase(load)
        earlier = self._outlook.earlier(load, self.asked) if load is not None else ()
        stall: StallView | None = None
        outlook: Forecast | None = None
        silence = ""
        if load is not None and state == "loading" and phase not in ("n/a", "ready"):
            last = parse_head(load.telling_line).message
            found = picture.signals(
                load,
                self.gpus,
                self.io,
                now,
                heard_at=self.heard_at,
                link_up=self.sources.up,
                last_line=last,
                earlier=earlier,
            )
            stall = judge(found)
            state = "stalled" if stall is not None else state
            silence = quiet(found)
            outlook = self._outlook.forecast(load, self.gpus, self.io, self.asked, now, earlier)
        if state == "ready" and self.heard_at is not None:
            stall = self.standstill.view(now if self.sources.up else min(now, self.heard_at))
        number = load.number if load is not None else 0
        arguments = self.asked.arguments()
        gpu = picture.gpu_view(self.gpus, self.io, load, now, phase, self.attempts.unit, arguments)
        findings = self.findings.views(number, stall=stall, phase=phase, gpu=gpu)
        cause = self.findings.cause(number)
        facts = load.facts if load is not None else {}
        if phase == "n/a" and state == "ready":
            phase = "serving" if self.serving.busy() else "ready"
        present = picture.load_view(attempt, now, state, forecast=outlook, quiet=silence) if attempt else None
        return View(
            now=now,
            target=self.target,
            unit=self.unit or self.attempts.unit,
            endpoint=self.endpoint,
            model=facts.get("model", "") or arguments.get("model", ""),
            engine={"vllm": "vLLM", "sglang": "SGLang"}.get(load.engine if load is not None else "", ""),
            version=facts.get("version", ""),
            state=state,
            phase=phase,
            severity=picture.severity(state, findings),
            headline=picture.headline(state, load, cause, stall, self.attempts.restarts),
            load=present,
            loads=self._loads.views(self.attempts.all, present),
            forecast=forecast_view(outlook, now) if stall is None else None,
            stall=stall,
            findings=findings,
            asked=self.asked.views(),
            unit_reading=self._unit_reading,
            gpu=gpu,
            io=self.io.view(phase, self.gpus.busy(), lambda pid: picture.called(pid, self.gpus, attempt)),
            serving=self.serving.view(),
            link=self.sources.link_view(),
            sources=self.sources.views(),
            last_load_seconds=earlier[0].ready - earlier[0].started if earlier else None,
            lines=self.lines,
            notes=self.notes.views(),
            demo=self.demo,
            action=self.actions.view(),
            benchmark=self.benchmarks.view(),
        )
