"""What this login may do to a unit: asked once, by what changes nothing."""

from __future__ import annotations

import shlex

from probes.host import Host
from probes.operate.orders import How, Order, Rights
from probes.probe import words
from probes.unit import full_name

SCRIPT = r"""
unit=$1 scope=$2
uid=$(id -u)
echo "login $(id -un)"
: "${XDG_RUNTIME_DIR:=/run/user/$uid}"
export XDG_RUNTIME_DIR
if [ "$scope" = --user ]; then
  said=$(systemctl --user --no-pager show -p Version 2>&1) && echo user || echo "no-user $said"
  exit
fi
[ "$uid" != 0 ] || { echo root; exit; }
if ! command -v sudo >/dev/null 2>&1; then
  echo "no-sudo there is no sudo"
elif said=$(sudo -n -- sh -c 'id -u' 2>&1 </dev/null) && [ "$said" = 0 ]; then
  echo sudo
  exit
elif sudo -n -l -- systemctl restart "$unit" >/dev/null 2>&1 </dev/null &&
  sudo -n -l -- systemctl stop "$unit" >/dev/null 2>&1 </dev/null; then
  echo sudo-systemctl
  exit
else
  echo "no-sudo $(printf '%s\n' "$said" | grep -v 'unable to resolve host' | tr '\n' ' ')"
fi
if command -v pkcheck >/dev/null 2>&1 &&
  pkcheck --action-id org.freedesktop.systemd1.manage-units --process $$ >/dev/null 2>&1 </dev/null; then
  echo polkit
fi
"""


async def ask_rights(host: Host, unit: str, *, user: bool = False) -> Rights:
    """Ask the host, once. Raises what ``Host.run`` does."""
    scope = "--user" if user else "--system"
    done = await host.run(["sh", "-c", SCRIPT, "sh", full_name(unit), scope], timeout=30.0)
    return rights_of(done.stdout.decode("utf-8", "backslashreplace"), user=user)


def rights_of(said: str, *, user: bool = False) -> Rights:
    """The answer to SCRIPT, read."""
    facts = dict(line.partition(" ")[::2] for line in said.splitlines())
    login = facts.get("login", "")
    if "root" in facts:
        return Rights(level="full", how="root", login=login)
    if "user" in facts:
        return Rights(level="full", how="user", login=login, user=True)
    if "sudo" in facts:
        return Rights(level="full", how="sudo", login=login)
    if "sudo-systemctl" in facts or "polkit" in facts:
        how: How = "sudo" if "sudo-systemctl" in facts else "polkit"
        return Rights(
            level="manage",
            how=how,
            login=login,
            reason=f"{how} lets {login} run systemctl and no more: unit files cannot be changed from here",
        )
    if user:
        why = words(facts.get("no-user", "").encode()) or "it gave no answer"
        return Rights(
            level="none", login=login, user=True, reason=f"The service manager of {login} is not there: {why}"
        )
    why = words(facts.get("no-sudo", "").encode())
    return Rights(
        level="none", login=login, reason=f"{login or 'This login'} may not manage units: " + (why or "no answer")
    )


def by_hand(order: Order, *, user: bool = False, stop_limit: str = "") -> tuple[str, ...]:
    """The commands that do what ``order`` does, for somebody who may: one shell line each, in order."""
    ctl = "systemctl --user" if user else "sudo systemctl"
    as_root = "" if user else "sudo "
    unit, fallback = shlex.quote(full_name(order.unit)), shlex.quote(full_name(order.fallback or order.unit))
    lines: list[str] = []
    for edit in order.edits:
        path = shlex.quote(edit.path)
        lines.append(f"{as_root}cp -a {path} {shlex.quote(edit.path + '.before')}")
        if edit.text is None:
            lines.append(f"{as_root}rm {path}")
        else:
            lines.append(f"{'' if user else 'sudo '}tee {path} >/dev/null <<'END'\n{edit.text.rstrip(chr(10))}\nEND")
    if order.edits:
        lines.append(f"systemd-analyze {'--user ' if user else ''}verify {unit}")
    if order.edits or order.reload:
        lines.append(f"{ctl} daemon-reload")
    if order.action != "start":
        lines.append(f"{ctl} stop {unit}")
    if order.action != "stop":
        lines.append("nvidia-smi   # until nobody holds the memory")
        lines.append(f"{ctl} reset-failed {fallback} 2>/dev/null; {ctl} start {fallback}")
    return tuple(lines)
