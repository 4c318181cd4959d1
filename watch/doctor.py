"""``firstlight doctor``: what stands in the way of watching a unit and acting on it, each with its remedy. Pure."""

from __future__ import annotations

from probes.doctor import Examined
from watch.check import Check
from watch.lint import lint

__all__ = ["Check", "judge"]

LOW = 2 << 30
"""bytes free below which a log or a temporary file soon finds no room"""
SHM = 1 << 30
"""bytes: NCCL and the workers' queues take hundreds of MiB of /dev/shm"""
OLDEST = 232
"""systemd's version from which InvocationID, ``show --value`` and ``systemd-run --wait`` are all there"""
AHEAD = 2.0
"""seconds by which a clock may be off before times on two machines are confused"""


def judge(facts: Examined) -> tuple[Check, ...]:
    """Every check in the order of the topics; the unit's lint last."""
    reach = _reach(facts)
    if any(check.verdict == "bad" for check in reach):
        return tuple(reach)
    return (
        *reach,
        *_clock(facts),
        *_rights(facts),
        *_journal(facts),
        *_gpu(facts),
        *_disks(facts),
        *_endpoint(facts),
        *_unit(facts),
    )


def _reach(facts: Examined) -> list[Check]:
    if "reach" in facts.errors:
        return [Check("reach", "bad", facts.errors["reach"], facts.remedies.get("reach", ""))]
    away = f", {facts.rtt_ms:.0f} ms away" if facts.rtt_ms is not None else ""
    out = [Check("reach", "good", f"{facts.target} is reached as {facts.login or '?'}{away}")]
    if facts.greeting:
        out.append(
            Check(
                "reach",
                "warning",
                "The login shell prints something before each command; firstlight skips it",
                "Let start-up files print only where the shell is interactive.",
            )
        )
    if facts.systemd is None or facts.booted is False:
        out.append(Check("reach", "bad", "The host does not run systemd", "Units are watched on systemd hosts only."))
    elif facts.systemd < OLDEST:
        out.append(
            Check(
                "reach",
                "warning",
                f"systemd {facts.systemd} is older than {OLDEST}: some of what is asked is missing",
                "Upgrade the host's system.",
            )
        )
    return out


def _clock(facts: Examined) -> list[Check]:
    if facts.clock_offset is None:
        return [Check("clock", "unknown", "The host's clock could not be read")]
    slack = AHEAD + (facts.rtt_ms or 0.0) / 1000
    if abs(facts.clock_offset) > slack:
        way = "ahead of" if facts.clock_offset > 0 else "behind"
        return [
            Check(
                "clock",
                "warning",
                f"The host's clock is {abs(facts.clock_offset):.0f} s {way} this machine's",
                "Let both follow NTP: timedatectl set-ntp true.",
            )
        ]
    return [Check("clock", "good", "The host's clock agrees with this machine's")]


def _rights(facts: Examined) -> list[Check]:
    rights = facts.rights
    if rights is None:
        return [Check("rights", "unknown", facts.errors.get("rights", "What may be done was not asked"))]
    if rights.level == "full":
        how = {"root": "as root", "sudo": "by sudo", "user": "as its own user"}.get(rights.how, "")
        return [Check("rights", "good", f"Every action can be taken {how}")]
    remedy = "Log in as root, or give the login sudo without a password, for every action; to watch, this is enough."
    if rights.level == "manage":
        return [Check("rights", "warning", f"Start, stop and restart only: {rights.reason}", remedy)]
    return [Check("rights", "warning", f"Watching only: {rights.reason}", remedy)]


def _journal(facts: Examined) -> list[Check]:
    said = facts.journal
    if "insufficient permissions" in said or "not seeing messages" in said:
        login = facts.login or "USER"
        return [
            Check(
                "journal",
                "bad",
                f"{login} may not read the journal",
                f"sudo usermod -aG systemd-journal {login}, then log in again.",
            )
        ]
    if "No journal files" in said:
        return [Check("journal", "bad", "The host keeps no journal", "See Storage= in journald.conf.")]
    if "not found" in said:
        return [Check("journal", "bad", "There is no journalctl", "firstlight reads the journal of a systemd host.")]
    out = [Check("journal", "good", "The journal may be read")]
    if facts.journal_persistent is False:
        out.append(
            Check(
                "journal",
                "warning",
                "The journal is kept in memory: a reboot takes earlier loads with it",
                "mkdir -p /var/log/journal && systemctl restart systemd-journald.",
            )
        )
    return out


