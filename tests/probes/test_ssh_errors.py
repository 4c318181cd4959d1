"""Every row of the table has its example here, and each becomes one sentence and a remedy."""

from __future__ import annotations

import errno
import json
import socket
import string
from pathlib import Path

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import ssh_errors
from probes.ssh_config import Hop, Target
from probes.ssh_errors import ROWS, Attempt, Row, explain
from probes.ssh_guard import Flooded
from probes.ssh_identities import Identities, Login
from probes.ssh_known_hosts import KnownHosts
from probes.ssh_known_hosts import given as known
from tests.probes.sshserver import new_key

CASES = Path(__file__).parents[1] / "cases"


def hop(host: str = "gpu-host", known_hosts: bytes = b"") -> Hop:
    return Hop(Target(host, "ops"), host, 22, "ops", host, known(known_hosts), Identities(), {})


def attempt(**more: object) -> Attempt:
    login = Login(Identities(), tried=["me@laptop (agent)", "~/.ssh/id_ed25519"], unused=["~/.ssh/id_rsa is encrypted"])
    return Attempt(hop(), via=hop("bastion"), login=login, timeout=20.0, **more)  # type: ignore[arg-type]


DURING, AFTER = attempt(), attempt(connected=True)

EXAMPLES: list[tuple[BaseException, Attempt, str]] = [
    (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), DURING, "The name gpu-host cannot be resolved at"),
    (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), DURING, "The name gpu-host is not known."),
    (UnicodeError("label too long"), DURING, "The name gpu-host is not known."),
    (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), DURING, "gpu-host refuses connections on port 22"),
    (
        OSError(
            "Multiple exceptions: [Errno 111] Connect call failed ('::1', 22, 0, 0), [Errno 111] Connect call failed "
            "('127.0.0.1', 22)"
        ),
        DURING,
        "gpu-host refuses connections on port 22",
    ),
    (OSError(errno.EHOSTUNREACH, "No route to host"), DURING, "There is no way to gpu-host: No route to host."),
    (
        PermissionError(errno.EACCES, "Permission denied"),
        DURING,
        "Connections to gpu-host on port 22 are barred on this",
    ),
    (TimeoutError(), DURING, "gpu-host did not let us in on port 22 within 20 s."),
    (TimeoutError(errno.ETIMEDOUT, "Connection timed out"), DURING, "gpu-host did not answer on port 22."),
    (asyncssh.HostKeyNotVerifiable("Host key is revoked for host gpu-host"), DURING, "The key that gpu-host offers"),
    (
        asyncssh.PermissionDenied("Permission denied"),
        DURING,
        "gpu-host does not let ops in: tried me@laptop (agent), ~/",
    ),
    (
        asyncssh.DisconnectError(2, "Too many authentication failures"),
        DURING,
        "gpu-host does not let ops in: it gave up",
    ),
    (ValueError("Unable to sign with requested key"), DURING, "The agent would not sign the login of ops on gpu-host"),
    (asyncssh.IllegalUserName("bad"), DURING, "ops is no user name that SSH can carry"),
    (asyncssh.KeyExchangeFailed("No matching MAC"), DURING, "gpu-host and this machine have no algorithm in common"),
    (asyncssh.ProtocolNotSupported("Unsupported SSH version"), DURING, "What answers on port 22 of gpu-host is no SSH"),
    (
        asyncssh.ConnectionLost("Server not responding to keepalive"),
        AFTER,
        "gpu-host has not answered for 12 s: the link",
    ),
    (asyncssh.ConnectionLost("Login timeout expired"), DURING, "gpu-host did not finish the login of ops"),
    (
        asyncssh.ChannelOpenError(2, "Connection refused"),
        DURING,
        "bastion cannot reach gpu-host on port 22: Connection re",
    ),
    (asyncssh.ConnectionLost("Connection lost"), DURING, "gpu-host closed the connection before the login."),
    (ConnectionResetError(errno.ECONNRESET, "reset"), DURING, "gpu-host closed the connection before the login."),
    (asyncssh.ConnectionLost("Connection lost"), AFTER, "The connection to gpu-host was lost."),
    (ConnectionResetError(errno.ECONNRESET, "reset"), AFTER, "The connection to gpu-host was lost."),
    (Flooded("more than 4000 messages"), AFTER, "gpu-host floods the connection: more than 4000 messages, so it"),
    (asyncssh.ConnectionLost(ssh_errors.MUTE), AFTER, "gpu-host sends something, but has answered nothing"),
    (asyncssh.ProtocolError("Window exceeded"), AFTER, "The connection to gpu-host ended over a breach of SSH's"),
    (asyncssh.DisconnectError(11, "going down"), AFTER, "gpu-host ended the connection: going down."),
    (asyncssh.DisconnectError(11, "not today"), DURING, "gpu-host did not let us in: not today."),
    (
        OSError(errno.EMFILE, "Too many open files"),
        DURING,
        "gpu-host cannot be reached on port 22: Too many open files.",
    ),
    (RuntimeError("what"), DURING, "The connection to gpu-host failed: RuntimeError: what."),
]


