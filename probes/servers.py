"""The units of a host that look like model servers: by what they are told to run, or by what runs in them."""

from __future__ import annotations

import re

from msgspec import Struct

from probes.arguments import is_server, model, words
from probes.host import Host, HostError
from probes.systemd import properties, timestamp, unit_reading

NAMES = (
    "vllm",
    "sglang",
    "lmdeploy",
    "text-generation-launcher",
    "text-generation-server",
    "llama-server",
    "ollama",
    "tritonserver",
    "trtllm-serve",
    "ktransformers",
    "aphrodite",
)
"""What a server's command line names, in any case."""

_NAMED = re.compile(rf"(?<![a-z0-9])({'|'.join(NAMES)})(?![a-z0-9])", re.IGNORECASE)

_SHOWN = (
    "Id,Description,LoadState,ActiveState,SubState,UnitFileState,ExecStart,ActiveEnterTimestamp,StateChangeTimestamp"
)

SCRIPT = r"""
pattern=$1 shown=$2
: "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"
export XDG_RUNTIME_DIR TZ=UTC0 SYSTEMD_COLORS=0 SYSTEMD_PAGER= SYSTEMD_URLIFY=0
[ -d /run/systemd/system ] || exit 127
for scope in --system --user; do
  printf '\036%s\n' "$scope"
  {
    systemctl $scope --no-pager --no-legend --plain --full --all --type=service list-units
    systemctl $scope --no-pager --no-legend --plain --full --type=service list-unit-files
  } 2>/dev/null | awk '{ print $1 }' | grep '\.service$' | grep -v '@\.service$' | sort -u | tr '\n' '\0' |
    xargs -0 -r systemctl $scope --no-pager show -p "$shown" -- 2>/dev/null
done
printf '\036running\n'
for pid in $(grep -slaiE "$pattern" /proc/[0-9]*/cmdline | cut -d/ -f3); do
  cat "/proc/$pid/cgroup" 2>/dev/null
done | sort -u
"""


class Server(Struct, frozen=True, kw_only=True):
    """One unit. Times are UTC seconds, 0: not known."""

    unit: str
    user: bool = False
    """of the user's own service manager"""
    description: str = ""
    active: str = ""
    sub: str = ""
    enabled: str = ""
    """UnitFileState: enabled, disabled, static, masked …"""
    since: float = 0.0
    """when its state changed"""
    engine: str = ""
    """what its command line names: vllm, sglang …; empty: a script whose processes do"""
    model: str = ""

    @property
    def order(self) -> tuple[int, str]:
        """Those that run first, then those that would at the next boot."""
        runs = self.active in ("active", "activating", "deactivating", "reloading")
        return (
            0 if runs else 1 if self.active == "failed" else 2 if self.enabled.startswith("enabled") else 3,
            self.unit,
        )


async def find_servers(host: Host) -> tuple[Server, ...]:
    """Of the system's manager and the login's own. Raises HostError where the host cannot be asked."""
    # so written that the command lines of this search do not match it themselves
    pattern = "|".join(f"[{name[0]}]{name[1:]}" for name in NAMES)
    done = await host.run(["sh", "-c", SCRIPT, "sh", pattern, _SHOWN], timeout=30.0)
    if done.status == 127:
        raise HostError(f"{host.name} does not run systemd", "firstlight watches services under systemd.")
    return servers(done.stdout)


def servers(said: bytes) -> tuple[Server, ...]:
    """What SCRIPT says, sorted: see ``Server.order``."""
    parts = {
        name.strip(): rest
        for name, _, rest in (part.partition("\n") for part in said.decode("utf-8", "backslashreplace").split("\x1e"))
    }
    running = set(re.findall(r"(?:(user@\d+\.service)/\S*)?/([^/\s]+\.service)$", parts.get("running", ""), re.M))
    found = []
    for scope, user in (("--system", False), ("--user", True)):
        for block in parts.get(scope, "").split("\n\n"):
            one = _server(block, user, {unit for manager, unit in running if bool(manager) is user})
            if one is not None:
                found.append(one)
    return tuple(sorted(found, key=lambda one: one.order))


def _server(block: str, user: bool, running: set[str]) -> Server | None:
    shown = properties(block.strip("\n"))
    unit = shown.get("Id", [""])[-1]
    argv = unit_reading(block.encode("utf-8", "surrogateescape"), at=0.0, unit=unit).exec_start
    named = _NAMED.search(" ".join(argv))
    if not unit or unit.startswith("firstlight-") or not (named or unit in running):
        return None

    def one(name: str) -> str:
        return shown.get(name, [""])[-1].strip()

    return Server(
        unit=unit,
        user=user,
        description=one("Description"),
        active=one("ActiveState"),
        sub=one("SubState"),
        enabled=one("UnitFileState"),
        since=timestamp(one("StateChangeTimestamp")),
        engine=named[1].lower() if named else "",
        model=model(words(argv)) if is_server(words(argv)) else "",
    )
