"""Several saved files as one situation: read together, in order of time where they have times, and folded.

Logs carry their times. What carries none (a unit's text, nvidia-smi's figures, the result of a command) is taken as
of the last moment of the log it belongs to: ``input.part1.stderr.txt`` belongs to ``input.part1.journal.jsonl``,
``input.meta.json`` to all of ``input.*``.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from probes.readings import (
    CommandReading,
    HealthReading,
    JournalLine,
    LinkReading,
    MetricsReading,
    Reading,
)
from watch.catalogue import shipped
from watch.formats import captured, smi
from watch.formats.landmarks import LOADS
from watch.heads import parse_head
from watch.logfile import Kind, NotReadable, Saved, read_chunks, small
from watch.sieve import Sieve
from watch.state import WatchState

LOG_KINDS: frozenset[Kind] = frozenset(
    ("text", "bench", "journal-json", "journal-pretty", "journal-export", "recorded", "session")
)
PREFILTER = 8 << 20
"""Above so many bytes only telling lines of a log are read one by one."""
_SIDECAR = re.compile(
    r"^(?P<stem>.+?)\.(?:stderr|stdout|meta|ssh|probes|gpu|nvidia-smi|compute-apps|meminfo|metrics|service|show)\b"
)
_BAR = re.compile(r"\d+%(?: Completed \||\|)")
_READY = ("Application startup complete", "The server is fired up and ready to roll")
_SERVER = re.compile(
    r"(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[|^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: \w+)*\] |"
    r"\((?:APIServer|EngineCore|Worker)[\w ]* pid=|(?:safetensors|shards|graphs)\b.{0,60}\d+%|vllm|sglang"
)
"""The beginning of a line as a model server prints it."""
_LIKELY = re.compile(r"vllm|sglang|llm", re.IGNORECASE)
_PREFIX = re.compile(r"^(?:\x1b\[[\d;]*m)*([A-Za-z0-9][\w.-]*-\d+)(?:\x1b\[[\d;]*m)* +\|")


@dataclass
class Files:
    """What was given. ``notes``: about files that were left out, one sentence each."""

    logs: list[Saved] = field(default_factory=list)
    others: list[Saved] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class UnitSeen:
    """``server``: lines in the form of a model server's; ``lines``: all that it or systemd said of it."""

    server: int = 0
    lines: int = 0


@dataclass
class Seen:
    """What passed by on the way into the fold, as far as the report wants to name it. ``bar``, ``ready``, ``last``:
    where the last bar, the ready line and the last line stand."""

    first: float = 0.0
    until: float = 0.0
    lines: int = 0
    bar: str = ""
    ready: str = ""
    last: str = ""
    as_bytes: str = ""
    prefix: str = ""
    twins: dict[str, str] = field(default_factory=dict)
    """a message that was left out (null) → the same record with its text"""
    kinds: set[Kind] = field(default_factory=set)
    metrics: list[MetricsReading] = field(default_factory=list)
    metric_refs: dict[tuple[str, str], str] = field(default_factory=dict)
    """(page, name of a metric) → where its first sample stands"""
    answers: list[tuple[str, HealthReading]] = field(default_factory=list)
    links: list[LinkReading] = field(default_factory=list)
    meta: list[captured.Meta] = field(default_factory=list)
    silence: float | None = None
    bench: bool = False
    units: dict[str, UnitSeen] = field(default_factory=dict)
    """whose lines there are"""
    cut: list[str] = field(default_factory=list)
    """where metrics pages that were cut short end"""


