"""``firstlight doctor``: a host is asked everything once; what stands in the way is printed with its remedy."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence

import msgspec

from probes.command import plain
from probes.doctor import Examined, examine
from probes.host import Host, HostError
from probes.hosts import open_host
from probes.reaching import reached
from tui.commands.named import Named, named
from tui.commands.tables import Tint, hanging
from tui.exits import Exit
from tui.json import inert
from tui.settings import configuration
from watch.check import Check
from watch.config import Config, Deployment, near
from watch.doctor import judge

SIGNS = {
    "good": ("✔", "ok", "green"),
    "warning": ("⚠", "warn", "yellow"),
    "bad": ("✖", "bad", "red"),
    "unknown": ("?", "unknown", "dim"),
}
"""By verdict: sign, word, colour."""


def run(words: Sequence[str], *, endpoint: str | None, user: bool | None, as_json: bool) -> Exit:
    """Print what was found; FAILED where something is bad. Raises Ending for what can be no host or unit."""
    config = configuration()
    found = meant(config, words, endpoint=endpoint, user=user)
    if not as_json and sys.stderr.isatty():
        print(f"asking {found.deployment.target} …", file=sys.stderr)
    facts = asyncio.run(_examined(found.deployment))
    checks = judge(facts)
    if len(words) == 1 and not found.name and (hint := near(words[0], config.deployments)) and "reach" in facts.errors:
        first = msgspec.structs.replace(checks[0], remedy=f"{checks[0].remedy}{hint}".strip())
        checks = (first, *checks[1:])
    if as_json:
        sys.stdout.buffer.write(inert(msgspec.json.encode(summary(facts, checks, found.name))) + b"\n")
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        width = min(shutil.get_terminal_size((100, 24)).columns, 120)
        sys.stdout.write(table(facts, checks, width=width, colour=colour))
    sys.stdout.flush()
    return Exit.FAILED if any(check.verdict == "bad" for check in checks) else Exit.OK


def meant(config: Config, words: Sequence[str], *, endpoint: str | None, user: bool | None) -> Named:
    """One word is a deployment where there is one of that name, else a host whose unit is left open."""
    if len(words) == 1 and words[0] not in config.deployments:
        host = named(config, [words[0], "any"], endpoint=endpoint, user=user)
        return Named(msgspec.structs.replace(host.deployment, unit=""))
    return named(config, words, endpoint=endpoint, user=user)


async def _examined(deployment: Deployment) -> Examined:
    unit, endpoint = deployment.unit, deployment.endpoint
    try:
        host: Host = open_host(deployment.target)
        async with reached(host):
            return await examine(host, deployment.target, unit, user=deployment.user, endpoint=endpoint)
    except HostError as error:
        return Examined(
            target=deployment.target, unit=unit, errors={"reach": error.reason}, remedies={"reach": error.remedy}
        )


def summary(facts: Examined, checks: Sequence[Check], name: str) -> dict[str, object]:
    """The object of ``--json``."""
    return {
        "target": facts.target,
        "unit": facts.unit,
        "deployment": name,
        "verdict": worst(checks),
        "checks": [msgspec.to_builtins(check) for check in checks],
    }


def worst(checks: Sequence[Check]) -> str:
    verdicts = {check.verdict for check in checks}
    return next((verdict for verdict in ("bad", "warning", "unknown") if verdict in verdicts), "good")


def table(facts: Examined, checks: Sequence[Check], *, width: int, colour: bool) -> str:
    """One check a line, its remedy below it."""
    tint = Tint(colour)
    lines = [plain(f"{facts.unit} on {facts.target}" if facts.unit else facts.target), ""]
    for check in checks:
        sign, word, hue = SIGNS[check.verdict]
        lead = f"{sign} {word:<8}{check.topic:<10}"
        first, *more = hanging(f"{' ' * len(lead)}{plain(check.text, 1000)}", width, len(lead))
        lines += [tint(lead[:10], hue) + lead[10:] + first[len(lead) :], *more]
        if check.remedy:
            lines += hanging(f"{' ' * len(lead)}→ {plain(check.remedy, 1000)}", width, len(lead) + 2)
    counts = [(verdict, sum(check.verdict == verdict for check in checks)) for verdict in SIGNS]
    words = ", ".join(f"{count} {SIGNS[verdict][1]}" for verdict, count in counts if count)
    return "\n".join([*lines, "", words]) + "\n"
