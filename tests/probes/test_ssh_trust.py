"""Whom we trust and who lets us in: known_hosts without exception, keys in OpenSSH's order, and words when it fails."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from probes.readings import LinkReading
from probes.ssh import SshHost
from probes.ssh_config import Access
from tests.probes.sshserver import SshServer, Way, linked, new_key, serving, until


@pytest.fixture
async def server() -> AsyncIterator[SshServer]:
    async with serving() as server:
        yield server


async def refused(host: SshHost) -> LinkReading:
    """The refusal that ends the watch."""
    async with linked(host) as links:
        reading = await links.reach("refused")
        await links.ended()
        assert [each.state for each in links.readings] == ["connecting", "refused"]
        assert reading.never_up
        return reading


def known(server: SshServer, key: asyncssh.SSHKey, mark: str = "", name: str = "") -> bytes:
    line = f"{name or f'[127.0.0.1]:{server.port}'} {key.export_public_key().decode()}"
    return f"{mark} {line}".strip().encode() + b"\n"


def keygen(*arguments: str) -> None:
    if not shutil.which("ssh-keygen"):
        pytest.skip("ssh-keygen is not installed here")
    subprocess.run(["ssh-keygen", "-q", *arguments], check=True, capture_output=True)


def lock(path: Path, key: asyncssh.SSHKey) -> None:
    """Write a private key that needs a passphrase."""
    path.write_bytes(key.export_private_key())
    path.chmod(0o600)
    keygen("-p", "-N", "secret", "-f", str(path))


def fingerprint(key: asyncssh.SSHKey) -> str:
    return key.get_fingerprint()


# --- host keys


async def test_an_unknown_key_is_refused_with_its_fingerprint_and_how_to_check_it(server: SshServer) -> None:
    """Case C56."""
    reading = await refused(server.host(known_hosts=b""))
    assert "is not in known_hosts" in reading.reason
    assert f"127.0.0.1 is not in known_hosts: it offers ssh-ed25519 {fingerprint(server.host_key)}." in reading.reason
    assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in reading.remedy
    assert f"`ssh -p {server.port} ops@127.0.0.1`" in reading.remedy
    assert not server.commands


async def test_a_changed_key_is_refused_and_told_from_an_unknown_one(server: SshServer) -> None:
    old = new_key()
    reading = await refused(server.host(known_hosts=known(server, old)))
    assert "has CHANGED" in reading.reason
    assert f"holds ssh-ed25519 {fingerprint(old)}" in reading.reason
    assert f"offers ssh-ed25519 {fingerprint(server.host_key)}" in reading.reason
    assert f"`ssh-keygen -R '[127.0.0.1]:{server.port}'`" in reading.remedy


async def test_a_key_of_another_kind_has_changed_too(server: SshServer) -> None:
    old = new_key("ecdsa-sha2-nistp256")
    reading = await refused(server.host(known_hosts=known(server, old)))
    assert "has CHANGED" in reading.reason
    assert fingerprint(server.host_key) in reading.reason
    assert fingerprint(old) in reading.reason


async def test_the_key_of_another_port_of_the_host_does_not_make_it_changed(server: SshServer) -> None:
    content = known(server, new_key(), name="127.0.0.1") + known(server, new_key(), name="[127.0.0.1]:1")
    assert "is not in known_hosts" in (await refused(server.host(known_hosts=content))).reason


async def test_a_key_that_changes_later_is_never_accepted(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with linked(server.host()) as links:
        await links.reach("up")
        await server.stop()
        server.host_key = new_key()
        await server.start()
        reading = await links.reach("refused")
        assert "has CHANGED" in reading.reason
        assert not reading.never_up
        assert len(links.of("up")) == 1


async def test_a_revoked_key_is_refused(server: SshServer) -> None:
    content = known(server, server.host_key) + known(server, server.host_key, "@revoked")
    reading = await refused(server.host(known_hosts=content))
    assert "marked as revoked" in reading.reason
    assert "Do not connect" in reading.remedy


async def test_a_key_known_for_the_address_does_not_vouch_for_a_name(server: SshServer) -> None:
    access = server.access()
    reading = await refused(SshHost(f"ops@localhost:{server.port}", access=access))
    assert "The key of localhost is not in known_hosts" in reading.reason


@pytest.mark.parametrize(
    "form",
    ["[127.0.0.1]:{port}", "127.0.0.1", "other,[127.0.0.1]:{port}", "[127.0.0.*]:{port}", "*"],
)
async def test_known_hosts_names_as_openssh_reads_them(server: SshServer, form: str) -> None:
    content = b"# a comment\n\nnot a line\n" + known(server, server.host_key, name=form.format(port=server.port))
    async with linked(server.host(known_hosts=content)) as links:
        await links.reach("up")


async def test_hashed_names_are_read(server: SshServer, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(server.known_hosts() + b"\n")
    keygen("-H", "-f", str(file))
    assert b"127.0.0.1" not in file.read_bytes()
    async with linked(server.host(known_hosts=file.read_bytes())) as links:
        await links.reach("up")


async def test_a_certificate_of_a_trusted_authority_is_accepted_and_of_no_other(server: SshServer) -> None:
    authority, port = new_key(), server.port
    certificate = authority.generate_host_certificate(server.host_key, "gpu", principals=["127.0.0.1"])
    await server.stop()
    acceptor = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[(server.host_key, certificate)],
        authorized_client_keys=asyncssh.import_authorized_keys(server.client_key.export_public_key().decode()),
    )
    try:
        async with linked(server.host(known_hosts=known(server, authority, "@cert-authority"))) as links:
            await links.reach("up")
        stranger = new_key()
        reading = await refused(server.host(known_hosts=known(server, stranger, "@cert-authority")))
        assert "an authority that known_hosts does not trust" in reading.reason
        assert fingerprint(authority) in reading.reason
        async with linked(server.host(known_hosts=known(server, server.host_key))) as links:
            await links.reach("up")
    finally:
        acceptor.close()


async def test_no_setting_turns_checking_off(server: SshServer, tmp_path: Path) -> None:
    """asyncssh takes `UserKnownHostsFile none` for "accept any key"."""
    config = tmp_path / "config"
    config.write_text("Host *\n UserKnownHostsFile none\n GlobalKnownHostsFile none\n StrictHostKeyChecking no\n")
    access = Access(config=[config], keys=[server.client_key])
    assert "is not in known_hosts" in (await refused(SshHost(f"ops@127.0.0.1:{server.port}", access=access))).reason


# --- the operator's own files


def set_up(home: Path, server: SshServer, name: str, *more: str, key: bool = True, trust: bool = True) -> list[str]:
    """Files for one host in ``home``; returns lines for its block of ssh_config."""
    known_hosts = home / f"known_hosts_{name}"
    known_hosts.write_bytes(known(server, server.host_key) if trust else b"")
    lines = [f"Host {name}", " HostName 127.0.0.1", f" Port {server.port}", f" User {server.user}"]
    lines += [f" UserKnownHostsFile {home}/known_hosts_%n", f" IdentityFile {home}/no-such-key"]
    if key:
        file = home / f"id_{name}"
        file.write_bytes(server.client_key.export_private_key())
        lines.append(f" IdentityFile {file}")
    return [*lines, *(f" {line}" for line in more)]


async def test_an_alias_brings_name_port_user_key_and_known_hosts(server: SshServer, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("\n".join(set_up(tmp_path, server, "llm-two", "RemoteCommand tmux", "RequestTTY force")))
    host = SshHost("llm-two", access=Access(config=[config]))
    async with linked(host) as links:
        await links.reach("up")
        assert (await host.run(["echo", "hi"])).stdout == b"hi\n"
        assert host.name == "llm-two"


async def test_through_a_jump_host_with_every_key_checked(server: SshServer, tmp_path: Path) -> None:
    config = tmp_path / "config"
    async with serving(SshServer(user="jumper")) as bastion:
        blocks = [
            *set_up(tmp_path, server, "llm-two", "ProxyJump bastion"),
            *set_up(tmp_path, bastion, "bastion"),
            "Host *",
            " ProxyJump bastion",
        ]
        config.write_text("\n".join(blocks))
        host = SshHost("llm-two", access=Access(config=[config]))
        async with linked(host) as links:
            await links.reach("up")
            assert (await host.run(["echo", "hi"])).stdout == b"hi\n"
            assert len(bastion.connections) == len(server.connections) == 1
            bastion.drop()
            down = await links.reach("down")
            assert "The connection to llm-two was lost" in down.reason
            await links.reach("up", 2)
        await until(lambda: all(each.is_closed() for each in (*bastion.connections, *server.connections)))


async def test_a_jump_host_with_an_unknown_key_is_refused_by_its_name(server: SshServer, tmp_path: Path) -> None:
    config = tmp_path / "config"
    async with serving() as bastion:
        blocks = set_up(tmp_path, server, "llm-two", "ProxyJump bastion")
        blocks += set_up(tmp_path, bastion, "bastion", trust=False)
        config.write_text("\n".join(blocks))
        reading = await refused(SshHost("llm-two", access=Access(config=[config])))
        assert f"The key of bastion is not in known_hosts: it offers {describe(bastion)}" in reading.reason
        assert "`ssh bastion`" in reading.remedy
        assert not server.connections


async def test_a_jump_host_that_cannot_reach_the_target_is_said(server: SshServer, tmp_path: Path) -> None:
    config = tmp_path / "config"
    async with serving() as bastion:
        blocks = set_up(tmp_path, server, "llm-two", "ProxyJump bastion") + set_up(tmp_path, bastion, "bastion")
        config.write_text("\n".join(blocks))
        await server.stop()
        async with linked(SshHost("llm-two", access=Access(config=[config]))) as links:
            down = await links.reach("down")
            assert f"bastion cannot reach llm-two on port {server.port}" in down.reason
            assert down.never_up
        await until(lambda: all(each.is_closed() for each in bastion.connections))


def describe(server: SshServer) -> str:
    return f"{server.host_key.get_algorithm()} {fingerprint(server.host_key)}"


async def test_a_proxy_command_is_run_by_a_shell_and_its_errors_are_no_data(server: SshServer, tmp_path: Path) -> None:
    script = tmp_path / "relay.py"
    script.write_text(
        "import os, select, socket, sys\n"
        "print('a relay of', sys.argv[1], file=sys.stderr, flush=True)\n"
        "far = socket.create_connection(('127.0.0.1', int(sys.argv[2])))\n"
        "while True:\n"
        "    for ready in select.select([0, far], [], [])[0]:\n"
        "        data = os.read(0, 65536) if ready == 0 else far.recv(65536)\n"
        "        if not data: sys.exit()\n"
        "        far.sendall(data) if ready == 0 else os.write(1, data)\n"
        "        print('moved', len(data), file=sys.stderr, flush=True)\n"
    )
    config = tmp_path / "config"
    relay = f"ProxyCommand python3 '{script}' \"%h\" $((%p + 0)) || exit"
    config.write_text("\n".join(set_up(tmp_path, server, "llm-two", relay)))
    host = SshHost("llm-two", access=Access(config=[config]))
    async with linked(host) as links:
        await links.reach("up")
        assert len((await host.run(["head", "-c", "300000", "/dev/zero"])).stdout) == 300_000


async def test_a_proxy_command_that_fails_is_quoted(server: SshServer, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("\n".join(set_up(tmp_path, server, "llm-two", "ProxyCommand sh -c 'echo no way >&2; exit 1'")))
    async with linked(SshHost("llm-two", access=Access(config=[config]))) as links:
        assert (await links.reach("down")).reason == "The ProxyCommand to llm-two ended: no way."


# --- logins


async def test_a_refused_login_names_what_was_tried(server: SshServer, tmp_path: Path) -> None:
    server.methods = ("publickey", "password", "keyboard-interactive")
    config = tmp_path / "config"
    blocks = set_up(tmp_path, server, "llm-two", key=False)
    (tmp_path / "id_wrong").write_bytes(new_key().export_private_key())
    lock(tmp_path / "id_locked", new_key())
    (tmp_path / "id_broken").write_text("nonsense")
    blocks += [f" IdentityFile {tmp_path}/{name}" for name in ("id_wrong", "id_locked", "id_broken")]
    config.write_text("\n".join(blocks))
    reading = await refused(SshHost("llm-two", access=Access(config=[config])))
    assert f"llm-two does not let ops in: tried {tmp_path}/id_wrong." in reading.reason
    assert "It would also take: " in reading.reason
    assert "password" in reading.reason
    assert f"id_locked is encrypted (`ssh-add {tmp_path}/id_locked` lends it)" in reading.reason
    assert "id_broken cannot be read" in reading.reason
    assert "no-such-key" not in reading.reason
    assert "authorized_keys" in reading.remedy


async def test_a_login_without_any_key_says_so(server: SshServer) -> None:
    access = Access(config=(), known_hosts=server.known_hosts(), keys=())
    reading = await refused(SshHost(f"ops@127.0.0.1:{server.port}", access=access))
    assert "does not let ops in: no key was there to try" in reading.reason


class Agent:
    """A real ssh-agent with some keys."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *keys: asyncssh.SSHKey) -> None:
        self._process = await asyncio.create_subprocess_exec(
            "ssh-agent", "-D", "-a", str(self.path), stdout=asyncio.subprocess.DEVNULL
        )
        await until(lambda: _listens(self.path))
        async with asyncssh.SSHAgentClient(str(self.path)) as client:
            for number, key in enumerate(keys):
                key.set_comment(f"key {number}")
                await client.add_keys([key])

    async def stop(self) -> None:
        if self._process:
            self._process.terminate()
            await self._process.wait()


