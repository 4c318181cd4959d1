"""What a server says is text, whatever it holds: nothing of it reaches a real terminal as a command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from bench.terminal import Terminal
from bench.watched import resident
from probes import gpu
from probes.hosts import open_host
from probes.readings import GpuReading, LinkReading, ProbeReading
from tests.chaos.test_terminal import drained, ended, until
from tests.host.conftest import Keyring
from tests.host.machine import Machine
from tests.host.service import Service, shell
from tests.host.terminal import PROGRAM
from tests.host.watcher import Watcher, nothing_left

SEQUENCE = re.compile(
    rb"\x1b\[([<-?]?)[0-9;:]*([ -/]*[@-~])"  # CSI: its kind, without its numbers
    rb"|\x1b([\]P_^X])([^;\x07\x1b]*)"  # OSC and other strings: which
    rb"|\x1b([ -/]*[0-~])"
)
EVIL = [
    *("\x1b]52;c;RVZJTA==\x07", "\x1b]52;c;RVZJTA==\x1b\\", "\x1b]0;EVIL\x07", "\x1b]2;EVIL\x07"),
    *("\x1b]8;;file:///etc\x07x", "\x1b[2J", "\x1b[31;1HEVIL", "\x1b[?1049l", "\x1b[6n", "\x1b[21t", "\x1bc", "\x1b#8"),
    *("\x1bP+q544e\x1b\\", "\x1b_Gi=1\x1b\\", "\x9b2J", "\x9d52;c;RVZJTA==\x9c", "\r\x1b[1A\x1b[2K"),
    *(
        "\u202eevil\u202c",
        "\u2066x\u2069",
        "\u200b\u200d\ufeff",
        "a" + "\u0301" * 500,
        "日本\U0001f468\u200d\U0001f469",
    ),
    *("[bold red]x[/] [/nope] [link=file:///x]y[/link]", "$(touch /tmp/taken)", "\x00\x01\x07\x08\x0e\x0f", "\x7f\x7f"),
    "\ud83d".encode("utf-8", "surrogatepass").decode("latin-1"),
]
WRITER = """
import json, os, socket, struct, sys
out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
out.connect("/run/systemd/journal/socket")
evil = [bytes(one) for one in json.load(open("/opt/evil.json"))]
def field(name, value):
    return name + b"\\n" + struct.pack("<Q", len(value)) + value + b"\\n"
for one in evil:
    for text in (one, b"(Worker_TP0 pid=77) ERROR 11-30 01:55:00 [x.py:1] " + one, b"(" + one + b" pid=7) INFO x"):
        out.send(field(b"MESSAGE", text) + field(b"SYSLOG_IDENTIFIER", one[:60]) + b"PRIORITY=3\\n")
    sys.stdout.buffer.write(one + b"\\n")
    sys.stdout.flush()
