"""The fold of findings: journal lines and other readings in; what is wrong, why, and what to do about it, out.

One fact is one finding, however many ranks print it. The cause of a failure is the first exception in time that is
not a consequence; consequences point to it. No clock and no I/O: everything comes with the readings.

An exception in a log need not be a failure: much is caught further up, logged, and done without. What is found in a
traceback is therefore *sure* only where Python printed it at the end of a process, or under a heading that says that
something failed; else it counts once the load has failed, and is history once it is ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from probes.readings import JournalLine, Reading
from watch.catalogue import Catalogue, Row, shipped
from watch.entry import Entry, shape
from watch.gathered import HOST, Gathered
from watch.heads import Head
from watch.judge import Judge, Observation
from watch.texts import fill
from watch.tracebacks import Block, Step, Tracebacks
from watch.verdict import cause, fatal, views
from watch.view import FindingView, GpuView, StallView
from watch.words import Phase, State

_QUOTING = ("Received request ", "Generated response ", "Added request ", "Dumping input data ", "Dumping scheduler ")
"""Lines that repeat what a client sent: their words are not the server's."""
_SAID_WITHIN = 200
"""How far into an INFO line a failure may stand to be meant, not quoted."""
_SERVERS = ("", "APIServer", "ApiServer", "MainProcess")
_IN_LOGS = frozenset(("unit", "systemd", "user-manager", "kernel", "journald", "other"))
"""Who may speak in a raw log, which does not say who does."""