def _listens(path: Path) -> bool:
    """Its socket is there a moment before anybody listens on it."""
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(str(path)) == 0


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    if not shutil.which("ssh-agent"):
        pytest.skip("ssh-agent is not installed here")
    agent = Agent(tmp_path / "agent")
    yield agent
    await agent.stop()


async def test_the_agent_lends_its_keys(server: SshServer, agent: Agent, tmp_path: Path) -> None:
    await agent.start(new_key(), server.client_key)
    config = tmp_path / "config"
    config.write_text("\n".join(set_up(tmp_path, server, "llm-two", f"IdentityAgent {agent.path}", key=False)))
    async with linked(SshHost("llm-two", access=Access(config=[config]))) as links:
        await links.reach("up")


async def test_the_configured_key_of_a_full_agent_is_tried_first(
    server: SshServer, agent: Agent, tmp_path: Path
) -> None:
    """A server gives up after a few keys (MaxAuthTries)."""
    await agent.start(*(new_key() for _ in range(6)), server.client_key)
    (tmp_path / "id_right.pub").write_bytes(server.client_key.export_public_key())
    config = tmp_path / "config"
    blocks = set_up(
        tmp_path,
        server,
        "llm-two",
        f"IdentityAgent {agent.path}",
        "IdentitiesOnly yes",
        f"IdentityFile {tmp_path}/id_right",
        key=False,
    )
    tried: list[str] = []
    original = asyncssh.SSHServerConnection.validate_public_key

    async def counted(self: asyncssh.SSHServerConnection, *args: bytes) -> bool:
        tried.append(str(args[0]))
        return await original(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncssh.SSHServerConnection, "validate_public_key", counted)
        for block in (blocks, [line for line in blocks if "IdentitiesOnly" not in line]):
            tried.clear()
            config.write_text("\n".join(block))
            async with linked(SshHost("llm-two", access=Access(config=[config]))) as links:
                await links.reach("up")
            assert tried == ["ops"] * len(tried)
            assert len(tried) <= 2  # asked about, then signed


