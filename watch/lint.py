"""What in a unit's files will hurt a model server that takes long to load. Pure.

The rules are those of systemd.service(5), systemd.exec(5) and systemd.unit(5); the durations those of real loads.
"""

from __future__ import annotations

import json
import re

from probes.arguments import is_server
from probes.operate.orders import UnitFiles
from probes.readings import FOREVER, UnitReading
from probes.systemd import span
from probes.unitfile import Command, Setting, commands, effective, environment, settings, stray
from watch.check import Check
from watch.revisions import joined

LONG = 1800.0
"""Seconds that a start may take: large models take that long from a slow disk."""

STOP = 60.0
"""Seconds that a stop may take: requests in flight are waited for."""

DEFAULT_INTERVAL = 10.0
ENOUGH = 300.0
"""Seconds over which starts are counted: systemd's default, and what sees loads that fail after minutes."""

_UNSET = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}|(?:^|\s)\$([A-Za-z_][A-Za-z0-9_]*)(?=\s|$)")
_JSON = re.compile(r"(?:config|kwargs|overrides|limit-mm-per-prompt|rope-scaling)$")
_SET_BY_SYSTEMD = frozenset({
    "HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "MAINPID", "INVOCATION_ID", "RUNTIME_DIRECTORY",
    "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY", "CREDENTIALS_DIRECTORY", "XDG_RUNTIME_DIR",
    "NOTIFY_SOCKET", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MANAGERPID", "SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS",
})  # fmt: skip


def lint(reading: UnitReading, files: UnitFiles | None) -> list[Check]:
    """``files`` None: only what systemd shows of the unit is judged."""
    text = joined(files.files) if files is not None else ""
    found = settings(text)
    known = {**(environment_of(files) if files is not None else {}), **environment(found)}
    known |= {entry.partition("=")[0]: "" for entry in reading.environment}
    out: list[Check] = []
    for key in ("ExecStartPre", "ExecStart", "ExecStartPost", "ExecStop"):
        for command in commands(found, key):
            out += _command(key, command, known)
    out += [
        _bad(f"Line {number} is passed over, since the one before it lacks its backslash: {line[:80]}", "Add a \\.")
        for number, line in stray(text)
    ]
    if reading.needs_reload:
        out.append(_warn("Its files were changed on disk and not loaded since", "systemctl daemon-reload"))
    out += _timeouts(reading)
    out += _restarts(found)
    out += _limits(found, reading)
    return out


def environment_of(files: UnitFiles) -> dict[str, str]:
    """Names (values are left out) that the environment files set."""
    return {
        line.partition("=")[0].strip(): ""
        for text in files.environment.values()
        for line in text.splitlines()
        if "=" in line and not line.lstrip().startswith(("#", ";"))
    }


def _command(key: str, command: Command, known: dict[str, str]) -> list[Check]:
    out: list[Check] = []
    if command.problem:
        return [_bad(f"{key}: {command.problem}", "Close the quote; systemd does not run the line as it is.")]
    if ":" not in command.prefix:
        names = {name for pair in _UNSET.findall(command.raw.replace("$$", "")) for name in pair if name}
        for name in sorted(names - known.keys() - _SET_BY_SYSTEMD):
            out.append(
                _warn(
                    f"{key} names ${name}, which no Environment= sets: systemd puts nothing in its place",
                    f"Set it, or write $${name} where a shell is to read it.",
                )
            )
    if key == "ExecStart":
        out += _json_arguments(command)
    return out


def _json_arguments(command: Command) -> list[Check]:
    out = []
    argv = command.argv
    for index, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if not option.startswith("--") or not _JSON.search(option.replace("_", "-")):
            continue
        if not equals:
            value = argv[index + 1] if index + 1 < len(argv) else ""
        if value[:1] not in "{[" or not value:
            continue
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            out.append(
                _bad(
                    f"{option} is given {value[:60]}, which is no JSON: systemd took its quotes away",
                    f'Put the whole in single quotes: {option} \'{{"key": "value"}}\'',
                )
            )
    return out


