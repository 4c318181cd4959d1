"""The confirmation of an action: what runs, what would go wrong, what a yes sets going. It fills in as it is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from probes.operate.orders import Rights
from tui.operations.confirm import Confirm
from tui.operations.difference import change_rows
from tui.scene import Scene
from tui.signs import Sign
from tui.stage import Watched
from tui.text import safe
from tui.units import about, number
from tui.widgets.rows import Row, paragraph
from watch.precheck import Concern, Precheck, precheck
from watch.proposal import Proposal, differences, newest, obstacle, question, steps_ahead
from watch.view import View

CONCERNS: Final = {
    "stop": Sign("✖", "would fail", "strong error"),
    "warning": Sign("⚠", "warning", "strong warn"),
    "note": Sign("i", "note", "muted"),
}
YES: Final = {
    "start": "Start it",
    "stop": "Stop it",
    "restart": "Restart it",
    "rollback": "Roll back and restart",
    "undo": "Undo and restart",
    "fallback": "Stop this one, start that",
}


class Ask(Confirm):
    """``proposal`` and ``check`` are what was last shown: a yes is to these. It follows the pictures of ``watch``."""

    def __init__(self, proposal: Proposal, view: View, watch: Watched) -> None:
        super().__init__(question(proposal), YES[proposal.action])
        self._watch = watch
        self.proposal = proposal
        self._view = view
        self.check = self._checked()

    def on_mount(self) -> None:
        self._watch.followers.add(self)
        super().on_mount()

    def on_unmount(self) -> None:
        self._watch.followers.discard(self)

    def know(self, proposal: Proposal) -> None:
        """More is known."""
        self.proposal = proposal
        self._again()

    def show(self, scene: Scene) -> None:
        self._view = scene.view
        self._again()

    def give_way(self) -> None:
        """This login may not: something else is shown instead."""
        if self.is_current:
            self.dismiss(False)

    def _again(self) -> None:
        check = self._checked()
        grown = {concern.id for concern in check.concerns} - {concern.id for concern in self.check.concerns}
        self.check = check
        if grown:
            self.buttons.at = 0  # what was not yet said when Yes was chosen is read first
        if self.is_mounted:
            self.fill()

    def _checked(self) -> Precheck:
        proposal = self.proposal
        return precheck(proposal.action, newest(proposal, self._view), rights=proposal.rights, failed=proposal.failed)

    def rows(self, width: int) -> Sequence[Row]:
        why = self._lost or self._busy or obstacle(self.proposal, self.check)
        self.buttons.on = not why
        self.buttons.yes = YES[self.proposal.action] + (
            ", though GPU memory is held" if self.check.accept_held and not why else ""
        )
        return proposal_rows(self.proposal, self.check, self._view, why, width)

    @property
    def _busy(self) -> str:
        action = self._view.action
        if action is None or not action.running or action.unit != self.proposal.unit:
            return ""
        return f"{action.who} is at it: {action.action} of {action.unit} is under way"

    @property
    def _lost(self) -> str:
        link = self._view.link
        return "The link to the host is lost" if link is not None and link.state in ("down", "refused") else ""


def proposal_rows(proposal: Proposal, check: Precheck, view: View, why: str, width: int) -> list[Row]:
    """``why``: nobody can say yes now, because of this."""
    rows = [Row()]
    if proposal.notice:
        rows += [*paragraph(f"⚠ {proposal.notice}", width - 2, "strong warn", indent=1, hang=2), Row()]
    rows += _fact("now", check.running + _requests(check), width)
    if check.last_load is not None:
        rows += _fact("last load", f"took {about(check.last_load)} to ready", width)
    if view.model:
        rows += _fact("model", view.model, width)
    if proposal.fallback:
        rows += _fact("instead", proposal.fallback, width)
    if proposal.rights is not None and proposal.rights.how:
        rows += _fact("as", _as(proposal.rights), width)
    rows.append(Row())
    for concern in check.concerns:
        rows += _concern(concern, width)
    if check.concerns:
        rows.append(Row())
    elif proposal.whole and not why:
        rows += [Row()(" ✔ ", "ok")("nothing is known that stands in its way", "text"), Row()]
    if why:
        waiting = not proposal.whole and not proposal.trouble
        said = {concern.text for concern in check.concerns}
        if why not in said:
            sign, style = ("…", "muted") if waiting else ("✖", "strong error")
            rows += [*paragraph(f"{sign} {why}", width - 2, style, indent=1, hang=2), Row()]
    rows.append(Row()(" A yes sets this going, step by step, on the host itself", "title"))
    for place, step in enumerate(steps_ahead(proposal, check), 1):
        rows += paragraph(f"{place}. {step}", width - 2, indent=1, hang=3)
    rows.append(Row())
    arguments, settings = differences(proposal)
    failed = [one.change for one in proposal.failed]
    rows += change_rows("Arguments that change", arguments, width, failed=failed)
    rows += change_rows("Other settings that change", settings, width)
    if proposal.plan is not None and proposal.plan.notes:
        rows.append(Row()(" To know", "title"))
        for note in proposal.plan.notes:
            rows += paragraph(f"i {note}", width - 2, "muted", indent=1, hang=2)
        rows.append(Row())
    return rows


def _requests(check: Precheck) -> str:
    if check.requests is None:
        return ""
    return f"; {number(check.requests)} request{'' if check.requests == 1 else 's'} in flight"


def _fact(name: str, value: str, width: int) -> list[Row]:
    first, *rest = paragraph(value, width - 14)
    return [Row([(f" {name:<11}", "muted"), *first]), *(Row([(" " * 12, ""), *row]) for row in rest)]


def _as(rights: Rights) -> str:
    return rights.login if rights.how == rights.login else f"{rights.login} ({rights.how})"


def _concern(concern: Concern, width: int) -> list[Row]:
    sign = CONCERNS.get(concern.severity, CONCERNS["note"])
    rows = paragraph(f"{sign.sign} {sign.word}: {safe(concern.text)}", width - 2, sign.style, indent=1, hang=2)
    if concern.remedy:
        rows += paragraph(f"→ {concern.remedy}", width - 2, "accent", indent=3, hang=2)
    return rows
