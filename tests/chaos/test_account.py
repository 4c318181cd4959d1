"""What is checked after each run finds what it looks for."""

from __future__ import annotations

import os

import pytest

from tests.chaos.account import Account, records
from tests.chaos.footprint import Footprint
from tests.host.machine import Machine
from tests.host.service import Service

SENDS = r"""
import socket, struct, sys
sys.stdout.buffer.write(b"\x1b[2mtwo \xff\n")
sys.stdout.flush()
text = b"one\n\n__CURSOR=\n\nthree"
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(
    b"MESSAGE\n" + struct.pack("<Q", len(text)) + text + b"\n", "/run/systemd/journal/socket"
)
"""


async def test_what_is_left_is_found(account: Account) -> None:
    do = account.machine.do
    await do("touch", "/tmp/ours", "/run/user-of-ours", "/root/.firstlight-note")
    await do("mkdir", "-p", "/var/lib/firstlight")
    await do("systemd-run", "--unit=firstlight-x", "--quiet", "sleep", "600")
    await do("systemd-run", "--unit=other", "--quiet", "flock", "/etc/fstab", "sleep", "600")
    with pytest.raises(AssertionError) as found:
        await account.nothing_left(1.0)
    left = str(found.value).partition(": ")[2].split("; ")
    assert left == [
        "/root/.firstlight-note", "/run/user-of-ours", "/tmp/ours", "/var/lib/firstlight", "lock FLOCK WRITE of flock",
        left[-1],
    ]  # fmt: skip
    assert left[-1].startswith("unit firstlight-x.service")
    await do("systemctl", "stop", "firstlight-x", "other")
    await do("rm", "-r", "/tmp/ours", "/run/user-of-ours", "/root/.firstlight-note", "/var/lib/firstlight")
    await account.nothing_left()


async def test_the_journal_in_the_export_format_is_what_it_is_as_json(
    machine: Machine, service: Service, account: Account
) -> None:
    """Binary fields and empty lines in them included; what the host lets go of stays known."""
    machine.write("/opt/sends.py", SENDS)
    service.write("[Service]\nType=oneshot\nExecStart=/usr/bin/python3 /opt/sends.py\n")
    await service.start(wait=True)
    await machine.do("journalctl", "--sync")
    held = await account.read()
    assert held == await service.journal()
    assert {"\x1b[2mtwo \\xff", "one\n\n__CURSOR=\n\nthree"} <= {entry.text for entry in held}
    assert [entry for entry, _ in records(account.export())] == held
    assert [entry for entry, _ in records(account.export(held[1].cursor))] == held[:2]
    await machine.do("journalctl", "--rotate", "--vacuum-files=1")
    await machine.do("journalctl", "--rotate", "--vacuum-files=1")
    assert await account.read() == held


async def test_more_memory_or_files_than_before_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.footprint.SEEN", [])
    footprint = Footprint()
    await footprint.take()
    held = bytearray(os.urandom(1 << 20) * 30)
    with pytest.raises(AssertionError, match="MB more"):
        await footprint.is_back(limit=1.0)
    del held
    await footprint.is_back()
    with open(os.devnull):  # noqa: ASYNC230 that it is open is all
        with pytest.raises(AssertionError, match="open files"):
            await footprint.is_back(limit=1.0)
        await footprint.is_back(more_files=1)