def _timeouts(reading: UnitReading) -> list[Check]:
    out: list[Check] = []
    waits = reading.type in ("notify", "notify-reload", "forking", "oneshot", "dbus")
    server = is_server(reading.exec_start) or is_server(reading.server_argv)
    if reading.type in ("notify", "notify-reload") and server:
        out.append(
            _bad(
                f"Type={reading.type}: neither vLLM nor SGLang tells systemd that it is ready, so the start times out",
                "Type=exec (or simple).",
            )
        )
    if reading.type == "forking" and server:
        out.append(_bad("Type=forking: the server does not fork away, so the start times out", "Type=exec."))
    if waits and 0 < reading.timeout_start < LONG:
        out.append(
            _warn(
                f"TimeoutStartSec is {reading.timeout_start:g} s with Type={reading.type}: a long load is killed",
                "TimeoutStartSec=infinity, or Type=exec.",
            )
        )
    if 0 < reading.timeout_stop < STOP and server:
        out.append(
            _warn(
                f"TimeoutStopSec is {reading.timeout_stop:g} s: requests in flight are cut off",
                "TimeoutStopSec=120 or more.",
            )
        )
    if reading.timeout_stop >= FOREVER:
        out.append(
            _warn("TimeoutStopSec is infinity: a server that hangs on SIGTERM is never killed", "Give it a limit: 300.")
        )
    return out


def _last(found: tuple[Setting, ...], key: str, section: str) -> str:
    values = [setting.value for setting in found if setting.section == section and setting.key == key]
    return values[-1] if values else ""


def _restarts(found: tuple[Setting, ...]) -> list[Check]:
    out: list[Check] = []
    restart = _last(found, "Restart", "Service")
    pause = _last(found, "RestartSec", "Service")
    interval = _last(found, "StartLimitIntervalSec", "Unit")
    for key in ("StartLimitIntervalSec", "StartLimitBurst"):
        if effective(found, key, "Service"):
            out.append(_warn(f"{key} stands in [Service], where systemd passes it over", f"Move {key} to [Unit]."))
    if restart == "always":
        out.append(_warn("Restart=always also starts a server anew that ended by itself, well", "Restart=on-failure."))
    if restart and restart != "no" and (span(interval) if interval else DEFAULT_INTERVAL) < ENOUGH:
        shown = interval or f"{DEFAULT_INTERVAL:g} s"
        out.append(
            _warn(
                f"Restart={restart} with starts counted over {shown}: a load that fails late is tried for ever",
                "StartLimitIntervalSec=1h and StartLimitBurst=3 in [Unit].",
            )
        )
    if restart and restart != "no" and not pause:
        out.append(
            _warn(
                "RestartSec is 100 ms, less than GPUs take to give memory back: the next start may find too little",
                "RestartSec=15.",
            )
        )
    return out


def _limits(found: tuple[Setting, ...], reading: UnitReading) -> list[Check]:
    out: list[Check] = []
    kill = _last(found, "KillMode", "Service")
    if kill in ("process", "none"):
        out.append(
            _warn(f"KillMode={kill}: workers outlive their server and keep the GPUs' memory", "KillMode=control-group.")
        )
    memlock = _last(found, "LimitMEMLOCK", "Service")
    server = is_server(reading.exec_start) or is_server(reading.server_argv)
    parallel = any(word.startswith(("--tensor-parallel-size", "-tp", "--tp")) for word in reading.exec_start)
    if server and parallel and memlock != "infinity":
        out.append(
            _warn(
                f"LimitMEMLOCK is {memlock or 'the default'}: NCCL over InfiniBand and pinned memory may fail",
                "LimitMEMLOCK=infinity.",
            )
        )
    return out


def _warn(text: str, remedy: str) -> Check:
    return Check("unit", "warning", text, remedy)


def _bad(text: str, remedy: str) -> Check:
    return Check("unit", "bad", text, remedy)
