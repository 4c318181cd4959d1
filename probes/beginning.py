"""Where a unit's journal is to be read from, and whether it may be read at all: one command, since every command costs
a slow link two ways there and back before the first line can come."""

from __future__ import annotations

from dataclasses import dataclass

from probes.host import Completed, Host
from probes.probe import ProbeFailed
from probes.systemd import properties, timestamp

SCRIPT = r"""
unit=$1 scope=$2 invocation=$3
uid=$(id -u)
part() { printf '\n\036\n'; }
show() { timeout 4 systemctl "$scope" --no-pager "$@" show -p Id,InvocationID,InactiveExitTimestamp -- "$unit"; }
export_of() { fields=$1; shift; journalctl -q -o export --no-pager --output-fields="$fields" "$@"; }
echo "$uid"
id -un
cat /proc/sys/kernel/random/boot_id
part
said=$(journalctl --no-pager -n 0 2>&1)
status=$?
printf '%s\n' "$said"
part
echo "$status"
[ -n "$scope" ] && [ "$status" -lt 126 ] || exit 0
case "$scope $said" in
*"insufficient permissions"* | *"No journal files"* | "--system "*"not seeing messages"*) exit 0 ;;
esac
part
if [ -z "$invocation" ]; then
  : "${XDG_RUNTIME_DIR:=/run/user/$uid}"
  export XDG_RUNTIME_DIR TZ=UTC0 SYSTEMD_COLORS=0
  shown=$(show --timestamp=us+utc 2>/dev/null || { [ $? -eq 124 ] || show 2>/dev/null; })
  printf '%s\n' "$shown"
  id=$(printf '%s\n' "$shown" | sed -n 's/^Id=//p')
  invocation=$(printf '%s\n' "$shown" | sed -n 's/^InvocationID=//p')
  unit=${id:-$unit}
fi
if [ "$scope" = --user ]; then
  manager=USER_INVOCATION_ID
  set -- "_SYSTEMD_USER_UNIT=$unit" "_UID=$uid" + "USER_UNIT=$unit" "_UID=$uid"
else
  manager=INVOCATION_ID
  set -- "_SYSTEMD_UNIT=$unit" + "UNIT=$unit" _UID=0
fi
if [ -z "$invocation" ]; then
  invocation=$(export_of INVOCATION_ID,USER_INVOCATION_ID,_SYSTEMD_INVOCATION_ID -n 1 "$@" |
    sed -n '/^_*[A-Z]*_*INVOCATION_ID=/{s/.*=//;p;q;}')
fi
part
case $invocation in ''|*[!0-9a-f]*) exit 0 ;; esac
export_of _BOOT_ID "_SYSTEMD_INVOCATION_ID=$invocation" + "$manager=$invocation" | sed -n '/^__CURSOR=/{s///;p;q;}'
"""
"""``$1``: the unit; ``$2``: --system, --user, or nothing where it is known already where to begin; ``$3``: the
invocation, where it is known. Five parts: uid, login and boot; what journalctl says of what may be read (with
``-o export`` it does not say it); its exit status; what systemd says of the unit; the first cursor of its current or
last invocation. systemd forgets a unit that is inactive and that nothing refers to; the journal does not."""

_PART = "\n\x1e\n"


@dataclass(frozen=True, slots=True)
class Beginning:
    """``uid``: ours on the host. ``boot``: the one that it is in, as a cursor has it; empty where it does not say.
    ``unit``: by the name that systemd gives it. ``cursor``: of the first record of its current or last start attempt,
    empty where the journal has none. ``started``: when that was, UTC seconds; 0: never, or not known."""

    uid: str
    boot: str
    unit: str
    cursor: str
    started: float


async def beginning(
    host: Host, unit: str, *, user: bool = False, invocation: str = "", known: bool = False
) -> Beginning:
    """Ask. ``known``: it is known where to begin, and not asked. Raises ProbeFailed where the journal may not be read,
    which journalctl itself does not count as a failure, and what the host raises."""
    scope = "" if known else "--user" if user else "--system"
    done = await host.run(["sh", "-c", SCRIPT, "sh", unit, scope, invocation])
    who, said, status, shown, cursor = (done.stdout.decode("utf-8", "backslashreplace") + _PART * 4).split(_PART)[:5]
    uid, login, boot = (who + "\n\n").split("\n")[:3]
    _check(login, said, status.strip(), done, user=user)
    values = properties(shown)
    return Beginning(
        uid=uid if uid.isdigit() else "",
        boot=boot.strip().replace("-", ""),
        unit=values.get("Id", [""])[-1].strip() or unit,
        cursor=cursor.strip(),
        started=timestamp(values.get("InactiveExitTimestamp", [""])[-1].strip()),
    )


def _check(login: str, said: str, status: str, done: Completed, *, user: bool) -> None:
    if "insufficient permissions" in said or ("not seeing messages" in said and not user):
        raise ProbeFailed(
            f"{login or 'This user'} may not read the journal: nothing is known of the unit's output",
            "Add the user to the group systemd-journal on the host "
            f"(sudo usermod -aG systemd-journal {login or 'USER'}) and connect again.",
            state="missing",
        )
    if "No journal files were found" in said:
        raise ProbeFailed(
            "This host keeps no journal, so nothing is known of the unit's output",
            "See Storage= in journald.conf, and whether systemd-journald runs.",
            state="missing",
        )
    if status in ("126", "127") or done.status in (126, 127):
        raise ProbeFailed(
            "This host has no journalctl, so the unit's output cannot be read",
            "firstlight reads the journal of a systemd host.",
            state="missing",
        )
