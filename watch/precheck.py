"""What would go wrong with a start or restart, and what it would end: told before the operator says yes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from probes.operate.orders import Action, Rights
from watch.history import LoadRecord
from watch.revisions import Change, argument_changes, arguments_of
from watch.view import View


class Concern(Struct, frozen=True, kw_only=True):
    """``severity``: stop (it will fail), warning, note. ``text``: one sentence. ``id``: memory-held, needs-reload,
    failed-argument, driver-mismatch, start-limit, masked, not-found, requests, loading, link."""

    id: str
    severity: str
    text: str
    remedy: str = ""


class Precheck(Struct, frozen=True, kw_only=True):
    """``running``: what runs now, one sentence. ``requests``: in flight; None: not known. ``last_load``: seconds to
    ready; None: not known. ``stop_limit``: seconds until systemd kills what does not stop. ``reload``, ``accept_held``:
    as the Order takes them when the operator says yes to all of this."""

    running: str
    requests: int | None = None
    last_load: float | None = None
    stop_limit: float | None = None
    concerns: tuple[Concern, ...] = ()
    reload: bool = False
    accept_held: bool = False


class FailedArgument(Struct, frozen=True, kw_only=True):
    """An argument with which the last load failed and without which one had reached ready."""

    change: Change
    at: float
    cause: str = ""


def precheck(
    action: Action, view: View, *, rights: Rights | None = None, failed: Sequence[FailedArgument] = ()
) -> Precheck:
    """``failed``: from ``failed_arguments``."""
    unit = view.unit_reading
    requests = None
    if view.serving is not None and not view.serving.error and view.serving.running is not None:
        requests = round(view.serving.running + (view.serving.waiting or 0))
    concerns: list[Concern] = []
    ends = action != "start"
    starts = action != "stop"
    if ends and requests:
        concerns.append(Concern(id="requests", severity="warning", text=f"{requests} requests in flight are cut off"))
    if ends and view.state == "loading":
        concerns.append(
            Concern(
                id="loading",
                severity="warning",
                text="It is still loading: a server that loads may not heed SIGTERM until systemd kills it",
                remedy="Kill now is offered while it stops.",
            )
        )
    if starts and action != "fallback" and unit is not None:
        concerns += _of_unit(action, view, unit.load, unit.result, unit.needs_reload)
    if starts:
        concerns += _of_memory(view)
        concerns += _of_findings(view)
        concerns += [_of_argument(one) for one in failed]
    if rights is not None and not rights.may(action):
        concerns.append(Concern(id="rights", severity="stop", text=rights.reason))
    return Precheck(
        running=_running(view),
        requests=requests,
        last_load=view.last_load_seconds,
        stop_limit=unit.timeout_stop if unit is not None and unit.timeout_stop else None,
        concerns=tuple(concerns),
        reload=bool(starts and unit is not None and unit.needs_reload),
        accept_held=any(concern.id == "memory-held" for concern in concerns),
    )


def failed_arguments(text: str, loads: Sequence[LoadRecord], texts: Mapping[int, str]) -> tuple[FailedArgument, ...]:
    """Which arguments of the unit's text as it is are those with which its last load failed. ``loads``: most recent
    first; ``texts``: unit text by revision id. None where the last one did not fail, or failed with nothing that the
    last good one lacked."""
    ended = [load for load in loads if load.outcome in ("ready", "failed")]
    if not ended or ended[0].outcome != "failed" or ended[0].revision not in texts:
        return ()
    good = next((load for load in ended if load.outcome == "ready" and load.revision in texts), None)
    before = texts[good.revision] if good is not None else ""
    now = arguments_of(text)
    return tuple(
        FailedArgument(change=change, at=ended[0].started, cause=ended[0].cause)
        for change in (argument_changes(before, texts[ended[0].revision]) if before else ())
        if now.get(change.key) == change.new
    )


def _running(view: View) -> str:
    words = {
        "ready": "It serves now",
        "loading": f"It is loading (phase {view.phase})",
        "failed": "It has failed",
        "stopping": "It is stopping",
        "stopped": "It does not run",
    }
    return words.get(view.state, f"It is {view.state}")


def _of_unit(action: Action, view: View, load: str, result: str, needs_reload: bool) -> list[Concern]:
    out: list[Concern] = []
    if load == "masked":
        out.append(
            Concern(
                id="masked", severity="stop", text="The unit is masked", remedy=f"systemctl unmask {view.unit} first"
            )
        )
    elif load == "not-found":
        out.append(Concern(id="not-found", severity="stop", text="There is no such unit on the host"))
    if needs_reload and action in ("start", "restart"):
        out.append(
            Concern(
                id="needs-reload",
                severity="warning",
                text="Its file was changed on disk and not loaded since: it starts with the new text",
                remedy="daemon-reload is done first; look at the difference in the revisions.",
            )
        )
    # a server that ended by an error keeps that as its result at the limit: then only systemd's own line says so
    limited = view.state == "failed" and any(finding.id == "start-limit" for finding in view.findings)
    if result == "start-limit-hit" or limited:
        out.append(
            Concern(
                id="start-limit",
                severity="note",
                text="systemd has given up starting it (start limit): reset-failed is done first",
            )
        )
    return out


def _of_memory(view: View) -> list[Concern]:
    if view.gpu is None:
        return []
    others = [holder for holder in view.gpu.holders if not holder.ours and not holder.dying]
    if not others:
        return []
    named = ", ".join(
        f"{holder.role} (pid {holder.pid}" + (f", {holder.mib / 1024:.1f} GiB)" if holder.mib is not None else ")")
        for holder in others[:3]
    )
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return [
        Concern(
            id="memory-held",
            severity="warning",
            text=f"GPU memory is held by {named}{more}: the start may find too little",
            remedy="End those processes first, unless they are meant to share the GPUs.",
        )
    ]


def _of_findings(view: View) -> list[Concern]:
    for finding in view.findings:
        told = (finding.id + finding.title).lower()
        if finding.kind == "gpu" and "mismatch" in told and not finding.benign:
            return [Concern(id="driver-mismatch", severity="stop", text=finding.title, remedy=finding.advice)]
    for source in view.sources:
        if source.state != "up" and "mismatch" in source.reason.lower():
            return [Concern(id="driver-mismatch", severity="stop", text=source.reason, remedy=source.remedy)]
    return []


def _of_argument(failed: FailedArgument) -> Concern:
    change = failed.change
    shown = change.key if not change.new else f"{change.key} {change.new}"
    text = f"The last load failed with {shown}" if change.new is not None else f"The last load failed without {shown}"
    return Concern(id="failed-argument", severity="warning", text=text + (f": {failed.cause}" if failed.cause else ""))
