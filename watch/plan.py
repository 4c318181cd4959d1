"""Which files to write and which to remove so that a unit reads as it did in an earlier revision.

Pure: the host is asked before and the files are written after (``probes/operate``). What systemd would not let one do,
or what would hit other units too, is refused here or led round: files of packages are left alone and overridden in
/etc; a template's instance gets a file of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from probes.readings import UnitReading
from watch.revisions import File, digest

PACKAGED = ("/usr/lib/", "/lib/", "/usr/local/lib/", "/usr/share/")
GENERATED = ("/run/systemd/generator", "/run/systemd/transient", "/run/user")


class Step(Struct, frozen=True):
    """``text`` None: the file is removed."""

    path: str
    text: str | None


class Plan(Struct, frozen=True, kw_only=True):
    """``refused``: why nothing will be done, one sentence; then there are no steps. ``notes``: what the operator should
    know before saying yes. ``expect``: digest of the present files, which the host checks before it writes."""

    steps: tuple[Step, ...] = ()
    refused: str = ""
    notes: tuple[str, ...] = ()
    expect: str = ""


def plan(unit: UnitReading, present: Sequence[File], wanted: Sequence[File]) -> Plan:
    """From the files as they are to those of an earlier revision. No steps and no refusal: nothing is to be changed."""
    refused = _refused(unit, present, wanted)
    if refused:
        return Plan(refused=refused)
    now = {file.path: file.text for file in present}
    notes: list[str] = []
    steps: list[Step] = []
    for index, file in enumerate(wanted):
        if now.get(file.path) == file.text:
            continue
        path = file.path
        if index == 0 and unit.unit != path.rpartition("/")[2]:
            path = f"{_etc(unit)}/{unit.unit}"
            notes.append(f"{file.path} is a template: {path} is written, for this instance alone")
        elif path.startswith(PACKAGED):
            path = f"{_etc(unit)}/" + "/".join(path.split("/")[path.split("/").index("system") + 1 :])
            notes.append(f"{file.path} belongs to a package: {path} is written, which goes before it")
        if now.get(path) != file.text:
            steps.append(Step(path, file.text))
    then = {file.path for file in wanted}
    written = {step.path for step in steps}
    for file in present:
        if file.path in then or file.path in written:
            continue
        if file.path.startswith(PACKAGED):
            override = f"{_etc(unit)}/{'/'.join(file.path.split('/')[-2:])}"
            if file is not present[0]:
                notes.append(f"{file.path} belongs to a package and was not there then: {override} hides it")
                steps.append(Step(override, ""))
            continue
        steps.append(Step(file.path, None))
        notes.append(f"{file.path} was not there then: it is removed (and kept aside)")
    return Plan(steps=tuple(steps), notes=tuple(notes), expect=digest(present))


def _refused(unit: UnitReading, present: Sequence[File], wanted: Sequence[File]) -> str:
    if not wanted:
        return "nothing is known of the unit's files at that time"
    if unit.load == "masked":
        return f"{unit.unit} is masked: systemctl unmask {unit.unit} first"
    if unit.load == "not-found":
        return f"there is no unit {unit.unit} on the host any more"
    path = present[0].path if present else unit.fragment
    if path.startswith(GENERATED) or wanted[0].path.startswith(GENERATED):
        return f"{path} is made by a generator or by systemd-run and would be made anew: change its source instead"
    if not present:
        return "the unit's files could not be read"
    return ""


def _etc(unit: UnitReading) -> str:
    """Where the administrator's own units are: of the system, or of the user whose manager runs this one."""
    if "/.config/systemd/user/" in unit.fragment:
        return unit.fragment.partition("/.config/systemd/user/")[0] + "/.config/systemd/user"
    return "/etc/systemd/user" if "/systemd/user/" in unit.fragment else "/etc/systemd/system"
