"""What is wrong or worth knowing, most severe first, each fact once."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message

from tui.keys import bindings
from tui.scene import Scene
from tui.signs import SEVERITIES
from tui.text import clip, pad, safe
from tui.widgets.pane import Pane
from tui.widgets.rows import Row
from watch.view import FindingView
from watch.words import rank


def ordered(findings: tuple[FindingView, ...]) -> list[FindingView]:
    """Most severe first; what only follows from another stands right below it; else in the order given."""
    causes = {finding.id for finding in findings}
    leading = [finding for finding in findings if finding.consequence_of not in causes - {finding.id}]
    following: dict[str, list[FindingView]] = {}
    for finding in findings:
        if finding.consequence_of in causes - {finding.id}:
            following.setdefault(finding.consequence_of, []).append(finding)
    rows: list[FindingView] = []
    for finding in sorted(leading, key=lambda finding: (bool(finding.consequence_of), -rank(finding.severity))):
        rows.append(finding)
        rows.extend(following.pop(finding.id, ()))
    rows.extend(finding for rest in following.values() for finding in rest)
    return rows


class Findings(Pane):
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("findings")]

    pane = "findings"
    label = "Findings"
    tab = "Findings"

    class Opened(Message):
        """The operator wants to read this finding."""

        def __init__(self, finding: FindingView) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self) -> None:
        super().__init__()
        self._findings: list[FindingView] = []
        self._at = 0

    @property
    def current(self) -> FindingView | None:
        return self._findings[self._at] if self._findings else None

    @property
    def place(self) -> tuple[int, int]:
        """Which finding is the current one, from 1, and how many there are."""
        return self._at + 1, len(self._findings)

    def title_of(self, id: str) -> str:
        return next((finding.title for finding in self._findings if finding.id == id), id)

    def step(self, way: int) -> bool:
        """Go to the next (1) or the one before (-1); whether there is one."""
        if not 0 <= self._at + way < len(self._findings):
            return False
        self._move(self._at + way)
        return True

    def heading(self, scene: Scene) -> tuple[str, str]:
        count = len(scene.view.findings)
        return f"{self.label} ── {count or 'none'}", ""

    def badge(self, scene: Scene) -> str:
        findings = scene.view.findings
        if not findings:
            return ""
        worst = max(findings, key=lambda finding: rank(finding.severity))
        return f"{SEVERITIES[worst.severity].sign} {len(findings)}"

    def part(self, scene: Scene) -> object:
        return scene.view.findings

    def draw(self, scene: Scene, size: Size) -> list[Row]:
        current = self.current
        self._findings = ordered(scene.view.findings)
        if current is not None:
            self._at = next(
                (at for at, finding in enumerate(self._findings) if _same(finding, current)),
                min(self._at, max(0, len(self._findings) - 1)),
            )
        if not self._findings:
            return [Row()(" Nothing wrong seen so far.", "muted")]
        return [self._row(finding, at, size.width) for at, finding in enumerate(self._findings)]

    def _row(self, finding: FindingView, at: int, width: int) -> Row:
        sign = SEVERITIES[finding.severity]
        focused = at == self._at and self.has_focus
        row = Row(base="cursor" if focused else "")
        follows = bool(finding.consequence_of)
        row(" ↳ " if follows else " ", "faint")(f"{sign.sign} ", sign.style)
        title = safe(finding.title)
        if finding.count > 1:
            title += f" ×{finding.count:,}"
        style = "muted" if follows or finding.severity == "info" else "text"
        if width >= 100:
            half = width // 2 - 4
            row(pad(title, half), style)
            if finding.advice:
                row(" → ", "faint")(clip(safe(finding.advice), width - half - 8), "muted")
        else:
            row(title, style)
        return row

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open":
            return bool(self._findings)
        if action in ("up", "down", "page_up", "page_down", "top", "bottom"):
            return len(self._findings) > 1
        return super().check_action(action, parameters)

    def _move(self, at: int) -> None:
        self._at = min(max(0, at), max(0, len(self._findings) - 1))
        self.redraw()
        height = max(1, self.inner.height)
        top = self.scroll_offset.y
        if not top <= self._at < top + height:
            y = self._at if self._at < top else self._at - height + 1
            self.scroll_to(y=y, animate=False, immediate=True)

    def action_down(self) -> None:
        self._move(self._at + 1)

    def action_up(self) -> None:
        self._move(self._at - 1)

    def action_page_down(self) -> None:
        self._move(self._at + max(1, self.inner.height - 1))

    def action_page_up(self) -> None:
        self._move(self._at - max(1, self.inner.height - 1))

    def action_top(self) -> None:
        self._move(0)

    def action_bottom(self) -> None:
        self._move(len(self._findings) - 1)

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened(self.current))

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.y + self.scroll_offset.y < len(self._findings):
            self._move(offset.y + self.scroll_offset.y)
            if event.chain == 2:
                self.action_open()


def _same(finding: FindingView, other: FindingView) -> bool:
    return (finding.id, finding.load, finding.first) == (other.id, other.load, other.first)
