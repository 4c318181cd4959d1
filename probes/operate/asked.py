"""How the scripts of an action are called: for whom, with which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from probes.host import Completed, Host
from probes.operate.orders import Rights, UnderWay, runner
from probes.unit import full_name


def kind(rights: Rights) -> str:
    """Who runs the steps: the system's manager, the user's, or (with the right to systemctl only) the login itself."""
    if rights.user:
        return "user"
    return {"full": "system", "manage": rights.how, "none": "none"}[rights.level]


@dataclass(frozen=True)
class Duty:
    """One sort of work that is done on the host: ``steps``, the file that does it; ``runner``, from the unit that it is
    done to to the name of the transient unit that does it, the lock; ``kind``, who runs it, as ``scripts.PLACES`` knows
    them."""

    steps: str
    runner: Callable[[str], str]
    kind: Callable[[Rights], str]


ACTION = Duty(steps="steps.sh", runner=runner, kind=kind)


def argv(rights: Rights, script: str, unit: str, *more: str, id: str = "0", duty: Duty = ACTION) -> list[str]:
    """The command for one of ``scripts``."""
    unit = full_name(unit)
    script = f"steps={duty.steps}\n{script}"
    return [*rights.prefix, "/bin/sh", "-c", script, "sh", duty.kind(rights), id, unit, duty.runner(unit), *more]


async def ask(
    host: Host,
    rights: Rights,
    script: str,
    unit: str,
    *more: str,
    id: str = "0",
    duty: Duty = ACTION,
    stdin: bytes = b"",
    timeout: float = 30.0,
) -> Completed:
    return await host.run(argv(rights, script, unit, *more, id=id, duty=duty), stdin=stdin, timeout=timeout)


def going(said: str, unit: str) -> UnderWay | None:
    """Of what ``others`` prints: the action that runs."""
    facts = dict(line.partition("=")[::2] for line in said.splitlines())
    if facts.get("ActiveState") in ("active", "activating", "deactivating"):
        words, _, id = facts.get("Description", "").removeprefix("firstlight: ").rpartition(", ")
        what, _, who = words.rpartition(" by ")
        return UnderWay(unit=unit, id=id, action=what.partition(" of ")[0], who=who)
    if "Runner" in facts:
        _, file, action, *rest = [*facts["Runner"].split(" "), "", "", ""]
        who = next((word for word in reversed(rest) if word), "")
        return UnderWay(
            unit=unit, id=file.split("/")[-2].partition(".")[0] if file.count("/") > 1 else "", action=action, who=who
        )
    return None
