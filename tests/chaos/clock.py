"""A host whose clock can be stepped.

The host of the tests is a container, and shares the clock of this machine, which no test may set. So ``clock.c`` stands
between the clock and whatever asks for it there: systemd itself, journald, sshd, every service and every login.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.host.machine import Machine

SOURCE = Path(__file__).with_name("clock.c")
LIBRARY = "/opt/clock.so"
AHEAD = "/etc/clock-ahead"
ENVIRONMENT = "/etc/environment"  # of logins
MANAGER = "/etc/systemd/system.conf.d/clock.conf"  # of systemd and of services


class Clock:
    """``start`` once for a machine: its daemons begin anew with a clock of their own. It should be a machine that no
    other test stands on: the journal keeps the times that were."""

    def __init__(self, machine: Machine) -> None:
        if shutil.which("cc") is None:
            pytest.skip("a clock that can be stepped needs: apt-get install gcc")
        self.machine = machine
        self.ahead = 0
        """seconds that the host's clock is ahead of this machine's"""

    async def start(self) -> Clock:
        self.machine.write(AHEAD, struct.pack("q", 0))
        self.machine.write(LIBRARY, _built())
        preload = f"LD_PRELOAD={LIBRARY}"
        self.machine.write(ENVIRONMENT, f"{preload}\n")
        self.machine.write(MANAGER, f"[Manager]\nManagerEnvironment={preload}\nDefaultEnvironment={preload}\n")
        for _ in range(2):  # the first learns the environment, the second begins with it
            await self.machine.do("systemctl", "daemon-reexec")
        await self.machine.do("systemctl", "restart", "systemd-journald", "systemd-logind", "ssh")
        return self

    def step(self, by: int) -> None:
        """Set the host's clock on or back by so many seconds."""
        self.ahead += by
        with self._file(AHEAD).open("r+b", buffering=0) as file:
            file.write(struct.pack("q", self.ahead))

    def _file(self, path: str) -> Path:
        return self.machine.root / path.lstrip("/")


def _built() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "clock.so")
        options = ["-shared", "-fPIC", "-nostdlib", "-ffreestanding", "-O1", f'-DAHEAD="{AHEAD}"']
        subprocess.run(["cc", *options, "-o", str(library), str(SOURCE)], check=True)
        return library.read_bytes()
