from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from probes import ahead, beginning, unit
from probes.asking import asking
from probes.endpoint import BadEndpoint
from probes.host import CommandTimeout, LinkRefused
from probes.outbox import Outbox
from probes.probe import ProbeFailed
from probes.readings import (
    GpuReading,
    HealthReading,
    IoReading,
    JournalLine,
    LinkReading,
    MetricsReading,
    Note,
    ProbeReading,
    Reading,
    UnitFile,
    UnitReading,
    encode,
)
from probes.supervise import Supervisor
from tests.probes.hosts import PlainHost, Programs, Reader
from tests.probes.journals import HAS_JOURNALCTL, INVOCATION, JOURNAL_REMOTE, said, write_journal
from tests.probes.test_nvidia_smi import PLAY
from tests.probes.test_serving import PAGE, Server, http

SHOWN = """\
Id=vllm.service
LoadState=loaded
ActiveState=active
SubState=running
MainPID=4194304
InvocationID={invocation}
ControlGroup=/system.slice/vllm.service
ExecStart={{ path=/bin/vllm ; argv[]=/bin/vllm serve /m --port {port} ; ignore_errors=no ; pid=0 }}
"""


class Machine(Programs):
    """A host with a unit, its journal, a GPU and a server."""

    def __init__(self, folder: Path, server: Server) -> None:
        super().__init__(folder)
        self.server = server
        self.file = folder / "system.journal"
        self.shown = folder / "shown"
        self.said = 0
        self.put("journalctl", f'exec /usr/bin/journalctl --file="{self.file}" "$@"')
        self.put("systemctl", f'case "$*" in *" show "*) cat {self.shown} ;; *" cat "*) echo "# text" ;; esac')
        self.put("nvidia-smi", PLAY)
        self.show()

    def show(self, text: str = SHOWN, **values: object) -> None:
        new = self.shown.with_suffix(".new")
        new.write_text(text.format(**{"port": self.server.port, "invocation": INVOCATION, **values}))
        new.rename(self.shown)

    def say(self, *messages: str, **fields: str) -> None:
        export = b""
        for message in messages:
            self.said += 1
            export += said(self.said, message.encode(), **fields)
        write_journal(self.file, export)


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    if not (HAS_JOURNALCTL and JOURNAL_REMOTE.exists()):
        pytest.skip("needs journalctl and Debian's systemd-journal-remote")
    monkeypatch.setattr("probes.supervise.SHORTEST", 0.02)
    server = Server()
    await server.start()
    server.answer = lambda path: http(503)
    machine = Machine(tmp_path, server)
    machine.say("one", "two")
    yield machine
    assert machine.host.running == 0, "something of ours still runs on the host"
    await server.stop()
    left = [
        task.get_coro().__qualname__ for task in asyncio.all_tasks() if "Supervisor" in task.get_coro().__qualname__
    ]
    assert left == []


def texts(reader: Reader) -> list[str]:
    return [line.text for line in reader.of(JournalLine)]


def probe(reader: Reader, name: str) -> list[tuple[str, str]]:
    return [(reading.state, reading.reason) for reading in reader.of(ProbeReading) if reading.probe == name]


async def test_everything_at_once_over_at_most_six_channels(machine: Machine) -> None:
    machine.server.answer = lambda path: http(200, PAGE if path.startswith("/metrics") else b"")
    reader = Reader(Supervisor(machine.host, "vllm", gpu="nvidia-smi").batches())
    kinds = (LinkReading, UnitReading, UnitFile, JournalLine, GpuReading, IoReading, HealthReading, MetricsReading)
    await reader.until(lambda reader: all(reader.of(kind) for kind in kinds))
    await reader.stop()
    assert texts(reader) == ["one", "two"]
    assert reader.of(HealthReading)[0].endpoint == f"http://127.0.0.1:{machine.server.port}"
    assert machine.host.most <= 5, "and one of HTTP"
    assert {reading.probe for reading in reader.of(ProbeReading) if reading.state == "up"} >= {
        "unit",
        "journal",
        "gpu",
        "io",
        "serving",
    }


