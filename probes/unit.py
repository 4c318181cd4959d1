"""The unit as systemd sees it: ``systemctl show`` every five seconds and whenever somebody pokes, ``systemctl cat``
whenever its text may be another. One channel: a shell on the host that is asked."""

from __future__ import annotations

import asyncio
import difflib
import re
import time
from collections.abc import AsyncIterator

from msgspec.structs import replace

from probes.arguments import is_server, model
from probes.asking import Answer, Asker, asking
from probes.clock import SYSTEM, Clock, sleep_unless
from probes.host import Host
from probes.probe import ProbeFailed, words
from probes.readings import Reading, UnitFile, UnitReading
from probes.systemd import PROPERTIES, unit_reading

SCRIPT = r"""
unit=$1 scope=$2 properties=$3
: "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"
export XDG_RUNTIME_DIR TZ=UTC0 SYSTEMD_COLORS=0 SYSTEMD_PAGER= SYSTEMD_URLIFY=0
groups=/sys/fs/cgroup
[ -e $groups/cgroup.controllers ] || groups=$groups/systemd
times=--timestamp=us+utc
show() { systemctl "$scope" --no-pager $times show -p "$properties" -- "$unit"; }
answer() {
control=${1#* }
case ${1%% *} in
show)
  date +%s.%N
  show 2>/dev/null || { times=; show 2>&1; } ;;
cat) systemctl "$scope" --no-pager cat -- "$unit" ;;
env) head -c 65536 -- "$control" 2>/dev/null ;;
argv)
  while IFS= read -r pid; do
    printf '\036%s\n' "$pid"
    tr '\000' '\n' <"/proc/$pid/cmdline"
  done 2>/dev/null <"$groups$control/cgroup.procs" ;;
packages)
  pid=${control%% *} program=${control#* }
  for root in "/proc/$pid/root" ""; do
    for found in "$root${program%/*}"/../lib*/python3*/*-packages/torch-*.dist-info \
      "$root${program%/*}"/../lib*/python3*/*-packages/vllm-*.dist-info \
      "$root${program%/*}"/../lib*/python3*/*-packages/sglang-*.dist-info; do
      [ ! -d "$found" ] || echo "${found##*/}"
    done
  done ;;
near)
  systemctl "$scope" --no-pager --no-legend --plain --full --all --type=service list-units
  systemctl "$scope" --no-pager --no-legend --full --type=service list-unit-files ;;
esac
}
"""
"""Asks: ``show`` (the host's time in seconds on the first line, then the properties), ``cat``, ``near`` (a unit name
first on each line), ``env PATH`` (an environment file), ``argv CGROUP`` (for each process of the group the byte 036,
its pid, and its arguments, one a line), ``packages PID PROGRAM`` (names of the folders in which pip notes name and
version of what is installed beside that program, as the process sees them or as we do). ``--timestamp`` is there from
systemd 247 on; older ones print seconds, in UTC because of TZ."""

EVERY = 5.0
SUFFIXES = (".service", ".scope", ".slice", ".socket", ".target", ".timer", ".mount")


def full_name(unit: str) -> str:
    """With ``.service`` where no kind is given, as systemctl does."""
    return unit if unit.endswith(SUFFIXES) else unit + ".service"


_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]{1,255}")
NAMES = "Names of units have letters, digits and : - _ . @ \\, and 255 of them at most."


def is_name(unit: str) -> bool:
    """Whether a unit can be called so: systemctl would take ``*`` for all of them, and a dash for an option."""
    name = full_name(unit)
    return _NAME.fullmatch(name) is not None and name[0] not in "-."


