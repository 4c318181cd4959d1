"""What can be asked of a host before anything is watched on it: the facts that ``watch.doctor`` judges."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator
from typing import Any

import httpx
from msgspec import Struct
from msgspec.structs import replace

from probes.arguments import arguments, is_server, model
from probes.endpoint import BadEndpoint, Endpoint, endpoint_from, endpoint_of
from probes.health import failure_words
from probes.host import Host, HostError
from probes.iofiles import whole
from probes.operate.files import read_files
from probes.operate.orders import Rights, UnitFiles
from probes.operate.rights import ask_rights
from probes.readings import UnitReading
from probes.servers import Server, find_servers
from probes.unit import UnitProbe, full_name


class Examined(Struct, frozen=True, kw_only=True):
    """Facts; None or empty: not known. ``errors``: question → why it could not be asked (one sentence)."""

    target: str
    unit: str = ""
    errors: dict[str, str] = {}
    remedies: dict[str, str] = {}
    login: str = ""
    greeting: str = ""
    rtt_ms: float | None = None
    systemd: int | None = None
    """its version"""
    booted: bool | None = None
    """whether the host was booted with systemd"""
    clock_offset: float | None = None
    """seconds that the host's clock is ahead of ours"""
    journal: str = ""
    """what journalctl complains about; empty: it may be read"""
    journal_persistent: bool | None = None
    rights: Rights | None = None
    gpus: tuple[str, ...] = ()
    """nvidia-smi's list, one a line"""
    gpu_error: str = ""
    nvml: str = ""
    """libnvidia-ml.so.1's place, or empty"""
    python: str = ""
    disks: dict[str, tuple[int, int]] = {}
    """folder → (free, total) bytes: /, /var/log, /dev/shm, the model's, the caches'"""
    unit_reading: UnitReading | None = None
    files: UnitFiles | None = None
    servers: tuple[Server, ...] | None = None
    """units that look like model servers, where no unit was asked about"""
    endpoint: str = ""
    endpoint_status: int | None = None
    endpoint_error: str = ""


SCRIPT = r"""
unit=$1 scope=$2
: "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"
export XDG_RUNTIME_DIR
echo "now $(date +%s.%N)"
echo "login $(id -un)"
echo "systemd $(systemctl --version 2>/dev/null | sed -n '1s/^systemd \([0-9]*\).*/\1/p')"
[ -d /run/systemd/system ] && echo "booted yes" || echo "booted no"
echo "journal $(journalctl --no-pager -n 0 2>&1 | tr '\n' ' ' | cut -c1-400)"
[ -d /var/log/journal ] && echo "persistent yes" || echo "persistent no"
if command -v nvidia-smi >/dev/null 2>&1; then
  said=$(timeout 15 nvidia-smi -L 2>&1)
  status=$?
  if [ $status = 0 ]; then printf '%s\n' "$said" | sed 's/^/gpu /'
  else echo "gpu-error $status $(printf %s "$said" | tr '\n' ' ' | cut -c1-300)"; fi
else
  echo "gpu-error 127 there is no nvidia-smi"
fi
echo "python $(python3 -V 2>&1)"
echo "nvml $( (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null | sed -n 's/.*libnvidia-ml\.so\.1 .*=> //p' | head -n 1)"
shift 2
for folder in / /var/log /tmp /dev/shm "$@"; do
  df -Pk -- "$folder" 2>/dev/null | awk -v f="$folder" 'NR==2 {print "disk " $4 " " $2 " " f}'
done
"""