@pytest.mark.parametrize("wait", [60.0, 0.0])
async def test_the_first_lines_are_asked_for_before_all_else_and_waited_for_a_while(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, wait: float
) -> None:
    monkeypatch.setattr("probes.supervise.LINES_WAIT", wait)
    gate = machine.folder / "gate"
    gate.touch()
    held = f'case "$*" in *" -r "*) while [ -e "{gate}" ]; do sleep 0.05; done ;; esac'
    machine.put("journalctl", f'{held}\nexec /usr/bin/journalctl --file="{machine.file}" "$@"')
    reader = Reader(Supervisor(machine.host, "vllm", gpu="nvidia-smi").batches())
    if wait:
        await reader.until(lambda reader: "two" in texts(reader))
        scripts = [argv[2] for argv in machine.host.started if argv[0] == "sh"]
        assert sorted(scripts) == sorted(
            [next(script for script in scripts if unit.SCRIPT in script), beginning.SCRIPT, ahead.TAIL]
        )
        assert [argv[0] for argv in machine.host.started if argv[0] != "sh"] == ["journalctl"]
        gate.unlink()
    await reader.until(lambda reader: reader.of(GpuReading) and reader.of(IoReading) and reader.of(HealthReading))
    await reader.stop()


async def test_what_was_begun_before_anybody_listens_is_told_whole(machine: Machine) -> None:
    supervisor = Supervisor(machine.host, "vllm", gpu="none")
    supervisor.start()
    supervisor.start()
    await supervisor.first_lines()
    machine.say("three")
    reader = await Reader(supervisor.batches()).until(lambda reader: "three" in texts(reader))
    assert texts(reader) == ["one", "two", "three"]
    told = [type(one) for one in reader.readings]
    assert told[0] is LinkReading
    assert told.index(UnitReading) < told.index(JournalLine)
    await reader.stop()


async def test_a_lost_link_loses_no_line_and_repeats_none(machine: Machine) -> None:
    reader = Reader(Supervisor(machine.host, "vllm", gpu="none").batches())
    await reader.until(lambda reader: "two" in texts(reader))
    for number in range(3):
        machine.host.cut_now()
        machine.say(f"while cut {number}")
        await asyncio.sleep(0)
        machine.host.mend()
        await reader.until(lambda reader, number=number: f"while cut {number}" in texts(reader))
        machine.say(f"after {number}")
        await reader.until(lambda reader, number=number: f"after {number}" in texts(reader))
    await reader.stop()
    expected = [word for number in range(3) for word in (f"while cut {number}", f"after {number}")]
    assert texts(reader) == ["one", "two", *expected]
    assert [reading for reading in reader.of(ProbeReading) if reading.state == "gap"] == []
    assert [state for state, _ in probe(reader, "unit") if state == "failed"] == [], "the link's own reading says it"


async def test_a_line_of_systemds_asks_the_unit_at_once(machine: Machine) -> None:
    reader = Reader(Supervisor(machine.host, "vllm", gpu="none").batches())
    await reader.until(lambda reader: "two" in texts(reader) and reader.of(HealthReading))
    machine.show(SHOWN.replace("ActiveState=active", "ActiveState=failed"))
    machine.say("Failed with result", UNIT="vllm.service", _UID="0", SYSLOG_IDENTIFIER="systemd", _PID="1")
    async with asyncio.timeout(3):  # the next turn would come after five seconds
        await reader.until(lambda reader: reader.of(UnitReading)[-1].active == "failed")
    await reader.stop()


async def test_a_probe_that_cannot_go_on_leaves_the_others_alone_and_says_so_once(machine: Machine) -> None:
    machine.put("journalctl", "echo 'sh: journalctl: not found' >&2; exit 127")
    machine.put("nvidia-smi", "echo 'Segmentation fault' >&2; exit 139")
    reader = Reader(Supervisor(machine.host, "vllm", gpu="nvidia-smi").batches())
    await reader.until(lambda reader: len(reader.of(IoReading)) >= 3)
    await reader.stop()
    assert [state for state, _ in probe(reader, "journal")] == ["missing"]
    assert probe(reader, "gpu") == [("failed", "nvidia-smi ended: Segmentation fault")]
    starts = sum("--format=csv" in argv for argv in machine.host.started)
    assert starts > 1, "it is tried again"
    assert starts < 12, "and less and less often"


