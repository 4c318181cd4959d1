"""Every case folder read by ``explain`` and held against its ``expect.md``: a table, and a status of 1 for any wrong.

    python tests/cases/run.py [FOLDER …]      a case, or a folder of cases; default: this folder and cases-own

``expect.md`` says kind, phase, state, severity, matched lines (README.md beside this file). Right means: state, phase
and severity are the same words, every matched line is named (by a finding, the progress or the state), the first
finding (among mere notices: one of them) is of that kind, and what must not be said is not said as far as a program
can tell.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from watch.explain import CannotExplain, Report, explain
from watch.view import FindingView


@dataclass
class Expected:
    kind: str = ""
    phase: str = ""
    state: str = ""
    severity: str = ""
    matched: tuple[str, ...] = ()
    must_not: str = ""


@dataclass
class Checked:
    """``wrong``: what differs, in words; empty: all right."""

    name: str
    expected: Expected
    state: str = ""
    phase: str = ""
    severity: str = ""
    kind: str = ""
    named: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def read_expected(text: str) -> Expected:
    found = dict(re.findall(r"^- ([\w-]+): (.*)$", text, re.MULTILINE))
    matched = tuple(part.strip() for part in found.get("matched", "").split(",") if part.strip())
    return Expected(
        kind=found.get("kind", "").strip(),
        phase=found.get("phase", "").strip(),
        state=found.get("state", "").strip(),
        severity=found.get("severity", "").strip(),
        matched=matched,
        must_not=found.get("must-not", ""),
    )


def folders(paths: Iterable[Path]) -> list[Path]:
    """Case folders: those given, and those in the folders given."""
    out: list[Path] = []
    for path in paths:
        if (path / "expect.md").is_file():
            out.append(path)
        else:
            out += sorted(entry for entry in path.iterdir() if (entry / "expect.md").is_file())
    return out


def check(folder: Path) -> Checked:
    expected = read_expected((folder / "expect.md").read_text(encoding="utf-8"))
    checked = Checked(folder.name, expected)
    began = time.perf_counter()
    try:
        report = explain([folder])
    except CannotExplain as error:
        checked.wrong.append(str(error))
        return checked
    finally:
        checked.seconds = time.perf_counter() - began
    main = first(report)
    checked.state, checked.phase, checked.severity = report.state, report.phase, report.severity
    checked.kind = main.kind if main is not None else "–"
    for word in ("state", "phase", "severity"):
        want, got = getattr(expected, word), getattr(checked, word)
        if want and want != got:
            checked.wrong.append(f"{word} {got}, not {want}")
    named = {*report.lines, *report.progress_lines}
    for finding in report.findings:
        named.update(finding.lines)
    missing = [line for line in expected.matched if line not in named]
    checked.named = len(expected.matched) - len(missing)
    if missing:
        checked.wrong.append(f"not named: {', '.join(missing)}")
    if expected.severity == "info" and any(f.kind == expected.kind for f in report.findings):
        checked.kind = expected.kind  # of several notices none is the first
    if expected.kind and checked.kind != expected.kind:
        checked.wrong.append(f"kind {checked.kind}, not {expected.kind}")
    checked.wrong += said(report, main, expected)
    return checked


def first(report: Report) -> FindingView | None:
    """The finding that the report leads with: what is no notice and no consequence, else the first notice."""
    leading = [f for f in report.findings if not f.consequence_of and not f.benign]
    return leading[0] if leading else report.findings[0] if report.findings else None


def said(report: Report, main: FindingView | None, expected: Expected) -> list[str]:
    """What must not be said, and was."""
    wrong = []
    for clause in expected.must_not.split(";"):
        quoted = re.findall(r"`([^`]+)`", clause)
        if "cause" in clause and main is not None:
            shown = " ".join((main.title, *main.evidence))
            wrong += [f"blames {words!r}" for words in quoted if words in shown]
    if expected.severity == "info":
        loud = [f.id for f in report.findings if f.severity != "info" and not f.consequence_of]
        wrong += [f"alarm: {name}" for name in loud]
    causes = [f for f in report.findings if f.severity == "fatal" and not f.consequence_of and f.load == _load(report)]
    if len(causes) > 1:
        wrong.append(f"{len(causes)} causes: {', '.join(f.id for f in causes)}")
    return wrong


def _load(report: Report) -> int:
    return report.view.load.number if report.view.load is not None else 0


def table(rows: Iterable[Checked]) -> str:
    lines = [f"{'case':<38} {'state':<8} {'phase':<14} {'severity':<8} {'kind':<9} {'lines':<6} ms    reading"]
    for row in rows:
        lines.append(
            f"{row.name[:38]:<38} {row.state:<8} {row.phase:<14} {row.severity:<8} {row.kind:<9} "
            f"{row.named}/{len(row.expected.matched):<4} {row.seconds * 1000:5.0f} "
            + ("right" if not row.wrong else "WRONG: " + "; ".join(row.wrong))
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    here = Path(__file__).parent
    paths = [Path(argument) for argument in arguments] or [here, here.parent / "cases-own"]
    rows = [check(folder) for folder in folders(paths)]
    if not rows:
        print("no case folders (with an expect.md) there", file=sys.stderr)
        return 2
    print(table(rows))
    right = sum(not row.wrong for row in rows)
    print(f"\n{right} of {len(rows)} right")
    return 0 if right == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
