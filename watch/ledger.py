"""What a watch leaves in the history: its load, whenever that has come further, with the files it was started with."""

from __future__ import annotations

from msgspec import Struct

from probes.arguments import exec_start, words
from probes.readings import GpuReading, Reading, UnitFile, UnitReading
from watch.keeping import Keeper
from watch.load_key import load_key
from watch.redact import Redactor
from watch.state import WatchState


class _Files(Struct, frozen=True):
    text: str
    environment: dict[str, str]


class Ledger:
    """Looks on while ``state`` is folded and hands its load to ``keeper``. Never raises (see ``Keeper``).

    It is shown readings as they came: a unit's text is kept exact, since it is what a roll-back writes, and apart from
    the history where it holds secrets. Environment
    files are kept without their secrets. A load's files are those that systemd had loaded when it began: a file that
    is edited while a server runs is no part of the revision that turns out well.
    """

    def __init__(self, state: WatchState, keeper: Keeper, redactor: Redactor | None = None) -> None:
        self._state = state
        self._keeper = keeper
        self._redactor = redactor or Redactor()
        self._unit: UnitReading | None = None
        self._loaded: _Files | None = None
        """as systemd has them now"""
        self._began: dict[str, _Files] = {}
        """by invocation"""
        self._versions: dict[str, str] = {}
        self._told: dict[str, str] = {}
        """the versions that were handed on last"""

    @property
    def reason(self) -> str:
        """Why nothing can be kept; empty while it can."""
        return self._keeper.reason

    @property
    def behind(self) -> bool:
        """Whether versions have become known since ``keep``."""
        return self._versions != self._told

    def see(self, reading: Reading) -> None:
        """A reading as it came from its probe."""
        if isinstance(reading, UnitReading):
            self._see_unit(reading)
        elif isinstance(reading, UnitFile):
            self._see_files(reading)
        elif isinstance(reading, GpuReading) and reading.driver:
            self._versions["driver"] = reading.driver

    def _see_unit(self, unit: UnitReading) -> None:
        before, self._unit = self._unit, unit
        began = before is not None and unit.invocation != before.invocation
        if began and unit.needs_reload and self._loaded is not None:
            # started with what systemd had loaded, whatever stands on the disk by now
            self._began.setdefault(unit.invocation, self._loaded)
        if began:
            self._versions = {name: version for name, version in self._versions.items() if name == "driver"}
        self._versions |= unit.server_packages
        known = self._began.get(unit.invocation)
        if known is not None and not _runs(known.text, unit.server_argv):
            del self._began[unit.invocation]

    def _see_files(self, file: UnitFile) -> None:
        unit = self._unit
        if unit is None or unit.needs_reload:
            return  # what stands on the disk is not what systemd has loaded
        environment = {path: self._redactor.environment(text) for path, text in file.environment.items()}
        self._loaded = _Files(file.text, environment)
        if unit.invocation and _runs(file.text, unit.server_argv):
            self._began.setdefault(unit.invocation, self._loaded)

    def keep(self) -> None:
        """The load has changed, or more is known of it."""
        self._told = dict(self._versions)
        state = self._state
        attempt = state.attempts.current
        if attempt is None:
            return
        load = attempt.load
        arguments = state.asked.arguments()
        model = load.facts.get("model", "") or arguments.get("model", "")
        files = self._began.get(load.invocation)
        if not model and files is None:
            return  # nothing says which later load this one is like, nor what it was started with
        cause = state.findings.cause(load.number)
        self._keeper.keep(
            load,
            load_key(state.target, state.unit, model, arguments),
            unit_text=files.text if files is not None else "",
            redacted=self._redactor.text(files.text) if files is not None else None,
            environment=files.environment if files is not None else None,
            versions=self._versions,
            cause=cause.title if cause is not None else "",
        )


def _runs(text: str, argv: tuple[str, ...]) -> bool:
    """Whether the server can have been started with this text: False where both name the server's arguments and they
    differ, as after an edit and a daemon-reload without a restart. Where it cannot be told, it can."""
    written, runs = _arguments(words(exec_start(text))), _arguments(argv)
    if not written or not runs or any("$" in word or "%" in word for word in written):
        return True
    return written == runs


def _arguments(argv: tuple[str, ...] | list[str]) -> list[str]:
    """What follows ``serve``."""
    listed = list(argv)
    return listed[listed.index("serve") + 1 :] if "serve" in listed else []
