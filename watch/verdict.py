"""What the gathered findings amount to: the cause, what follows from it, and how much each still matters."""

from __future__ import annotations

from msgspec.structs import replace

from watch.entry import Entry, merged
from watch.gathered import HOST, Gathered
from watch.texts import fill, short
from watch.view import FindingView
from watch.words import Phase, Severity, rank

_HOST_SPEAKERS = frozenset(("kernel", "gpu", "ssh", "command", "journald", "other", "bench"))
"""What only these say is about the host; whether the load goes on is for the load to show."""
_KIND_OF_PHASE: dict[Phase, str] = {
    "weights": "weights",
    "draft-weights": "weights",
    "compile": "compile",
    "profile": "compile",
    "warmup": "compile",
    "graph-capture": "compile",
}
"""What a failing file is about, by what the load was doing with files just then."""


def views(kept: Gathered, load: int, *, stall: Entry | None, earlier: bool) -> tuple[FindingView, ...]:
    """See ``Findings.views``. ``stall``: the finding of a stall, which is only there while it lasts."""
    cause = _cause(kept, load)
    found: list[tuple[int, FindingView]] = []
    relevant = list(kept.relevant(load))
    if stall is not None:
        relevant.append(stall)
    if cause is not None and cause not in relevant:
        relevant.append(cause)  # what the load before left behind
    own = {(entry.row.id, entry.key[2]) for entry in relevant}
    told: dict[tuple[str, str], int] = {}
    for entry in relevant:
        view = _view(kept, entry, cause, load)
        same = [
            other
            for number, entries in kept.by_load.items()
            if number not in (load, HOST)
            for other in entries
            if (other.row.id, other.key[2]) == (entry.row.id, entry.key[2])
        ]
        if entry is cause:
            view = replace(view, load=load)
        if same and entry.load == load:
            view = merged([*(_view(kept, other, None, other.load) for other in same), view])
        name = (entry.row.id, entry.key[2])
        if name in told:  # seen in a log and by a probe
            order, known = found[told[name]]
            found[told[name]] = (order, merged([view, known]))
            continue
        told[name] = len(found)
        found.append((entry.order, view))
    if earlier:
        for number, entries in kept.by_load.items():
            if number in (load, HOST):
                continue
            before = _cause(kept, number)
            found.extend(
                (entry.order, _view(kept, entry, before, number))
                for entry in entries
                if (entry.row.id, entry.key[2]) not in own
            )
    top = cause.row.id if cause is not None else ""
    found.sort(
        key=lambda item: (
            item[1].load not in (load, HOST),
            -rank(item[1].severity),
            item[1].id != top,
            bool(item[1].consequence_of),
            item[1].benign,
            item[0],
        )
    )
    return tuple(view for _, view in found)


def cause(kept: Gathered, load: int) -> FindingView | None:
    """Why this load cannot go on: its first fatal finding that is not a consequence. None: nothing says so."""
    entry = _cause(kept, load)
    return None if entry is None else _view(kept, entry, entry, load)


def fatal(kept: Gathered, load: int) -> bool:
    """Whether something was seen after which this load cannot become ready any more."""
    return _given_up(kept, load) or any(
        entry.row.severity == "fatal"
        and entry.sure
        and not (entry.settled or entry.cleared or entry.row.benign)
        and not entry.spoken <= _HOST_SPEAKERS
        for entry in kept.by_load.get(load, ())
    )


def _given_up(kept: Gathered, load: int) -> bool:
    """The server itself said that it did not come up."""
    return load in kept.failed and any(
        entry.row.consequence and entry.row.severity == "fatal" and not entry.settled
        for entry in kept.by_load.get(load, ())
    )


def _cause(kept: Gathered, load: int) -> Entry | None:
    entries = sorted(kept.relevant(load), key=lambda entry: entry.order)
    counting = [entry for entry in entries if not (entry.settled or entry.cleared or entry.row.benign)]
    own = [entry for entry in counting if not entry.row.consequence]
    failed = load in kept.failed
    candidates = [entry for entry in own if entry.row.severity == "fatal" and entry.sure]
    if not candidates and failed:
        candidates = [entry for entry in own if entry.row.severity == "fatal"]
    if candidates:
        return _origin(kept, _best_of_chain(candidates), load)
    if not failed:
        return None
    told = [entry for entry in counting if entry.row.consequence]
    for entry in told:
        origin = _origin(kept, entry, load)
        if origin is not entry:
            return origin
    return next((entry for entry in told if entry.row.alone is not None), None)


