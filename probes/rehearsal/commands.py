"""What the probes run, answered from a story. A command that no probe runs is not found, as on any host without it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime

from probes import journal as journal_probe
from probes import unit as unit_probe
from probes.asking import asked
from probes.rehearsal.journal import Journal
from probes.rehearsal.stage import Stage

NOT_FOUND = 127

Write = Callable[[bytes], Awaitable[None]]
Input = AsyncIterator[bytes]


async def play(stage: Stage, argv: Sequence[str], given: Input, write: Write, complain: Write) -> int:
    """Run one command to its end; its exit status. ``given``: its standard input."""
    program = argv[0].rpartition("/")[2]
    if program == "journalctl" and "--follow" in argv:
        return await _follow(stage, argv, write)
    if program == "nvidia-smi":
        return await _nvidia_smi(stage, argv, write, complain)
    if program == "sh" and len(argv) > 2:
        question = asked(argv)
        if question is not None and question[0] in _ANSWERS:
            return await _answer(stage, _ANSWERS[question[0]], question[1], given, write)
        if argv[2] in _SCRIPTS:
            await write(_SCRIPTS[argv[2]](stage))
            return 0
    if program in _SIMPLE:
        await write(_SIMPLE[program](stage, argv))
        return 0
    await complain(f"{program}: not played in the demo\n".encode())
    return NOT_FOUND


# ----- journalctl


async def _follow(stage: Stage, argv: Sequence[str], write: Write) -> int:
    stage.clock.resume()  # whoever reads the journal is there: the story may begin
    async for data in Journal(stage).follow(argv):
        await write(data)
    return 0


def _first_cursor(stage: Stage) -> bytes:
    journal = Journal(stage)
    return f"__CURSOR={journal.cursor(0)}\n".encode() if journal.said() else b""


def _last_invocation(stage: Stage) -> bytes:
    return f"INVOCATION_ID={stage.story.invocation}\n".encode() if Journal(stage).said() else b""


# ----- a shell that is asked


async def _answer(stage: Stage, answer: Callable[[Stage, str], bytes], nonce: str, given: Input, write: Write) -> int:
    await write(f"\n{nonce} up\n".encode())
    rest = b""
    async for data in given:
        *asks, rest = (rest + data).split(b"\n")
        for ask in asks:
            await write(answer(stage, ask.decode("utf-8", "replace")) + f"\n{nonce} 0\n".encode())
    return 0


def _unit(stage: Stage, ask: str) -> bytes:
    if ask == "show":
        shown = "\n".join(f"{name}={value}" for name, value in _properties(stage).items())
        return f"{stage.now():.6f}\n{shown}\n".encode()
    if ask == "cat":
        return f"# {stage.story.fragment}\n{stage.story.unit_file}".encode()
    if ask.startswith("argv"):
        if stage.at() < stage.story.started:
            return b""
        return f"\x1e{stage.story.main_pid}\n".encode() + "".join(f"{word}\n" for word in stage.story.argv).encode()
    return f"{stage.story.unit} loaded\n".encode()


def _properties(stage: Stage) -> dict[str, str]:
    story, at = stage.story, stage.at()
    begun, running = at >= 0, at >= story.started
    first, started = _time(stage.begin), _time(stage.begin + story.started)
    return {
        "Id": story.unit,
        "LoadState": "loaded",
        "ActiveState": "active" if running else "activating" if begun else "inactive",
        "SubState": "running" if running else "start-pre" if begun else "dead",
        "Result": "success",
        "InvocationID": story.invocation if begun else "",
        "MainPID": str(story.main_pid if running else 0),
        "ControlPID": "0",
        "ExecMainCode": "0",
        "ExecMainStatus": "0",
        "StateChangeTimestamp": started if running else first if begun else "",
        "InactiveExitTimestamp": first if begun else "",
        "ActiveEnterTimestamp": started if running else "",
        "ExecMainExitTimestamp": "",
        "FragmentPath": story.fragment,
        "DropInPaths": "",
        "User": "",
        **story.properties,
    }


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%a %Y-%m-%d %H:%M:%S.%f UTC")


_ANSWERS: dict[str, Callable[[Stage, str], bytes]] = {unit_probe.SCRIPT: _unit}
_SCRIPTS: dict[str, Callable[[Stage], bytes]] = {
    journal_probe.RIGHTS: lambda stage: b"0\nroot\n",
    journal_probe.FIRST: _first_cursor,
    journal_probe.LAST_INVOCATION: _last_invocation,
}
_SIMPLE: dict[str, Callable[[Stage, Sequence[str]], bytes]] = {"id": lambda stage, argv: b"0\n"}


# ----- nvidia-smi


async def _nvidia_smi(stage: Stage, argv: Sequence[str], write: Write, complain: Write) -> int:
    fields = next((a.partition("=")[2].split(",") for a in argv if a.startswith("--query-gpu=")), [])
    if not fields:
        await complain(b"nvidia-smi: only --query-gpu is played in the demo\n")
        return 2
    layout = next((a.partition("=")[2].split(",") for a in argv if a.startswith("--format=")), [])
    if "noheader" not in layout:
        await write((", ".join(f"{field} [MiB]" if "memory" in field else field for field in fields) + "\n").encode())
    while True:
        rows = [", ".join(row) for row in _gpu_rows(stage, fields)]
        await write(("\n".join(rows) + "\n").encode())
        if not (period := _period(argv)):
            return 0
        await stage.clock.sleep(period)


def _period(argv: Sequence[str]) -> float:
    for index, argument in enumerate(argv):
        name, equals, value = argument.partition("=")
        if name in ("-lms", "--loop-ms", "-l", "--loop"):
            number = float(value if equals else argv[index + 1])
            return number / 1000 if name in ("-lms", "--loop-ms") else number
    return 0.0


def _gpu_rows(stage: Stage, fields: Sequence[str]) -> list[list[str]]:
    story = stage.story
    rows = []
    for index, (facts, gpu) in enumerate(zip(story.gpu_facts, story.gpus_at(stage.at()).gpus, strict=True)):
        local = datetime.fromtimestamp(stage.now(), UTC).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
        known = {
            "timestamp": local,
            "driver_version": story.driver,
            "count": str(len(story.gpu_facts)),
            "index": str(index),
            "name": facts.name,
            "gpu_name": facts.name,
            "uuid": facts.uuid,
            "gpu_uuid": facts.uuid,
            "pci.bus_id": facts.bus,
            "memory.total": f"{facts.total:.0f}",
            "memory.used": f"{gpu.used:.0f}",
            "memory.free": f"{gpu.free:.0f}",
            "memory.reserved": f"{gpu.reserved:.0f}",
            "utilization.gpu": f"{gpu.utilization:.0f}",
            "utilization.memory": f"{gpu.memory_utilization:.0f}",
            "power.draw": f"{gpu.power:.2f}",
            "power.draw.instant": f"{gpu.power:.2f}",
            "power.limit": f"{facts.power_limit:.2f}",
            "enforced.power.limit": f"{facts.power_limit:.2f}",
            "temperature.gpu": f"{gpu.temperature:.0f}",
            "clocks.sm": f"{gpu.sm:.0f}",
            "clocks.current.sm": f"{gpu.sm:.0f}",
            "clocks.mem": f"{gpu.mem:.0f}",
            "clocks.current.memory": f"{gpu.mem:.0f}",
            "pstate": "P0",
            "clocks_event_reasons.active": f"0x{gpu.reasons:016x}",
            "clocks_throttle_reasons.active": f"0x{gpu.reasons:016x}",
            "ecc.errors.uncorrected.volatile.total": "0",
            "pcie.link.gen.current": str(facts.pcie_gen),
            "pcie.link.gen.max": str(facts.pcie_gen),
            "pcie.link.width.current": str(facts.pcie_width),
            "pcie.link.width.max": str(facts.pcie_width),
            "persistence_mode": "Enabled",
            "compute_mode": "Default",
            "mig.mode.current": "Disabled",
        }
        rows.append([known.get(field.strip(), "[N/A]") for field in fields])
    return rows
