"""The catalogue of findings: what is worth recognising, as data.

The rows that ship are the TOML files in ``watch/signals/``. An operator's own are ``findings.toml`` and
``findings/*.toml`` in the configuration folder: the same form, one ``[[row]]`` a signal; a row with an ``id`` that
ships takes its place. A row that cannot be used is named with file and line in ``Catalogue.problems`` and left out;
all others work.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import re2
from msgspec import Struct

from watch.matching import BadPattern, Matcher
from watch.regular import whole
from watch.words import Phase, Severity

Speaker = Literal[
    "unit", "systemd", "user-manager", "kernel", "journald", "other", "ssh", "gpu", "command", "bench", "judged"
]
"""Who may say a row's words: the speakers of journal lines (``user-manager``: a systemd that is not process 1), then
the link, nvidia-smi, another command, the benchmark client; ``judged``: nobody, the row holds the words for something
that is found by looking at figures."""


_MOST = 8 << 20
"""Bytes of one file of rows; none has more."""


class Alone(Struct, frozen=True, forbid_unknown_fields=True):
    """What a consequence says when nothing was printed that it could follow from."""

    title: str
    cause: str
    remedy: str


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signal.

    ``pattern``: RE2, searched in the message (without head, colours, container prefix). Texts may name its groups:
    ``{name}`` the first value seen, ``{name+}`` all values, and ``[[… {name} …]]`` is left out where there is none.
    """

    id: str
    kind: str
    """unit, args, journal, weights, memory, comm, compile, gpu, ssh, metrics, bench, leftover, cause, benign …"""
    layer: str
    """who speaks: systemd, vLLM, NCCL, CUDA, kernel, …"""
    severity: Severity
    title: str
    cause: str = ""
    remedy: str = ""
    pattern: tuple[str, ...] = ()
    match: tuple[str, ...] = ()
    """lines in which it must be found; the test suite runs them"""
    nomatch: tuple[str, ...] = ()
    """lines in which it must not be found"""
    versions: str = ""
    source: tuple[Speaker, ...] = ()
    """only from these; empty: from anybody"""
    phases: tuple[Phase, ...] = ()
    """only while the load is in one of these"""
    when: Literal["", "loading", "ready"] = ""
    """only before, or only after the load was ready"""
    after: tuple[str, ...] = ()
    """only where one of these findings is there already"""
    within: float = 0.0
    """… and at most so many seconds old; 0: however old"""
    near: str = ""
    """RE2 that must occur in the same traceback above the line"""
    refines: tuple[str, ...] = ()
    """takes the place of these rows on a line that they match too"""
    weak: bool = False
    """gives way to any other row that matches the same line"""
    same_as: str = ""
    """another way to recognise this row: what is found here is found there"""
    joins: str = ""
    """evidence for this row's finding where that is there; else it stands for itself"""
    because: tuple[str, ...] = ()
    """follows from one of these where it is there; else it stands for itself"""
    consequence: bool = False
    """never the cause"""
    alone: Alone | None = None
    benign: bool = False
    """harmless by itself, whatever its level says"""
    phase: Phase | None = None
    """what it is about, where that is not the moment it was printed"""
    by_phase: bool = False
    """what its kind is depends on what the load was doing: a full disk while weights come is about the weights"""
    fold: str = ""
    """one finding for each value of this text (``{bdf}``); empty: one for all"""
    until: Literal["", "ready"] = ""
    """once the load is ready it is history and no warning any more"""
    cleared_by: tuple[str, ...] = ()
    """once one of these was seen it is over, and history"""
    next: bool = False
    """the unit's next line belongs to it (what came after a gap)"""
    with_bar: bool = False
    """the last line of the running bar belongs to it"""
    silence: float = 0.0
    """seconds of silence that this line announces"""


class Fact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something a load says about itself; the groups of its pattern can be used in every row's texts."""

    pattern: str
    match: tuple[str, ...] = ()
    nomatch: tuple[str, ...] = ()


