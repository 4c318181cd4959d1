"""Whatever a journal may hold comes through whole, once, in order, as the host itself has it."""

from __future__ import annotations

import base64

from tests.host.machine import Machine
from tests.host.service import Service, shell
from tests.host.watcher import Watcher

ODD = (
    b"\r 0%|          | 0/64\n"
    b"\rLoading safetensors checkpoint shards:  50% Completed | 32/64 [00:01<00:01, 23.63it/s]\n"
    b"one\rtwo\rthree\n"
    b"\x1b[31mred\x1b[0m [bold]markup[/bold] \x1b]52;c;aGk=\x07\n"
    b"not UTF-8: \xff\xfe\x80 and on\n"
    b"half a sign \xe2\x96\n"
    b"nul \x00 inside\n"
    b"  leading blanks stay\n"
    b"\xe2\x80\xaetxt.exe\xe2\x80\xac a\xcc\x81\n"
)


async def test_bytes_of_every_kind(machine: Machine, target: str, service: Service) -> None:
    machine.write("/opt/odd.bin", ODD)
    service.write("[Service]\nType=oneshot\nExecStart=/bin/cat /opt/odd.bin\n")
    async with Watcher(target, service.name) as seen:
        await service.start(wait=True)
        held = await service.journal()
        await seen.holds(held)
    texts = [entry.text for entry in held]
    assert "not UTF-8: \\xff\\xfe\\x80 and on" in texts
    assert "one\rtwo\rthree" in texts


async def test_lines_longer_than_line_max(machine: Machine, target: str, service: Service) -> None:
    """journald cuts at 48 KiB by itself; what was one line is one line again."""
    long = ["x" * (1 << 20), "é" * 30_000, "short"]
    machine.write("/opt/long.txt", "\n".join(long) + "\n")
    service.write("[Service]\nType=oneshot\nExecStart=/bin/cat /opt/long.txt\n")
    async with Watcher(target, service.name) as seen:
        await service.start(wait=True)
        await seen.until(lambda: seen.said("short") and seen.said("Finished"))
        assert [line.text for line in seen.lines if line.comm == "cat"] == long
    held = await service.journal()
    assert len([entry for entry in held if entry.text.strip("x") == ""]) >= (1 << 20) // (48 << 10)


async def test_a_record_of_one_megabyte(machine: Machine, target: str, service: Service) -> None:
    """What a program sends to the journal itself is not cut."""
    script = (
        "import os, socket; out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM);"
        " out.connect('/run/systemd/journal/socket'); fd = os.memfd_create('entry');"
        " os.write(fd, b'PRIORITY=6\\nMESSAGE=' + b'y' * (1 << 20) + b'\\n');"
        " socket.send_fds(out, [b''], [fd])"
    )
    packed = base64.b64encode(script.encode()).decode()
    run = f"import base64;exec(base64.b64decode('{packed}'))"
    service.write(f'[Service]\nType=oneshot\nExecStart=/usr/bin/python3 -c "{run}"\nExecStart=/bin/echo after\n')
    async with Watcher(target, service.name) as seen:
        await service.start(wait=True)
        await seen.until(lambda: seen.said("after"))
        held = await service.journal()
        await seen.holds(held)
    assert max(len(entry.text) for entry in held) == 1 << 20


async def test_rotated_and_vacuumed_while_followed(machine: Machine, target: str, service: Service) -> None:
    count = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; sleep 0.01; done"
    service.write(f"[Service]\nExecStart={shell(count)}\n")
    async with Watcher(target, service.name) as seen:
        await seen.until(lambda: "up" in seen.links())
        await service.start()
        await seen.until(lambda: seen.said("line 50"))
        await machine.do("journalctl", "--rotate")
        await seen.until(lambda: seen.said("line 120"))
        await machine.do("journalctl", "--rotate", "--vacuum-files=1")
        await seen.until(lambda: seen.said("line 300"))
        numbers = [int(line.text.split()[1]) for line in seen.lines if line.text.startswith("line ")]
        assert numbers == list(range(1, 301))


async def test_journald_restarted_while_followed(machine: Machine, target: str, service: Service) -> None:
    count = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo line $i; sleep 0.01; done"
    service.write(f"[Service]\nExecStart={shell(count)}\n")
    async with Watcher(target, service.name) as seen:
        await service.start()
        await seen.until(lambda: seen.said("line 50"))
        await machine.do("systemctl", "restart", "systemd-journald")
        await seen.until(lambda: seen.said("line 200"))
        await seen.holds(await service.journal())


async def test_a_flood(machine: Machine, target: str, service: Service) -> None:
    """Fifty thousand lines at once, all of them kept by journald, all of them here."""
    service.write("[Service]\nType=oneshot\nLogRateLimitIntervalSec=0\nExecStart=/usr/bin/seq -f 'line %%g' 50000\n")
    async with Watcher(target, service.name) as seen:
        await service.start(wait=True)
        await seen.holds(await service.journal())
