"""The words of ``systemctl show``: properties, times, durations, command lines. Total: what cannot be read is empty."""

from __future__ import annotations

import calendar
import re
import shlex

from probes.readings import FOREVER, UnitReading

PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "Result", "Type", "InvocationID", "MainPID", "ControlPID",
    "NRestarts", "ExecMainCode", "ExecMainStatus", "StateChangeTimestamp", "InactiveExitTimestamp",
    "ActiveEnterTimestamp", "ExecMainExitTimestamp", "ExecStartPre", "ExecStart", "Environment", "EnvironmentFiles",
    "ControlGroup", "MemoryMax", "TimeoutStartUSec", "TimeoutStopUSec", "FragmentPath", "DropInPaths",
    "NeedDaemonReload", "User",
)  # fmt: skip

_PROPERTY = re.compile(r"([A-Z][A-Za-z0-9]*)=(.*)", re.DOTALL)
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?: (?:UTC|GMT|Z))?$")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|min|h|d|w|month|y)\b")
_UNITS = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0,
    "month": 2629800.0, "y": 31557600.0,
}  # fmt: skip


def properties(shown: str) -> dict[str, list[str]]:
    """Values by property, one each time it is named. A line that names none goes on the value before it (an argument
    with a newline in it is printed as it is; of a property that such a line seems to name, the last value counts, and
    Id and the states come after the commands)."""
    found: dict[str, list[str]] = {}
    last: list[str] | None = None
    for line in shown.split("\n"):
        named = _PROPERTY.fullmatch(line)
        if named:
            last = found.setdefault(named[1], [])
            last.append(named[2])
        elif last:
            last[-1] += "\n" + line
    return found


def unit_reading(shown: bytes, *, at: float, unit: str) -> UnitReading:
    """The reading of one ``systemctl show -p PROPERTIES`` under TZ=UTC0. ``unit``: its name where no Id is said."""
    values = properties(shown.decode("utf-8", "backslashreplace"))

    def one(name: str) -> str:
        return values.get(name, [""])[-1].strip()

    start = [words for text in values.get("ExecStart", []) if (words := command(text).split())]
    memory = one("MemoryMax")
    return UnitReading(
        at=at,
        unit=one("Id") or unit,
        load=one("LoadState"),
        active=one("ActiveState"),
        sub=one("SubState"),
        result=one("Result"),
        type=one("Type"),
        invocation=one("InvocationID"),
        main_pid=whole(one("MainPID")),
        control_pid=whole(one("ControlPID")),
        restarts=whole(one("NRestarts")),
        exit_code=whole(one("ExecMainCode")),
        exit_status=whole(one("ExecMainStatus")),
        state_changed=timestamp(one("StateChangeTimestamp")),
        started=timestamp(one("InactiveExitTimestamp")),
        active_since=timestamp(one("ActiveEnterTimestamp")),
        main_exited=timestamp(one("ExecMainExitTimestamp")),
        exec_start=tuple(start[-1]) if start else (),
        exec_start_pre=tuple(text for value in values.get("ExecStartPre", []) if (text := command(value))),
        environment=tuple(entry for value in values.get("Environment", []) for entry in unquoted(value)),
        environment_files=tuple(
            path for value in values.get("EnvironmentFiles", []) if (path := value.rpartition(" (")[0] or value)
        ),
        control_group=one("ControlGroup"),
        memory_max=whole(memory) if 0 < whole(memory) < 2**63 else 0,
        timeout_start=span(one("TimeoutStartUSec")),
        timeout_stop=span(one("TimeoutStopUSec")),
        fragment=one("FragmentPath"),
        drop_ins=tuple(unquoted(one("DropInPaths"))),
        needs_reload=one("NeedDaemonReload") == "yes",
        user=one("User"),
    )


def command(text: str) -> str:
    """The arguments in ``{ path=… ; argv[]=a b c ; ignore_errors=no ; … }``, joined by blanks as systemd joins them."""
    _, found, rest = text.partition("argv[]=")
    if not found:
        return ""
    for end in (" ; ignore_errors=", " ; flags="):
        at = rest.rfind(end)
        if at >= 0:
            return rest[:at]
    return rest.removesuffix(" }")


def unquoted(text: str) -> list[str]:
    """``A=1 "B=x y"`` as its entries; a quote that never closes is taken as a character like any other."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def timestamp(text: str) -> float:
    """``Mon 2026-11-30 03:27:39.732387 UTC`` (or without the fraction, or ``@1796009859``) to UTC seconds; else 0."""
    if text.startswith("@"):
        return float(text[1:]) if re.fullmatch(r"@\d{1,12}(\.\d{1,9})?", text) else 0.0
    found = _TIME.search(text)
    if not found:
        return 0.0
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if not (year >= 1970 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return 0.0
    return calendar.timegm((year, month, day, hour, minute, second)) + float(found[7] or 0)


def span(text: str) -> float:
    """``1min 30s`` to seconds; ``infinity`` to FOREVER; a bare number is seconds; 0 for what is none."""
    if text == "infinity":
        return FOREVER
    if re.fullmatch(r"\d{1,15}", text):
        return float(text)
    return min(sum(float(number) * _UNITS[unit] for number, unit in _SPAN.findall(text)), FOREVER)


def whole(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,20}", text) else 0