class Catalogue:
    """``patterns``: everything one combined ``watch.matching.Matcher`` has to look for, in this order; what
    ``Findings.see`` is given as ``rows`` are indices into it. ``problems``: one sentence each, with file and line.
    ``rows``, ``facts``: see there. ``general``: patterns of tracebacks and crashes, which no row has to name.
    ``known``: how many of the facts, from the first, are those that ship."""

    def __init__(
        self, rows: Sequence[Row], facts: Sequence[Fact] = (), problems: Sequence[str] = (), *, known: int = 0
    ) -> None:
        self.rows = tuple(rows)
        self.facts = tuple(facts)
        self.problems = tuple(problems)
        self.general = GENERAL
        self.by_id = {row.id: row for row in self.rows}
        patterns: list[str] = []
        owners: list[Row | Fact | None] = []
        for row in self.rows:
            patterns.extend(row.pattern)
            owners.extend([row] * len(row.pattern))
        patterns.extend(fact.pattern for fact in self.facts)
        owners.extend(self.facts)
        patterns.extend(self.general)
        owners.extend([None] * len(self.general))
        self.patterns = tuple(map(_by_line, patterns))
        self.owners = tuple(owners)
        """for each pattern its row or fact; None: one of ``general``"""
        first = sum(len(row.pattern) for row in self.rows)
        self._known = range(first, first + known)
        self._compiled: list[Any] = [None] * len(patterns)
        self._near: dict[str, Any] = {}
        self._quick: dict[int, re.Pattern[str]] = {}

    @functools.cached_property
    def matcher(self) -> Matcher:
        """All patterns as one machine."""
        return Matcher(self.patterns)

    def find(self, index: int, text: str) -> tuple[int, dict[str, str]] | None:
        """Where one pattern begins in a text, and its named groups that took part; None where it does not occur. A
        group's name may end in a digit where several alternatives give the same thing: ``bdf2`` is a ``bdf``."""
        if index in self._known and len(text) <= _SHORT:
            return self._quickly(index, text)
        compiled = self._compiled[index]
        if compiled is None:
            compiled = self._compiled[index] = re2.compile(self.patterns[index], _options())
        found = compiled.search(text)
        if found is None:
            return None
        groups = {name.rstrip("0123456789"): value for name, value in found.groupdict().items() if value}
        if "bdf" in groups:
            groups["bdf"] = _device(groups["bdf"])
        return found.start(), groups

    def _quickly(self, index: int, text: str) -> tuple[int, dict[str, str]] | None:
        """The same for a fact that ships, in a short line, by the standard library's machine: a bar is one at every
        step, RE2's wrapper needs ten times as long, and of these patterns it is known that they do no harm."""
        compiled = self._quick.get(index)
        if compiled is None:
            compiled = self._quick[index] = re.compile(self.patterns[index], re.ASCII)
        found = compiled.search(text)
        if found is None:
            return None
        return found.start(), {name.rstrip("0123456789"): value for name, value in found.groupdict().items() if value}

    def near(self, row: Row, text: str) -> bool:
        """Whether what the row wants near by is in the text."""
        compiled = self._near.get(row.id)
        if compiled is None:
            compiled = self._near[row.id] = re2.compile(_by_line(row.near), _options())
        return compiled.search(text) is not None


_SHORT = 1024
"""Characters of a line in which a fact is looked for quickly."""

GENERAL = (
    r"Traceback \(most recent call last\)",
    r'File "[^"\n]{1,400}", line \d+, in ',
    r"\b[A-Za-z_][\w.]*(?:Error|Exception)(?:: |$)",
    r"(?:During handling of the above exception|The above exception was the direct cause)",
    r"\d+ validation errors? for ",
    r"Exception ignored in|Exception in (?:thread|ASGI application)|--- Logging error ---",
)
"""What opens, continues and ends a traceback."""


@functools.cache
def shipped() -> Catalogue:
    """The rows that ship, read once. Raises ValueError if one of them cannot be used: that is our own mistake."""
    rows, facts, problems = _read(sorted((Path(__file__).parent / "signals").glob("*.toml")), shipped=True)
    if problems:
        raise ValueError("; ".join(problems))
    return Catalogue(list(rows.values()), facts, known=len(facts))


def load(folder: Path | None = None) -> Catalogue:
    """The rows that ship and those of the operator's configuration folder. Never raises on bad rows or files."""
    ours = shipped()
    if folder is None:
        return ours
    files = [folder / "findings.toml", *sorted((folder / "findings").glob("*.toml"))]
    theirs, facts, problems = _read([path for path in files if os.path.isfile(path)], shipped=False)
    if not theirs and not facts and not problems:
        return ours
    known = set(ours.by_id) | set(theirs)
    for row in list(theirs.values()):
        missing = [name for name in (*row.after, *row.refines, *row.because) if name not in known]
        if missing:
            problems.append(f"{row.id}: there is no row called {missing[0]}; the row works without it")
    merged = dict(ours.by_id)
    merged.update(theirs)
    return Catalogue(list(merged.values()), [*ours.facts, *facts], problems, known=len(ours.facts))


