"""``firstlight doctor`` and ``firstlight audit`` without a real host: what is judged, what is printed, how it ends."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import asyncssh
import msgspec
import pytest

from probes.doctor import Examined
from probes.operate.orders import Rights
from probes.readings import OperatorAction, UnitReading
from probes.servers import Server, servers
from tests.tui.test_cli import configured, firstlight, one_sentence
from tui.commands.audit import moment
from tui.commands.doctor import table, worst
from tui.exits import Ending, Exit
from watch.audit import Audit, actions, read_audit
from watch.doctor import judge

WELL = Examined(
    target="llm-two",
    unit="vllm.service",
    login="root",
    rtt_ms=3.0,
    systemd=257,
    booted=True,
    clock_offset=0.1,
    journal_persistent=True,
    rights=Rights(level="full", how="root"),
    gpus=("GPU 0: NVIDIA H200", "GPU 1: NVIDIA H200"),
    nvml="/usr/lib/libnvidia-ml.so.1",
    python="Python 3.13.5",
    disks={"/": (50 << 30, 100 << 30), "/dev/shm": (8 << 30, 8 << 30)},
    endpoint="http://127.0.0.1:8000",
    endpoint_status=200,
    unit_reading=UnitReading(at=1.0, unit="vllm.service", load="loaded", active="active", type="exec"),
)


def test_a_host_where_all_is_well() -> None:
    checks = judge(WELL)
    assert {check.verdict for check in checks} == {"good"}
    assert {check.topic for check in checks} == {
        "reach", "clock", "rights", "journal", "gpu", "disk", "endpoint", "unit",
    }  # fmt: skip
    assert worst(checks) == "good"


@pytest.mark.parametrize(
    ("changed", "topic", "verdict", "says"),
    [
        ({"errors": {"reach": "no"}, "remedies": {"reach": "do"}}, "reach", "bad", "no"),
        ({"systemd": None}, "reach", "bad", "does not run systemd"),
        ({"booted": False}, "reach", "bad", "does not run systemd"),
        ({"systemd": 219}, "reach", "warning", "older"),
        ({"greeting": "hello"}, "reach", "warning", "prints something"),
        ({"clock_offset": -90.0}, "clock", "warning", "90 s behind"),
        ({"rights": Rights(level="none", reason="sudo asks for a password")}, "rights", "warning", "Watching only"),
        ({"rights": Rights(level="manage", reason="only systemctl")}, "rights", "warning", "Start, stop and restart"),
        ({"journal": "Hint: You are currently not seeing messages from other users"}, "journal", "bad", "may not read"),
        ({"journal": "No journal files were found."}, "journal", "bad", "keeps no journal"),
        ({"journal_persistent": False}, "journal", "warning", "in memory"),
        ({"gpus": (), "gpu_error": "there is no nvidia-smi"}, "gpu", "warning", "no nvidia-smi"),
        ({"gpus": (), "gpu_error": "Driver/library version mismatch"}, "gpu", "bad", "upgraded"),
        ({"nvml": ""}, "gpu", "warning", "libnvidia-ml.so.1"),
        ({"disks": {"/": (10 << 20, 100 << 30)}}, "disk", "bad", "/ has 10 MiB free"),
        ({"disks": {"/var/log": (1 << 30, 100 << 30)}}, "disk", "warning", "/var/log"),
        ({"endpoint_status": 503}, "endpoint", "warning", "503"),
        ({"endpoint_status": None, "endpoint_error": "refused"}, "endpoint", "warning", "although the unit is active"),
        ({"unit_reading": UnitReading(at=1.0, unit="v", load="masked")}, "unit", "bad", "masked"),
        ({"unit_reading": UnitReading(at=1.0, unit="v", load="not-found", near=("w",))}, "unit", "bad", "no unit"),
        ({"unit": "", "servers": (Server(unit="a.service", active="active"),)}, "unit", "good", "a (active)"),
        ({"unit": "", "servers": ()}, "unit", "unknown", "No unit here"),
    ],
)
def test_each_thing_that_stands_in_the_way_has_a_remedy(
    changed: dict[str, object], topic: str, verdict: str, says: str
) -> None:
    checks = judge(msgspec.structs.replace(WELL, **changed))
    (found,) = [check for check in checks if check.topic == topic and check.verdict != "good"] or [
        check for check in checks if check.topic == topic and says in check.text
    ]
    assert found.verdict == verdict
    assert says in found.text
    assert found.remedy or verdict in ("good", "unknown")


def test_the_table_says_by_word_and_sign_what_colour_says_besides() -> None:
    facts = msgspec.structs.replace(WELL, greeting="x", journal="No journal files were found.")
    plain = table(facts, judge(facts), width=80, colour=False)
    assert "\x1b" not in plain
    assert "✖ bad     journal   The host keeps no journal\n                    → See Storage=" in plain
    assert plain.rstrip().endswith("8 ok, 1 warn, 1 bad")
    assert all(len(line) <= 80 for line in plain.splitlines())
    coloured = table(facts, judge(facts), width=80, colour=True)
    assert "\x1b[31m✖ bad" in coloured


def test_what_a_host_says_is_never_obeyed_by_the_terminal() -> None:
    facts = msgspec.structs.replace(WELL, gpus=(), gpu_error="\x1b]0;x\x07 broken")
    assert "\x1b" not in table(facts, judge(facts), width=80, colour=False)


def test_a_host_that_cannot_be_reached_is_one_bad_check(tmp_path: Path) -> None:
    done = firstlight("doctor", "nobody@no-such-host.invalid", "vllm", home=tmp_path)
    assert done.returncode == Exit.FAILED
    assert "✖ bad     reach     The name no-such-host.invalid is not known." in done.stdout
    assert "→" in done.stdout
    assert done.stderr == ""
    asked = firstlight("doctor", "no-such-host.invalid", "--json", home=tmp_path)
    told = json.loads(asked.stdout)
    assert (asked.returncode, told["verdict"], told["target"]) == (Exit.FAILED, "bad", "no-such-host.invalid")
    assert told["checks"][0]["topic"] == "reach"
    assert told["checks"][0]["remedy"]


def test_a_name_is_a_deployment_and_a_name_like_one_is_said_to_be_like_it(tmp_path: Path) -> None:
    file = configured(tmp_path)
    done = firstlight("doctor", "kimi", "--json", "--config", file, home=tmp_path)
    told = json.loads(done.stdout)
    assert (told["deployment"], told["target"], told["unit"]) == ("kimi", "root@no-such-host.invalid", "kimi-k25")
    near = firstlight("doctor", "kimy.invalid", "--config", file, home=tmp_path)
    assert '(did you mean "kimi"?)' in near.stdout


@pytest.mark.parametrize("words", [["-x", "unit"], ["a b"], ["a", "b", "c"], []])
def test_what_can_be_no_host_or_unit(tmp_path: Path, words: list[str]) -> None:
    done = firstlight("doctor", *(["--"] if words else []), *words, home=tmp_path)
    assert done.returncode == Exit.USAGE
    assert done.stdout == ""


async def test_a_login_that_is_refused(tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with asyncssh.listen("127.0.0.1", 0, server_host_keys=[key]) as server:
        port = server.get_port()
        (tmp_path / ".ssh").mkdir()
        known = f"[127.0.0.1]:{port} {key.export_public_key().decode()}"
        (tmp_path / ".ssh" / "known_hosts").write_text(known)
        done = await asyncio.to_thread(firstlight, "doctor", f"ann@127.0.0.1:{port}", home=tmp_path)
    assert done.returncode == Exit.FAILED
    assert "✖ bad     reach" in done.stdout
    assert "→" in done.stdout


# ----- units that look like model servers

SAID = b"""\x1e--system
Id=plain.service
ActiveState=active
ExecStart={ path=/usr/sbin/nginx ; argv[]=/usr/sbin/nginx ; ignore_errors=no ; start_time=[n/a] }

