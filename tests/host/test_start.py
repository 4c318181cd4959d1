"""``firstlight`` alone, in a real terminal, against the real host."""

from __future__ import annotations

from tests.host import tape
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service, shell
from tests.host.terminal import PROGRAM, Terminal
from tests.host.test_load import READY
from tests.host.watcher import nothing_left


async def one_down(terminal: Terminal) -> None:
    before = highlighted(terminal)
    terminal.send("j")
    await terminal.until(lambda _: highlighted(terminal) != before)


async def test_a_hosts_units_are_offered_and_one_is_watched(
    machine: Machine, target: str, service: Service, keyring: Keyring
) -> None:
    service.write_server(tape.server("cpu-small-ngram").until(READY).without_waiting(1), speed=50)
    await service.start(wait=True)
    async with Terminal([str(PROGRAM)], columns=120, rows=35) as terminal:
        screen = await terminal.until("What shall be watched?")
        assert target in screen  # an alias of ssh_config
        terminal.send("h")
        await terminal.until("Host:")
        terminal.send("no-such-host.invalid", "Enter")
        await terminal.until("is not known")
        terminal.send("h")
        await terminal.until("Host:")
        terminal.send(target, "Enter")
        screen = await terminal.until(f"Units of {target} that look like model servers")
        assert service.name in screen
        while f"{service.name} " not in highlighted(terminal):
            await one_down(terminal)
        terminal.send("Enter")
        await terminal.until("loaded in")  # its journal has been read
        terminal.send("q")
        assert await terminal.ended() == 0, terminal.screen()
    # what was watched is offered the next time, with how it went
    async with Terminal([str(PROGRAM)], columns=120, rows=35) as terminal:
        screen = await terminal.until("Watched before")
        assert any(service.name in line and "ready in" in line for line in screen.splitlines()), screen
        terminal.send("Enter")
        await terminal.until("READY")
        terminal.send("q")
        assert await terminal.ended() == 0, terminal.screen()
    await nothing_left(machine)


def highlighted(terminal: Terminal) -> str:
    """The row that stands on another ground."""
    coloured = terminal._tmux("capture-pane", "-p", "-e")
    return max(coloured.splitlines()[4:-1], key=lambda line: line.count("\x1b[48"), default="")


async def test_a_deployment_that_cannot_be_watched_is_said_and_the_list_comes_back(
    target: str, service: Service, keyring: Keyring
) -> None:
    service.write(f"[Service]\nExecStart={shell('exec sleep 600')}\n")
    file = keyring.home / "mine.toml"
    file.write_text(
        f'[deployments.gone]\ntarget = "{target}"\nunit = "{service.name}-gone"\n'
        f'[deployments.there]\ntarget = "{target}"\nunit = "{service.name}"\n'
    )
    async with Terminal([str(PROGRAM), "--config", str(file)], columns=120, rows=35) as terminal:
        screen = await terminal.until("Deployments of")
        assert "gone" in screen
        terminal.send("Enter")
        await terminal.until(f"has no unit {service.name}-gone.service")
        terminal.send("j", "Enter")
        await terminal.until(lambda screen: "Journal" in screen and service.name in screen)
        terminal.send("q")
        assert await terminal.ended() == 0, terminal.screen()


async def test_a_deployment_is_watched_by_its_name_read_only(target: str, service: Service, keyring: Keyring) -> None:
    service.write(f"[Service]\nExecStart={shell('exec sleep 600')}\n")
    file = keyring.home / "mine.toml"
    file.write_text(f'[deployments.tiny]\ntarget = "{target}"\nunit = "{service.name}"\n')
    command = [str(PROGRAM), "watch", "tiny", "--config", str(file)]
    async with Terminal(command, columns=200, rows=50) as terminal:
        screen = await terminal.until("Restart")
        assert service.name in screen
        terminal.send("q")
        assert await terminal.ended() == 0, terminal.screen()
    async with Terminal([*command, "--read-only"], columns=200, rows=50) as terminal:
        screen = await terminal.until(lambda screen: "Journal" in screen and "Help" in screen)
        assert "Restart" not in screen.splitlines()[-1]
        terminal.send("q")
        assert await terminal.ended() == 0, terminal.screen()