class Findings:
    """All findings of one deployment. ``catalogue``: None takes the one that ships.

    ``load`` is the number of the load a reading belongs to (1, 2, …; 0 before any), ``phase`` where that load stands.
    """

    def __init__(self, catalogue: Catalogue | None = None, *, unit: str = "") -> None:
        self.catalogue = shipped() if catalogue is None else catalogue
        self._kept = Gathered(unit)
        self._traces = Tracebacks()
        self._block_entries: dict[int, list[Entry]] = {}
        self._last_entries: list[Entry] = []
        self._headings: dict[int, int] = {}
        self._waiting: list[Entry] = []
        self._bars: dict[int, str] = {}
        self._pids: dict[int, set[int]] = {}
        self._seen = 0
        self._load = 0
        self._judge = Judge()

    @property
    def patterns(self) -> tuple[str, ...]:
        """What the combined matcher must look for; ``rows`` given to ``see`` are indices into this."""
        return self.catalogue.patterns

    def entries(self, load: int) -> Iterable[Entry]:
        """What was found of this load and of the host so far, not judged: cheap, to see whether something is new."""
        return self._kept.relevant(load)

    @property
    def hungry(self) -> bool:
        """While true, ``see`` wants every line, also those without any match: a traceback is open, say."""
        return self._traces.open or bool(self._waiting)

    # -------------------------------------------------------------------------------------------------------- lines

    def see(
        self,
        line: JournalLine,
        head: Head,
        rows: Sequence[int],
        *,
        load: int,
        phase: Phase,
        ready: bool = False,
        stopping: bool = False,
    ) -> bool:
        """Take in a line in which ``rows`` of ``patterns`` occur. Call it for every line with a match, for every
        line that is a bar or a mark, for every line with ``truncated`` or a ``line_break`` of ``line-max``, and for
        all lines while ``hungry``. ``ready``: this load has been ready; ``stopping``: it was told to end. True: a
        finding changed."""
        self._seen += 1
        self._begin(load, ready)
        if stopping or phase == "stopping":
            self._kept.stopped.add(load)
        message = head.message
        if head.level and message.startswith(_QUOTING):
            return False
        ref = line.ref or line.cursor
        changed = self._next(line, ref)
        if line.truncated or line.line_break == "line-max":
            changed = self._cut(line, ref, load, phase) or changed
        pids = self._pids.setdefault(load, set())
        if len(pids) < 4096:
            pids.add(line.pid)
        step = self._traces.take(line, head)
        if not rows and step is None:
            return changed
        found = self._found(message, rows, load, ref)
        speakers = _speakers(line)
        block = step.block if step is not None else None
        requested = ready and line.source == "unit" and self._of_a_request(head, block)
        chosen: list[tuple[Row, dict[str, str]]] = []
        for row, start, groups in found:
            if not self._applies(row, speakers, load, phase, ready, line.at, block):
                continue
            serious = row.severity in ("error", "fatal")
            if serious and head.level in ("INFO", "DEBUG") and start > _SAID_WITHIN:
                continue
            if serious and requested and row.when != "ready" and not row.consequence:
                continue
            chosen.append((row, groups))
        chosen = _without_refined(chosen)
        entries = [self._add(row, groups, line, ref, head, speakers, load, phase, step) for row, groups in chosen]
        if step is not None:
            entries += self._step(step, entries, line, ref, head, speakers, load, phase, requested)
        return bool(entries) or changed

    def passes(self, line: JournalLine, head: Head, *, load: int) -> bool:
        """``see`` for a line without a match while nobody is hungry, of a load that is neither ready nor told to end.
        False: nothing was done, it is one for ``see``."""
        message = head.message
        if load != self._load or (head.level and message.startswith(_QUOTING)) or not self._traces.passes(line, head):
            return False
        self._seen += 1
        pids = self._pids.setdefault(load, set())
        if len(pids) < 4096:
            pids.add(line.pid)
        return True

    def _begin(self, load: int, ready: bool) -> None:
        if load != self._load:
            self._load = load
            self._kept.begin(load)
            self._traces.close()
            self._block_entries.clear()
            for number in [number for number in self._pids if number < load]:
                del self._pids[number]
        if ready:
            self._kept.ready(load)

    def _next(self, line: JournalLine, ref: str) -> bool:
        """The first line of the unit after a gap belongs to the finding of the gap."""
        if not self._waiting or line.source != "unit":
            return False
        for entry in self._waiting:
            entry.show(ref, line.text)
        self._waiting.clear()
        return True

    def _cut(self, line: JournalLine, ref: str, load: int, phase: Phase) -> bool:
        row = self.catalogue.by_id.get("message-cut" if line.truncated else "line-split")
        if row is None:
            return False
        first = line.pid and line.pid not in self._pids.get(load, ())
        entry = self._kept.entry(row, "", load, "process-start" if first else phase, line.at)
        entry.sure = True
        entry.add(line.at, ref, "" if line.truncated else line.text[:200], {})
        return True

    def _found(self, message: str, rows: Sequence[int], load: int, ref: str) -> list[tuple[Row, int, dict[str, str]]]:
        found: dict[str, tuple[Row, int, dict[str, str]]] = {}
        for index in rows:
            owner = self.catalogue.owners[index]
            if owner is None:
                continue
            span = self.catalogue.find(index, message)
            if span is None:  # it was in what the head took off
                continue
            start, groups = span
            if isinstance(owner, Row):
                known = found.get(owner.id)
                if known is None:
                    found[owner.id] = (owner, start, groups)
                else:
                    known[2].update({name: value for name, value in groups.items() if name not in known[2]})
            else:
                facts = self._kept.facts.setdefault(load, {})
                facts.update({name: [value] for name, value in groups.items()})
                if "shard_done" in groups:
                    self._bars[load] = ref
        return list(found.values())

    def _applies(
        self,
        row: Row,
        speakers: frozenset[str],
        load: int,
        phase: Phase,
        ready: bool,
        at: float,
        block: Block | None,
    ) -> bool:
        if row.source and not (speakers or _IN_LOGS).intersection(row.source):
            return False
        if row.phases and phase not in row.phases:
            return False
        if row.when and (row.when == "ready") is not ready:
            return False
        if row.after and not any(
            not row.within or at - entry.last <= row.within for entry in self._kept.present(row.after, load)
        ):
            return False
        return not row.near or (block is not None and self.catalogue.near(row, block.text()))

    def _add(
        self,
        row: Row,
        groups: dict[str, str],
        line: JournalLine,
        ref: str,
        head: Head,
        speakers: frozenset[str],
        load: int,
        phase: Phase,
        step: Step | None,
    ) -> Entry:
        row = self.catalogue.by_id.get(row.same_as, row) if row.same_as else row
        joined = next(iter(self._kept.present((row.joins,), load)), None) if row.joins else None
        if joined is not None:
            joined.show(ref, line.text)
            joined.learn(groups)
            return joined
        entry = self._kept.entry(row, fill(row.fold, _values(groups)) if row.fold else "", load, phase, line.at)
        process = head.process if line.source == "unit" else ""
        entry.add(line.at, ref, line.text, groups, process)
        entry.spoken |= speakers or {line.source}
        if line.unit:
            entry.learn({"unit": line.unit})
        if row.with_bar and load in self._bars:
            entry.show(self._bars[load])
        if row.next and entry not in self._waiting:
            self._waiting.append(entry)
        for other in self._kept.by_load.get(load, ()):
            if row.id in other.row.cleared_by:
                other.cleared = True
        entry.cleared = False
        if self._kept.ending(load) and (row.consequence or step is not None):
            entry.settled = True
            return entry
        if row.id in ("unset-variable", "invalid-variable-name"):
            self._in_unit(entry)
        if step is None or step.what == "opened":
            entry.sure = entry.sure or head.level not in ("WARNING", "INFO", "DEBUG") or not _is_exception(head.message)
        if row.consequence and row.severity in ("fatal", "error"):
            self._headings[head.pid or line.pid] = self._seen
            if row.severity == "fatal" or "systemd" in speakers:
                self._kept.failed.add(load)
        return entry

    def _in_unit(self, entry: Entry) -> None:
        """Which line of the unit it is, where its text is known. What the text alone let us expect has come true."""
        for name in entry.values.get("name", ()):
            for word in name.split(", "):
                key, ref = self._judge.variable(word)
                entry.learn({"key": key})
                entry.show(ref)
        self._kept.forget("unit-variable", (HOST, entry.load))

    # --------------------------------------------------------------------------------------------------- tracebacks

    def _step(
        self,
        step: Step,
        entries: list[Entry],
        line: JournalLine,
        ref: str,
        head: Head,
        speakers: frozenset[str],
        load: int,
        phase: Phase,
        requested: bool,
    ) -> list[Entry]:
        """What an exception adds: its own finding where no row knows it, where it was raised, whether it is sure."""
        block = step.block
        if step.what == "detail" and block is not None:
            for entry in self._block_entries.get(block.chain, ()):
                if entry in self._last_entries:
                    entry.detail(step.text)
                    if entry.count == 1:
                        entry.show(ref)
            return []
        if step.what not in ("raised", "lone"):
            return []
        made: list[Entry] = []
        serious = [entry for entry in entries if entry.row.severity in ("error", "fatal") or entry.row.benign]
        if not serious:
            name = "request-exception" if requested else "bench-exception" if "bench" in speakers else "exception"
            if step.what == "lone" and name == "exception" and head.level in ("INFO", "WARNING", "DEBUG"):
                return []
            row = self.catalogue.by_id.get(name)
            if row is None:
                return []
            short = step.type.rpartition(".")[2]
            text = f"{short}: {step.text}" if "bench" in speakers else step.text
            fold = "" if requested else f"{short} {shape(step.text)}"
            entry = self._kept.entry(row, fold, load, phase, line.at)
            process = head.process if line.source == "unit" else ""
            entry.add(line.at, ref, line.text, {"type": short, "text": text[:200]}, process)
            entry.spoken |= speakers or {line.source}
            entry.settled = entry.settled or self._kept.ending(load)
            made.append(entry)
            serious = [entry]
        heading = self._seen - self._headings.get(head.pid or line.pid, -1000) if block is None else 0
        for entry in serious:
            if block is not None:
                entry.chain = entry.chain or block.chain
                if entry.frame is None and block.telling is not None:
                    entry.frame = block.telling
                    entry.learn({"where": str(block.telling)})
                self._block_entries.setdefault(block.chain, []).append(entry)
                failed_under = self._under_failure(block, head.pid or line.pid)
                entry.sure = entry.sure or block.uncaught or failed_under
            else:
                entry.sure = entry.sure or heading < 3 or head.level in ("", "ERROR", "CRITICAL")
        if len(self._block_entries) > 256:
            del self._block_entries[next(iter(self._block_entries))]
        self._last_entries = serious
        return made

    def _under_failure(self, block: Block, key: int) -> bool:
        """The traceback stands under a line which says that something failed for good."""
        if not block.heading:
            return False
        owners = self.catalogue.owners
        return any(
            isinstance(row := owners[index], Row) and row.consequence and row.severity == "fatal"
            for index in self.catalogue.matcher.rows(block.heading)
        )

    def _of_a_request(self, head: Head, block: Block | None) -> bool:
        """What the front end says once it is ready is about requests, unless Python itself ended a process."""
        if not head.process.startswith(_SERVERS[1:]) and head.process:
            return False
        if block is None:
            return bool(head.process or head.level)
        return not (block.heading.startswith("Process ") or self._under_failure(block, block.key))

    # ------------------------------------------------------------------------------------------------ other readings

    def judge(self, reading: Reading, *, load: int, phase: Phase, state: State = "unknown") -> bool:
        """Take in any other reading. True: a finding changed."""
        changed = False
        for seen in self._judge.look(reading, phase=phase, state=state, present=self._names(load)):
            changed = self._observe(seen, load, phase, reading.at) or changed
        return changed

    def _names(self, load: int) -> frozenset[str]:
        return frozenset(entry.row.id for entry in self._kept.relevant(load))

    def _observe(self, seen: Observation, load: int, phase: Phase, at: float) -> bool:
        number = HOST if seen.host else load
        if seen.over:
            changed = False
            for entry in [*self._kept.by_load.get(HOST, ()), *self._kept.by_load.get(load, ())]:
                if (entry.row.id in seen.over or entry.spoken <= seen.over) and not entry.cleared:
                    entry.cleared = changed = True
            return changed
        if seen.adds_to:
            for entry in self._kept.present((seen.adds_to,), load):
                before = (entry.refs, {name: tuple(values) for name, values in entry.values.items()})
                entry.show(seen.ref, seen.text)
                entry.learn(seen.values)
                return before != (entry.refs, {name: tuple(values) for name, values in entry.values.items()})
            return False
        if seen.row:
            row = self.catalogue.by_id.get(seen.row)
            if row is None:
                return False
            entry = self._kept.entry(row, fill(row.fold, _values(seen.values)) if row.fold else "", number, phase, at)
            return self._noted(entry, seen, at)
        return self._texts(seen, number, load, phase, at)

    def _texts(self, seen: Observation, number: int, load: int, phase: Phase, at: float) -> bool:
        """A text from the link, nvidia-smi or a command: what the catalogue knows of it."""
        found = self._found(seen.text, self.catalogue.matcher.rows(seen.text), load, "")
        speakers = frozenset((seen.speaker,))
        chosen = _without_refined(
            [(row, groups) for row, _, groups in found if self._applies(row, speakers, load, phase, False, at, None)]
        )
        for row, groups in chosen:
            row = self.catalogue.by_id.get(row.same_as, row) if row.same_as else row
            fold = fill(row.fold, _values({**seen.values, **groups})) if row.fold else ""
            self._noted(self._kept.entry(row, fold, number, phase, at), seen, at, groups)
        return bool(chosen)

    def _noted(self, entry: Entry, seen: Observation, at: float, groups: Mapping[str, str] = {}) -> bool:
        known = seen.ref != "" and seen.ref in entry.refs
        fresh = not entry.count or entry.cleared or bool(seen.ref and not known)
        entry.sure = True
        entry.cleared = False
        entry.spoken.add(seen.speaker or "judged")
        if seen.again or not entry.count or (seen.ref and not known):
            entry.add(at, seen.ref, seen.text, {**groups, **seen.values})
        else:
            entry.last = max(entry.last, at)
            for name, value in seen.values.items():  # figures move on: the newest counts
                entry.values[name] = [value]
        if entry.row.next and entry not in self._waiting:
            self._waiting.append(entry)
        return fresh

    # -------------------------------------------------------------------------------------------------------- pictures

    def views(
        self,
        load: int,
        *,
        stall: StallView | None = None,
        phase: Phase = "n/a",
        gpu: GpuView | None = None,
        earlier: bool = False,
    ) -> tuple[FindingView, ...]:
        """What is known about this load and the host, most severe first; earlier loads' findings that are the same
        are counted in. With ``stall``, its own finding is among them (with what the GPUs say about the reason).
        ``earlier``: also what only concerns earlier loads."""
        return views(self._kept, load, stall=self._stalled(load, stall, phase, gpu), earlier=earlier)

    def cause(self, load: int) -> FindingView | None:
        """Why this load cannot go on: its first fatal finding that is not a consequence. None: nothing says so."""
        return cause(self._kept, load)

    def fatal(self, load: int) -> bool:
        """Whether something was seen after which this load cannot become ready any more."""
        return fatal(self._kept, load)

    def fact(self, load: int, name: str) -> str:
        """The last value of a fact of this load; empty while it is not known."""
        values = self._kept.facts.get(load, {}).get(name)
        return values[-1] if values else ""

    def _stalled(self, load: int, stall: StallView | None, phase: Phase, gpu: GpuView | None) -> Entry | None:
        if stall is None:
            return None
        seen = self._judge.stall(stall, phase, gpu)
        row = self.catalogue.by_id.get(seen.row)
        if row is None:
            return None
        entry = Entry((load, row.id, ""), row, load, self._kept.order, phase, stall.since, stall.since, sure=True)
        entry.add(stall.since, seen.ref, seen.text, seen.values)
        for ref in seen.refs:
            entry.show(ref)
        return entry

    def learn(self, row: str, values: Mapping[str, str], refs: Iterable[str] = ()) -> None:
        """What is known from elsewhere about a finding that is there, for its texts and its lines."""
        for entry in self._kept.called(row):
            entry.learn(values)
            for ref in refs:
                entry.show(ref)

    def note(
        self, row: str, values: Mapping[str, str], *, load: int, at: float, phase: Phase, refs: Iterable[str]
    ) -> None:
        """A finding that is made by looking at the whole: a row of the catalogue with its values and lines."""
        known = self.catalogue.by_id.get(row)
        if known is None:
            return
        entry = self._kept.entry(known, "", load, phase, at)
        entry.sure = True
        entry.count = max(1, entry.count)
        entry.learn(values)
        for ref in refs:
            entry.show(ref)


def _speakers(line: JournalLine) -> frozenset[str]:
    """Who speaks in a line, as rows name speakers; empty where a raw log does not say."""
    if line.ident == "vllm-bench":
        return frozenset(("bench",))
    if line.source == "systemd" and line.ident == "systemd" and line.pid > 1:
        return frozenset(("systemd", "user-manager"))
    if line.source == "unit" and not (line.pid or line.ident or line.cursor or line.unit):
        return frozenset()
    return frozenset((line.source,))


def _values(groups: Mapping[str, str]) -> dict[str, list[str]]:
    return {name: [value] for name, value in groups.items()}


def _is_exception(message: str) -> bool:
    name = message.partition(":")[0]
    return " " not in name and name.endswith(("Error", "Exception"))


def _without_refined(chosen: list[tuple[Row, dict[str, str]]]) -> list[tuple[Row, dict[str, str]]]:
    """Without the rows that another one of the same line takes the place of."""
    if len(chosen) < 2:
        return chosen
    replaced = {name for row, _ in chosen for name in row.refines}
    left = [item for item in chosen if item[0].id not in replaced]
    strong = [item for item in left if not item[0].weak]
    return strong or left
