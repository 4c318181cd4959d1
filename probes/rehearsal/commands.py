"""What the probes run, answered from a story. A command that no probe runs is not found, as on any host without it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime

from probes import ahead, beginning
from probes import gpu as gpu_probe
from probes import io as io_probe
from probes import model as model_probe
from probes import unit as unit_probe
from probes.asking import asked
from probes.rehearsal import files
from probes.rehearsal.journal import Journal
from probes.rehearsal.nvidia import nvidia_smi
from probes.rehearsal.stage import Stage, Write

NOT_FOUND = 127

Input = AsyncIterator[bytes]


async def play(stage: Stage, argv: Sequence[str], given: Input, write: Write, complain: Write) -> int:
    """Run one command to its end; its exit status. ``given``: its standard input."""
    program = argv[0].rpartition("/")[2]
    if program == "journalctl" and "--follow" in argv:
        return await _follow(stage, argv, write)
    if program == "nvidia-smi":
        return await nvidia_smi(stage, argv, write, complain)
    if program == "sh" and len(argv) > 2:
        question = asked(argv)
        if question is not None and question[0] in _ANSWERS:
            return await _answer(stage, _ANSWERS[question[0]], question[1], given, write)
        if argv[2] in _SCRIPTS:
            await write(_SCRIPTS[argv[2]](stage))
            return 0
    await complain(f"{program}: not played in the demo\n".encode())
    return NOT_FOUND


# ----- journalctl


async def _follow(stage: Stage, argv: Sequence[str], write: Write) -> int:
    stage.clock.resume()  # whoever reads the journal is there: the story may begin
    async for data in Journal(stage).follow(argv):
        await write(data)
    return 0


def _beginning(stage: Stage) -> bytes:
    journal = Journal(stage)
    shown = f"Id={stage.story.unit}\nInvocationID={_properties(stage)['InvocationID']}"
    cursor = journal.cursor(0) if journal.said() else ""
    return "\n\x1e\n".join((f"0\nroot\n{stage.story.boot}", "", "0", shown, cursor)).encode()


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
        if not stage.running:
            return b""
        return f"\x1e{stage.story.main_pid}\n".encode() + "".join(f"{word}\n" for word in stage.story.argv).encode()
    return f"{stage.story.unit} loaded\n".encode()


def _properties(stage: Stage) -> dict[str, str]:
    story, at = stage.story, stage.at()
    begun, running = at >= 0, stage.running
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
        "ControlGroup": story.control_group if begun else "",
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


_ANSWERS: dict[str, Callable[[Stage, str], bytes]] = {unit_probe.SCRIPT: _unit, io_probe.SCRIPT: files.sample}
_SCRIPTS: dict[str, Callable[[Stage], bytes]] = {
    gpu_probe.APPS: files.holders,
    model_probe.SCRIPT: files.checkpoint,
    ahead.TAIL: lambda stage: b"",
    beginning.SCRIPT: _beginning,
}
