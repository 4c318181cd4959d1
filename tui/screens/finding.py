"""One finding, whole: cause, advice, evidence."""

from __future__ import annotations

from itertools import zip_longest

from tui.screens.whole import WholeScreen, fields
from tui.signs import SEVERITIES
from tui.text import safe, uncoloured
from tui.units import Zone
from tui.widgets.findings import Findings
from tui.widgets.rows import Row, paragraph


class FindingScreen(WholeScreen):
    def __init__(self, findings: Findings, zone: Zone) -> None:
        super().__init__()
        self._findings = findings
        self._zone = zone

    def rows(self, width: int) -> list[Row]:
        finding = self._findings.current
        if finding is None:
            return [Row()(" This finding is no longer there.", "muted")]
        place, count = self._findings.place
        self.whole.title(f"Finding {place} of {count}")
        sign = SEVERITIES[finding.severity]
        rows = [Row(), Row()(f" {sign.sign} {sign.word}   ", sign.style)(safe(finding.title), "strong"), Row()]
        rows.extend([Row()(" Cause", "title"), *paragraph(finding.cause or "not known", width - 2, indent=1), Row()])
        if finding.advice:
            rows.extend([Row()(" What to do", "title"), *paragraph(finding.advice, width - 2, "accent", indent=1)])
            rows.append(Row())
        if finding.evidence:
            rows.append(Row()(" As printed", "title"))
            for text, where in zip_longest(finding.evidence, finding.lines, fillvalue=""):
                rows.extend(paragraph(uncoloured(text), width - 2, indent=1, hang=2))
                if where and not where.startswith("s="):
                    rows.append(Row()(f"   {safe(where)}", "faint"))
            rows.append(Row())
        span = self._zone.full(finding.first)
        if finding.count > 1:
            span = f"{finding.count:,} times, first {span}, last {self._zone.full(finding.last)}"
        rows.extend(
            fields(
                [
                    ("seen", span),
                    ("processes", ", ".join(finding.ranks)),
                    ("layer", finding.layer),
                    ("kind", finding.kind),
                    ("follows from", self._title(finding.consequence_of)),
                    ("id", finding.id),
                ]
            )
        )
        return rows

    def _title(self, id: str) -> str:
        return self._findings.title_of(id) if id else ""

    def text(self) -> str:
        finding = self._findings.current
        if finding is None:
            return ""
        parts = [finding.title, f"cause: {finding.cause}", f"advice: {finding.advice}", *finding.evidence]
        return "\n".join(safe(uncoloured(part)) for part in parts)

    def step(self, way: int) -> bool:
        return self._findings.step(way)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "step":
            place, count = self._findings.place
            return place < count if parameters and parameters[0] == 1 else place > 1
        return super().check_action(action, parameters)