ExecStart={ path=/opt/v/bin/vllm ; argv[]=/opt/v/bin/vllm serve /m/a --port 1 ; ignore_errors=no ; start_time=[n/a] }
Id=kimi.service
Description=Kimi \x1b[31m
LoadState=loaded
ActiveState=inactive
UnitFileState=enabled
StateChangeTimestamp=Mon 2026-11-30 03:27:39 UTC

Id=glm.service
ActiveState=active
SubState=running
ExecStart={ path=/usr/bin/docker ; argv[]=/usr/bin/docker run lmsysorg/SGLang:latest ; ignore_errors=no ; }

Id=script.service
ActiveState=active
ExecStart={ path=/opt/start.sh ; argv[]=/opt/start.sh ; ignore_errors=no ; start_time=[n/a] }

Id=firstlight-kimi.service
ExecStart={ path=/bin/sh ; argv[]=/bin/sh vllm ; ignore_errors=no ; start_time=[n/a] }
\x1e--user
Id=mine.service
ActiveState=failed
ExecStart={ path=/h/vllm ; argv[]=/h/vllm serve m ; ignore_errors=no ; start_time=[n/a] }
\x1erunning
0::/system.slice/script.service
0::/user.slice/user-0.slice/session-1.scope
"""


def test_servers_are_known_by_their_command_or_by_what_runs_in_them() -> None:
    found = servers(SAID)
    assert [(one.unit, one.user, one.active, one.engine) for one in found] == [
        ("glm.service", False, "active", "sglang"),
        ("script.service", False, "active", ""),
        ("mine.service", True, "failed", "vllm"),
        ("kimi.service", False, "inactive", "vllm"),
    ]
    assert found[3].model == "/m/a"
    assert found[3].since == 1796009259.0
    assert servers(b"") == servers(b"\xff\x1e--system\n\n\n") == ()


# ----- audit


def kept(state: Path, **changed: object) -> None:
    values: dict[str, object] = {"at": time.time() - 60, "action": "restart", "step": "begin", "outcome": "begun",
              "who": "ann@laptop", "unit": "vllm.service", "id": "a1"}  # fmt: skip
    target = str(changed.pop("target", "root@llm-two"))
    Audit(target, state / "audit.jsonl").write(OperatorAction(**{**values, **changed}))  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    state = tmp_path / ".local/state/firstlight"
    now = time.time()
    kept(state, at=now - 10 * 86_400, id="old", action="stop")
    kept(state, at=now - 10 * 86_400 + 5, id="old", action="stop", step="end", outcome="done")
    kept(state, at=now - 300)
    kept(state, at=now - 290, step="stop", outcome="failed", detail="it hung --api-key sk-abcdefghijklmnop")
    kept(state, at=now - 280, step="end", outcome="failed", undo="start it")
    kept(state, at=now - 100, id="b", target="other", unit="glm.service", who="bob\x1b[31m@x")
    return tmp_path


def test_the_audit_log_has_a_line_an_action(log: Path) -> None:
    done = firstlight("audit", home=log)
    assert (done.returncode, done.stderr) == (Exit.OK, "")
    old, restart, why, undo, other = done.stdout.splitlines()
    assert "stop" in old
    assert old.endswith("done      after 5 s")
    assert "ann@laptop" in restart
    assert "vllm @ root@llm-two  failed    after 20 s" in restart
    assert "it hung" in why
    assert "sk-abc" not in why
    assert "undone by: start it" in undo
    assert "no end" in other
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ([], ["old", "old", "a1", "a1", "a1", "b"]),
        (["--since", "1h"], ["a1", "a1", "a1", "b"]),
        (["root@llm-two"], ["old", "old", "a1", "a1", "a1"]),
        (["root@llm-two", "vllm"], ["old", "old", "a1", "a1", "a1"]),
        (["other", "vllm"], []),
        (["kimi"], ["b"]),
        (["--since", "2099-01-01"], []),
    ],
)
def test_entries_of_a_deployment_a_host_a_unit_and_a_time(log: Path, words: list[str], ids: list[str]) -> None:
    file = log / "c.toml"
    file.write_text('[deployments.kimi]\ntarget = "other"\nunit = "glm"\n')
    done = firstlight("audit", *words, "--json", "--config", file, home=log)
    assert done.returncode == Exit.OK
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ids


def test_each_step_can_be_seen(log: Path) -> None:
    done = firstlight("audit", "--steps", "--since", "1h", home=log)
    assert len(done.stdout.splitlines()) == 4
    assert "restart stop" in done.stdout


def test_a_log_that_is_not_there_and_one_that_cannot_be_read(tmp_path: Path) -> None:
    done = firstlight("audit", home=tmp_path)
    assert (done.returncode, done.stdout) == (Exit.OK, "")
    assert "No action is on record" in done.stderr
    (tmp_path / ".local/state/firstlight/audit.jsonl").mkdir(parents=True)
    done = firstlight("audit", home=tmp_path)
    assert done.returncode == Exit.UNREADABLE
    one_sentence(done)


def test_times() -> None:
    now = 1_800_000_000.0
    assert moment("2h", now) == now - 7200
    assert moment("-30m", now) == now - 1800
    assert moment("2026-11-30T14:00:00+00:00", now) == 1_796_047_200.0
    assert moment("yesterday", now) < moment("today", now) <= now
    for text in ("soon", "", "99999999999999d d", "-"):
        with pytest.raises(Ending):
            moment(text, now)


def test_actions_are_told_apart_by_their_ids_and_units(tmp_path: Path) -> None:
    kept(tmp_path, id="x")
    kept(tmp_path, id="x", unit="other.service")
    kept(tmp_path, id="x", step="end", outcome="done")
    found = actions(read_audit(tmp_path / "audit.jsonl"))
    assert [(one.unit, one.outcome) for one in found] == [("vllm.service", "done"), ("other.service", "no end")]