def collect(paths: Sequence[Path]) -> Files:
    """The files, folders opened; what cannot be read among several is a note. Raises NotReadable where nothing is
    left."""
    found = Files()
    errors: list[NotReadable] = []
    named: list[tuple[Path, str, bool]] = []
    for path in paths:
        if os.path.isdir(path):
            try:
                inside = sorted(entry for entry in path.iterdir() if os.path.isfile(entry) and _wanted(entry))
            except OSError as error:
                raise NotReadable(f"{path} cannot be read: {error.strerror or error}") from None
            named += [(entry, entry.name, True) for entry in inside]
            if not inside:
                errors.append(_nothing_in(path))
        else:
            named.append((path, path.name, False))
    names = [name for _, name, _ in named]
    plain = {re.sub(r"\.jsonl(?:\.\w+)?$", "", name) for name in names if ".jsonl" in name}
    for path, name, inside_folder in named:
        stem = re.sub(r"\.(?:raw\.txt|log)(?:\.\w+)?$", "", name)
        if inside_folder and stem != name and stem in plain and f"{stem}.journal" not in plain:
            continue  # a recording and its joined bytes lie side by side
        shown = name if names.count(name) == 1 else str(Path(path.parent.name) / name)
        try:
            saved = Saved(path, shown)
        except NotReadable as error:
            if "is empty" in error.reason:
                found.empty.append(shown)
            errors.append(error)
            if not inside_folder or "is empty" not in error.reason:
                found.notes.append(error.reason)
            continue
        (found.logs if saved.kind in LOG_KINDS else found.others).append(saved)
    _drop_plain(found)
    _drop_copies(found)
    if not found.logs and not found.others:
        raise errors[0] if errors else NotReadable("No files were given")
    return found


def _nothing_in(folder: Path) -> NotReadable:
    """Folders are not opened in folders: what lies apart are situations apart."""
    below = sorted(entry.name for entry in folder.iterdir() if os.path.isdir(entry) and not entry.name.startswith("."))
    if not below:
        return NotReadable(
            f"{folder} holds no files that could be read", "Give the folder with the logs, or the files."
        )
    named = ", ".join(below[:12]) + (f" and {len(below) - 12} more" if len(below) > 12 else "")
    return NotReadable(
        f"{folder} holds no logs itself, only folders: {named}",
        f"Each is read as a situation of its own: firstlight explain {folder / below[0]}",
    )


_RANK: tuple[Kind, ...] = ("journal-export", "journal-json", "journal-pretty", "recorded", "session", "text", "bench")


def _drop_plain(found: Files) -> None:
    """Among other files, a text without times in which nothing is known is no log: a list of processes, say."""
    if len(found.logs) + len(found.others) < 2:
        return
    kept = []
    for saved in found.logs:
        if saved.kind != "text" or shipped().matcher.rows(saved.head.decode("utf-8", "replace")) or _stamped(saved):
            kept.append(saved)
        else:
            found.notes.append(f"{saved.name} holds no lines of a log and was left out")
    if kept or found.others:
        found.logs = kept


def _stamped(saved: Saved) -> bool:
    batches = read_chunks([saved.head], name=saved.name, written=saved.written)
    return any(isinstance(reading, JournalLine) and reading.timed for batch in batches for reading in batch)


def _drop_copies(found: Files) -> None:
    """The same log in several forms (``-o export`` and ``-o short``, say) is read once, in the form that says most.
    Journal records need no such care: their cursors tell."""
    if len(found.logs) < 2:
        return
    kept: list[tuple[Saved, frozenset[tuple[int, str]]]] = []
    for saved in sorted(found.logs, key=lambda log: _RANK.index(log.kind)):
        words = _words(saved)
        plain = saved.kind in ("text", "recorded")
        twin = next((k for k, known in kept if plain and _alike(words, known)), None)
        if twin is not None:
            found.notes.append(f"{saved.name} holds the same lines as {twin.name} and was left out")
            continue
        kept.append((saved, words))
    found.logs = [saved for saved in found.logs if any(saved is one for one, _ in kept)]


def _alike(one: frozenset[tuple[int, str]], other: frozenset[tuple[int, str]]) -> bool:
    fewer = min(len(one), len(other))
    return fewer > 5 and len(one & other) > 0.8 * fewer