"""


def shapes(seen: bytes) -> set[tuple[bytes, ...]]:
    """Which control sequences a program wrote, without their numbers and texts."""
    return {tuple(part for part in found if part) for found in SEQUENCE.findall(seen)}


def plain(seen: bytes) -> None:
    """No control character but those of sequences and lines, none that reorders or hides text."""
    text = SEQUENCE.sub(b"", seen).decode("utf-8", "replace")
    bad = set(
        re.findall(r"[\x00-\x06\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\u200d\ufeff]", text)
    )
    assert not bad, bad


async def test_no_byte_of_a_line_is_obeyed(
    machine: Machine, target: str, service: Service, chance: random.Random
) -> None:
    evil = [one.encode("utf-8", "surrogatepass") for one in EVIL] + [b"\xff\xfe\x80 not UTF-8", b"\x9b2J\x9d0;EVIL\x9c"]
    evil += [bytes(chance.randrange(256) for _ in range(200)) for _ in range(20)]
    chance.shuffle(evil)
    machine.write("/opt/evil.json", str([list(one) for one in evil]))
    machine.write("/opt/evil.py", WRITER)
    service.write('[Service]\nExecStart=/bin/sh -c "echo calm; echo calm; sleep 600"\n')
    keys = (
        "j",
        "k",
        "enter",
        "escape",
        "f",
        "enter",
        "escape",
        "J",
        "?",
        "escape",
        "p",
        "escape",
        "z",
        "z",
        "s",
        "s",
        "s",
    )
    codes = {"enter": "\r", "escape": "\x1b"}

    async def tour(terminal: Terminal) -> None:
        for key in keys:
            terminal.send(codes.get(key, key))
            await drained(terminal, 0.3)

    with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await until(terminal, service.name)
        await service.start()
        await until(terminal, "calm")
        await tour(terminal)
        terminal.send("q")
        await ended(terminal)
        usual = shapes(terminal.seen)
    await service.stop()

    service.write(
        '[Service]\nSyslogLevelPrefix=no\nExecStart=/bin/sh -c "python3 /opt/evil.py; echo calm; sleep 600"\n'
    )
    with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await until(terminal, service.name)
        await service.start()
        await until(terminal, "calm")
        await tour(terminal)
        terminal.send("q")
        assert await ended(terminal) == 0
        assert b"52;c" not in b"".join(re.findall(rb"\x1b\][^\x07\x1b]*", terminal.seen))
        more = {shape for shape in shapes(terminal.seen) - usual if shape[-1] not in (b"9",)}
        assert not more, more  # 9: its own notification of what it found
        plain(terminal.seen)
    assert not (machine.root / "tmp/taken").exists()
    await nothing_left(machine)


async def test_a_hundred_megabytes_without_a_newline(
    machine: Machine, target: str, service: Service, chance: random.Random
) -> None:
    service.write(
        "[Service]\nLogRateLimitIntervalSec=0\n"
        'ExecStart=/bin/sh -c "head -c 100000000 /dev/zero | tr \\"\\\\\\\\0\\" x; echo; echo after it; sleep 600"\n'
    )
    with Terminal([str(PROGRAM), "watch", target, service.name]) as terminal:
        await until(terminal, service.name)
        await drained(terminal, 2.0)
        before = resident(terminal.process.pid)
        await service.start()
        await until(terminal, "after it", 120.0)
        await drained(terminal, 2.0)
        assert resident(terminal.process.pid) - before < 60e6
        terminal.send("q")
        assert await ended(terminal) == 0
    await nothing_left(machine)


# ---- an nvidia-smi that is none

SMI = "/usr/local/bin/nvidia-smi"
HEADER = "index, uuid, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%], power.draw [W]"
ROW = r"0, GPU-\033]0;EVIL\007, \033[2J[bold red]H200\342\200\256, -5 MiB, 99999999999999999999 MiB, -7 %%, NaN W"
TALKS = {
    "escapes": r"exec yes \"$(printf '\033]0;EVIL\007 [bold]x[/nope]')\"",
    "noise": "exec cat /dev/urandom",
    "a line": "head -c 100000000 /dev/zero; exec sleep 600",
    "nothing": "exec sleep 600",
    "exit 1": r"printf '\033[2Jno such thing\n' >&2; exit 1",
    "errors": "exec yes 'GPU is lost' >&2",
    "rows": f"echo '{HEADER}'; while :; do printf '{ROW}\\n'; sleep 0.2; done",
    "gpus": f"echo '{HEADER}'; seq 0 99999 | sed 's/.*/&, GPU-&, H200, 1 MiB, 2 MiB, 3 %, 4 W/'; exec sleep 600",
}


@pytest.mark.parametrize("name", TALKS)
async def test_an_nvidia_smi_that_is_none(
    machine: Machine, target: str, service: Service, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU pane says so or shows what can be shown; nothing grows, and the journal goes on."""
    service.write(f"[Service]\nExecStart={shell('i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done')}\n")
    monkeypatch.setattr(gpu, "HUNG", 2.0)
    machine.write(SMI, f"#!/bin/sh\n{TALKS[name]}\n", 0o755)
    try:
        await service.start()
        async with Watcher(target, service.name) as seen:
            await seen.until(lambda: seen.said("line"))
            before = _own()
            await seen.until(
                lambda: (
                    seen.of(GpuReading)
                    or any(one.probe == "gpu" and one.state in ("failed", "missing") for one in seen.of(ProbeReading))
                ),
                what="a word on the GPUs",
            )
            at = len(seen.lines)
            await seen.until(lambda: len(seen.lines) > at + 20, what="more of the journal")
            assert _own() - before < 60e6
            for one in seen.of(ProbeReading):
                assert "fault of firstlight" not in one.reason, one
                assert len(one.reason) < 1000
            assert all(len(one.devices) <= 256 for one in seen.of(GpuReading))
    finally:
        (machine.root / SMI.lstrip("/")).unlink()
    await nothing_left(machine)


# ---- servers that are no SSH servers, or evil ones

Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def server(play: Play) -> AsyncIterator[int]:
    """Plays to everyone who connects; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await play(reader, writer)
        writer.close()

    one = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield one.sockets[0].getsockname()[1]
    finally:
        one.close()


async def endless_banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"\x1b]0;EVIL\x07 not yet\r\n" * 1000)
        await writer.drain()


async def endless_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


async def huge_packet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.9\r\n" + struct.pack(">I", 0xFFFFFFF0))
    while True:
        writer.write(bytes(65536))
        await writer.drain()


async def noise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-\x1b[2JEVIL\r\n")
    await reader.readexactly(8)
    writer.write(random.Random(1).randbytes(1 << 20))
    await writer.drain()


@pytest.mark.parametrize("play", [endless_banner, endless_line, huge_packet, noise])
async def test_a_server_that_is_none(keyring: Keyring, play: Play) -> None:
    """It is given up, with a reason that can be shown; memory does not grow with what it sends."""
    async with server(play) as port:
        keyring.add("evil", port, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0rqe5N2kP0GZ7p8Gm0kzZ1w9q3X5V1rS7Q2yJ4aB1c")
        host = open_host("evil")
        before = _own()
        try:
            async with asyncio.timeout(60):
                async for reading in host.links():
                    assert isinstance(reading, LinkReading)
                    if reading.state in ("down", "refused"):
                        assert reading.reason
                        assert reading.reason.isprintable(), reading.reason
                        break
        finally:
            await host.close()
        assert _own() - before < 30e6


def _own() -> int:
    return resident(os.getpid())
