"""One journal line, whole: its text with everything visible, its fields, its meaning where it is known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from probes.readings import JournalLine
from tui.screens.whole import WholeScreen, fields
from tui.signs import LEVELS, SEVERITIES
from tui.text import safe, uncoloured, wrap
from tui.units import Zone
from tui.widgets.journal import Journal
from tui.widgets.linerow import take_apart
from tui.widgets.rows import Row, paragraph
from watch.view import FindingView

_CHUNK: Final = 1 << 15
"""Characters made into rows in one go; a line of a megabyte comes in thirty steps, and keys work in between."""

_COPIED: Final = 100_000
"""Characters that are copied at most: terminals refuse more."""


class LineScreen(WholeScreen):
    def __init__(self, journal: Journal, index: int, zone: Zone, findings: Sequence[FindingView]) -> None:
        super().__init__()
        self._journal = journal
        self._index = index
        self._zone = zone
        self._findings = findings

    @property
    def line(self) -> JournalLine:
        return self._journal.store.line(self._index)

    def rows(self, width: int) -> list[Row]:
        store = self._journal.store
        line = self.line
        self.whole.title(f"Line {self._index + 1:,} of {len(store):,}")
        rows = [Row()]
        text = line.text
        if len(text) <= _CHUNK:
            rows.extend(_text(text, width))
        else:
            self.run_worker(self._pour(text, width), group="pour", exclusive=True)
            rows.append(Row()(f" … {len(text):,} characters", "muted"))
        rows.extend([Row(), *self._meaning(width), *_about(line, store.process(self._index), self._zone)])
        loudness = store.loudness(self._index)
        rows.append(Row()(f" {'severity':<14}", "muted")(LEVELS[loudness].word or "not said", LEVELS[loudness].style))
        return rows

    async def _pour(self, text: str, width: int) -> None:
        """A very long line: its fields first, then its text below them, piece by piece."""
        rows = list(self.whole.rows)
        for start in range(0, len(text), _CHUNK):
            rows.extend(_text(text[start : start + _CHUNK], width))
            await asyncio.sleep(0)
        self.whole.fill(rows)

    def _meaning(self, width: int) -> list[Row]:
        rows: list[Row] = []
        for finding in self._findings:
            if not _belongs(self.line, finding):
                continue
            sign = SEVERITIES[finding.severity]
            rows.append(Row()(f" {sign.sign} ", sign.style)(safe(finding.title), "strong"))
            rows.extend(paragraph(finding.cause, width - 2, indent=3))
            if finding.advice:
                rows.extend(paragraph(f"→ {finding.advice}", width - 2, "accent", indent=3, hang=2))
            rows.append(Row())
        return rows

    def text(self) -> str:
        return safe(uncoloured(self.line.text[:_COPIED]))

    def step(self, way: int) -> bool:
        shown = self._journal.store.shown
        row = self._journal.store.row(self._index) + way
        if not 0 <= row < len(shown):
            return False
        self._index = shown[row]
        self._journal.move_to(row)
        return True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "step":
            row = self._journal.store.row(self._index) + (1 if parameters and parameters[0] == 1 else -1)
            return 0 <= row < len(self._journal.store.shown)
        return super().check_action(action, parameters)


def _text(text: str, width: int) -> Iterator[Row]:
    for piece in text.split("\n"):
        for row in wrap(safe(piece), max(1, width - 2)):
            yield Row()(" ", "")(row)


def _belongs(line: JournalLine, finding: FindingView) -> bool:
    if line.cursor and line.cursor in finding.lines:
        return True
    return any(evidence and evidence == line.text for evidence in finding.evidence)


def _about(line: JournalLine, process: str, zone: Zone) -> list[Row]:
    head = take_apart(line.text[:4096])
    return fields(
        [
            ("time", zone.full(line.at) if line.timed else f"{zone.full(line.at)} (of the line before)"),
            ("source", line.source),
            ("process", process),
            ("pid", str(line.pid) if line.pid else ""),
            ("command", line.comm),
            ("identifier", line.ident),
            ("place", head.place),
            ("priority", str(line.priority)),
            ("unit", line.unit),
            ("invocation", line.invocation),
            ("boot", line.boot),
            ("cursor", line.cursor),
            ("cut by", line.line_break),
            ("note", "only the beginning was kept by journalctl" if line.truncated else ""),
            ("file", line.ref),
        ]
    )