async def test_a_probe_that_comes_back_says_that_it_is_up(machine: Machine) -> None:
    machine.put("nvidia-smi", "exit 9")
    reader = Reader(Supervisor(machine.host, "vllm", gpu="nvidia-smi").batches())
    await reader.until(lambda reader: probe(reader, "gpu"))
    machine.put("nvidia-smi", PLAY)
    await reader.until(lambda reader: reader.of(GpuReading))
    await reader.stop()
    assert [state for state, _ in probe(reader, "gpu")] == ["failed", "up"]


async def test_a_fault_of_our_own_in_one_probe_is_a_value_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.io.sections", lambda answer: 1 / 0)
    reader = Reader(Supervisor(machine.host, "vllm", gpu="none").batches())
    await reader.until(lambda reader: probe(reader, "io") and len(reader.of(HealthReading)) > 1)
    await reader.stop()
    ((state, reason),) = probe(reader, "io")
    assert state == "failed"
    assert "fault of firstlight: ZeroDivisionError" in reason


async def test_no_systemd_still_shows_the_machine(machine: Machine) -> None:
    machine.put("systemctl", "echo 'System has not been booted with systemd as init system' >&2; exit 1")
    machine.put("journalctl", "exit 127")
    reader = Reader(Supervisor(machine.host, "vllm", gpu="nvidia-smi").batches())
    await reader.until(lambda reader: reader.of(GpuReading) and reader.of(IoReading) and probe(reader, "journal"))
    await reader.stop()
    assert [state for state, _ in probe(reader, "unit")] == ["missing"]


async def test_the_operators_endpoint_wins_and_a_changed_unit_moves_the_other(machine: Machine) -> None:
    machine.show(port=1)
    given = f"http://127.0.0.1:{machine.server.port}"
    reader = Reader(Supervisor(machine.host, "vllm", gpu="none", endpoint=given).batches())
    await reader.until(lambda reader: reader.of(HealthReading))
    await reader.stop()
    assert {reading.endpoint for reading in reader.of(HealthReading)} == {given}

    supervisor = Supervisor(machine.host, "vllm", gpu="none")
    reader = Reader(supervisor.batches())
    await reader.until(lambda reader: reader.of(HealthReading))
    machine.show()
    supervisor.poke()
    await reader.until(lambda reader: reader.of(HealthReading)[-1].endpoint == given)
    await reader.stop()
    with pytest.raises(BadEndpoint):
        Supervisor(machine.host, "vllm", endpoint="ftp://x")