def _words(saved: Saved) -> frozenset[tuple[int, str]]:
    """The messages of a log's first lines with their minute, without what journalctl or a container adds to them."""
    out: list[tuple[int, str]] = []
    try:
        for batch in read_chunks([saved.head], name=saved.name, written=saved.written):
            lines = [reading for reading in batch if isinstance(reading, JournalLine) and reading.at]
            out += [(int(line.at // 60), parse_head(line.text).message.strip()) for line in lines]
    except NotReadable:
        return frozenset()
    return frozenset(word for word in out[:400] if len(word[1]) > 12 and "blob data]" not in word[1])


def _wanted(path: Path) -> bool:
    if path.name.startswith(".") or path.suffix.lower() in (".md", ".py", ".png", ".svg", ".xml"):
        return False
    return not re.search(r"\.(?:xml|png)\.gz$|^procs\.jsonl|^requests\.jsonl|^hold\.jsonl|^release\.", path.name)


def unit_of(seen: Seen, files: Files) -> str:
    """Whose reading this is, where a journal holds several units' lines: the one that another file of the situation
    names, else the one with most lines of a model server. Empty: one unit, or none that can be told."""
    if len(seen.units) < 2:
        return ""
    named = [str(meta.values.get("unit", "")) for meta in seen.meta]
    named += [saved.name.rpartition("/")[2] for saved in files.others if saved.kind == "unit"]
    for name in named:
        if name in seen.units or f"{name}.service" in seen.units:
            return name
    best = max(seen.units, key=lambda u: (seen.units[u].server, bool(_LIKELY.search(u)), seen.units[u].lines))
    return best if seen.units[best].server or _LIKELY.search(best) else ""


def feed(files: Files, state: WatchState, *, until: float | None = None) -> Seen:
    """Everything into the fold, in order. ``until``: nothing later than that (UTC seconds)."""
    seen = Seen()
    seen.kinds = {saved.kind for saved in (*files.logs, *files.others)}
    seen.bench = "bench" in seen.kinds
    metas = _metas(files.others)
    seen.meta = list(metas.values())
    zero = _clock_zero(files.others)
    before = [saved for saved in files.others if saved.kind in ("unit", "show")]
    for saved in before:
        for reading in _small(saved, 0.0, metas, seen):
            state.apply(replace(reading, at=max(reading.at, 1.0)))
    trailers = [saved for saved in files.others if saved not in before and saved.kind not in ("events",)]
    mine: dict[str, list[Saved]] = {saved.name: [] for saved in files.logs}
    last: list[Saved] = []
    for saved in trailers:
        owners = [log.name for log in files.logs if log.name.startswith(_stem(saved.name) + ".")]
        (mine[owners[0]] if len(owners) == 1 and len(files.logs) > 1 else last).append(saved)
    single = len(files.logs) == 1 and not any(mine.values())
    large = [log for log in files.logs if log.size > (PREFILTER // 8 if log.packed else PREFILTER)]
    sieve = Sieve(state.marks, state.findings.catalogue) if large else None
    sieve_for = {log.name: sieve if log in large else None for log in files.logs}
    if single:
        for batch in files.logs[0].batches(sieve_for[files.logs[0].name], zero=zero):
            _take(batch, state, seen, until)
    else:
        streams = [_stream(log, mine[log.name], metas, seen, sieve_for[log.name], zero) for log in files.logs]
        merged = heapq.merge(*streams, key=lambda reading: reading.at)
        _take_merged(merged, state, seen, until)
    for log in files.logs:
        if log.skipped.offset:
            files.notes.append(f"{log.name} holds {log.skipped.loads} loads; only the last {LOADS} were read")
    silences = [meta.silence for meta in seen.meta if meta.silence is not None]
    seen.silence = max(silences) if silences else None
    now = max(seen.until, 1.0) + (seen.silence or 0.0)
    if until is None or now <= until:
        seen.until = max(seen.until, now) if seen.silence else seen.until
        for saved in last:
            for reading in _small(saved, now, metas, seen):
                state.apply(reading)
    return seen


def _stem(name: str) -> str:
    found = _SIDECAR.match(name)
    return found["stem"] if found is not None else name.split(".")[0]


def _metas(others: Iterable[Saved]) -> dict[str, captured.Meta]:
    """By stem, so that output and its command find each other."""
    out: dict[str, captured.Meta] = {}
    for saved in others:
        if saved.kind == "meta":
            loaded = captured.loads(saved.whole())
            if loaded is not None and isinstance(loaded[0], dict):
                out[_stem(saved.name)] = captured.Meta(loaded[0], loaded[1], saved.name)
    return out


def _clock_zero(others: Iterable[Saved]) -> float:
    """Of a recording whose clock zero stands in a file of events."""
    for saved in others:
        if saved.kind == "events":
            found = re.search(rb'"epoch":\s*(\d{9,11}(?:\.\d+)?)', saved.head)
            if found is not None:
                return float(found[1])
    return 0.0


def _small(saved: Saved, at: float, metas: dict[str, captured.Meta], seen: Seen) -> list[Reading]:
    """The readings of a file without times, all at ``at``."""
    data = saved.whole()
    meta = metas.get(_stem(saved.name))
    if saved.kind == "probes":
        loaded = captured.loads(data)
        if loaded is None:
            return []
        answers = [(p, r) for p, r in captured.probes(*loaded, saved.name, at) if isinstance(r, HealthReading)]
        seen.answers += answers
        return [reading for path, reading in answers if path == "/health"]
    if saved.kind == "output":
        text = data.decode("utf-8", "backslashreplace")
        command = meta.command if meta is not None else ""
        names = smi.columns(command)
        if names is not None and text.strip():
            return smi.from_csv(text, saved.name, at, names)
        return [CommandReading(at=at, command=command, stdout=text, ref=saved.name)]
    out = small(saved.kind, data, saved.name, at)
    for reading in out:
        if isinstance(reading, MetricsReading):
            seen.metrics.append(reading)
            number = 0
            for number, line in enumerate(data.split(b"\n"), 1):
                name = re.match(rb"[a-zA-Z_:][\w:]*", line)
                if name is not None:
                    seen.metric_refs.setdefault((reading.ref, name[0].decode()), f"{saved.name}:{number}")
            if reading.truncated:
                seen.cut.append(f"{saved.name}:{number}")
        elif isinstance(reading, LinkReading):
            seen.links.append(reading)
    return out


def _stream(
    log: Saved,
    trailers: list[Saved],
    metas: dict[str, captured.Meta],
    seen: Seen,
    sieve: Sieve | None,
    zero: float,
) -> Iterator[Reading]:
    at = 0.0
    for batch in log.batches(sieve, zero=zero):
        for reading in batch:
            at = max(at, reading.at)
            # a file's own order holds even where its clock goes back
            yield reading if reading.at == at else replace(reading, at=at)
    for saved in trailers:
        yield from _small(saved, at, metas, seen)


def _take_merged(readings: Iterable[Reading], state: WatchState, seen: Seen, until: float | None) -> None:
    """Records that two journals hold are taken once, with their text where one of them has it."""
    known: set[int] = set()
    batch: list[Reading] = []
    held: JournalLine | None = None
    for reading in readings:
        if isinstance(reading, JournalLine) and reading.cursor:
            if held is not None and held.cursor == reading.cursor:
                full, cut = (held, reading) if reading.truncated else (reading, held)
                if cut.truncated and not full.truncated:
                    seen.twins[full.ref] = cut.ref
                    held = replace(full, truncated=True)
                continue
            key = hash(reading.cursor)
            if key in known:
                continue
            known.add(key)
            if held is not None:
                batch.append(held)
            held = reading
        else:
            if held is not None:
                batch.append(held)
                held = None
            batch.append(reading)
        if len(batch) >= 4096:
            _take(batch, state, seen, until)
            batch = []
    if held is not None:
        batch.append(held)
    _take(batch, state, seen, until)


def _take(batch: list[Reading], state: WatchState, seen: Seen, until: float | None) -> None:
    lines: list[JournalLine] = []
    for reading in batch:
        if until is not None and reading.at > until:
            continue
        if isinstance(reading, JournalLine):
            lines.append(reading)
            _note(reading, seen)
            continue
        if lines:
            state.apply_lines(lines)
            lines = []
        seen.until = max(seen.until, reading.at)
        if isinstance(reading, MetricsReading):
            seen.metrics = [*seen.metrics[-3:], reading]
        state.apply(reading)
    if lines:
        state.apply_lines(lines)


def _note(line: JournalLine, seen: Seen) -> None:
    seen.lines += 1
    if line.unit.endswith(".service") and line.source in ("unit", "systemd"):
        unit = seen.units.get(line.unit)
        if unit is None:
            unit = seen.units.setdefault(line.unit, UnitSeen()) if len(seen.units) < 1024 else UnitSeen()
        unit.lines += 1
        if line.source == "unit" and _SERVER.search(line.text, 0, 160) is not None:
            unit.server += 1
    if not seen.first:
        seen.first = line.at
    if line.at > seen.until:
        seen.until = line.at
    seen.last = line.ref
    text = line.text
    if line.source == "unit":
        if "%" in text and _BAR.search(text):
            seen.bar = line.ref
            if "\r" in text[:200] and line.cursor:
                seen.as_bytes = line.ref
        elif any(words in text for words in _READY):
            seen.ready = line.ref
        if not seen.prefix and ("|" in text[:140] or text.startswith("\x1b")):
            found = _PREFIX.match(text)
            if found is not None:
                seen.prefix = found[1]
