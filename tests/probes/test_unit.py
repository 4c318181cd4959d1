from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.asking import Answer
from probes.probe import ProbeFailed
from probes.readings import FOREVER, UnitFile, UnitReading, decode, encode
from probes.systemd import command, span, timestamp, unit_reading, unquoted
from probes.unit import UnitProbe, full_name, near_names, packages, refusal, server_among
from tests.probes.hosts import Programs, Reader

RECORDING = Path(__file__).parents[1] / "recordings" / "host-systemd-ngram"
SHOWN = (RECORDING / "systemctl-show.txt").read_bytes()

RUNNING = """\
Type=simple
TimeoutStartUSec=infinity
TimeoutStopUSec=1min 30s
MainPID=4242
ControlPID=0
Result=success
NRestarts=3
ExecMainCode=0
ExecMainStatus=0
ExecStartPre={ path=/bin/bash ; argv[]=/bin/bash -c one ; two ; ignore_errors=no ; start_time=[n/a] ; pid=0 }
ExecStartPre={ path=/bin/true ; argv[]=/bin/true ; ignore_errors=yes ; start_time=[n/a] ; pid=0 }
ExecStart={ path=/bin/vllm ; argv[]=/bin/vllm serve /m --chat-template a
ActiveState=failed
b ; ignore_errors=no ; start_time=[Mon 2026-11-30 02:47:39 UTC] ; pid=4242 ; code=(null) ; status=0/0 }
Environment=A=1 "B=x y" "C=say \\"hi\\""
EnvironmentFiles=/etc/default/vllm (ignore_errors=yes)
EnvironmentFiles=/etc/vllm.env (ignore_errors=no)
ControlGroup=/system.slice/vllm.service
MemoryMax=68719476736
User=vllm
Id=vllm.service
LoadState=loaded
ActiveState=active
SubState=running
FragmentPath=/etc/systemd/system/vllm.service
DropInPaths=/etc/systemd/system/vllm.service.d/a.conf /run/systemd/system/vllm.service.d/b.conf
StateChangeTimestamp=Mon 2026-11-30 03:27:39.732387 UTC
InactiveExitTimestamp=Mon 2026-11-30 03:27:39.500000 UTC
ActiveEnterTimestamp=Mon 2026-11-30 03:27:40 UTC
ExecMainExitTimestamp=
NeedDaemonReload=no
InvocationID=a4ba97d6241141c1a739d741a1733bde
"""