@pytest.mark.parametrize(
    ("error", "attempt", "start"), EXAMPLES, ids=[f"{type(e).__name__}-{s}" for e, _, s in EXAMPLES]
)
def test_each_failure_is_a_sentence_and_a_remedy(error: BaseException, attempt: Attempt, start: str) -> None:
    failure = explain(error, attempt)
    assert failure.reason.startswith(start)
    assert failure.reason.endswith(".")
    assert failure.remedy.endswith(".")


def test_every_row_has_an_example() -> None:
    used = {id(next(row for row in ROWS if ssh_errors._fits(row, error, attempt))) for error, attempt, _ in EXAMPLES}
    assert [row.reason for row in ROWS if id(row) not in used] == []


def test_every_word_of_the_templates_is_there() -> None:
    rows = [each for each in vars(ssh_errors).values() if isinstance(each, Row)] + list(ROWS)
    words = ssh_errors._words(ValueError("x"), DURING)
    for row in rows:
        for text in (row.reason, row.remedy):
            assert {name for _, name, _, _ in string.Formatter().parse(text) if name} <= words.keys()


@given(st.text(), st.sampled_from([each for each, _, _ in EXAMPLES]), st.booleans())
def test_words_of_a_server_are_one_line_that_obeys_nothing(text: str, error: BaseException, connected: bool) -> None:
    hostile = asyncssh.DisconnectError(2, f"{{host}}\x1b[2J{text}")
    reason = explain(hostile, attempt(connected=connected)).reason
    assert reason.isprintable()
    assert len(reason) < 700
    assert explain(error, attempt(proxy_said=text)).reason.isprintable()


def test_case_56_a_key_that_is_not_trusted() -> None:
    case = json.loads((CASES / "C56-host-key-not-trusted" / "input.ssh.json").read_text())
    key = new_key()
    failure = explain(asyncssh.HostKeyNotVerifiable(case["message"]), attempt(offered=key))
    assert failure.finality == "refused"
    assert "gpu-host is not in known_hosts" in failure.reason
    assert key.get_fingerprint() in failure.reason
    assert "`ssh ops@gpu-host`" in failure.remedy
    assert "known_hosts=None" not in failure.remedy
    assert "down" not in failure.reason


def test_case_62_a_link_that_died_silently() -> None:
    case = json.loads((CASES / "C62-ssh-silently-dead" / "input.ssh.json").read_text())
    failure = explain(asyncssh.ConnectionLost(case["message"]), AFTER)
    assert failure.finality == "down"
    assert "the link is dead" in failure.reason
    assert "nothing is known about the host" in failure.remedy


def test_a_changed_key_names_the_file_when_it_is_not_the_usual_one(tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    file = tmp_path / "fleet hosts"
    trusted = KnownHosts(((str(file), known(b"gpu-host " + old.export_public_key()).files[0][1]),))
    place = Hop(Target("gpu-host"), "gpu-host", 22, "ops", "gpu-host", trusted, Identities(), {})
    failure = explain(asyncssh.HostKeyNotVerifiable("Host key is not trusted"), Attempt(place, offered=new))
    assert f"`ssh-keygen -R gpu-host -f '{file}'`" in failure.remedy


@pytest.mark.parametrize(
    ("kind", "file"),
    [("ssh-ed25519", "ed25519"), ("ecdsa-sha2-nistp384", "ecdsa"), ("ssh-rsa", "rsa")],
)
def test_the_file_to_compare_is_that_of_the_keys_kind(kind: str, file: str) -> None:
    assert ssh_errors.key_file(new_key(kind)) == f"/etc/ssh/ssh_host_{file}_key.pub"