def _gpu(facts: Examined) -> list[Check]:
    if facts.gpus:
        out = [Check("gpu", "good", f"{len(facts.gpus)} GPUs: {facts.gpus[0]}" + (" …" if facts.gpus[1:] else ""))]
        if not facts.nvml or not facts.python.startswith("Python 3"):
            lacks = "libnvidia-ml.so.1" if not facts.nvml else "python3"
            out.append(
                Check(
                    "gpu",
                    "warning",
                    f"There is no {lacks}, so that GPUs are sampled through nvidia-smi: less, and less often",
                    "Install the driver's library." if not facts.nvml else "Install python3 on the host.",
                )
            )
        else:
            out.append(Check("gpu", "good", "NVML can be asked"))
        return out
    if "mismatch" in facts.gpu_error.lower():
        return [Check("gpu", "bad", "The driver was upgraded under the running kernel module", "Reboot the host.")]
    if "there is no nvidia-smi" in facts.gpu_error:
        return [Check("gpu", "warning", "There is no nvidia-smi: no GPU is shown", "Install NVIDIA's driver.")]
    if facts.gpu_error:
        return [Check("gpu", "bad", facts.gpu_error, "See dmesg for NVRM and Xid lines; a reboot may be needed.")]
    return [Check("gpu", "unknown", "The GPUs could not be asked")]


def _disks(facts: Examined) -> list[Check]:
    out = []
    for folder, (free, total) in facts.disks.items():
        if folder == "/dev/shm":
            if total < SHM:
                out.append(
                    Check(
                        "disk",
                        "warning",
                        f"/dev/shm has {_size(total)} in all: workers that share memory may fail",
                        "Make it larger: mount -o remount,size=16G /dev/shm.",
                    )
                )
        elif free < LOW and folder in ("/", "/var/log", "/tmp"):
            out.append(
                Check(
                    "disk",
                    "bad" if free < LOW // 20 else "warning",
                    f"{folder} has {_size(free)} free of {_size(total)}",
                    "Make room: journalctl --vacuum-size=1G, old compile caches, old checkpoints.",
                )
            )
    if facts.disks and not out:
        out.append(Check("disk", "good", "There is room on every file system that matters"))
    return out


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"


def _endpoint(facts: Examined) -> list[Check]:
    runs = facts.unit_reading is not None and facts.unit_reading.active == "active"
    if not facts.endpoint:
        return []
    if facts.endpoint_status == 200:
        return [Check("endpoint", "good", f"{facts.endpoint} answers")]
    if facts.endpoint_status is not None:
        return [
            Check(
                "endpoint",
                "warning",
                f"{facts.endpoint}/health answers with {facts.endpoint_status}",
                "503: its engine is dead, restart it. 404: another server, or a prefix; give --endpoint.",
            )
        ]
    if facts.endpoint_error == "refused":
        if not runs:
            return [Check("endpoint", "good", f"{facts.endpoint} refuses, as nothing runs")]
        return [
            Check(
                "endpoint",
                "warning",
                f"{facts.endpoint} refuses although the unit is active: it is loading, or listens elsewhere",
                "Where it listens elsewhere give --endpoint.",
            )
        ]
    remedy = "" if "certificate" in facts.endpoint_error else "Give --endpoint."
    return [Check("endpoint", "warning", f"{facts.endpoint}: {facts.endpoint_error}", remedy)]


def _unit(facts: Examined) -> list[Check]:
    if not facts.unit:
        return _servers(facts)
    reading = facts.unit_reading
    if reading is None:
        return [Check("unit", "unknown", facts.errors.get("unit", f"{facts.unit} could not be asked for"))]
    if reading.load == "not-found":
        near = f" Alike: {', '.join(reading.near)}." if reading.near else ""
        return [Check("unit", "bad", f"There is no unit {facts.unit} on {facts.target}", f"See its name.{near}")]
    if reading.load == "masked":
        return [Check("unit", "bad", f"{facts.unit} is masked", f"systemctl unmask {facts.unit}")]
    found = lint(reading, facts.files)
    return found or [Check("unit", "good", f"{facts.unit}: nothing stands out in its files")]


def _servers(facts: Examined) -> list[Check]:
    """Where no unit was asked about."""
    if facts.servers is None:
        return [Check("unit", "unknown", facts.errors.get("unit", "The units were not asked for"))]
    if not facts.servers:
        return [Check("unit", "unknown", "No unit here looks like a model server", "Name one: doctor TARGET UNIT.")]
    named = ", ".join(f"{one.unit.removesuffix('.service')} ({one.active})" for one in facts.servers)
    return [Check("unit", "good", f"Units that look like model servers: {named}")]