def test_a_real_show_of_a_unit_that_is_not_running() -> None:
    unit = unit_reading(SHOWN, at=5.0, unit="x")
    assert (unit.unit, unit.load, unit.active, unit.sub) == ("vllm-tiny-ngram.service", "loaded", "inactive", "dead")
    assert unit.exec_start[:4] == ("/opt/vllm/bin/python", "/opt/vllm/bin/vllm", "serve", "/opt/models/small")
    assert unit.exec_start_pre == ('/bin/bash -c test "${free}" -gt 3 || true',)
    assert unit.environment == ("HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "VLLM_CPU_KVCACHE_SPACE=1")
    assert (unit.memory_max, unit.timeout_start, unit.started, unit.invocation) == (0, 90.0, 0.0, "")
    assert unit.fragment == "/etc/systemd/system/vllm-tiny-ngram.service"


def test_a_running_unit_with_every_awkward_value() -> None:
    unit = unit_reading(RUNNING.encode(), at=5.0, unit="x")
    assert (unit.active, unit.sub, unit.main_pid, unit.restarts) == ("active", "running", 4242, 3)
    assert unit.exec_start_pre == ("/bin/bash -c one ; two", "/bin/true")
    assert unit.exec_start[-2:] == ("ActiveState=failed", "b") or unit.exec_start[-1] == "a"
    assert unit.environment == ("A=1", "B=x y", 'C=say "hi"')
    assert unit.environment_files == ("/etc/default/vllm", "/etc/vllm.env")
    assert unit.memory_max == 64 << 30
    assert (unit.timeout_start, unit.timeout_stop) == (FOREVER, 90.0)
    assert unit.state_changed == pytest.approx(1796009259.732387, abs=1e-6)
    assert unit.active_since == 1796009260.0
    assert len(unit.drop_ins) == 2


def test_infinity_survives_a_recording() -> None:
    unit = unit_reading(RUNNING.encode(), at=5.0, unit="x")
    assert decode(encode(unit)) == unit


@given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_any_answer_is_a_reading(shown: bytes) -> None:
    assert unit_reading(shown, at=1.0, unit="x").at == 1.0


@given(st.lists(st.sampled_from(RUNNING.splitlines()), max_size=12), st.text(max_size=10))
def test_any_part_of_an_answer_is_a_reading(lines: list[str], junk: str) -> None:
    assert unit_reading((junk + "\n".join(lines) + junk).encode("utf-8", "replace"), at=1.0, unit="x")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1min 30s", 90.0),
        ("100ms", 0.1),
        ("1h 2min 3s 4ms", 3723.004),
        ("2d", 172800.0),
        ("1month 1w", 2629800.0 + 604800.0),
        ("infinity", FOREVER),
        ("0", 0.0),
        ("90", 90.0),
        ("", 0.0),
        ("soon", 0.0),
        ("99999999999999y", FOREVER),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert span(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("Mon 2026-11-30 03:27:39.732387 UTC", 1796009259.732387),
        ("Mon 2026-11-30 03:27:39 UTC", 1796009259.0),
        ("2026-11-30 03:27:39", 1796009259.0),
        ("@1796009259", 1796009259.0),
        ("n/a", 0.0),
        ("", 0.0),
        ("Mon 2026-13-30 03:27:39 UTC", 0.0),
        ("Mon 2026-11-30 03:27:39 CET", 0.0),
    ],
)
def test_times(text: str, at: float) -> None:
    assert timestamp(text) == pytest.approx(at, abs=1e-6)


def test_a_command_that_looks_like_the_end_of_itself() -> None:
    assert command("{ path=/a ; argv[]=/a ; ignore_errors=x ; ignore_errors=no ; pid=0 }") == "/a ; ignore_errors=x"
    assert command("{ path=/a ; argv[]=/a b ; flags=ignore-failure ; pid=0 }") == "/a b"
    assert command("") == ""


def test_quotes_that_never_close() -> None:
    assert unquoted('A=1 "B=x') == ["A=1", '"B=x']


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("vllm", "vllm.service"),
        ("vllm@a.service", "vllm@a.service"),
        ("vllm-4.2", "vllm-4.2.service"),
        ("x.scope", "x.scope"),
    ],
)
def test_a_name_gets_its_suffix_as_systemctl_gives_it(given: str, expected: str) -> None:
    assert full_name(given) == expected


def test_near_names_hold_the_word_or_sound_alike() -> None:
    listing = (
        b"kimi-k25-int4.service loaded active running Kimi\n\xe2\x97\x8f kimi-k25-ngram.service loaded failed x\n"
        b"ssh.service loaded active running OpenBSD\nvllm@a.service enabled enabled\nnginx.service disabled enabled\n"
    )
    assert near_names("kimi.service", listing) == ("kimi-k25-int4.service", "kimi-k25-ngram.service")
    assert near_names("vlm@b.service", listing) == ("vllm@a.service",)
    assert near_names("postgresql.service", listing) == ()
    assert near_names("ngnix.service", listing) == ("nginx.service",)
    assert near_names("vllm@b.service", listing) == ("vllm@a.service",)


@given(st.binary(max_size=200))
def test_any_listing_has_near_names(listing: bytes) -> None:
    assert len(near_names("vllm.service", listing)) <= 5
    server_among(listing)


def test_the_server_among_a_units_processes() -> None:
    listing = (
        b"\x1e10\n/bin/bash\n/opt/run.sh\n"
        b"\x1e11\n/opt/vllm/bin/python\n/opt/vllm/bin/vllm\nserve\n/m\n--chat-template\n\n--port\n8001\n"
        b"\x1e12\nVLLM::EngineCore\n"
    )
    assert server_among(listing)[2:] == ("serve", "/m", "--chat-template", "", "--port", "8001")
    assert server_among(b"\x1e10\n/bin/bash\n/opt/run.sh\n") == ()


