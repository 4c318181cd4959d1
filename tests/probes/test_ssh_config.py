"""From what the operator wrote to the servers on the way, through ssh_config as OpenSSH reads it."""

from __future__ import annotations

import os
from pathlib import Path

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.host import HostError, LinkRefused
from probes.hosts import open_host
from probes.local import LocalHost
from probes.ssh import SshHost
from probes.ssh_config import Access, Hop, Target, parse_target, route


@pytest.mark.parametrize(
    ("text", "target", "ssh"),
    [
        ("llm-two", Target("llm-two"), "ssh llm-two"),
        ("ops@llm-two", Target("llm-two", "ops"), "ssh ops@llm-two"),
        ("llm-two:2222", Target("llm-two", port=2222), "ssh -p 2222 llm-two"),
        ("ops@10.0.0.1:2222", Target("10.0.0.1", "ops", 2222), "ssh -p 2222 ops@10.0.0.1"),
        ("ops@[fe80::1%eth0]:22", Target("fe80::1%eth0", "ops", 22), "ssh -p 22 ops@fe80::1%eth0"),
        ("[::1]", Target("::1"), "ssh ::1"),
        ("2001:db8::7", Target("2001:db8::7"), "ssh 2001:db8::7"),
        ("ssh://ops@llm-two:2222/", Target("llm-two", "ops", 2222), "ssh -p 2222 ops@llm-two"),
        ("dom\\user@host_1.example", Target("host_1.example", "dom\\user"), "ssh 'dom\\user@host_1.example'"),
    ],
)
def test_forms_of_a_target(text: str, target: Target, ssh: str) -> None:
    assert parse_target(text) == target
    assert target.ssh == ssh


@pytest.mark.parametrize(
    "text",
    [
        *("", "@host", "ops@", "-oProxyCommand=id", "a@-b", "-u@host", "host:", "host:x", "host:99999", "a b", "a\nb"),
        *("h\x1b", "a/b", "user@host/path", "[host]", "a@b@c:d", "http://host"),
    ],
)
def test_what_names_no_host_is_said_at_once(text: str) -> None:
    with pytest.raises(LinkRefused, match="names no host") as raised:
        open_host(text)
    assert "user@host" in raised.value.remedy


@given(st.text())
def test_any_text_is_a_target_or_said_to_be_none(text: str) -> None:
    try:
        target = parse_target(text)
    except HostError as error:
        said = error.reason
    else:
        said = target.ssh
        assert target.host
        assert not target.host.startswith("-")
        assert 0 <= target.port <= 65535
    assert said.isprintable()


def test_local_is_this_machine_and_all_else_is_ssh() -> None:
    assert isinstance(open_host("local"), LocalHost)
    assert isinstance(open_host("ops@llm-two"), SshHost)
    assert open_host("ops@llm-two").name == "ops@llm-two"


def way(tmp_path: Path, target: str, *lines: str) -> list[Hop]:
    config = tmp_path / "config"
    config.write_text("\n".join(lines) + "\n")
    return route(parse_target(target), Access(config=[config]))


def test_the_configuration_fills_what_was_not_written(tmp_path: Path) -> None:
    lines = ("Host llm", " HostName 10.0.0.7", " Port 2222", " User ops", "Host *", " User nobody", " ConnectTimeout 7")
    [hop] = way(tmp_path, "llm", *lines)
    assert (hop.host, hop.port, hop.user, hop.key_name) == ("10.0.0.7", 2222, "ops", "10.0.0.7")
    assert hop.options["connect_timeout"] == 7
    [hop] = way(tmp_path, "root@llm:22", *lines)
    assert (hop.host, hop.port, hop.user) == ("10.0.0.7", 22, "root")


def test_the_default_files_of_the_operator_are_read() -> None:
    home = Path.home() / ".ssh"
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config").write_text("Host llm-nine\n HostName 10.0.0.9\n")
    (home / "known_hosts").write_text("10.0.0.9 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ/Zy0Z0Z0Z0\n")
    try:
        [hop] = route(parse_target("llm-nine"), Access())
        assert hop.host == "10.0.0.9"
        assert str(home / "known_hosts") in [name for name, _ in hop.known.files]
        assert home / "id_ed25519" in hop.identities.files
    finally:
        (home / "config").unlink()
        (home / "known_hosts").unlink()


def test_nothing_of_the_configuration_weakens_what_we_ask_for(tmp_path: Path) -> None:
    [hop] = way(
        tmp_path,
        "llm",
        "StrictHostKeyChecking no",
        "UserKnownHostsFile none",
        "ServerAliveInterval 0",
        "ForwardAgent yes",
        "RequestTTY force",
        "RemoteCommand tmux",
        "ForwardX11 yes",
        "ForwardX11Trusted yes",
    )
    options = hop.options
    assert options["known_hosts"] == hop.known.lookup
    assert options["keepalive_interval"] == 4
    assert options["agent_forwarding"] is options["x11_forwarding"] is options["request_pty"] is False
    assert options["command"] is options["x509_trusted_certs"] is options["proxy_command"] is None


def test_the_quicker_ciphers_go_first_where_the_operator_has_no_wish(tmp_path: Path) -> None:
    [hop] = way(tmp_path, "llm")
    wanted = asyncssh.SSHClientConnectionOptions(encryption_algs=hop.options["encryption_algs"]).encryption_algs
    usual = asyncssh.SSHClientConnectionOptions(config=[]).encryption_algs
    assert wanted[0] == b"aes256-gcm@openssh.com"
    assert sorted(wanted) == sorted(usual)
    [hop] = way(tmp_path, "llm", "Ciphers aes256-ctr")
    assert "encryption_algs" not in hop.options


