"""What an operator is asked before anything is done: all that is known by then, and what follows from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from probes.operate.orders import CHANGES_FILES, Action, File, Order, Rights, Saved, UnderWay, UnitFiles
from watch.plan import Plan
from watch.precheck import FailedArgument, Precheck
from watch.revisions import Change, argument_changes, joined, setting_changes
from watch.view import View

UNKNOWN = "what the host says about it is not known yet"


class Proposal(Struct, frozen=True, kw_only=True):
    """One action, to be said yes or no to. ``whole`` False: rights and files are still being asked for.

    ``trouble``: why they could not be. ``other``: an action that is under way. ``fallback``: the unit to go to.
    ``target``: for a roll-back the files of the revision. ``saved``: for an undo what is brought back.
    """

    action: Action
    unit: str
    host: str
    fallback: str = ""
    rights: Rights | None = None
    other: UnderWay | None = None
    files: UnitFiles | None = None
    wanted: tuple[File, ...] = ()
    environment: dict[str, str] = {}
    """the environment files as they are, without their secrets; ``wanted_environment``: as they were"""
    wanted_environment: dict[str, str] = {}
    saved: Saved | None = None
    plan: Plan | None = None
    failed: tuple[FailedArgument, ...] = ()
    trouble: str = ""
    notice: str = ""
    """what is to be said first: the files were changed meanwhile, say"""
    whole: bool = False


VERBS: Mapping[str, str] = {
    "start": "Start",
    "stop": "Stop",
    "restart": "Restart",
    "rollback": "Roll back",
    "undo": "Undo the change of",
    "fallback": "Go from",
}


def newest(proposal: Proposal, view: View) -> View:
    """The picture with what the host has said since about the unit's files: the unit itself is read every few
    seconds only, and an edit may be younger."""
    files, unit = proposal.files, view.unit_reading
    if files is None or unit is None or (files.needs_reload, files.load) == (unit.needs_reload, unit.load):
        return view
    told = replace(unit, needs_reload=unit.needs_reload or files.needs_reload, load=files.load or unit.load)
    return replace(view, unit_reading=told)


def naming(proposal: Proposal) -> str:
    """``Restart vllm.service on llm-two``, ``Go from vllm.service to old.service on llm-two``."""
    # a fallback is named in words that hold for the way back too
    to = f" to {proposal.fallback}" if proposal.fallback else ""
    return f"{VERBS[proposal.action]} {proposal.unit}{to} on {proposal.host}"


def question(proposal: Proposal) -> str:
    return f"{naming(proposal)}?"


def obstacle(proposal: Proposal, check: Precheck) -> str:
    """Why nobody can say yes to this now, one sentence; empty: it can be done."""
    if proposal.trouble:
        return proposal.trouble
    if not proposal.whole:
        return UNKNOWN
    if proposal.rights is not None and not proposal.rights.may(proposal.action):
        return proposal.rights.reason or "This login may not do that"
    if proposal.other is not None:
        return f"{proposal.other.who} is at it: {proposal.other.action} of {proposal.unit} is under way"
    if proposal.plan is not None and proposal.plan.refused:
        return proposal.plan.refused
    if proposal.action in CHANGES_FILES and (proposal.plan is None or not proposal.plan.edits):
        return "The files on the host are those already: there is nothing to change (restart it instead)"
    stop = next((concern for concern in check.concerns if concern.severity == "stop"), None)
    return stop.text if stop is not None else ""


def order(proposal: Proposal, check: Precheck, *, id: str, who: str) -> Order:
    """What is handed to the host once the operator said yes to the proposal with this check."""
    plan = proposal.plan or Plan()
    return Order(
        id=id,
        action=proposal.action,
        unit=proposal.unit,
        who=who,
        fallback=proposal.fallback,
        reload=check.reload and proposal.action not in CHANGES_FILES,
        accept_held=check.accept_held,
        edits=plan.edits,
        expect=plan.expect,
        result=plan.result,
        verify=plan.verify,
    )


def steps_ahead(proposal: Proposal, check: Precheck) -> tuple[str, ...]:
    """What a yes sets going, in words, in its order."""
    action, unit = proposal.action, proposal.unit
    out: list[str] = []
    if action in CHANGES_FILES:
        out.append("see that the files are as they are shown here; keep them, here and on the host")
        out.append("have systemd verify the new ones, put them in place, daemon-reload")
        edits = proposal.plan.edits if proposal.plan is not None else ()
        out += [f"{'remove' if edit.text is None else 'write'} {edit.path}" for edit in edits]
    elif check.reload:
        out.append("daemon-reload, so that the text on disk counts")
    if action != "start":
        limit = f"; systemd ends it by SIGKILL after {check.stop_limit:.0f} s" if check.stop_limit else ""
        limit = limit if check.stop_limit is None or check.stop_limit < 1e7 else "; without a limit in time"
        out.append(f"stop {unit} with SIGTERM{limit} (Kill now is offered meanwhile)")
        out.append("end workers that outlive it")
    out.append("wait until the memory of the GPUs is back" if action != "start" else "see that the GPUs are free")
    if action != "stop":
        out.append(f"start {proposal.fallback or unit} and follow its load from the first line")
    return tuple(out)


def differences(proposal: Proposal) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """Arguments and other settings that a roll-back or undo changes."""
    if proposal.files is None or proposal.plan is None or not proposal.plan.edits:
        return (), ()
    before, after = joined(proposal.files.files), joined(after_plan(proposal.files.files, proposal.plan))
    return argument_changes(before, after), setting_changes(before, after)


def environment_notes(changes: Sequence[Change]) -> tuple[str, ...]:
    """That a roll-back leaves environment files as they are, where that makes a difference."""
    names: dict[str, list[str]] = {}
    for change in changes:
        path, _, name = change.key.partition(" ")
        names.setdefault(path, []).append(name)
    return tuple(
        f"{path} was another then ({', '.join(found[:6])}{' …' if len(found) > 6 else ''}): it is no part of the unit"
        " and stays as it is now"
        for path, found in names.items()
    )


def after_plan(files: Sequence[File], plan: Plan) -> tuple[File, ...]:
    """The files of the unit once the plan is carried out; a new file of the unit's own name stands first."""
    edits = {edit.path: edit.text for edit in plan.edits}
    kept = [
        File(file.path, edits.pop(file.path, file.text) or "") for file in files if edits.get(file.path, "") is not None
    ]
    fresh = [File(path, text) for path, text in edits.items() if text is not None]
    main = [file for file in fresh if not file.path.endswith(".conf")]
    if main:
        kept = kept[1:] if files and not files[0].path.endswith(".conf") else kept
    names = {file.path.rpartition("/")[2] for file in fresh}
    kept = [file for file in kept if file.path.rpartition("/")[2] not in names]
    return (*main, *kept, *(file for file in fresh if file not in main))
