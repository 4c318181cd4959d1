"""Units on the real host: a model server that plays a recording, or whatever a test writes."""

from __future__ import annotations

import itertools
import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.host.machine import Machine, free_port
from tests.host.tape import RECORDINGS, Tape

HERE = Path(__file__).parent
_numbers = itertools.count(1)

NGRAM = '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}'


@dataclass(frozen=True)
class Entry:
    """One journal entry as the host itself holds it, read by another way than ours."""

    cursor: str
    text: str


class Service:
    """A unit of the host. ``user``: empty for the system's, else whose user manager it belongs to."""

    def __init__(self, machine: Machine, name: str, user: str = "") -> None:
        self.machine = machine
        self.name = name
        self.user = user
        self.port = free_port()

    def systemctl(self, *words: str) -> list[str]:
        return ["systemctl", *(["--user", f"--machine={self.user}@"] if self.user else []), *words]

    def write(self, text: str) -> None:
        folder = f"/home/{self.user}/.config/systemd/user" if self.user else "/etc/systemd/system"
        self.machine.write(f"{folder}/{self.name}.service", text)
        self.machine.run(*self.systemctl("daemon-reload"))

    def write_server(
        self,
        tape: Tape,
        *,
        speed: float = 1.0,
        model: str = "/opt/models/small",
        arguments: str = "",
        service: str = "",
        status: int | None = None,
        metrics: bytes | None = None,
    ) -> None:
        """A unit whose ExecStart looks like vLLM's and plays ``tape``.

        ``arguments``: more of the command line, quoted as systemd wants it; ``service``: more lines of [Service];
        ``status``: exit so when the tape is over. Its port is this service's own.
        """
        machine = self.machine
        machine.write("/opt/vllm/bin/vllm", (HERE / "player.py").read_bytes(), 0o755)
        machine.write(f"/opt/tapes/{self.name}.jsonl", tape.text())
        machine.write(
            f"/opt/tapes/{self.name}.prom",
            metrics if metrics is not None else (RECORDINGS / "cpu-small-ngram" / "metrics-first.txt").read_bytes(),
        )
        if not (machine.root / model.lstrip("/")).exists():
            for shard in range(1, 5):
                machine.write(f"{model}/model-{shard:05d}-of-00004.safetensors", bytes(3 << 20))
        orders = {
            "PLAYER_TAPE": f"/opt/tapes/{self.name}.jsonl",
            "PLAYER_METRICS": f"/opt/tapes/{self.name}.prom",
            "PLAYER_SPEED": str(speed),
            **({} if status is None else {"PLAYER_EXIT": str(status)}),
        }
        environment = " ".join(f"{name}={value}" for name, value in orders.items())
        self.write(
            f"[Unit]\nDescription=vLLM {self.name}\n"
            f"[Service]\nEnvironment={environment}\n{service}"
            f"ExecStart=/usr/bin/python3 /opt/vllm/bin/vllm serve {model} --served-model-name tiny"
            f" --host 127.0.0.1 --port {self.port} {arguments}\n"
        )

    async def start(self, *, wait: bool = False) -> None:
        await self.machine.do(*self.systemctl("start", *([] if wait else ["--no-block"]), self.name), check=not wait)

    async def stop(self) -> None:
        await self.machine.do(*self.systemctl("stop", self.name))

    async def restart(self) -> None:
        await self.machine.do(*self.systemctl("restart", "--no-block", self.name))

    async def signal(self, name: str) -> None:
        """To every process of it: STOP, CONT, KILL."""
        await self.machine.do(*self.systemctl("kill", f"--signal={name}", "--kill-whom=all", self.name))

    async def shows(self, name: str) -> str:
        said = await self.machine.do(*self.systemctl("show", "--value", f"--property={name}", self.name))
        return said.text.strip()

    async def journal(self) -> list[Entry]:
        """What the host's journal holds about the unit, oldest first."""
        unit = [f"--user-unit={self.name}" if self.user else f"--unit={self.name}"]
        said = await self.machine.do("journalctl", *unit, "--all", "--output=json", "--no-pager", "--quiet")
        return [_entry(json.loads(line)) for line in said.out.splitlines()]


def _entry(fields: dict[str, object]) -> Entry:
    message = fields.get("MESSAGE", "")
    if isinstance(message, list):
        message = bytes(message).decode("utf-8", "backslashreplace")
    return Entry(str(fields["__CURSOR"]), str(message))


def fresh_name(stem: str = "vllm-tiny-ngram") -> str:
    """A name that no other test has used: journals outlive units."""
    return f"{stem}-{next(_numbers)}"


def shell(script: str) -> str:
    """An ExecStart value that runs this script, nothing in it expanded by systemd."""
    quoted = shlex.quote(script).replace("\\", "\\\\")
    return f"/bin/sh -c {quoted}".replace("%", "%%").replace("$", "$$")