async def test_an_agent_that_is_gone_is_said(server: SshServer, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("\n".join(set_up(tmp_path, server, "llm-two", f"IdentityAgent {tmp_path}/gone", key=False)))
    reading = await refused(SshHost("llm-two", access=Access(config=[config])))
    assert f"the agent at {tmp_path}/gone does not answer" in reading.reason


async def test_a_certificate_beside_a_key_that_only_the_agent_can_use(
    server: SshServer, agent: Agent, tmp_path: Path
) -> None:
    authority, key, port = new_key(), new_key(), server.port
    await agent.start(key)
    await server.stop()
    acceptor = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[server.host_key],
        authorized_client_keys=asyncssh.import_authorized_keys(
            f"cert-authority {authority.export_public_key().decode()}"
        ),
    )
    certificate = authority.generate_user_certificate(key, "me", principals=["ops"])
    lock(tmp_path / "id_me", key)
    (tmp_path / "id_me.pub").write_bytes(key.export_public_key())
    (tmp_path / "id_me-cert.pub").write_bytes(certificate.export_certificate())
    config = tmp_path / "config"
    more = (f"IdentityAgent {agent.path}", f"IdentityFile {tmp_path}/id_me")
    config.write_text("\n".join(set_up(tmp_path, server, "llm-two", *more, key=False)))
    try:
        async with linked(SshHost("llm-two", access=Access(config=[config]))) as links:
            await links.reach("up")
    finally:
        acceptor.close()