@pytest.mark.parametrize(
    ("status", "said", "scope", "state", "sentence"),
    [
        (127, "sh: 1: systemctl: not found", "--system", "missing", "does not run systemd"),
        (
            1,
            "System has not been booted with systemd as init system (PID 1). Can't operate.\n"
            "Failed to connect to bus: Host is down",
            "--system",
            "missing",
            "does not run systemd",
        ),
        (
            1,
            "Failed to connect to bus: $DBUS_SESSION_BUS_ADDRESS and $XDG_RUNTIME_DIR not defined",
            "--user",
            "missing",
            "no service manager for this user",
        ),
        (1, "Failed to get properties: Access denied", "--system", "failed", "Access denied"),
        (4, "", "--system", "failed", "exit status 4"),
    ],
)
def test_what_systemctl_says_instead(status: int, said: str, scope: str, state: str, sentence: str) -> None:
    failed = refusal(Answer(status, said.encode()), scope)
    assert failed.state == state
    assert sentence in failed.reason


# --- the probe, against a systemctl that answers from files


class Machine(Programs):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shown = folder / "shown"
        self.text = folder / "text"
        self.log = folder / "log"
        self.show(RUNNING)
        self.text.write_text("# /etc/systemd/system/vllm.service\n[Service]\nExecStart=/bin/vllm serve /m\n")
        self.put(
            "systemctl",
            f'echo "$*" >>{self.log}\n'
            f'case "$*" in *" show "*) cat {self.shown} ;; *" cat "*) cat {self.text} ;;\n'
            '*list-units*) echo "vllm-kimi.service loaded active running x" ;;\n'
            '*list-unit-files*) echo "nginx.service enabled enabled" ;; esac',
        )

    def show(self, text: str) -> None:
        new = self.shown.with_suffix(".new")
        new.write_text(text)
        new.rename(self.shown)

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    assert machine.host.running == 0, "something of ours still runs on the host"


async def test_one_channel_asks_again_and_again(machine: Machine) -> None:
    reader = Reader(UnitProbe(machine.host, "vllm", every=0.05).batches())
    await reader.until(lambda reader: len(reader.of(UnitReading)) >= 3)
    await reader.stop()
    assert len(machine.host.started) == 1
    assert len(reader.of(UnitFile)) == 1, "the text is asked for again only when it may be another"
    assert reader.of(UnitReading)[0].unit == "vllm.service"
    assert all("--system" in line and line.endswith("-- vllm.service") for line in machine.asked)
    assert "--timestamp=us+utc" in machine.asked[0]


async def test_a_poke_asks_now(machine: Machine) -> None:
    probe = UnitProbe(machine.host, "vllm", every=3600)
    reader = Reader(probe.batches())
    await reader.until(lambda reader: reader.of(UnitReading))
    machine.show(RUNNING.replace("ActiveState=active", "ActiveState=deactivating"))
    probe.poke()
    await reader.until(lambda reader: reader.of(UnitReading)[-1].active == "deactivating")
    await reader.stop()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("InvocationID=a4", "InvocationID=b5"),
        ("NeedDaemonReload=no", "NeedDaemonReload=yes"),
        ("/b.conf", "/c.conf"),
    ],
)
async def test_a_new_start_or_another_text_is_read(machine: Machine, old: str, new: str) -> None:
    probe = UnitProbe(machine.host, "vllm", every=3600)
    reader = Reader(probe.batches())
    await reader.until(lambda reader: reader.of(UnitFile))
    machine.text.write_text("edited")
    machine.show(RUNNING.replace(old, new))
    probe.poke()
    await reader.until(lambda reader: len(reader.of(UnitFile)) == 2)
    assert reader.of(UnitFile)[-1].text == "edited"
    await reader.stop()


