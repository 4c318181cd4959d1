from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from probes.journal import JournalProbe, has_manager_line, matches
from probes.probe import ProbeFailed
from probes.readings import JournalLine, ProbeReading
from tests.probes import journals
from tests.probes.hosts import Programs, Reader
from tests.probes.journals import BOOTED, HAS_JOURNALCTL, INVOCATION, JOURNAL_REMOTE, said, write_journal

pytestmark = pytest.mark.skipif(
    not (HAS_JOURNALCTL and JOURNAL_REMOTE.exists()), reason="needs journalctl and Debian's systemd-journal-remote"
)

OTHER = "c1" * 16


class Machine(Programs):
    """A host whose journal is a real file, read by the real journalctl."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = folder / "system.journal"
        self.said = 0
        self.real = f'exec /usr/bin/journalctl --file="{self.file}" "$@"\n'
        self.put("journalctl", self.real)
        self.put("cat", BOOTED)

    def say(self, *messages: bytes | str, **fields: str) -> None:
        export = b""
        for message in messages:
            self.said += 1
            text = message.encode() if isinstance(message, str) else message
            # journald keeps each sequence in one boot; journal-remote gives its own cursors
            export += said(self.said, text, **fields)
        write_journal(self.file, export)


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    assert machine.host.running == 0, "something of ours still runs on the host"


def texts(reader: Reader) -> list[str]:
    return [line.text for line in reader.of(JournalLine)]


async def read_until(probe: JournalProbe, last: str) -> Reader:
    return await Reader(probe.batches()).until(lambda reader: last in texts(reader))


async def test_a_load_that_began_before_the_host_s_reboot_is_read_from_there(machine: Machine) -> None:
    """Following, journalctl gives lines of the current boot alone, whatever it is told."""
    machine.say("one", "two")
    other = journals.BOOT
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journals, "BOOT", "0b" * 16)
        machine.say("three", "four")
        machine.put("cat", journals.BOOTED.replace(other, journals.BOOT))
        probe = JournalProbe(machine.host, "vllm.service", invocation=INVOCATION)
        reader = await read_until(probe, "four")
        machine.say("five")
        await reader.until(lambda reader: "five" in texts(reader))
    assert texts(reader) == ["one", "two", "three", "four", "five"]
    assert reader.of(ProbeReading) == []
    await reader.stop()


async def test_backlog_and_what_is_said_now_come_from_one_command(machine: Machine) -> None:
    machine.say("one", "two")
    reader = await read_until(JournalProbe(machine.host, "vllm.service", invocation=INVOCATION), "two")
    assert texts(reader) == ["one", "two"]
    machine.say("three", b"\r 45%|# | 3/7\r 60%|## | 4/7", "x" * 100_000)
    await reader.until(lambda reader: "x" * 100_000 in texts(reader))
    assert texts(reader)[2:] == ["three", "\r 45%|# | 3/7\r 60%|## | 4/7", "x" * 100_000]
    following = [argv for argv in machine.host.started if "--follow" in argv]
    assert len(following) == 1
    await reader.stop()


async def test_it_begins_with_the_first_line_of_the_current_invocation(machine: Machine) -> None:
    machine.say("old", _SYSTEMD_INVOCATION_ID=OTHER)
    machine.say(
        "Starting vllm.service", UNIT="vllm.service", INVOCATION_ID=INVOCATION, _SYSTEMD_UNIT="init.scope", _UID="0",
        _SYSTEMD_INVOCATION_ID="", SYSLOG_IDENTIFIER="systemd", _PID="1",
    )  # fmt: skip
    machine.say("new")
    machine.say("restarted", _SYSTEMD_INVOCATION_ID="d2" * 16)
    reader = await read_until(JournalProbe(machine.host, "vllm.service", invocation=INVOCATION), "restarted")
    assert texts(reader) == ["Starting vllm.service", "new", "restarted"]
    assert has_manager_line(reader.readings)
    await reader.stop()


async def test_a_unit_that_systemd_has_forgotten_is_found_by_what_it_said_last(machine: Machine) -> None:
    machine.say("old", _SYSTEMD_INVOCATION_ID=OTHER)
    machine.say("new", "dead")
    reader = await read_until(JournalProbe(machine.host, "vllm.service"), "dead")
    assert texts(reader) == ["new", "dead"]
    await reader.stop()


async def test_since_begins_earlier(machine: Machine) -> None:
    machine.say("old", _SYSTEMD_INVOCATION_ID=OTHER)
    machine.say("new")
    reader = await read_until(
        JournalProbe(machine.host, "vllm.service", invocation=INVOCATION, since=1796009895.0), "new"
    )
    assert texts(reader) == ["old", "new"]
    await reader.stop()


async def test_a_since_that_is_no_time_is_said_with_examples(machine: Machine) -> None:
    machine.say("one")
    failed = await Reader(JournalProbe(machine.host, "vllm.service", since="yesteryear").batches()).end()
    assert isinstance(failed, ProbeFailed)
    assert (failed.state, failed.reason) == ("missing", "journalctl does not understand --since yesteryear")


async def test_other_units_are_not_heard_and_root_speaks_for_the_unit(machine: Machine) -> None:
    machine.say("stranger", _SYSTEMD_UNIT="nginx.service")
    machine.say("from a child", UNIT="vllm.service", _UID="0", SYSLOG_IDENTIFIER="(bash)", _PID="114")
    machine.say("forged", UNIT="vllm.service", _UID="1000", _SYSTEMD_UNIT="session-1.scope")
    machine.say("NVRM: Xid (PCI:0000:61:00): 79, GPU has fallen off the bus.", _TRANSPORT="kernel", _SYSTEMD_UNIT="")
    machine.say("last")
    reader = await read_until(JournalProbe(machine.host, "vllm.service", since=1796009895.0), "last")
    assert texts(reader) == ["from a child", "NVRM: Xid (PCI:0000:61:00): 79, GPU has fallen off the bus.", "last"]
    await reader.stop()


@pytest.mark.parametrize("how", ["link", "reader"])
async def test_after_a_break_no_line_is_lost_and_none_comes_twice(machine: Machine, how: str) -> None:
    machine.say(*(f"line {number}" for number in range(50)))
    probe = JournalProbe(machine.host, "vllm.service", invocation=INVOCATION)
    reader = await read_until(probe, "line 49")
    if how == "link":
        await reader.stop()
    else:
        machine.host.cut_now()
        machine.host.mend()
        failed = await reader.end()
        assert isinstance(failed, ProbeFailed)
        assert failed.state == "ended"
    machine.say(*(f"line {number}" for number in range(50, 80)))
    again = await read_until(probe, "line 79")
    assert texts(reader) + texts(again) == [f"line {number}" for number in range(80)]
    assert again.of(ProbeReading) == []
    await again.stop()


async def test_a_journal_vacuumed_under_us_is_a_gap_that_is_said(machine: Machine) -> None:
    machine.say("one", "two")
    probe = JournalProbe(machine.host, "vllm.service", invocation=INVOCATION)
    reader = await read_until(probe, "two")
    await reader.stop()
    machine.file.unlink()
    machine.say("three", "four")
    again = await read_until(probe, "four")
    assert texts(again) == ["three", "four"]
    gaps = again.of(ProbeReading)
    assert [gap.state for gap in gaps] == ["gap"]
    assert "no longer has the last line" in gaps[0].reason
    assert isinstance(again.readings[0], ProbeReading)
    await again.stop()


async def test_a_cursor_that_journalctl_refuses_is_replaced_by_the_time_of_its_line(machine: Machine) -> None:
    machine.say("one", "two")
    probe = JournalProbe(machine.host, "vllm.service", invocation=INVOCATION)
    reader = await read_until(probe, "two")
    await reader.stop()
    machine.put(
        "journalctl",
        'case "$*" in *--cursor=*) echo "Failed to seek to cursor: Invalid argument" >&2; exit 1;; esac\n'
        + machine.real,
    )
    failed = await Reader(probe.batches()).end()
    assert "Failed to seek to cursor" in failed.reason
    machine.say("three")
    again = await read_until(probe, "three")
    assert texts(again) == ["three"]
    await again.stop()


async def test_a_reader_that_dies_says_why_and_goes_on(machine: Machine) -> None:
    machine.say("one")
    mortal = (
        machine.real.replace("exec ", "timeout -s KILL 1 ")
        + "echo 'Failed to iterate through journal: Bad message' >&2"
    )
    machine.put("journalctl", f'case "$*" in *--follow*) {mortal}; exit 1;; esac\n{machine.real}')
    reader = Reader(JournalProbe(machine.host, "vllm.service", invocation=INVOCATION).batches())
    failed = await reader.end()
    assert texts(reader) == ["one"]
    assert isinstance(failed, ProbeFailed)
    assert failed.state == "ended"
    assert "Failed to iterate through journal: Bad message" in failed.reason


HINT = (
    "Hint: You are currently not seeing messages from other users and the system.\n"
    "      Users in groups 'adm', 'systemd-journal' can see all messages.\n"
    "      Pass -q to turn off this notice."
)


@pytest.mark.parametrize("complaint", [HINT, HINT + "\nNo journal files were opened due to insufficient permissions."])
async def test_no_right_to_read_names_the_group(machine: Machine, complaint: str) -> None:
    machine.put("journalctl", f'case "$*" in *export*) sleep 60;; *) echo "{complaint}" >&2;; esac')
    failed = await Reader(JournalProbe(machine.host, "vllm.service").batches()).end()
    assert isinstance(failed, ProbeFailed)
    assert failed.state == "missing"
    assert "may not read the journal" in failed.reason
    assert "usermod -aG systemd-journal" in failed.remedy


async def test_a_user_unit_is_read_without_the_right_to_see_others(machine: Machine) -> None:
    machine.put("journalctl", f'case "$*" in *export*) ;; *) echo "{HINT}" >&2;; esac\n{machine.real}')
    user = {"_SYSTEMD_UNIT": "user@0.service", "_SYSTEMD_USER_UNIT": "vllm.service", "_UID": str(os.getuid())}
    machine.say("mine", **user)
    machine.say("another's", **(user | {"_UID": "4242"}))
    machine.say("mine too", **user)
    reader = await read_until(JournalProbe(machine.host, "vllm.service", user=True, since=1796009895.0), "mine too")
    assert texts(reader) == ["mine", "mine too"]
    await reader.stop()


async def test_no_journal_at_all(machine: Machine) -> None:
    machine.put("journalctl", "echo 'No journal files were found.' >&2")
    failed = await Reader(JournalProbe(machine.host, "vllm.service").batches()).end()
    assert isinstance(failed, ProbeFailed)
    assert (failed.state, failed.reason.partition(",")[0]) == ("missing", "This host keeps no journal")


async def test_no_journalctl(machine: Machine) -> None:
    machine.put("journalctl", "echo 'sh: 1: journalctl: not found' >&2; exit 127")
    failed = await Reader(JournalProbe(machine.host, "vllm.service").batches()).end()
    assert isinstance(failed, ProbeFailed)
    assert failed.state == "missing"
    assert "no journalctl" in failed.reason


async def test_text_in_front_of_the_records_is_left_out_and_said(machine: Machine) -> None:
    machine.say("one")
    machine.put("journalctl", f'case "$*" in *--follow*) echo "Welcome to gpu-host";; esac\n{machine.real}')
    reader = await read_until(JournalProbe(machine.host, "vllm.service", invocation=INVOCATION), "one")
    assert texts(reader) == ["one"]
    (noise,) = reader.of(ProbeReading)
    assert noise.state == "gap"
    assert "Welcome to gpu-host" in noise.reason
    await reader.stop()


def test_terms_are_alternatives_and_fields_of_a_term_belong_together() -> None:
    assert " ".join(matches("v.service")).split(" + ")[:2] == ["_SYSTEMD_UNIT=v.service", "UNIT=v.service _UID=0"]
    assert " ".join(matches("v.service", "1000")).split(" + ")[:2] == [
        "_SYSTEMD_USER_UNIT=v.service _UID=1000",
        "USER_UNIT=v.service _UID=1000",
    ]
    assert all("_TRANSPORT=kernel" in matches("v.service", uid) for uid in ("", "1000"))
