"""Which files to write and which to remove so that a unit reads as it did in an earlier revision.

Pure: the host is asked before (``operate.files``) and the files are written after (``operate.actions``). What systemd
would not let one do, or what would hit other units too, is refused here or led round: files of packages are left alone
and overridden in the administrator's folder; a template's instance gets files of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from probes.operate.orders import Edit, File, Saved, UnitFiles
from watch.redact import HIDDEN
from watch.revisions import digest

PACKAGED = ("/usr/lib/", "/lib/", "/usr/local/lib/", "/usr/share/", "/usr/local/share/")
GENERATED = ("/run/systemd/generator", "/run/systemd/transient")


class Plan(Struct, frozen=True, kw_only=True):
    """``refused``: why nothing will be done, one sentence with a remedy; then there are no edits. ``notes``: what the
    operator should know before saying yes. ``expect``, ``result``, ``verify``: as an ``Order`` takes them. No edits and
    no refusal: nothing is to be changed."""

    edits: tuple[Edit, ...] = ()
    refused: str = ""
    notes: tuple[str, ...] = ()
    expect: str = ""
    result: str = ""
    verify: tuple[tuple[str, str], ...] = ()


def plan(now: UnitFiles, wanted: Sequence[File]) -> Plan:
    """From the files as they are to those of an earlier revision."""
    refused = _refused(now, wanted)
    if refused:
        return Plan(refused=refused)
    present = {file.path: file.text for file in now.files}
    notes: list[str] = []
    edits: list[Edit] = []
    reached: list[File] = []
    """the files that will be in force"""
    for index, file in enumerate(wanted):
        path, why = _place(now, file.path, main=index == 0)
        if present.get(file.path) == file.text:
            reached.append(file)
            continue
        if generated(file.path):
            notes.append(f"{file.path} is made by a generator and stays as it is now")
            reached += [File(file.path, present[file.path])] if file.path in present else []
            continue
        reached.append(File(path, file.text))
        if present.get(path) != file.text:
            edits.append(Edit(path, file.text))
            notes += [why] if why else []
            if path in now.links:
                notes.append(f"{path} is a link: {now.links[path]} is what is written")
    names = {_name(file.path) for file in reached[1:]}
    gone: list[str] = []
    for file in now.files[1:]:
        if _name(file.path) in names:
            continue  # it is in force, or one of the same name goes before it
        if generated(file.path):
            notes.append(f"{file.path} is made by a generator and stays, though it was not there then")
            reached.append(file)
            continue
        path, why = _place(now, file.path, main=False)
        gone.append(_name(file.path))
        if path == file.path:
            edits.append(Edit(file.path, None))
            notes.append(f"{file.path} was not there then: it is removed (and kept aside)")
        else:
            edits.append(Edit(path, ""))
            notes.append(f"{why}; it was not there then, so that the new one is empty")
    main = now.files[0].path
    if reached and main != reached[0].path and _own(now, main) and not _own(now, reached[0].path):
        # what is to be in force again is what this one hides
        edits.append(Edit(main, None))
        notes.append(f"{main} hides {reached[0].path}: it is removed (and kept aside)")
    if not edits:
        return Plan(notes=tuple(notes))
    first, *rest = reached
    rest.sort(key=lambda file: _name(file.path))
    return Plan(
        edits=tuple(edits),
        notes=tuple(notes),
        expect=digest(now.files),
        result=digest([first, *rest]),
        verify=(
            (now.unit, first.text),
            *((f"{now.unit}.d/{_name(file.path)}", file.text) for file in rest),
            # so that drop-ins which are to go are not read from where they still are
            *((f"{now.unit}.d/{name}", "") for name in gone),
        ),
    )


def generated(path: str) -> bool:
    """Whether systemd or one of its generators writes this file anew."""
    return path.startswith(GENERATED) or (path.startswith("/run/user/") and "/systemd/generator" in path)


def _refused(now: UnitFiles, wanted: Sequence[File]) -> str:
    unit = now.unit
    if not wanted:
        return "Nothing is known of the unit's files at that time"
    if now.load == "masked":
        return f"{unit} is masked, so that it cannot be started: systemctl unmask {unit} first"
    if now.load == "not-found" or (not now.files and not now.unread):
        return f"There is no unit {unit} on the host any more: write its file anew, then systemctl daemon-reload"
    if now.unread:
        path, why = next(iter(now.unread.items()))
        return f"{path} cannot be read ({why}), so that what would be changed is not known"
    if generated(now.files[0].path) or "/systemd/transient/" in now.files[0].path:
        path = now.files[0].path
        return f"{path} is made by a generator or by systemd-run and would be made anew: change its source instead"
    held = {line for file in now.files for line in file.text.splitlines()}
    for file in wanted:
        if any(HIDDEN in line and line not in held for line in file.text.splitlines()):
            return f"{file.path} is only known with its secrets taken out ({HIDDEN}): bring it back by hand"
    if generated(wanted[0].path):
        return f"{wanted[0].path} was made by a generator or by systemd-run: it cannot be brought back from here"
    return ""


def _place(now: UnitFiles, path: str, *, main: bool) -> tuple[str, str]:
    """Where a file of this unit alone is to be written so that it counts instead of the one at ``path``, and why that
    is another place."""
    if main:
        if _name(path) == now.unit and not path.startswith(PACKAGED):
            return path, ""
        place = f"{now.own}/{now.unit}"
        if _name(path) != now.unit:
            return place, f"{path} serves other units too: {place} is written, for this one alone"
        return place, f"{path} belongs to a package: {place} is written, which goes before it"
    if path.rpartition("/")[0].endswith(f"/{now.unit}.d") and not path.startswith(PACKAGED):
        return path, ""
    place = f"{now.own}/{now.unit}.d/{_name(path)}"
    if path.startswith(PACKAGED):
        return place, f"{path} belongs to a package: {place} goes before it"
    return place, f"{path} is for other units too: {place} goes before it, for this one alone"


def _own(now: UnitFiles, path: str) -> bool:
    return path.rpartition("/")[0] == now.own and _name(path) == now.unit


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def undo(now: UnitFiles, kept: Saved) -> Plan:
    """From the files as they are to those that an action kept before it changed them."""
    present = {file.path: file.text for file in now.files}
    edits = tuple(edit for edit in kept.edits if edit.text is None or present.get(edit.path) != edit.text)
    if now.load == "masked":
        return Plan(refused=f"{now.unit} is masked: systemctl unmask {now.unit} first")
    if not edits:
        return Plan(refused="The files are as they were before that action")
    back = {edit.path: edit.text for edit in edits}
    texts = {**present, **back}
    main = now.files[0].path if now.files else ""
    text = next((text for path, text in texts.items() if _name(path) == now.unit and text is not None), None)
    if text is None and main and back.get(main, "") is not None:
        text = present.get(main)
    verify: list[tuple[str, str]] = []
    if text is not None:  # else another file comes into force again, which is not known here
        verify.append((now.unit, text))
        verify += [(f"{now.unit}.d/{_name(p)}", t or "") for p, t in texts.items() if p.endswith(".conf")]
    return Plan(edits=edits, expect=digest(now.files), verify=tuple(verify))
