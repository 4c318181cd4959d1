"""Leads an operator through an action: what is asked, the yes, the steps; and what comes after.

One a watch. It pushes screens and hands decisions to ``Operations``; what the screens show comes from the picture.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from probes.operate.orders import Action
from probes.operate.rights import by_hand
from probes.readings import OperatorAction
from tui.desk import Desk
from tui.exits import Ending
from tui.operations.ask import Ask
from tui.operations.confirm import Confirm, warning
from tui.operations.core import Operations
from tui.operations.revisions import DifferenceScreen, RevisionsScreen
from tui.operations.told import ByHandScreen, DiagnosisScreen
from tui.screens.choice import Choice
from tui.stage import Stage
from tui.words.actions import NAMES, OUTCOMES
from watch.history import Revision
from watch.precheck import Precheck, precheck
from watch.proposal import VERBS, Proposal, naming, order
from watch.revisions import environment_changes, joined, version_changes
from watch.view import View

CHANGED = "The files were changed by somebody since you were shown the difference: nothing was done. Decide again."
AGAIN = 10.0
"""Real seconds after which a host that did not say what may be done is asked again."""


class Conductor:
    """``former``: the unit that this watch came from, when its fallback was gone to."""

    def __init__(self, app: Stage, desk: Desk, *, former: str = "", operations: Operations | None = None) -> None:
        self._app = app
        self._desk = desk
        self.operations = operations or Operations(desk, former=former)
        self._view: View | None = None
        self._offered: object = None
        self._active = ""
        self._asking = False
        self._was_lost = False
        self._attached = 0.0
        self._audit_trouble = ""

    def attach(self) -> None:
        """Find out what may be done and whether something is under way."""
        self._attached = time.monotonic()
        self._app.run_worker(self._attach(), group="operations")

    async def _attach(self) -> None:
        await self._desk.first_lines()
        self._ended(await self.operations.attach(), None)

    def see(self, view: View) -> None:
        """The picture has changed."""
        before, self._view = self._view, view
        operations = self.operations
        action = view.action
        unit = view.unit_reading
        active = f"{unit.active} {unit.invocation}" if unit is not None else ""
        lost, self._was_lost = self._was_lost, self._lost
        if active != self._active or (lost and not self._lost):
            self._active = active
            if operations.running is None and operations.rights is not None:
                self._app.run_worker(self._look(), group="operations")
        if operations.trouble and not self._lost and time.monotonic() - self._attached > AGAIN:
            self.attach()
        offered = (self._lost, operations.undoable, action is None, operations.running is None)
        if offered != self._offered:
            self._offered = offered
            self._app.screen.refresh_bindings()
            self._app.watching.refresh_bindings()
        if before is not None and before.action is not None and action is not None:
            was = before.action
            if was.running and was.id == action.id and not action.running and not self._app.shows_steps:
                sign = OUTCOMES.get(action.outcome, OUTCOMES["unknown"])
                words = f"{NAMES.get(action.action, action.action)} {action.unit}: {sign.word.lower()}"
                more = f": {action.detail}" if action.outcome != "done" else ""
                self._say(words + more, error=action.outcome != "done")

    async def _look(self) -> None:
        self._ended(await self.operations.look(), None)

    # ----- what can be done

    @property
    def _lost(self) -> bool:
        link = self._view.link if self._view is not None else None
        return link is not None and link.state in ("down", "refused", "connecting")

    def may(self, what: str) -> bool | None:
        operations, desk = self.operations, self._desk
        if what == "revisions":
            return True
        if desk.read_only:
            return False
        if what == "undo" and operations.undoable is None:
            return False
        if what == "rollback" and desk.history is None and not desk.deployment.fallback:
            return False
        if what == "kill":
            action = self._view.action if self._view is not None else None
            step = action.step if action is not None and action.running else None
            rights = operations.rights
            if step is None or step.name != "stop" or rights is None or rights.level == "none":
                return False
        return None if self._lost else True

    def why_not(self, what: str) -> str:
        if self.may(what) is None and self._view is not None and self._view.link is not None:
            return f"Not now: the link to the host is lost. {self._view.link.reason}".strip()
        return ""

    def conduct(self, what: str) -> None:
        """Begin it, unless something is being asked already."""
        works: dict[str, Callable[[], object]] = {
            "restart": lambda: self._propose(self.operations.draft("restart")),
            "rollback": lambda: self._choose_revision(going_back=True),
            "revisions": lambda: self._choose_revision(going_back=False),
            "start_stop": self._start_or_stop,
            "undo": self._undo,
            "kill": self._kill,
            "diagnose": self._diagnose,
        }
        if what in works and not self._asking and self.may(what):
            self._app.run_worker(self._once(works[what]), group="operations")

    async def _once(self, work: Callable[[], object]) -> None:
        self._asking = True
        try:
            made = work()
            assert asyncio.iscoroutine(made)
            await made
        finally:
            self._asking = False

    # ----- asking

    async def _propose(self, draft: Proposal) -> None:
        """Ask; fill in what the host says meanwhile; do it after a yes."""
        view = self._view
        if view is None:
            return
        if self.operations.running is not None:
            self._app.show_steps()
            return
        if draft.whole and draft.rights is not None and not draft.rights.may(draft.action):
            self._by_hand(draft, precheck(draft.action, view))
            return
        ask = Ask(draft, view, self._app.watching)
        filler = asyncio.create_task(self._fill(ask, draft))
        try:
            yes = await self._app.push_screen_wait(ask)
        finally:
            await _over(filler)
        proposal = ask.proposal
        rights = proposal.rights
        if proposal.whole and rights is not None and not rights.may(proposal.action):
            self._by_hand(proposal, ask.check)
        elif yes:
            self._app.run_worker(self._carry_out(proposal, ask.check), group="operations")
            self._app.show_steps()

    async def _fill(self, ask: Ask, draft: Proposal) -> None:
        proposal = draft if draft.whole else await self.operations.complete(draft)
        rights = proposal.rights
        ask.know(proposal)
        if proposal.whole and rights is not None and not rights.may(proposal.action):
            ask.give_way()

    def _by_hand(self, proposal: Proposal, check: Precheck) -> None:
        rights = proposal.rights
        wanted = order(proposal, check, id="0", who=self.operations.who)
        commands = by_hand(wanted, user=self._desk.deployment.user)
        title = f"{naming(proposal)}: by hand"
        self._app.push_screen(ByHandScreen(title, rights.reason if rights is not None else "", commands))

    async def _start_or_stop(self) -> None:
        unit = self._view.unit_reading if self._view is not None else None
        active = unit.active if unit is not None else ""
        between = unit is not None and unit.sub == "auto-restart"
        offers: list[Action] = []
        if active not in ("inactive", "failed"):
            offers.append("stop")
        if active in ("inactive", "failed", "") or between:
            offers.append("start")
        chosen: str | None = offers[0]
        if len(offers) > 1:
            words = [(str(offer), f"{VERBS[offer]} {self.operations.unit}") for offer in offers]
            chosen = await self._app.push_screen_wait(Choice("Start or stop?", words, ""))
        if chosen is not None:
            await self._propose(self.operations.draft("stop" if chosen == "stop" else "start"))

    async def _undo(self, notice: str = "") -> None:
        found = self.operations.undoable
        if found is None:
            return
        if found.fallback:
            await self._propose(self.operations.draft("fallback", fallback=found.fallback))
        else:
            await self._propose(self.operations.draft("undo", notice=notice))

    async def _choose_revision(self, *, going_back: bool) -> None:
        if going_back and self.operations.running is not None:
            self._app.show_steps()
            return
        desk = self._desk
        while True:
            found = self.operations.lineage(self._invocation)
            screen = RevisionsScreen(
                found, self.operations.unit, self._app.zone, going_back=going_back, fallback=desk.deployment.fallback
            )
            chosen = await self._app.push_screen_wait(screen)
            if chosen is None:
                return
            if chosen.revision is None:
                await self._propose(self.operations.draft("fallback", fallback=desk.deployment.fallback))
                return
            accepted = await self._difference(chosen.revision, going_back=going_back)
            if accepted is not None:
                await self._propose(accepted)
                return

    @property
    def _invocation(self) -> str:
        load = self._view.load if self._view is not None else None
        return load.invocation if load is not None else ""

    async def _difference(self, revision: Revision, *, going_back: bool) -> Proposal | None:
        """Show how a revision differs; a proposal where the operator wants to go back to it."""
        found = self.operations.lineage(self._invocation)
        running = found.running
        zone, at = self._app.zone, revision.last_seen
        draft = self.operations.draft("rollback", revision=revision)
        screen = DifferenceScreen(
            f"Revision of {zone.day(at)} {zone.clock(at, seconds=False)} {zone.name(at)}",
            running.revision.text if running is not None else "",
            "what runs now" if running is not None else "",
            revision.text,
            failed=[one.change for one in found.failed_in(revision.text)],
            versions=version_changes(running.revision.versions, revision.versions) if running is not None else (),
            environment=environment_changes(running.revision.environment, revision.environment)
            if running is not None
            else (),
            proposal=draft if self.may("rollback") else None,
            rebase=going_back or running is None,
        )
        return await self._shown(screen, draft)

    async def _shown(self, screen: DifferenceScreen, draft: Proposal) -> Proposal | None:
        filler = asyncio.create_task(self._know(screen, draft))
        try:
            await self._app.push_screen_wait(screen)
        finally:
            await _over(filler)
        return screen.accepted

    async def _know(self, screen: DifferenceScreen, draft: Proposal) -> None:
        if not self._lost:
            screen.know(await self.operations.complete(draft))

    async def _kill(self) -> None:
        unit = self.operations.unit
        words = (
            f"SIGKILL is sent to every process of {unit}. What is being answered is cut off, and nothing is written"
            " that the server would write at its end. The steps go on as soon as it is dead."
        )
        title = f"Kill {unit} on {self._desk.host.name} now?"
        if await self._app.push_screen_wait(Confirm(title, "Kill it now", warning(words))):
            why = await self.operations.kill()
            self._say(f"It could not be killed: {why}" if why else "SIGKILL is being sent", error=bool(why))

    async def _diagnose(self) -> None:
        desk = self._desk
        screen = DiagnosisScreen(self.operations.unit, desk.host.name, desk.redactor.text)

        async def ask() -> None:
            async for answer in self.operations.diagnose():
                screen.take(answer)
            screen.end()

        asking = asyncio.create_task(ask())
        try:
            await self._app.push_screen_wait(screen)
        finally:
            await _over(asking)

    # ----- doing

    async def _carry_out(self, proposal: Proposal, check: Precheck) -> None:
        other = self.operations.running
        if other is not None:
            self._say(
                f"{other.who} is at it: {other.action} of {other.unit} is under way. Nothing was done", error=True
            )
            return
        self._ended(await self.operations.carry_out(proposal, check), proposal)

    def _ended(self, last: OperatorAction | None, proposal: Proposal | None) -> None:
        """``proposal``: what it was, where it was ours."""
        trouble = self.operations.audit.reason
        if trouble and trouble != self._audit_trouble:
            self._say(trouble, error=True)
        self._audit_trouble = trouble
        if last is None:
            return
        action = self._desk.watching.view(self._desk.watching.now()).action
        if last.outcome == "refused":
            self._say(last.detail, error=True)
            self._app.run_worker(self._look(), group="operations")
        elif proposal is None or action is None or action.id != last.id:
            return
        elif proposal.action == "fallback" and any(step.name == "start" and step.started for step in action.steps):
            self._app.run_worker(self._follow_to(proposal.fallback), group="operations")
        elif action.step is not None and (action.step.name, action.step.status) == ("check", "failed"):
            self._app.run_worker(self._once(lambda: self._again(proposal)), group="operations")

    async def _again(self, proposal: Proposal) -> None:
        """The files were changed between the difference and the yes: show the new difference, and ask again."""
        if proposal.action == "undo":
            await self._propose(self.operations.draft("undo", notice=CHANGED))
            return
        draft = replace(
            self.operations.draft("rollback"),
            wanted=proposal.wanted,
            wanted_environment=proposal.wanted_environment,
        )
        title = "The files of the revision"
        screen = DifferenceScreen(title, "", "", joined(proposal.wanted), proposal=draft, rebase=True, notice=CHANGED)
        accepted = await self._shown(screen, draft)
        if accepted is not None:
            await self._propose(accepted)

    async def _follow_to(self, unit: str) -> None:
        """The fallback was started: the watch goes on with that unit, on the same screen."""
        go = self._desk.elsewhere
        if go is None:
            self._say(f"{unit} was started; to watch it: firstlight watch {self._desk.host.name} {unit}")
            return
        try:
            desk = await go(unit)
        except Ending as ending:
            self._say(str(ending), error=True)
            return
        for reading in self.operations.told:
            await desk.watching.put(reading)
        await self._app.go_to(desk, former=self.operations.unit)

    def _say(self, text: str, *, error: bool = False) -> None:
        self._app.notify(text, severity="error" if error else "information", timeout=10, markup=False)


async def _over(task: asyncio.Task[None]) -> None:
    """End a task that is no longer wanted. What went wrong in it is not kept from whoever watches."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