class UnitProbe:
    """``offset``: how far the host's clock is ahead of ours, in seconds; 0 while it is within a second."""

    def __init__(
        self, host: Host, unit: str, *, user: bool = False, clock: Clock = SYSTEM, every: float = EVERY
    ) -> None:
        self.unit = full_name(unit)
        self.offset = 0.0
        self._host = host
        self._scope = "--user" if user else "--system"
        self._clock = clock
        self._every = every
        self._wanted = asyncio.Event()
        self._text_of: tuple[object, ...] = ()
        self._server: tuple[object, tuple[str, ...]] = ("", ())
        self._packages: dict[str, str] = {}

    def poke(self) -> None:
        """Ask now rather than at the next turn."""
        self._wanted.set()

    async def batches(self) -> AsyncIterator[list[Reading]]:
        """A UnitReading each turn, with a UnitFile where the text may have changed. Ends by an exception only:
        ProbeFailed, or what the host raises."""
        if not is_name(self.unit):
            raise ProbeFailed(f"{self.unit!r} is no name of a unit", NAMES, state="missing")
        arguments = (self.unit, self._scope, ",".join(PROPERTIES))
        async with asking(self._host, SCRIPT, arguments) as asker:
            while True:
                self._wanted.clear()
                yield await self._turn(asker)
                await self._wait()

    async def _wait(self) -> None:
        """Until the next turn, or a poke; pokes in a burst make one turn."""
        if await sleep_unless(self._clock, self._every, self._wanted):
            await asyncio.sleep(0.2)

    async def _turn(self, asker: Asker) -> list[Reading]:
        began = time.monotonic()
        at = self._clock.now()
        answer = await asker.ask("show")
        said, _, shown = answer.output.partition(b"\n")
        if answer.status:
            raise refusal(answer._replace(output=shown), self._scope)
        self._compare(said, at, time.monotonic() - began)
        reading: UnitReading = unit_reading(shown, at=self._clock.now() + self.offset, unit=self.unit)
        if reading.load == "not-found":
            near = near_names(self.unit, (await asker.ask("near")).output)
            return [replace(reading, near=near)]
        if reading.main_pid and reading.control_group:
            argv = await self._server_argv(asker, reading)
            reading = replace(reading, server_argv=argv, server_packages=self._packages)
        out: list[Reading] = [reading]
        text_of = (reading.fragment, reading.drop_ins, reading.needs_reload, reading.invocation, reading.load)
        if text_of != self._text_of:
            answer = await asker.ask("cat")
            if answer.status == 0 and answer.output.strip():
                text = answer.output.decode("utf-8", "backslashreplace")
                environment = await self._environment(asker, reading)
                out.append(UnitFile(at=reading.at, unit=reading.unit, text=text, environment=environment))
            self._text_of = text_of
        return out

    async def _environment(self, asker: Asker, reading: UnitReading) -> dict[str, str]:
        """The environment files that can be read; most are root's alone."""
        found: dict[str, str] = {}
        for path in reading.environment_files[:MOST_FILES]:
            if "\n" not in path:
                answer = await asker.ask(f"env {path}")
                if answer.status == 0:
                    found[path] = answer.output.decode("utf-8", "backslashreplace")
        return found

    async def _server_argv(self, asker: Asker, reading: UnitReading) -> tuple[str, ...]:
        """Asked again until a server is among the processes, then once a start."""
        start = (reading.invocation, reading.main_pid)
        if self._server[0] != start or not self._server[1]:
            answer = await asker.ask(f"argv {reading.control_group}")
            self._server = (start, server_among(answer.output))
            self._packages = await self._packages_beside(asker, reading.main_pid)
        return self._server[1]

    async def _packages_beside(self, asker: Asker, pid: int) -> dict[str, str]:
        """Of the interpreter, else of the script that it runs."""
        for program in self._server[1][:2]:
            if program.startswith("/") and "\n" not in program:
                found = packages((await asker.ask(f"packages {pid} {program}")).output)
                if found:
                    return found
        return {}

    def _compare(self, said: bytes, at: float, took: float) -> None:
        """The host's clock against ours. The answer's own way makes it uncertain by what it took; an offset once taken
        stands while it is right to half a second, so that time goes evenly."""
        if re.fullmatch(rb"\d{9,11}\.\d{1,9}", said):
            ahead = float(said) - at
            if abs(ahead) <= 1.0 + took:
                ahead = 0.0
            if abs(ahead - self.offset) > 0.5 + took:
                self.offset = ahead


MOST_NAMES = 5000
"""Units among which names like one are looked for, and environment files of one that are read."""
MOST_FILES = 50


def near_names(unit: str, listing: bytes, most: int = 5) -> tuple[str, ...]:
    """Names of units like this one, from lines that begin with a unit's name."""
    names = {
        name
        for line in listing.decode("utf-8", "backslashreplace").splitlines()
        if (parts := line.lstrip("●*x ○").split()) and (name := parts[0]).endswith(".service")
    }
    names = set(sorted(names)[:MOST_NAMES])
    stem = unit.removesuffix(".service").partition("@")[0].lower()
    holding = sorted((name for name in names if stem and stem in name.lower()), key=len)
    by_stem = {name.removesuffix(".service").lower(): name for name in sorted(names - set(holding))}
    alike = difflib.get_close_matches(stem, by_stem, n=most, cutoff=0.6)
    return tuple([*holding, *(by_stem[name] for name in alike)][:most])


def server_among(listing: bytes) -> tuple[str, ...]:
    """The arguments of the first process that starts a model server, from the answer to ``argv``. Its children have
    given themselves other titles, or are named after the same command: the oldest process comes first."""
    for process in listing.decode("utf-8", "backslashreplace").split("\x1e"):
        pid, _, rest = process.partition("\n")
        argv = tuple(rest.removesuffix("\n").split("\n"))
        if pid.isdigit() and is_server(argv) and model(argv):
            return argv
    return ()


def packages(listing: bytes) -> dict[str, str]:
    """Version by name, from ``torch-2.9.0+cu128.dist-info`` a line; the first of a name counts."""
    found: dict[str, str] = {}
    for line in listing.decode("utf-8", "replace").splitlines():
        known = re.fullmatch(r"(torch|vllm|sglang)-(\d[\w.+!]{0,60})\.dist-info", line)
        if known is not None:
            found.setdefault(known[1], known[2])
    return found


def refusal(answer: Answer, scope: str) -> ProbeFailed:
    """What systemctl said, as a sentence with a remedy."""
    text = answer.output.decode("utf-8", "backslashreplace")
    if answer.status in (126, 127) or "not been booted with systemd" in text or "Host is down" in text:
        return ProbeFailed(
            "This host does not run systemd, so there is no unit to watch",
            "firstlight watches services under systemd; give a host whose PID 1 is systemd.",
            state="missing",
        )
    if scope == "--user" and ("bus" in text or "XDG_RUNTIME_DIR" in text):
        return ProbeFailed(
            "There is no service manager for this user",
            "Log in as the user whose unit it is, and let its manager run without a session: loginctl enable-linger.",
            state="missing",
        )
    return ProbeFailed(f"systemctl show failed: {words(answer.output) or f'exit status {answer.status}'}")
