"""Holds what an operator may do to the watched unit, and the action that runs. No widgets; errors are values.

Every step is a reading: it is put into the watch (recorded, folded, shown from the picture) and kept in the audit log.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from msgspec.structs import replace

from probes.diagnose import diagnose
from probes.host import HostError
from probes.operate.actions import follow_on, kill_now, new_id, operate, under_way
from probes.operate.files import read_files, saved
from probes.operate.orders import CHANGES_FILES, Action, Rights, Saved, UnderWay
from probes.operate.rights import ask_rights
from probes.readings import CommandReading, OperatorAction
from probes.unit import full_name
from tui.desk import Desk, whoami
from watch.aside import keep_aside
from watch.audit import Audit, read_audit
from watch.history import HistoryError, Revision
from watch.lineage import Lineage, lineage
from watch.plan import plan, undo
from watch.precheck import Precheck
from watch.proposal import Proposal, environment_notes, order
from watch.revisions import environment_changes, split_files

READ_ONLY = "firstlight was started read-only: nothing is changed from here"


@dataclass(frozen=True, slots=True)
class Undoable:
    """What an undo would do, in words. ``saved``: files that are brought back; else ``fallback`` is gone back to."""

    text: str
    saved: Saved | None = None
    fallback: str = ""


class Operations:
    """One watch's. ``former``: the unit from which this one was gone to as its fallback; ``who``: names the operator
    to others. ``trouble``: why the rights are not known, one sentence. ``undoable``: None where there is nothing.
    ``told``: what the last action has said."""

    def __init__(self, desk: Desk, *, former: str = "", who: str = "", audit: Audit | None = None) -> None:
        self.desk = desk
        self.unit = full_name(desk.deployment.unit)
        self.who = who or whoami()
        self.rights = Rights(level="none", reason=READ_ONLY) if desk.read_only else None
        self.trouble = ""
        self.undoable: Undoable | None = None
        self.running: UnderWay | None = None
        self.told: list[OperatorAction] = []
        self.audit = audit or Audit(desk.host.name, redactor=desk.redactor)
        self._former = former

    # ----- what may be done

    async def attach(self) -> OperatorAction | None:
        """Once the host is there: what may be done, what can be undone; an action that runs there is followed to its
        end, which is what this returns."""
        self.trouble = ""
        try:
            await self.desk.host.up()
            await self._know_rights()
        except HostError as error:
            self.trouble = sentence(error)
            return None
        await self.look_for_undo()
        return await self.look()

    async def look(self) -> OperatorAction | None:
        """Whether anybody's action runs on the unit: it is followed to its end."""
        if self.running is not None or self.rights is None:
            return None
        try:
            going = await under_way(self.desk.host, self.rights, self.unit)
        except HostError:
            return None  # it is looked for again when the unit next changes
        if going is None or not going.id or self.running is not None:
            return None
        known = self._written() if going.who == self.who else None
        return await self._take_all(going, follow_on(self.desk.host, self.rights, going, clock=self.desk.clock), known)

    async def look_for_undo(self) -> None:
        """See whether there is anything that an undo would bring back."""
        rights = self.rights
        if rights is None or self.desk.read_only:
            return
        found: Undoable | None = None
        if self._former:
            found = Undoable(f"goes back to {self._former}", fallback=self._former)
        elif rights.may("undo"):
            host = self.desk.host
            try:
                kept = await saved(host, rights, self.unit)
                if kept and not undo(await read_files(host, rights, self.unit), kept[0]).refused:
                    found = Undoable(f"brings back the files from before {kept[0].who}'s {kept[0].action}", kept[0])
            except HostError:
                return  # as it was: nothing says that it changed
        self.undoable = found

    async def _know_rights(self) -> Rights:
        if self.rights is None or (self.rights.level == "none" and not self.desk.read_only):
            self.rights = await ask_rights(self.desk.host, self.unit, user=self.desk.deployment.user)
            self.trouble = ""
        return self.rights

    # ----- what is asked before

    def draft(
        self, action: Action, *, fallback: str = "", revision: Revision | None = None, notice: str = ""
    ) -> Proposal:
        """A proposal as far as it is known without asking anybody."""
        return Proposal(
            action=action,
            unit=self.unit,
            host=self.desk.host.name,
            fallback=full_name(fallback) if fallback else "",
            wanted=split_files(revision.text, ()) if revision is not None else (),
            wanted_environment=revision.environment if revision is not None else {},
            saved=self.undoable.saved if action == "undo" and self.undoable is not None else None,
            rights=self.rights,
            notice=notice,
        )

    async def complete(self, draft: Proposal) -> Proposal:
        """The same with what the host says. What it does not say is said in ``trouble``."""
        host = self.desk.host
        try:
            rights = await self._know_rights()
            other = await under_way(host, rights, self.unit)
            files = await read_files(host, rights, self.unit)
        except HostError as error:
            return replace(draft, trouble=sentence(error), whole=True)
        environment = {path: self.desk.redactor.environment(text) for path, text in files.environment.items()}
        made = None
        if draft.action == "rollback":
            made = plan(files, draft.wanted)
            notes = environment_notes(environment_changes(environment, draft.wanted_environment))
            made = replace(made, notes=(*made.notes, *notes))
        elif draft.action == "undo" and draft.saved is not None:
            made = undo(files, draft.saved)
        text = "".join(file.text for file in files.files)
        failed = self.lineage().failed_in(text) if draft.action in ("start", "restart") else ()
        return replace(
            draft,
            rights=rights,
            other=other,
            files=files,
            environment=environment,
            plan=made,
            failed=failed,
            whole=True,
        )

    def lineage(self, invocation: str = "") -> Lineage:
        """The revisions of the unit, from the history."""
        desk = self.desk
        if desk.history is None:
            return Lineage(trouble=desk.no_history or "There is no history.")
        state = desk.watching.state
        try:
            return lineage(desk.history, state.target, state.unit, invocation=invocation)
        except HistoryError as error:
            return Lineage(trouble=str(error))

    # ----- what is done

    async def carry_out(self, proposal: Proposal, check: Precheck) -> OperatorAction | None:
        """Have it done, and take in each step as it comes. The last one."""
        rights = proposal.rights
        if rights is None or self.desk.read_only or self.running is not None:
            return None
        desk = self.desk
        wanted = order(proposal, check, id=new_id(), who=self.who)
        going = UnderWay(unit=self.unit, id=wanted.id, action=wanted.action, who=self.who)
        self.running = going
        if wanted.action in CHANGES_FILES and proposal.files is not None:
            await desk.watching.put(self._kept_aside(proposal, wanted.id))
        return await self._take_all(going, operate(desk.host, rights, wanted, clock=desk.clock), frozenset())

    def _kept_aside(self, proposal: Proposal, id: str) -> OperatorAction:
        files = proposal.files.files if proposal.files is not None else ()
        outcome = "note"
        try:
            said = f"the files of before are kept here too: {keep_aside(self.desk.host.name, self.unit, id, files)}"
        except OSError as error:
            outcome = "warning"
            said = f"the files of before are kept on the host alone: here it failed ({error.strerror or error})"
        return OperatorAction(
            at=self.desk.clock.now(),
            action=proposal.action,
            step="begin",
            outcome=outcome,
            detail=said,
            who=self.who,
            unit=self.unit,
            id=id,
        )

    async def _take_all(
        self,
        going: UnderWay,
        steps: AsyncGenerator[OperatorAction, None],
        written: frozenset[tuple[float, str, str]] | None,
    ) -> OperatorAction | None:
        """``written``: what the audit log has of it already; None: it is not ours to write there."""
        self.running = going
        self.told = []
        last: OperatorAction | None = None
        try:
            async with aclosing(steps):
                async for reading in steps:
                    await self.desk.watching.put(reading)
                    if written is not None and (reading.at, reading.step, reading.outcome) not in written:
                        self.audit.write(reading)
                    self.told.append(reading)
                    last = reading
        finally:
            self.running = None
        if going.action != "fallback" and last is not None and last.outcome != "refused":
            self._former = "" if going.action in CHANGES_FILES else self._former
            await self.look_for_undo()
        return last

    def _written(self) -> frozenset[tuple[float, str, str]]:
        try:
            entries = read_audit(self.audit.path, target=self.desk.host.name, unit=self.unit)
        except OSError:
            return frozenset()
        return frozenset((entry.at, entry.step, entry.outcome) for entry in entries)

    async def kill(self) -> str:
        """Have the stop that is waited for done by SIGKILL. Why that could not be; empty: it was asked for."""
        if self.running is None or self.rights is None:
            return "Nothing is being stopped any more"
        return await kill_now(self.desk.host, self.rights, self.running)

    async def diagnose(self) -> AsyncIterator[CommandReading]:
        """What the unit's processes do now: each answer is recorded as it comes."""
        desk = self.desk
        rights = self.rights or Rights(level="none", user=desk.deployment.user)
        async with aclosing(diagnose(desk.host, rights, self.unit, clock=desk.clock)) as answers:
            async for reading in answers:
                await desk.watching.put(reading)
                yield reading


def sentence(error: HostError) -> str:
    """Reason and remedy."""
    return " ".join(part.rstrip(".") + "." for part in (error.reason, error.remedy) if part)