async def examine(
    host: Host,
    target: str,
    unit: str = "",
    *,
    user: bool = False,
    endpoint: str = "",
    tls_ca: str = "",
    tls_verify: bool = True,
) -> Examined:
    """Ask everything; what cannot be asked stands in ``errors``. Never raises but for cancellation. The host's links
    must be run by the caller, as for every use of a host. ``tls_ca``, ``tls_verify``: as the supervisor takes them."""
    facts: dict[str, Any] = {"target": target, "unit": full_name(unit) if unit else "", "endpoint": endpoint}
    errors: dict[str, str] = {}
    remedies: dict[str, str] = {}

    def failed(topic: str, error: HostError) -> None:
        errors[topic], remedies[topic] = error.reason, error.remedy

    try:
        await host.up()
    except HostError as error:
        failed("reach", error)
        return Examined(target=target, unit=facts["unit"], errors=errors, remedies=remedies)
    scope = "--user" if user else "--system"
    reading: UnitReading | None = None
    if unit:
        try:
            reading = await _unit(host, full_name(unit), scope)
            facts["unit_reading"] = reading
        except HostError as error:
            failed("unit", error)
    argv = arguments(reading) if reading is not None else ()
    weights = model(argv) if is_server(argv) else ""
    folders = [weights] if weights.startswith("/") else []
    try:
        began = time.monotonic()
        await host.run(["true"])
        facts["rtt_ms"] = (time.monotonic() - began) * 1000
        at = time.time()
        done = await host.run(["sh", "-c", SCRIPT, "sh", facts["unit"], scope, *folders], timeout=60.0)
        facts |= _facts(done.stdout.decode("utf-8", "backslashreplace"), at)
        facts["greeting"] = host.greeting
    except HostError as error:
        failed("reach", error)
    try:
        facts["rights"] = await ask_rights(host, unit or "firstlight", user=user)
        if unit:
            facts["files"] = await read_files(host, facts["rights"], unit)
    except HostError as error:
        failed("rights", error)
    if not unit:
        try:
            facts["servers"] = await find_servers(host)
        except HostError as error:
            failed("unit", error)
    if endpoint or is_server(argv):
        try:
            at_host = endpoint_from(endpoint) if endpoint else endpoint_of(argv)
            facts["endpoint"] = at_host.url
            await _ask_endpoint(host, replace(at_host, ca=tls_ca, verify=tls_verify), facts)
        except BadEndpoint as error:
            facts["endpoint_error"] = str(error)
    return Examined(errors=errors, remedies=remedies, **facts)


async def _unit(host: Host, unit: str, scope: str) -> UnitReading:
    """One turn of the unit probe."""
    turns = UnitProbe(host, unit, user=scope == "--user").batches()
    try:
        for reading in await anext(turns, []):
            if isinstance(reading, UnitReading):
                return reading
    finally:
        if isinstance(turns, AsyncGenerator):
            await turns.aclose()
    raise HostError("systemctl gave no answer")


async def _ask_endpoint(host: Host, endpoint: Endpoint, facts: dict[str, Any]) -> None:
    try:
        async with (
            host.http(endpoint.host, endpoint.port, socket=endpoint.socket, tls=endpoint.trust()) as transport,
            httpx.AsyncClient(transport=transport, timeout=5.0) as client,
        ):
            facts["endpoint_status"] = (await client.get(f"{endpoint.base}/health")).status_code
    except httpx.HTTPError as error:
        facts["endpoint_error"] = failure_words(error)
    except (BadEndpoint, HostError) as error:
        facts["endpoint_error"] = str(error)


def _facts(said: str, at: float) -> dict[str, Any]:
    """The answer to SCRIPT. ``at``: our time when it was asked."""
    out: dict[str, Any] = {}
    gpus: list[str] = []
    disks: dict[str, tuple[int, int]] = {}
    for line in said.splitlines():
        name, _, value = line.partition(" ")
        value = value.strip()
        if name == "now" and re.fullmatch(r"\d{1,12}(\.\d{1,9})?", value):
            out["clock_offset"] = float(value) - at
        elif name in ("login", "journal", "nvml", "python"):
            out[name] = value
        elif name == "systemd" and whole(value) is not None:
            out["systemd"] = whole(value)
        elif name == "booted":
            out["booted"] = value == "yes"
        elif name == "persistent":
            out["journal_persistent"] = value == "yes"
        elif name == "gpu":
            gpus.append(value)
        elif name == "gpu-error":
            status, _, words = value.partition(" ")
            out["gpu_error"] = "nvidia-smi does not answer: the driver is stuck" if status == "124" else words
        elif name == "disk":
            free, total, folder = [*value.split(" ", 2), "", ""][:3]
            left, all_of_it = whole(free), whole(total)
            if left is not None and all_of_it is not None and folder:
                disks[folder] = (left * 1024, all_of_it * 1024)
    return {**out, "gpus": tuple(gpus), "disks": disks}
