"""The recordings that are kept: which there are, what became of each, and which may go.

What became of a watch stands at the end of its recording, which is slow to come by in a large file. It is therefore
remembered in ``.summaries.json`` beside the recordings, by the watch itself when it ends, else once a recording has
been read for it. The file may be deleted at any time.
"""

from __future__ import annotations

import fcntl
import glob
import os
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from probes.readings import UNDECODABLE
from watch.session.header import FORMAT, Header, SessionError, words_of
from watch.session.reader import SessionReader
from watch.state import WatchState
from watch.view import View
from watch.words import Phase, State

CACHE = ".summaries.json"
ENDS = (".jsonl", ".jsonl.gz")
BESIDE = (".html", ".md")
"""Ends of the reports that a watch leaves beside its recording."""
RANGE = "range-"
"""How what stands for the report of a stretch begins, after the name of its recording: ``NAME.range-60s-90s.html``."""

_FIRST = 1 << 20


class Summary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a recording holds. ``outcome``: the state of its last load when it ended. Times are UTC seconds."""

    target: str
    unit: str
    started: float
    ended: float
    outcome: State = "unknown"
    phase: Phase = "n/a"
    headline: str = ""
    model: str = ""
    loads: int = 0
    lines: int = 0
    notes: tuple[str, ...] = ()
    """what is wrong with the file"""


class Recording(Struct, frozen=True, kw_only=True):
    """A file of the folder. ``summary``: None while it is not known, because nobody has read it yet, it is being
    written, or it cannot be read (``problem``, one sentence). ``bytes``: on the disk."""

    path: Path
    bytes: int
    changed: float
    header: Header
    summary: Summary | None = None
    recording: bool = False
    problem: str = ""

    @property
    def started(self) -> float:
        return self.summary.started if self.summary is not None else self.header.started

    @property
    def ended(self) -> float:
        return self.summary.ended if self.summary is not None else self.changed

    @property
    def outcome(self) -> str:
        """A state, ``recording`` for one that is being written, ``unreadable``, or empty while it is not known."""
        if self.recording:
            return "recording"
        return "unreadable" if self.problem else self.summary.outcome if self.summary is not None else ""


class _Known(Struct, frozen=True):
    bytes: int
    changed: int
    summary: Summary


def summary_of(view: View, started: float, ended: float, notes: Sequence[str] = ()) -> Summary:
    """``view``: the picture at the end."""
    return Summary(
        target=view.target,
        unit=view.unit,
        started=started,
        ended=ended,
        outcome=view.state,
        phase=view.phase,
        headline=view.headline,
        model=view.model,
        loads=len(view.loads),
        lines=view.lines,
        notes=tuple(notes),
    )


def summarize(path: Path) -> Summary:
    """Read a recording for its summary: a second or so for each hour of it. Raises SessionError."""
    with SessionReader(path) as reader:
        header = reader.header
        state = WatchState(header.target, header.unit, endpoint=header.endpoint)
        last = header.started
        for _, reading in reader:
            state.apply(reading)
            if last < reading.at < last + 30 * 86_400 or not last:
                last = reading.at
        return summary_of(state.view(last), header.started or last, last, reader.notes())


def listed(where: Path) -> list[Recording]:
    """The recordings of a folder, newest first, with what is known of them: nothing is read but their first lines.
    Raises OSError where the folder cannot be read; one that is not there holds none."""
    known = _known(where)
    out: list[Recording] = []
    try:
        entries = sorted(os.scandir(where), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    for entry in entries:
        if not entry.name.endswith(ENDS) or entry.name.startswith(".") or not entry.is_file(follow_symlinks=False):
            continue
        try:
            stat = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # gone meanwhile
        path = Path(entry.path)
        found = known.get(entry.name)
        fits = found is not None and (found.bytes, found.changed) == (stat.st_size, stat.st_mtime_ns)
        header, problem, live = _header(path)
        out.append(
            Recording(
                path=path,
                bytes=stat.st_size,
                changed=stat.st_mtime,
                header=header,
                summary=found.summary if found is not None and fits else None,
                recording=live,
                problem=problem,
            )
        )
    return sorted(out, key=lambda one: (one.started or one.changed, one.path.name), reverse=True)


def completed(recording: Recording) -> Recording:
    """The same with its summary, read and remembered where it is not known. Never raises."""
    if recording.summary is not None or recording.recording or recording.problem:
        return recording
    try:
        summary = summarize(recording.path)
    except SessionError as error:
        return msgspec.structs.replace(recording, problem=error.reason)
    remember(recording.path, summary)
    return msgspec.structs.replace(recording, summary=summary)


def remember(path: Path, summary: Summary) -> None:
    """Keep a summary beside the recording. What goes wrong with that costs time later, and nothing else."""
    with suppress(OSError):
        stat = path.stat()
        with _hold(path.parent):
            known = _known(path.parent)
            known[path.name] = _Known(stat.st_size, stat.st_mtime_ns, summary)
            _write(path.parent, {name: one for name, one in known.items() if (path.parent / name).exists()})


def remove(recordings: Iterable[Recording]) -> list[tuple[Path, str]]:
    """Delete recordings and the reports beside them; what could not be deleted, and why. One that is being written
    stays."""
    failed: list[tuple[Path, str]] = []
    for recording in recordings:
        if recording.recording:
            failed.append((recording.path, "it is being written"))
            continue
        try:
            recording.path.unlink()
        except OSError as error:
            failed.append((recording.path, words_of(error)))
            continue
        for beside in beside_of(recording.path):
            with suppress(OSError):
                beside.unlink()
    return failed


def beside_of(path: Path) -> list[Path]:
    """Where the reports of a recording lie, whether they do or not, and those of stretches of it that there are."""
    stem = stem_of(path)
    stretches = path.parent.glob(f"{glob.escape(stem)}.{RANGE}*")
    return [path.with_name(stem + end) for end in BESIDE] + sorted(one for one in stretches if one.suffix in BESIDE)


def stem_of(path: Path) -> str:
    """The name of a recording without what says how it is packed."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def _header(path: Path) -> tuple[Header, str, bool]:
    """Its first line, what is wrong with it, and whether it is being written."""
    nothing = Header(firstlight=FORMAT)
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return nothing, words_of(error), False
    try:
        data = os.pread(file, _FIRST, 0)
        if not data:
            return nothing, "nothing was recorded in it", False
        if data[:2] == b"\x1f\x8b":
            live = False
            with suppress(zlib.error):
                data = zlib.decompressobj(wbits=31).decompress(data, 64 << 10)
        else:
            live = _held(file)
        try:
            return msgspec.json.decode(data.partition(b"\n")[0], type=Header), "", live
        except UNDECODABLE:
            return nothing, "", live
    except OSError as error:
        return nothing, words_of(error), False
    finally:
        os.close(file)


def _held(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _known(where: Path) -> dict[str, _Known]:
    try:
        return msgspec.json.decode((where / CACHE).read_bytes(), type=dict[str, _Known])
    except (OSError, *UNDECODABLE):
        return {}


class _hold:
    """Nobody else changes the summaries of a folder meanwhile, where the file system can lock."""

    def __init__(self, where: Path) -> None:
        self._file = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def _write(where: Path, known: dict[str, _Known]) -> None:
    number, name = tempfile.mkstemp(prefix=".summaries-", dir=where)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(msgspec.json.encode(known))
        Path(name).replace(where / CACHE)
    except OSError:
        with suppress(OSError):
            Path(name).unlink()
        raise
