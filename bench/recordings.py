"""Recordings of real servers (``tests/recordings``: cpu-*, gpu-*, host-systemd-*) as readings for the fold.

Most hold what each read of the server's output gave, with its time; a line's time is that of the read that brought its
end, as with a journal. Two are journals.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from probes.readings import IoReading, JournalLine, UnitReading
from watch.keeping import load_record
from watch.load_key import Key, load_key
from watch.logfile import read_file
from watch.outlook import Earlier
from watch.pieces import EarlierLoad
from watch.state import WatchState
from watch.view import ForecastView

RECORDINGS = Path(__file__).parent.parent / "tests" / "recordings"
UNIT = "vllm.service"


JOURNALS = ("host-systemd-ngram/journal.json.gz", "cpu-journal-live/follow.jsonl.gz")


class Recording(Struct, frozen=True):
    """One server's output. ``started``: UTC seconds at which its process was started (its journal begins). ``journal``:
    the lines are a journal's, systemd's own among them."""

    name: str
    started: float
    argv: tuple[str, ...]
    lines: tuple[JournalLine, ...]
    journal: bool = False

    def watch(self, history: Earlier | None = None) -> WatchState:
        """A watch that knows what it would know before the first line."""
        if self.journal:
            return WatchState("host", "", history=history)
        state = WatchState("host", UNIT, history=history)
        state.apply(self.unit())
        state.apply(self.begun())
        return state

    def unit(self) -> UnitReading:
        """What systemd would say of it."""
        return UnitReading(
            at=self.started,
            unit=UNIT,
            load="loaded",
            active="active",
            sub="running",
            invocation=self.name,
            started=self.started,
            exec_start=self.argv,
        )

    def begun(self) -> JournalLine:
        """systemd's line about its start."""
        return JournalLine(
            at=self.started,
            text=f"Started {UNIT} - a model server.",
            source="systemd",
            pid=1,
            unit=UNIT,
            invocation=self.name,
            message_id="39f53479d3a045ac8e11786248231fbf",
        )


class Outcome(Struct, frozen=True):
    """A recording played to its end. ``ready``: UTC seconds. ``gib``: size of the checkpoint as vLLM prints it."""

    recording: Recording
    key: Key
    ready: float
    load: EarlierLoad
    gib: float | None = None


class OneEarlier:
    """A history that holds one load, for whoever has its key."""

    def __init__(self, key: Key, load: EarlierLoad) -> None:
        self._key, self._load = key, load

    def earlier(self, key: Key, *, before: float | None = None) -> tuple[EarlierLoad, ...]:
        return (self._load,) if key == self._key else ()


def played(recording: Recording) -> Outcome | None:
    """Through the product's own fold, to the end. None: it does not become ready."""
    state = recording.watch()
    state.apply_lines(recording.lines)
    load = state.attempts.current.load if state.attempts.current is not None else None
    if load is None or load.ready_line is None:
        return None
    arguments = state.asked.arguments()
    key = load_key("host", state.unit, load.facts.get("model", "") or arguments.get("model", ""), arguments)
    kept = load_record(load, key, versions={})
    earlier = EarlierLoad(
        started=kept.started,
        first_line=kept.first_line,
        ready=kept.ended,
        phases=kept.phases,
        compile_cache_warm=kept.compile_cache_warm,
    )
    gib = load.facts.get("checkpoint_gib")
    return Outcome(recording, key, load.ready_line, earlier, float(gib) if gib else None)


def forecasts(
    outcome: Outcome, moments: tuple[float, ...], history: OneEarlier | None = None
) -> Iterator[tuple[float, float, ForecastView | None]]:
    """(moment, UTC seconds, what the screen would have shown then)."""
    recording = outcome.recording
    state = recording.watch(history)
    if outcome.gib is not None:  # a watch looks the size up as soon as it knows the model's folder
        state.apply(IoReading(at=recording.started, model_bytes=round(outcome.gib * (1 << 30)) or 1))
    position = 0
    for moment in moments:
        now = recording.started + moment * (outcome.ready - recording.started)
        until = next((i for i, line in enumerate(recording.lines) if line.at > now), len(recording.lines))
        state.apply_lines(recording.lines[position:until])
        position = max(position, until)
        yield moment, now, state.view(now).forecast


def read_recordings(folder: Path = RECORDINGS) -> Iterator[Recording]:
    """All recordings of servers below a folder, by name."""
    for path in sorted(folder.rglob("server.jsonl*")):
        found = _read(path)
        if found is not None:
            yield found
    for name in JOURNALS:
        if (folder / name).is_file():
            read = [reading for batch in read_file(folder / name) for reading in batch]
            lines = tuple(reading for reading in read if isinstance(reading, JournalLine))
            yield Recording(name.partition("/")[0], lines[0].at, (), lines, journal=True)


def _read(path: Path) -> Recording | None:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    entries = [json.loads(line) for line in text.splitlines() if line.strip()]
    zero, begun, argv = _start(path, entries)
    if zero is None:
        return None
    lines: list[JournalLine] = []
    rest = ""
    for entry in entries:
        text = entry["b"].encode("latin-1").decode("utf-8", "replace") if "b" in entry else entry.get("data")
        if text is None:
            continue
        *whole, rest = (rest + text).split("\n")
        lines += [
            JournalLine(at=zero + entry["t"], text=line.rstrip("\r"), unit=UNIT, invocation=path.parent.name)
            for line in whole
            if line.strip()
        ]
    return Recording(path.parent.name, zero + begun, argv, tuple(lines))


def _start(path: Path, entries: list[dict[str, object]]) -> tuple[float | None, float, tuple[str, ...]]:
    """(UTC seconds of the recorder's zero, seconds from there to the server's start, its command)."""
    meta = entries[0].get("meta") if entries else None
    if isinstance(meta, dict):
        return float(meta["started"]), 0.0, tuple(meta["cmd"])
    events = path.with_name("events.jsonl")
    if not events.is_file():
        return None, 0.0, ()
    told = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines() if line.strip()]
    zero = next((entry for entry in told if entry.get("ev") == "clock_zero"), None)
    begun = next((entry["t"] for entry in told if entry.get("ev") == "server_start"), 0.0)
    return (zero["epoch"], begun, tuple(zero.get("argv", ()))) if zero is not None else (None, 0.0, ())
