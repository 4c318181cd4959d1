"""The revisions of a unit, and how each differs from what runs now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from textual.app import ComposeResult
from textual.binding import BindingType

from tui.keys import bindings
from tui.leaving import Modal
from tui.operations.difference import change_rows, text_rows
from tui.screens.whole import WholeScreen
from tui.text import pad, safe
from tui.units import Zone, about, number
from tui.widgets.flow import flow
from tui.widgets.footer import Footer
from tui.widgets.listing import Listing
from tui.widgets.rows import Row, paragraph
from watch.history import Benchmark, Revision
from watch.lineage import Lineage, RevisionRow
from watch.proposal import UNKNOWN, Proposal, after_plan
from watch.revisions import Change, argument_changes, environment_changes, joined, setting_changes

OUTCOMES = {
    "ready": ("✔", "ready", "ok"),
    "failed": ("✖", "failed", "error"),
    "stopped": ("■", "stopped", "muted"),
    "loading": ("▶", "loading", "muted"),
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is wanted of a revision; of the fallback unit where it is None."""

    what: Literal["difference", "rollback", "fallback"]
    revision: Revision | None = None


class RevisionList(Listing):
    """One row a revision; ``fallback``: a last row for the other unit."""

    def __init__(self, rows: tuple[RevisionRow, ...], fallback: str, zone: Zone, *, going_back: bool = False) -> None:
        super().__init__()
        self.stuck = going_back and not fallback and all(row.runs for row in rows)
        """there is nothing to go back to"""
        self._revisions = rows
        self._fallback = fallback
        self._zone = zone

    @property
    def current(self) -> RevisionRow | None:
        """None: the fallback, or nothing at all."""
        return self._revisions[self.at] if self.at < len(self._revisions) else None

    @property
    def count(self) -> int:
        return len(self._revisions) + bool(self._fallback)

    def entries(self, width: int) -> list[Row]:
        rows = [revision_row(row, self._zone, width) for row in self._revisions]
        if self._fallback:
            rows.append(
                Row()(" ⇄ ", "accent")(pad("fallback", 12), "strong")("stop this unit, start ", "text")(
                    safe(self._fallback), "strong"
                )
            )
        return rows

    def below(self, width: int) -> list[Row]:
        row = self.current
        if self.stuck:
            only = "The only revision that is known is the one that runs. " if self.count else ""
            return [Row(), *paragraph(only + _HOW, width - 2, "muted", indent=1)]
        if row is not None:
            return [Row(), *detail_rows(row, width)]
        if self.count:
            return []
        return paragraph(
            "No load of this unit has been seen yet: its revisions are kept from the first one on.",
            width - 2, "muted", indent=1,
        )  # fmt: skip


_HOW: Final = (
    "Each watched load keeps its unit's files as a revision; with a change of them the one before is offered here. "
    'Another unit to go to is named by fallback = "UNIT" in [deployments.NAME] of the configuration.'
)


