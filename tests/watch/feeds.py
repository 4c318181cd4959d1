"""Real recordings and cases as readings, for the tests of the fold."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec

from probes.readings import JournalLine, Source
from watch.state import WatchState

TESTS = Path(__file__).parent.parent
RECORDINGS = TESTS / "recordings"
CASES = TESTS / "cases"


def recording(name: str) -> tuple[float, list[JournalLine]]:
    """When a recorded server was started (UTC seconds), and its lines at the time of the read that brought their
    end. No pids and no invocation: a saved log has neither."""
    folder = RECORDINGS / name
    path = folder / "server.jsonl"
    raw = path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())
    started = 0.0
    events = folder / "events.jsonl"
    if events.exists():
        started = json.loads(events.read_text().splitlines()[0])["epoch"]
    rest: dict[str, bytes] = {}
    lines: list[JournalLine] = []
    for entry in map(json.loads, raw.splitlines()):
        if "meta" in entry:
            started = entry["meta"]["started"]
        if "b" in entry:
            data = entry["b"].encode("latin-1")
        elif "data" in entry:
            data = entry["data"].encode("utf-8", "surrogateescape")
        else:
            continue
        stream = entry.get("s", "")
        *whole, rest[stream] = (rest.get(stream, b"") + data).split(b"\n")
        for piece in whole:
            text = piece.decode("utf-8", "backslashreplace").rstrip("\r")
            if text.strip():
                lines.append(JournalLine(at=started + entry["t"], text=text))
    return started, lines


def case(name: str, *parts: str) -> list[JournalLine]:
    """The journal records of a case's files, as the journal probe would give them."""
    folder = next(CASES.glob(f"{name}-*"))
    files = [folder / part for part in parts] or sorted(folder.glob("*journal.jsonl"))
    return [line for path in files for line in journal_json(path)]


def journal_json(path: Path) -> list[JournalLine]:
    """``journalctl -o json`` records."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [_record(json.loads(text), f"{path.name}:{n}") for n, text in enumerate(raw.decode().splitlines(), 1)]


def _record(record: dict[str, object], ref: str) -> JournalLine:
    def field(*names: str) -> str:
        return next((str(record[name]) for name in names if record.get(name)), "")

    message = record.get("MESSAGE")
    text = bytes(message).decode("utf-8", "backslashreplace") if isinstance(message, list) else str(message or "")
    ident = field("SYSLOG_IDENTIFIER")
    sources: dict[str, Source] = {"systemd": "systemd", "kernel": "kernel", "systemd-journald": "journald"}
    source: Source = sources.get(ident, "other" if ident == "systemd-logind" else "unit")
    return JournalLine(
        at=int(field("__REALTIME_TIMESTAMP")) / 1e6,
        text=text,
        source=source,
        pid=int(field("_PID") or 0) if source == "unit" else 0,
        unit=field("UNIT", "USER_UNIT", "_SYSTEMD_USER_UNIT", *(("_SYSTEMD_UNIT",) if source == "unit" else ())),
        invocation=field("_SYSTEMD_INVOCATION_ID", "INVOCATION_ID", "USER_INVOCATION_ID"),
        message_id=field("MESSAGE_ID"),
        line_break=field("_LINE_BREAK"),
        truncated=message is None,
        cursor=field("__CURSOR"),
        ref=ref,
    )


def folded(lines: list[JournalLine], unit: str = "") -> WatchState:
    """A fold that has taken the lines in."""
    state = WatchState("llm-two", unit)
    state.apply_lines(lines)
    return state


def after(state: WatchState, lines: list[JournalLine], seconds: float = 1.0) -> object:
    """The view shortly after the last line."""
    return state.view(lines[-1].at + seconds)


def same(one: object, other: object) -> bool:
    """Whether two views hold the same."""
    return msgspec.json.encode(one) == msgspec.json.encode(other)