async def test_the_key_comes_from_the_operators_environment_and_goes_nowhere_else(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTLIGHT_API_KEY", "sk-secret")
    reader = Reader(Supervisor(machine.host, "vllm", gpu="none").batches())
    await reader.until(lambda reader: reader.of(HealthReading))
    await reader.stop()
    assert "Bearer sk-secret" in machine.server.requests[0]
    assert not any("sk-secret" in word for argv in machine.host.started for word in argv)
    assert not any(b"sk-secret" in encode(reading) for reading in reader.readings)


async def test_a_host_that_refuses_us_ends_the_watch_with_its_words(machine: Machine) -> None:
    class Refusing(PlainHost):
        async def links(self) -> AsyncIterator[LinkReading]:
            yield LinkReading(at=1.0, state="connecting")
            yield LinkReading(at=2.0, state="refused", reason="Host key is not trusted", remedy="ssh once")

        async def up(self) -> None:
            raise LinkRefused("Host key is not trusted")

    readings: list[Reading] = []
    async with asyncio.timeout(5):
        async for batch in Supervisor(Refusing(), "vllm").batches():
            readings += batch
    assert [reading.state for reading in readings if isinstance(reading, LinkReading)] == ["connecting", "refused"]


async def test_close_ends_it_from_outside_and_twice_is_fine(machine: Machine) -> None:
    supervisor = Supervisor(machine.host, "vllm", gpu="nvidia-smi")
    reader = Reader(supervisor.batches())
    await reader.until(lambda reader: reader.of(IoReading))
    await supervisor.close()
    await supervisor.close()
    async with asyncio.timeout(5):
        await reader._task
    assert machine.host.running == 0


async def test_whoever_walks_away_leaves_nothing_running(machine: Machine) -> None:
    batches = Supervisor(machine.host, "vllm", gpu="nvidia-smi").batches()
    async for batch in batches:
        if any(isinstance(reading, IoReading) for reading in batch):
            break
    await batches.aclose()  # type: ignore[attr-defined]
    gc.collect()
    assert machine.host.running == 0


async def test_what_the_login_shell_prints_is_said_once(machine: Machine) -> None:
    machine.host.greeting = "\x1b[2JWelcome to gpu-host"
    reader = Reader(Supervisor(machine.host, "vllm", gpu="none").batches())
    await reader.until(lambda reader: probe(reader, "shell"))
    machine.host.cut_now()
    machine.host.mend()
    await reader.until(lambda reader: len(reader.of(LinkReading)) > 1)
    await reader.stop()
    ((state, reason),) = probe(reader, "shell")
    assert state == "up"
    assert "\\x1b[2JWelcome to gpu-host" in reason


async def test_a_host_whose_clock_is_off_stamps_all_readings_alike(machine: Machine) -> None:
    machine.put("date", "echo 1700000000.5")
    supervisor = Supervisor(machine.host, "vllm", gpu="none")
    reader = Reader(supervisor.batches())
    await reader.until(lambda reader: reader.of(IoReading) and reader.of(HealthReading))
    await reader.stop()
    later = [reader.of(UnitReading)[0].at, reader.of(IoReading)[0].at, reader.of(HealthReading)[0].at]
    assert all(abs(at - 1700000000.5) < 60 for at in later)
    assert abs(supervisor.clock.now() - 1700000000.5) < 60


# --- the parts


async def test_the_outbox_keeps_order_and_makes_a_flood_wait() -> None:
    outbox = Outbox(most=10)
    notes = [Note(at=float(number), text="") for number in range(100)]

    async def flood() -> None:
        for at in range(0, 100, 5):
            await outbox.put(list(notes[at : at + 5]))
        outbox.finish()

    flooding = asyncio.create_task(flood())
    taken: list[Reading] = []
    while batch := await outbox.take():
        assert len(batch) <= 10
        taken += batch
    await flooding
    assert taken == notes


async def test_a_batch_larger_than_the_outbox_goes_through_alone() -> None:
    outbox = Outbox(most=2)
    await outbox.put([Note(at=1.0, text="")] * 50)
    assert len(await outbox.take()) == 50


async def test_nobody_waits_for_room_after_the_end() -> None:
    outbox = Outbox(most=1)
    await outbox.put([Note(at=1.0, text="")])
    waiting = asyncio.create_task(outbox.put([Note(at=2.0, text="")]))
    await asyncio.sleep(0)
    outbox.close()
    async with asyncio.timeout(2):
        await waiting
    assert await outbox.take() == []


async def test_a_shell_that_is_asked_answers_in_order_and_ends_with_us() -> None:
    host = PlainHost()
    script = 'answer() { printf "%s" "$1"; [ "$1" = two ] && return 3; return 0; }\n'
    async with asking(host, script) as asker:
        assert await asker.ask("one") == (0, b"one")
        assert await asker.ask("two") == (3, b"two")
        assert await asker.ask("x" * 5000) == (0, b"x" * 5000)
        with pytest.raises(ValueError, match="one line"):
            await asker.ask("a\nb")
    assert host.running == 0


async def test_a_shell_that_does_not_answer_or_dies_is_said() -> None:
    host = PlainHost()
    async with asking(host, "answer() { sleep 60; }\n") as asker:
        with pytest.raises(CommandTimeout):
            await asker.ask("x", limit=0.1)
    async with asking(host, "answer() { echo broken >&2; exit 3; }\n") as asker:
        with pytest.raises(ProbeFailed, match="broken"):
            await asker.ask("x")
    assert host.running == 0
