"""``firstlight wait`` as a shell script uses it, against the real host: each exit status."""

from __future__ import annotations

import asyncio
import shlex

from tests.host import tape
from tests.host.conftest import Keyring
from tests.host.machine import Machine, free_port
from tests.host.service import Service, shell
from tests.host.terminal import PROGRAM
from tests.host.test_load import READY
from tests.host.watcher import Watcher, nothing_left

SCRIPT = """\
set -u
if {command}; then
  echo "open the traffic"
else
  status=$?
  case $status in
  1) echo "roll back" ;;
  2) echo "look at it" ;;
  3) echo "too late" ;;
  4) echo "call the network" ;;
  *) echo "what is $status?" ;;
  esac
  exit $status
fi
"""


async def script(*words: str) -> tuple[int, list[str], str]:
    """Status, lines of standard output, and standard error of a script that goes by the status."""
    command = shlex.join([str(PROGRAM), "wait", *words])
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", SCRIPT.format(command=command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 90)
    return process.returncode or 0, out.decode().splitlines(), err.decode()


async def test_ready(machine: Machine, target: str, service: Service) -> None:
    service.write_server(tape.server("cpu-small-ngram").until(READY).without_waiting(1), speed=1.5)
    waiting = asyncio.create_task(script(target, service.name, "--for", "ready", "--timeout", "2m"))
    await service.start()
    status, lines, err = await waiting
    assert (status, lines[-1], err) == (0, "open the traffic", "")
    assert "ready; it took" in lines[-2]
    assert any("loading: " in line for line in lines)
    again, lines, _ = await script(target, service.name)
    assert (again, lines[-1]) == (0, "open the traffic"), "a server that has long been ready is ready"
    await nothing_left(machine)


async def test_failed(target: str, service: Service) -> None:
    service.write_server(tape.server("cpu-fail-truncated-shard"), speed=20, status=1)
    await service.start()
    status, lines, _ = await script(target, service.name, "--json")
    assert (status, lines[-1]) == (1, "roll back")
    assert '"exit":1' in lines[-2]


async def test_timed_out(target: str, service: Service) -> None:
    service.write(f"[Service]\nExecStart={shell('sleep 600')}\n")
    await service.start()
    status, lines, _ = await script(target, service.name, "--timeout", "3s")
    assert (status, lines[-1]) == (3, "too late")


LATE = """\
#!/bin/sh
# The host's clock as it stands two hours later.
[ "$*" = "+%s.%N" ] || exec /usr/bin/date "$@"
exec /usr/bin/date -d "2 hours" +%s.%N
"""


async def test_stalled(machine: Machine, target: str, service: Service) -> None:
    """A load that fell silent among its weights, two hours later: nobody waits those for this test."""
    service.write_server(tape.server("cpu-small-ngram").until(b"0/16").without_waiting(1), speed=8)
    await service.start()
    async with Watcher(target, service.name) as seen:
        await seen.until(lambda: seen.said("0/16"))
    machine.write("/usr/local/bin/date", LATE, 0o755)
    try:
        status, lines, _ = await script(target, service.name, "--timeout", "60s")
        assert (status, lines[-1]) == (2, "look at it"), lines
        assert "nothing has moved in weights for 2 h" in lines[-2].replace("120 min", "2 h")
        status, lines, _ = await script(target, service.name, "--timeout", "4s", "--stall-grace", "1m")
        assert (status, lines[-1]) == (3, "too late"), lines
    finally:
        machine.run("rm", "/usr/local/bin/date")


async def test_unreachable(machine: Machine, target: str, keyring: Keyring) -> None:
    keyring.add("gone", free_port(), machine.host_key)
    status, lines, _ = await script("gone", "vllm", "--patience", "1s")
    assert (status, lines[-1]) == (4, "call the network")
    status, lines, _ = await script(target, "no-such-unit")
    assert (status, lines[-1]) == (4, "call the network")
    assert "no unit no-such-unit.service" in lines[-2]


async def test_a_wrong_command_line_is_none_of_these(keyring: Keyring) -> None:
    for words in (["--timeout", "soon", "a", "b"], ["a", "b", "c"], ["--what", "a", "b"]):
        status, lines, err = await script(*words)
        assert (status, lines[-1]) == (64, "what is 64?")
        assert err