def _best_of_chain(candidates: list[Entry]) -> Entry:
    """Of the exceptions of one traceback ("During handling of …") a known one says more than an unknown one."""
    first = candidates[0]
    if first.row.id == "exception" and first.chain:
        for entry in candidates[1:]:
            if entry.chain == first.chain and entry.row.id != "exception":
                return entry
    return first


def _origin(kept: Gathered, entry: Entry, load: int) -> Entry:
    for _ in range(4):
        before = next((other for other in kept.present(entry.row.because, load) if other is not entry), None)
        if before is None:
            break
        entry = before
    return entry


def _view(kept: Gathered, entry: Entry, cause: Entry | None, load: int) -> FindingView:
    row = entry.row
    alone = row.alone if row.consequence and cause is entry else None
    texts = alone if alone is not None else row
    values = {"unit": [kept.unit] if kept.unit else [], **kept.facts.get(entry.load, {}), **entry.values}
    if cause is entry:
        for other in kept.by_load.get(load, ()):
            if entry.row.id in other.row.because:
                values = {**other.values, **values}
    if "_detail" in entry.values:
        values["detail"] = [short(" ".join(entry.values["_detail"]), 160)]
    evidence = list(entry.texts)
    if entry.frame is not None:
        frame = entry.frame
        evidence.append(f'  File "{frame.file}", line {frame.line}, in {frame.name}')
    evidence += ["  " + short(text, 300) for text in entry.values.get("_detail", ())][:4]
    kind = entry.values.get("_kind", [row.kind])[-1]
    if row.by_phase:
        kind = _KIND_OF_PHASE.get(entry.phase, kind)
    return FindingView(
        id=row.id,
        kind=kind,
        layer=row.layer,
        severity=_severity(kept, entry, cause, load),
        title=fill(texts.title, values),
        evidence=tuple(evidence),
        lines=entry.refs,
        cause=fill(texts.cause, values),
        advice=fill(texts.remedy, values),
        count=entry.count,
        ranks=tuple(entry.ranks),
        first=entry.first,
        last=entry.last,
        load=entry.load,
        consequence_of=_follows(kept, entry, cause),
        phase=_phase(kept, entry, cause, load),
        benign=row.benign,
    )


def _phase(kept: Gathered, entry: Entry, cause: Entry | None, load: int) -> Phase:
    """Where the load stood; of a cause that struck later, where it struck."""
    if cause is entry and entry.row.severity != "fatal":
        for other in kept.by_load.get(load, ()):
            if entry.row.id in other.row.because and other.row.severity == "fatal":
                return other.phase
    return entry.phase


def _follows(kept: Gathered, entry: Entry, cause: Entry | None) -> str:
    if cause is None:
        origin = _origin(kept, entry, entry.load)
        return "" if origin is entry else origin.row.id
    if cause is entry or entry.row.id == cause.row.id:
        return ""
    if entry.row.consequence or cause.row.id in entry.row.because:
        return cause.row.id
    later = entry.row.severity == "fatal" and not entry.row.benign and entry.order > cause.order
    return cause.row.id if later and entry.load == cause.load else ""


def _severity(kept: Gathered, entry: Entry, cause: Entry | None, load: int) -> Severity:
    row = entry.row
    if row.benign or entry.cleared:
        return "info"
    if cause is entry:  # as severe as the worst that it led to
        worst = [row.severity]
        worst += [e.row.severity for e in kept.by_load.get(load, ()) if row.id in e.row.because and e.sure]
        return max(worst, key=rank)
    if entry.load not in (HOST, load):
        return row.severity
    if entry.settled and (
        row.severity == "fatal" or row.consequence or row.until == "ready" or (not entry.sure and row.id == "exception")
    ):
        return "info"
    if row.severity == "fatal" and not entry.sure and load not in kept.failed:
        return "warning"
    return row.severity
