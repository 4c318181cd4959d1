"""Names and paths that a shell, systemctl, a terminal or a format string would take for something else: every command
says in one sentence that they are none, and nothing is run, here or on the host."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service, shell
from tests.host.terminal import PROGRAM
from tui.commands.named import named
from tui.exits import Ending, Exit
from watch.config import Config

TAKEN = "touch /tmp/taken-by-a-name"
NAMES = (
    *(
        f"$({TAKEN})",
        f"`{TAKEN}`",
        f";{TAKEN};",
        f"a'b\"c;{TAKEN}",
        f"a\n{TAKEN}",
        f"|{TAKEN}",
        f"x@$({TAKEN}).service",
    ),
    *("-H evil", "-x", "a b", "%n", "%i%H", "../../etc/passwd", "/etc/passwd", "a" * 300, "a" * 9000, "{a,b}", "~root"),
    *("*", "vllm*", "[a-z]*", "?", "a&b", "<x", "", ".", ".service", "\u202evil", "\x1b]0;EVIL\x07", "caf\u00e9"),
    b"\xff\xfe".decode("utf-8", "surrogateescape"),
)
NO_NAME = {Exit.USAGE, 64}
"""``wait`` has a status of its own."""


async def said(home: Path, *argv: str) -> tuple[int, bytes]:
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM),
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=home,
        env={**os.environ, "HOME": str(home), "LC_ALL": "C.UTF-8"},
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out


def harmless(out: bytes, argv: tuple[str, ...]) -> None:
    assert b"Traceback" not in out, (argv, out)
    assert not re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", out), (argv, out)
    assert "\u202e".encode() not in out, argv
    assert len(out) < 6000, argv


def nothing_run(machine: Machine) -> None:
    name = TAKEN.partition("/")[2]
    assert not Path("/", name).exists()
    assert not (machine.root / name).exists()


@pytest.mark.parametrize("command", [("watch",), ("doctor",), ("wait", "--timeout", "5"), ("bench", "run")])
async def test_what_no_unit_is_called(
    machine: Machine, target: str, keyring: Keyring, command: tuple[str, ...]
) -> None:
    for name in NAMES:
        with pytest.raises(Ending, match="is no name of a unit"):
            named(Config(), [target, name])
    for name in ("*", f"$({TAKEN})", NAMES[-1]):
        argv = (*command, "--", target, name)
        status, out = await said(keyring.home, *argv)
        assert status in NO_NAME, (argv, out)
        harmless(out, argv)
        assert b"is no name of a unit" in out, (argv, out)
        assert b"Names of units have letters" in out, "with what to do"
    nothing_run(machine)


async def test_paths_and_hosts_that_are_none(machine: Machine, keyring: Keyring) -> None:
    for number, name in enumerate(name for name in NAMES if name):
        commands = (("explain",), ("report",), ("replay",), ("--config", name, "audit"), ("doctor",), ("attach",))
        command = commands[number % len(commands)]
        argv = command if name in command else (*command, "--", name)
        status, out = await said(keyring.home, *argv)
        assert status, (argv, out)
        harmless(out, argv)
    nothing_run(machine)


async def test_a_pattern_is_no_order_for_many(
    machine: Machine, target: str, service: Service, keyring: Keyring
) -> None:
    """``systemctl stop '*'`` would stop them all."""
    service.write(f"[Service]\nExecStart={shell('exec sleep 600')}\n")
    await service.start(wait=True)
    status, _ = await said(keyring.home, "watch", target, f"{service.name[:-1]}*")
    assert status == Exit.USAGE
    assert await service.shows("ActiveState") == "active"


async def test_names_in_the_configuration(machine: Machine, keyring: Keyring) -> None:
    file = keyring.home / "firstlight.toml"
    for key, name in (("unit", "*"), ("fallback", f"$({TAKEN})"), ("target", "-oProxyCommand=x"), ("unit", "a b")):
        values = {"target": "llm-two", "unit": "vllm", key: name}
        lines = "".join(f"{one} = '{value}'\n" for one, value in values.items())
        file.write_text(f"[deployments.kimi]\n{lines}")
        status, out = await said(keyring.home, "--config", str(file), "watch", "kimi")
        assert status == Exit.USAGE, out
        assert b"is no name of" in out
        harmless(out, (key, name))
    nothing_run(machine)
