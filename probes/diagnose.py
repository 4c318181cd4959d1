"""What a stuck load is doing now: stacks, wait channels, open files, and the kernel's last lines."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct

from probes.clock import SYSTEM, Clock
from probes.host import CommandTimeout, Host, HostError
from probes.operate.orders import Rights
from probes.readings import CommandReading
from probes.unit import full_name

MOST = 40
"""Processes that are looked into: a server with eight GPUs has about a dozen."""

LIMIT = 20.0
"""Seconds for one question; py-spy takes one or two, and the kernel may hold it up."""

PROCESSES = r"""
unit=$1 scope=$2
: "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"
export XDG_RUNTIME_DIR
group=$(systemctl "$scope" show -p ControlGroup --value -- "$unit")
[ -n "$group" ] || exit 0
for root in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
  [ -d "$root$group" ] || continue
  find "$root$group" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -n | while read -r pid; do
    read -r comm <"/proc/$pid/comm" || continue
    spy=
    # the unit's own environment: beside its interpreter as it was called, or where VIRTUAL_ENV says
    venv=$(tr '\000' '\n' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^VIRTUAL_ENV=//p')
    for folder in $(tr '\000' '\n' <"/proc/$pid/cmdline" | head -n 2 | sed -n 's#^\(/.*\)/[^/]*$#\1#p') \
      "$venv/bin" "$(dirname -- "$(readlink "/proc/$pid/exe")")" /usr/local/bin /usr/bin; do
      [ ! -x "$folder/py-spy" ] || { spy=$folder/py-spy; break; }
    done 2>/dev/null
    printf '%s\t%s\t%s\n' "$pid" "$spy" "$comm"
  done
  break
done
"""
"""A line for each process of the unit: pid TAB py-spy or nothing TAB comm."""

STACKS = r"""
for task in /proc/"$1"/task/*; do
  read -r name <"$task/comm" || continue
  state=$(sed -n 's/^State:[[:space:]]*//p' "$task/status")
  printf 'thread %s (%s), %s, waits in %s\n' "${task##*/}" "$name" "$state" "$(cat "$task/wchan" 2>/dev/null)"
  cat "$task/stack" 2>/dev/null
done
exit 0
"""

OPEN = r"""
cd "/proc/$1/fd" || exit
for fd in *; do
  file=$(readlink "$fd") || continue
  case $file in /dev/null|/dev/pts/*|pipe:*|socket:*|anon_inode:*|/memfd:*|/proc/*|/sys/*) continue ;; esac
  at=$(sed -n 's/^pos:[[:space:]]*//p' "../fdinfo/$fd" 2>/dev/null)
  size=$(stat -L -c %s "$fd" 2>/dev/null)
  printf '%s: %s, at %s of %s bytes\n' "$fd" "$file" "${at:-?}" "${size:-?}"
done
"""

KERNEL = r"""
said=$(journalctl -k -b -q --no-pager -n 60 -o short-iso 2>/dev/null)
[ -n "$said" ] || said=$(dmesg 2>&1 | tail -n 60)
printf '%s\n' "$said"
"""

PRESSURE = r"""for one in cpu io memory; do printf '%s: ' $one; head -n 1 /proc/pressure/$one; done 2>&1; exit 0"""


class Member(Struct, frozen=True):
    """A process of the unit. ``spy``: where py-spy is for it; empty: nowhere."""

    pid: int
    spy: str
    name: str


async def diagnose(
    host: Host, rights: Rights, unit: str, *, clock: Clock = SYSTEM
) -> AsyncGenerator[CommandReading, None]:
    """One reading a question, as they are answered; what cannot be asked says why in its ``stderr``. Never raises but
    for cancellation. Changes nothing."""
    ask = _Asking(host, rights, clock)
    listing = await ask("the unit's processes", ["sh", "-c", PROCESSES, "sh", full_name(unit), rights.scope])
    members = members_of(listing.stdout)
    if not members:
        yield listing
    else:
        pids = ",".join(str(member.pid) for member in members)
        columns = "pid,ppid,stat,etimes,time,rss,wchan:24,args"
        yield await ask("ps", ["ps", "-ww", "-o", columns, "-p", pids])
    for member in members[:MOST]:
        told = None
        if member.spy:
            told = await ask(
                f"py-spy dump of {member.pid} ({member.name})", [member.spy, "dump", "--pid", str(member.pid)]
            )
            yield told
        if told is None or told.exit_code != 0:
            yield await ask(f"stacks of {member.pid} ({member.name})", ["sh", "-c", STACKS, "sh", str(member.pid)])
        files = await ask(f"files of {member.pid} ({member.name})", ["sh", "-c", OPEN, "sh", str(member.pid)])
        if files.stdout.strip() or files.stderr.strip():
            yield files
    yield await ask("pressure on cpu, io and memory", ["sh", "-c", PRESSURE])
    yield await ask("the kernel's last lines", ["sh", "-c", KERNEL])


class _Asking:
    def __init__(self, host: Host, rights: Rights, clock: Clock) -> None:
        self._host = host
        self._prefix = rights.prefix
        self._clock = clock

    async def __call__(self, title: str, argv: Sequence[str]) -> CommandReading:
        began = time.monotonic()
        try:
            done = await self._host.run([*self._prefix, *argv], timeout=LIMIT)
        except HostError as error:
            return CommandReading(
                at=self._clock.now(),
                command=title,
                stderr=error.reason,
                seconds=time.monotonic() - began,
                timed_out=isinstance(error, CommandTimeout),
            )
        return CommandReading(
            at=self._clock.now(),
            command=title,
            exit_code=done.status,
            stdout=done.stdout.decode("utf-8", "backslashreplace"),
            stderr=done.stderr.decode("utf-8", "backslashreplace"),
            seconds=time.monotonic() - began,
        )


def members_of(listing: str) -> list[Member]:
    out = []
    for line in listing.splitlines():
        pid, *rest = line.split("\t", 2)
        if pid.isdecimal() and len(pid) < 12 and len(rest) == 2:
            out.append(Member(int(pid), rest[0], rest[1]))
    return out


def as_text(readings: Sequence[CommandReading], *, title: str = "") -> str:
    """All of it as one text for people, to be shown and saved. What a terminal would obey is made visible."""
    parts = [title] if title else []
    for reading in readings:
        told = reading.stdout.rstrip()
        if reading.timed_out:
            told = "\n".join(part for part in (told, f"no answer within {LIMIT:g} s: {reading.stderr}") if part)
        elif reading.stderr.strip():
            told = "\n".join(part for part in (told, reading.stderr.strip()) if part)
        parts.append(f"== {reading.command}\n{told or '(nothing)'}")
    text = "\n\n".join(parts) + "\n"
    return "".join(char if char in "\n\t" or char.isprintable() else repr(char)[1:-1] for char in text)