class RevisionsScreen(Modal[Chosen | None]):
    """``going_back``: opened to roll back: the last known-good one is first, the fallback is offered as well."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("revisions")]

    def __init__(self, found: Lineage, unit: str, zone: Zone, *, going_back: bool, fallback: str) -> None:
        super().__init__()
        self._unit = unit
        self._going_back = going_back
        self._trouble = found.trouble
        rows = found.for_roll_back() if going_back else found.rows
        self.list = RevisionList(rows, fallback if going_back else "", zone, going_back=going_back)

    def compose(self) -> ComposeResult:
        yield self.list
        yield Footer()

    def on_mount(self) -> None:
        what = "Roll back" if self._going_back else "Revisions of"
        tail = ": to which revision?" if self._going_back else ""
        if self.list.stuck:
            tail = ": there is nothing to go back to"
        self.list.title(f"{what} {safe(self._unit)}{tail}", self._trouble or "Enter shows the difference")
        self.list.focus()
        self.list.draw()

    def action_open(self) -> None:
        row = self.list.current
        if row is not None:
            self.dismiss(Chosen("difference", row.revision))
        elif self.list.count:
            self.dismiss(Chosen("fallback"))

    def action_close(self) -> None:
        self.dismiss(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "open":
            return self.list.count > 0
        return super().check_action(action, parameters)


def revision_row(row: RevisionRow, zone: Zone, width: int) -> Row:
    """When it was used last, how that went, how long it took, what was measured, what it is now."""
    revision = row.revision
    sign, word, style = OUTCOMES.get(revision.last_outcome, ("·", "not seen", "muted"))
    wide = width >= 110
    out = Row()(f" {sign} ", style)(pad(word, 9), style)
    at = revision.last_seen
    out(f"{zone.day(at)} {zone.clock(at, seconds=False)} {zone.name(at)}  ", "text")
    out(pad(f"load {about(revision.load_seconds)}" if revision.load_seconds is not None else "", 14), "text")
    measured = figures(row.benchmark)
    if wide:
        out(pad(f"{number(revision.loads)} load{'' if revision.loads == 1 else 's'}", 10), "muted")
        out(pad(measured, 26), "text")
    tags = [("runs now", "strong accent")] if row.runs else []
    tags += [("last known good" if wide else "last good", "strong ok")] if row.best else []
    tags += [("known good", "ok")] if revision.known_good and not row.best else []
    tags += [(measured.partition(", ")[0], "text")] if measured and not wide else []
    tags += [(safe(row.cause), "warn")] if row.cause else []
    for place, (tag, look) in enumerate(tags):
        out(" · " if place else " ", "faint")(tag, look)
    return out


ENGINES: Final = {"vllm": "vLLM", "sglang": "SGLang"}


def detail_rows(row: RevisionRow, width: int) -> list[Row]:
    """What has no room in its row: versions, all that was measured, why it failed."""
    revision = row.revision
    versions = " · ".join(f"{ENGINES.get(name, name)} {version}" for name, version in revision.versions.items())
    told = [("ran with", versions or "versions that are not known")]
    if row.benchmark is not None:
        told.append(("benchmark", f"{figures(row.benchmark) or 'kept'} ({row.benchmark.preset})"))
    if row.cause:
        told.append(("failed by", row.cause))
    rows: list[Row] = []
    for name, words in told:
        first, *rest = paragraph(safe(words), width - 14)
        rows += [Row([(f" {name:<11}", "muted"), *first]), *(Row([(" " * 12, ""), *more]) for more in rest)]
    return rows


def figures(benchmark: Benchmark | None) -> str:
    """``86 tok/s, TTFT 124 ms``"""
    if benchmark is None:
        return ""
    out = []
    for key, shape in (("output_throughput", "{:,.0f} tok/s"), ("median_ttft_ms", "TTFT {:,.0f} ms")):
        value = benchmark.result.get(key)
        if isinstance(value, int | float) and value == value:
            out.append(shape.format(value))
    return ", ".join(out)


class DifferenceScreen(WholeScreen):
    """``base``: the text that a revision is compared with, and in words which one that is; ``rebase``: with the
    files on the host instead. ``versions``, ``environment``: what differs in those. With a proposal the way goes on to
    a confirmation of it once it is ``accepted``."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("difference")]

    def __init__(
        self,
        title: str,
        base: str,
        base_words: str,
        text: str,
        *,
        failed: Collection[Change] = (),
        versions: Sequence[Change] = (),
        environment: Sequence[Change] = (),
        proposal: Proposal | None = None,
        rebase: bool = False,
        notice: str = "",
    ) -> None:
        super().__init__()
        self._title = title
        self._base, self._base_words, self._text = base, base_words, text
        self._failed = failed
        self._versions, self._environment = versions, environment
        self._rebase = rebase
        self._notice = notice
        self._proposal = proposal
        self.accepted: Proposal | None = None

    def know(self, proposal: Proposal) -> None:
        """What the host says about a roll back to it: what is compared with is now what stands there."""
        if self._proposal is not None:
            self._proposal = proposal
        if self._rebase and proposal.files is not None and proposal.files.files:
            self._base, self._base_words = joined(proposal.files.files), "what is on the host now"
            self._environment = environment_changes(proposal.environment, proposal.wanted_environment)
            if proposal.plan is not None and proposal.plan.edits:
                self._text = joined(after_plan(proposal.files.files, proposal.plan))
        if self.is_mounted:
            self.fill()
            self.refresh_bindings()

    @property
    def obstacle(self) -> str:
        """Why it cannot be gone back to; empty: it can."""
        proposal = self._proposal
        if proposal is None:
            return ""
        if proposal.trouble or not proposal.whole:
            return proposal.trouble or UNKNOWN
        if proposal.rights is not None and not proposal.rights.may(proposal.action):
            return ""  # the commands for somebody who may are shown then
        if proposal.plan is not None and proposal.plan.refused:
            return proposal.plan.refused
        if proposal.plan is None or not proposal.plan.edits:
            return "The files on the host are those of this revision: there is nothing to roll back"
        return ""

    def rows(self, width: int) -> list[Row]:
        self.whole.title(self._title, f"compared with {self._base_words}" if self._base_words else "")
        rows = [Row()]
        if self._notice:
            rows += [*paragraph(f"⚠ {self._notice}", width - 2, "strong warn", indent=1, hang=2), Row()]
        if self.obstacle:
            sign, style = ("…", "muted") if self.obstacle == UNKNOWN else ("✖", "strong error")
            rows += [*paragraph(f"{sign} {self.obstacle}", width - 2, style, indent=1, hang=2), Row()]
        if not self._base and self._proposal is not None and self._proposal.whole:
            rows += [Row()(" There is nothing on the host to compare it with. The text of the revision", "title")]
            for line in self._text.splitlines():
                rows += flow([("   " + (line or " "), "text")], width - 1, indent=5)
            return rows
        if not self._base:
            return [*rows, Row()(" … the host is asked for the files as they are", "muted")]
        beside = [
            *change_rows("Environment files, which a roll back leaves as they are", self._environment, width),
            *change_rows("What it ran with", self._versions, width),
        ]
        if self._base == self._text:
            return [*rows, Row()(" No difference: the text is the same.", "text"), Row(), *beside]
        rows += [
            Row()(" + ", "strong ok")("comes with it   ", "muted")("− ", "strong error")("goes   ", "muted")
            ("~ ", "strong accent")("changes: ", "muted")("[-from-]", "error")("{+to+}", "ok"),
            Row(),
        ]  # fmt: skip
        arguments = argument_changes(self._base, self._text)
        rows += change_rows(
            "Arguments", arguments, width, failed=self._failed, nothing="The arguments of ExecStart are the same."
        )
        rows += change_rows("Other settings", setting_changes(self._base, self._text), width)
        rows += beside
        return [*rows, Row()(" The text", "title"), *text_rows(self._base, self._text, width)]

    def text(self) -> str:
        return "\n".join(row.text for row in self.rows(10_000))

    def step(self, way: int) -> bool:
        return False

    def action_accept(self) -> None:
        if not self.obstacle and self._proposal is not None:
            self.accepted = self._proposal
            self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "step":
            return False
        if action == "accept":
            return self._proposal is not None and not self.obstacle
        return super().check_action(action, parameters)