async def test_a_unit_that_does_not_exist_offers_those_like_it(machine: Machine) -> None:
    machine.show("Id=vllm.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n")
    reader = Reader(UnitProbe(machine.host, "vllm", every=3600).batches())
    await reader.until(lambda reader: reader.of(UnitReading))
    (unit,) = reader.of(UnitReading)
    assert (unit.load, unit.near) == ("not-found", ("vllm-kimi.service",))
    assert reader.of(UnitFile) == []
    await reader.stop()


async def test_a_systemctl_too_old_for_exact_times_is_asked_without(machine: Machine) -> None:
    machine.put(
        "systemctl",
        f'echo "$*" >>{machine.log}\n'
        f'case "$*" in *--timestamp*) echo "unrecognized option" >&2; exit 1;; esac; cat {machine.shown}',
    )
    reader = Reader(UnitProbe(machine.host, "vllm", every=0.01).batches())
    await reader.until(lambda reader: len(reader.of(UnitReading)) >= 2)
    await reader.stop()
    assert reader.of(UnitReading)[0].active_since == 1796009260.0
    shows = [line for line in machine.asked if " show " in line]
    assert ["--timestamp" in line for line in shows[:3]] == [True, False, False]


async def test_the_hosts_clock_is_compared_with_ours(machine: Machine) -> None:
    machine.put("date", "echo 1700000000.5")
    probe = UnitProbe(machine.host, "vllm", every=3600)
    reader = Reader(probe.batches())
    await reader.until(lambda reader: reader.of(UnitReading))
    assert probe.offset == pytest.approx(1700000000.5 - time.time(), abs=60)
    assert reader.of(UnitReading)[0].at == pytest.approx(1700000000.5, abs=60)
    await reader.stop()


@pytest.mark.parametrize("said", ["Mon Nov 30", "1796009259.%N", ""])
async def test_a_clock_that_cannot_be_read_is_taken_for_right(machine: Machine, said: str) -> None:
    machine.put("date", f"echo '{said}'")
    probe = UnitProbe(machine.host, "vllm", every=3600)
    reader = Reader(probe.batches())
    await reader.until(lambda reader: reader.of(UnitReading))
    assert probe.offset == 0.0
    await reader.stop()


async def test_no_systemd_is_one_sentence(machine: Machine) -> None:
    machine.put("systemctl", "echo 'System has not been booted with systemd as init system (PID 1).' >&2; exit 1")
    failed = await Reader(UnitProbe(machine.host, "vllm").batches()).end()
    assert isinstance(failed, ProbeFailed)
    assert (failed.state, failed.reason) == ("missing", "This host does not run systemd, so there is no unit to watch")


@pytest.mark.skipif(
    shutil.which("systemctl") is None or Path("/run/systemd/system").exists(),
    reason="needs a machine whose PID 1 is not systemd",
)
async def test_no_systemd_for_real(tmp_path: Path) -> None:
    failed = await Reader(UnitProbe(Programs(tmp_path).host, "vllm").batches()).end()
    assert "does not run systemd" in failed.reason


async def test_a_text_cannot_end_its_own_answer(machine: Machine) -> None:
    machine.text.write_text("[Unit]\nDescription=x\n\n0123456789abcdef01234567 0\nmore\n")
    reader = Reader(UnitProbe(machine.host, "vllm", every=0.05).batches())
    await reader.until(lambda reader: len(reader.of(UnitReading)) >= 2)
    assert reader.of(UnitFile)[0].text.endswith("more\n")
    await reader.stop()


@given(st.binary())
def test_any_listing_of_packages_is_read(listing: bytes) -> None:
    assert all(name and version for name, version in packages(listing).items())


def test_packages_by_name() -> None:
    listing = b"torch-2.9.0+cu128.dist-info\ntorch-2.8.0.dist-info\nvllm-0.25.1.dist-info\ntorch_geo-1.dist-info\n"
    assert packages(listing) == {"torch": "2.9.0+cu128", "vllm": "0.25.1"}