def _read(paths: Iterable[Path], *, shipped: bool) -> tuple[dict[str, Row], list[Fact], list[str]]:
    rows: dict[str, Row] = {}
    facts: list[Fact] = []
    problems: list[str] = []
    for path in paths:
        try:
            text = whole(path, _MOST).decode()
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{path}: cannot be read ({error}); its rows are left out")
            continue
        for number, table, values in _tables(text):
            where = f"{path}:{number}"
            if isinstance(values, str):
                problems.append(f"{where}: {values}; this row is left out, the others work")
                continue
            try:
                if table == "row":
                    row = msgspec.convert(_listed(values), Row)
                    if not shipped:  # ours are checked by the test suite, not at every start
                        check(row)
                    if row.id in rows:
                        raise ValueError(f"there are two rows called {row.id}")
                    rows[row.id] = row
                elif table == "fact":
                    fact = msgspec.convert(_listed(values, keep="pattern"), Fact)
                    if not shipped:
                        _check_pattern(fact.pattern)
                    facts.append(fact)
                else:
                    raise ValueError(f"[[{table}]] is not known here: [[row]] and [[fact]] are")
            except (ValueError, msgspec.ValidationError) as error:
                name = values.get("id", "")
                called = f"row {name}: " if isinstance(name, str) and name else ""
                problems.append(f"{where}: {called}{error}; this row is left out, the others work")
    return rows, facts, problems


_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*([\w-]+)[ \t]*\]\]", re.MULTILINE)


def _tables(text: str) -> list[tuple[int, str, dict[str, Any] | str]]:
    """(line, table name, values or what is wrong) of each ``[[table]]`` of a file. A mistake in one spoils only it."""
    starts = list(_HEADER.finditer(text))
    lines = [text.count("\n", 0, start.start()) + 1 for start in starts]
    names = [start[1] for start in starts]
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError):  # also of a number of thousands of digits
        tables = None
    if tables is not None:
        counted: dict[str, int] = {}
        found: list[tuple[int, str, dict[str, Any] | str]] = []
        for line, name in zip(lines, names, strict=True):
            index = counted.get(name, 0)
            counted[name] = index + 1
            table = tables.get(name)
            if isinstance(table, list) and index < len(table):
                found.append((line, name, table[index]))
        if all(counted.get(name, 0) == len(table) for name, table in tables.items() if isinstance(table, list)):
            for name, table in tables.items():
                if not isinstance(table, list):
                    found.append((1, name, f"{name} stands outside of a [[row]]"))
            return found
    pieces: list[tuple[int, str, dict[str, Any] | str]] = []
    if not starts and text.strip():
        return [(1, "", "this is not a list of [[row]] tables in TOML")]
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        try:
            values = tomllib.loads(text[start.start() : end])
            pieces.append((lines[index], names[index], values[names[index]][0]))
        except RecursionError:
            pieces.append((lines[index], names[index], "it is nested too deep"))
        except (ValueError, KeyError, IndexError) as error:
            pieces.append((lines[index], names[index], f"not valid TOML ({error})"))
    return pieces


def _device(address: str) -> str:
    """A PCI address in one form: kernel, driver and nvidia-smi write 0000:61:00, 00000000:61:00.0 and 61:00.0."""
    address = address.lower().rstrip(".:")
    if address.count(":") < 2:
        address = f"0000:{address}"
    domain, _, rest = address.partition(":")
    return f"{domain[-4:]}:{rest}" + ("" if "." in rest else ".0")


_LISTS = ("pattern", "match", "nomatch", "source", "phases", "after", "refines", "because", "cleared_by")


def _listed(values: dict[str, Any], *, keep: str = "") -> dict[str, Any]:
    """Where a list is meant a single text will do."""
    return {k: [v] if k in _LISTS and k != keep and isinstance(v, str) else v for k, v in values.items()}


def _by_line(pattern: str) -> str:
    """``^`` and ``$`` mean the ends of a line, also where many lines are searched at once."""
    return f"(?m){pattern}" if "^" in pattern or "$" in pattern else pattern


def check(row: Row) -> None:
    """Raises ValueError with one sentence where a row cannot do what it says."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", row.id):
        raise ValueError(f"id must be small letters, digits and hyphens, not {row.id!r}")
    if not row.pattern and "judged" not in row.source:
        raise ValueError("pattern is missing")
    for pattern in row.pattern:
        _check_pattern(pattern)
    if row.near:
        _check_pattern(row.near)


def _check_pattern(pattern: str) -> None:
    pattern = _by_line(pattern)
    try:
        Matcher([pattern])
    except BadPattern as error:
        raise ValueError(f"pattern {pattern!r} is no RE2 expression ({error})") from None
    if re2.compile(pattern, _options()).search("") is not None:
        raise ValueError(f"pattern {pattern!r} would be found in every line")


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options