def test_tokens_in_the_names_of_known_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET", "blue")
    (tmp_path / "blue-llm-10.0.0.7-2222-alias-ops-%").write_text("")
    [hop] = way(
        tmp_path,
        "llm",
        "HostName 10.0.0.7",
        "Port 2222",
        "User ops",
        "HostKeyAlias alias",
        "GlobalKnownHostsFile none",
        f"UserKnownHostsFile {tmp_path}/${{FLEET}}-%n-%h-%p-%k-%r-%% ~/missing",
    )
    assert [name for name, _ in hop.known.files] == [f"{tmp_path}/blue-llm-10.0.0.7-2222-alias-ops-%"]
    assert hop.key_name == "alias"


def test_identities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    monkeypatch.setenv("OTHER_AGENT", "/run/other")
    [hop] = way(tmp_path, "llm")
    assert hop.identities.agent == "/run/agent"
    assert not hop.identities.only
    assert {path.name for path in hop.identities.files} >= {"id_rsa", "id_ed25519"}
    [hop] = way(tmp_path, "llm", "IdentityFile ~/.ssh/%h_key", "IdentityAgent $OTHER_AGENT", "IdentitiesOnly yes")
    assert hop.identities.files == (Path.home() / ".ssh" / "llm_key",)
    assert (hop.identities.agent, hop.identities.only) == ("/run/other", True)
    [hop] = way(tmp_path, "llm", "IdentityAgent none", "IdentityFile none")
    assert (hop.identities.agent, hop.identities.files) == ("", ())
    [hop] = way(tmp_path, "llm", "IdentityAgent SSH_AUTH_SOCK")
    assert hop.identities.agent == "/run/agent"


def hosts(hops: list[Hop]) -> list[tuple[str, int, str]]:
    return [(hop.host, hop.port, hop.user) for hop in hops]


def test_jump_hosts_in_their_order_with_their_own_configuration(tmp_path: Path) -> None:
    hops = way(
        tmp_path,
        "llm",
        "Host llm",
        " ProxyJump me@first:2200,second",
        " HostName 10.0.0.7",
        "Host second",
        " HostName 10.0.0.2",
        " Port 2222",
        "Host *",
        " User ops",
    )
    assert hosts(hops) == [("first", 2200, "me"), ("10.0.0.2", 2222, "ops"), ("10.0.0.7", 22, "ops")]


def test_a_jump_host_for_all_is_not_its_own(tmp_path: Path) -> None:
    lines = ("Host gate", " HostName 10.0.0.1", " Port 2200", "Host *", " ProxyJump gate", " User ops")
    assert [hop.host for hop in way(tmp_path, "llm", *lines)] == ["10.0.0.1", "llm"]
    assert [hop.host for hop in way(tmp_path, "gate", *lines)] == ["10.0.0.1"]


def test_a_jump_host_behind_a_jump_host(tmp_path: Path) -> None:
    lines = ("Host llm", " ProxyJump inner", "Host inner", " ProxyJump outer")
    assert [hop.host for hop in way(tmp_path, "llm", *lines)] == ["outer", "inner", "llm"]


def test_no_jump(tmp_path: Path) -> None:
    assert len(way(tmp_path, "llm", "Host llm", " ProxyJump none", "Host *", " ProxyJump gate")) == 1


def test_jump_hosts_in_a_circle_are_said(tmp_path: Path) -> None:
    with pytest.raises(LinkRefused, match="more than 8 jump hosts") as raised:
        way(tmp_path, "one", "Host one", " ProxyJump two", "Host two", " ProxyJump one")
    assert "ProxyJump" in raised.value.remedy


def test_a_proxy_command_goes_with_its_words(tmp_path: Path) -> None:
    [hop] = way(tmp_path, "llm", "HostName 10.0.0.7", "User ops", "ProxyCommand relay --to %h:%p as %r | tee log")
    assert hop.proxy_command == "relay --to 10.0.0.7:22 as ops | tee log"


def test_match_final_counts(tmp_path: Path) -> None:
    hops = way(tmp_path, "llm", "Match final host 10.0.0.7", " ProxyJump gate", "Host llm", " HostName 10.0.0.7")
    assert [hop.host for hop in hops] == ["gate", "10.0.0.7"]


@pytest.mark.parametrize("line", ["Port many", 'User "half', "ProxyJump a b", "Match nonsense x"])
def test_a_configuration_that_cannot_be_read_names_the_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(LinkRefused, match=r"The SSH configuration for llm cannot be used: .*config line 2: ") as raised:
        way(tmp_path, "llm", "# a comment", line)
    assert "`ssh llm`" in raised.value.remedy


@pytest.mark.parametrize(("line", "packs"), [("", False), ("Compression no", False), ("Compression yes", True)])
def test_a_server_may_pack_what_it_sends_only_where_the_operator_says_so(
    tmp_path: Path, line: str, packs: bool
) -> None:
    (hop,) = way(tmp_path, "llm", "Host llm", f" {line}")
    offered = asyncssh.SSHClientConnectionOptions(**hop.options).compression_algs
    assert (b"zlib@openssh.com" in offered) is packs


@pytest.mark.parametrize("line", ["=", " = x", "= ="])
def test_lines_that_are_none_are_said_too(tmp_path: Path, line: str) -> None:
    with pytest.raises(LinkRefused, match="The SSH configuration for llm cannot be used: "):
        way(tmp_path, "llm", "# a comment", line)


def test_a_jump_to_nowhere_is_said(tmp_path: Path) -> None:
    with pytest.raises(LinkRefused, match="names no host"):
        way(tmp_path, "llm", "ProxyJump gate:port")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_configuration_without_the_right_to_read_it_is_passed_over(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host llm\n HostName 10.0.0.7\n")
    config.chmod(0)
    assert route(parse_target("llm"), Access(config=[config]))[0].host == "llm"