# --- what is no SSH server, or none that we can talk to


async def test_another_kind_of_server_is_said() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-1.5-old\r\n")
        await reader.read(1)
        writer.close()

    listener = await asyncio.start_server(web, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with linked(SshHost(f"127.0.0.1:{port}", access=Access(config=()))) as links:
        assert f"What answers on port {port} of 127.0.0.1 is no SSH server" in (await links.reach("down")).reason
    listener.close()


async def test_a_server_that_hangs_up_is_said() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listener = await asyncio.start_server(rude, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with linked(SshHost(f"127.0.0.1:{port}", access=Access(config=()))) as links:
        assert "closed the connection before the login" in (await links.reach("down")).reason
    listener.close()


async def test_a_server_that_says_nothing_is_said(server: SshServer, tmp_path: Path) -> None:
    way = Way(server.port)
    await way.start()
    way.freeze()
    config = tmp_path / "config"
    config.write_text("ConnectTimeout 1\n")
    async with linked(SshHost(f"127.0.0.1:{way.port}", access=Access(config=[config]))) as links:
        assert (await links.reach("down")).reason == f"127.0.0.1 did not let us in on port {way.port} within 1 s."
    await way.stop()


async def test_a_server_without_a_common_algorithm_is_said(server: SshServer, tmp_path: Path) -> None:
    await server.stop()
    acceptor = await asyncssh.listen(
        "127.0.0.1", server.port, server_host_keys=[server.host_key], kex_algs="diffie-hellman-group14-sha256"
    )
    config = tmp_path / "config"
    config.write_text("KexAlgorithms curve25519-sha256\n")
    access = Access(config=[config], known_hosts=server.known_hosts(), keys=[server.client_key])
    reading = await refused(SshHost(f"ops@127.0.0.1:{server.port}", access=access))
    assert "no algorithm in common" in reading.reason
    acceptor.close()


async def test_a_name_that_is_nowhere_is_said() -> None:
    reading = await refused(SshHost("no-such-host.invalid", access=Access(config=())))
    assert reading.never_up
    assert "no-such-host.invalid" in reading.reason
    assert "is not known" in reading.reason or "cannot be resolved" in reading.reason
