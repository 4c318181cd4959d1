"""The same against OpenSSH's own server, for what a stand-in cannot prove: its limits, its ends, its words."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import asyncssh
import httpx
import pytest

from probes.host import HostError, LinkDown, TooManyChannels
from probes.ssh import SshHost
from probes.ssh_config import Access
from tests.probes.sshserver import Way, linked, new_key, processes, sleeper, until, until_gone

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")

pytestmark = pytest.mark.skipif(SSHD is None, reason="sshd is not installed here")


class OpenSsh:
    """sshd on loopback, for this user alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.key, self.client_key = new_key(), new_key()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *options: str) -> None:
        self._write("host_key", self.key.export_private_key())
        self._write("authorized", self.client_key.export_public_key())
        if not self.port:
            probe = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
            self.port = probe.sockets[0].getsockname()[1]
            probe.close()
            await probe.wait_closed()
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.folder}/host_key",
            f"AuthorizedKeysFile {self.folder}/authorized",
            "StrictModes no",
            "UsePAM no",
            "PidFile none",
            "PasswordAuthentication no",
            "PermitRootLogin prohibit-password",
            *options,
        ]
        self._write("config", "\n".join(lines).encode())
        _privileges()
        self._process = await asyncio.create_subprocess_exec(
            str(SSHD), "-D", "-e", "-f", f"{self.folder}/config", stderr=asyncio.subprocess.PIPE
        )
        assert self._process.stderr is not None
        said = b""
        while b"Server listening" not in said:
            line = await self._process.stderr.readline()
            assert line, f"sshd did not start: {said.decode()}"
            said += line
        self._drain = asyncio.ensure_future(self._process.stderr.read())

    def sessions(self) -> list[int]:
        """The processes that hold our connections."""
        return [pid for pid in processes("sshd: ") if self._process and _ancestor(pid, self._process.pid)]

    async def stop(self) -> None:
        if self._process:
            for pid in self.sessions():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.kill()
            await self._process.wait()
            self._process = None

    def host(self, port: int = 0) -> SshHost:
        port = port or self.port
        trusted = b"[127.0.0.1]:%d " % port + self.key.export_public_key()
        access = Access(config=(), known_hosts=trusted, keys=(self.client_key,))
        return SshHost(f"{getpass.getuser()}@127.0.0.1:{port}", access=access)

    def _write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o600)


def _privileges() -> None:
    """The empty folder that sshd wants when root starts it."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def _ancestor(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


@pytest.fixture
async def sshd(tmp_path: Path) -> AsyncIterator[OpenSsh]:
    server = OpenSsh(tmp_path)
    yield server
    await server.stop()


async def test_commands_streams_and_ends(sshd: OpenSsh) -> None:
    await sshd.start()
    host = sshd.host()
    async with linked(host) as links:
        up = await links.reach("up")
        assert up.rtt_ms is not None
        done = await host.run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"in")
        assert (done.status, done.stdout, done.stderr) == (3, b"in", b"err\n")
        assert (await host.run(["sh", "-c", "kill -KILL $$"])).status == -9
        argv, mark = sleeper()
        for stdin in (False, True):
            async with host.stream(["sh", "-c", 'echo begun; "$@" & "$@"', "sh", *argv], stdin=stdin) as stream:
                assert await anext(aiter(stream)) == b"begun\n"
                assert processes(mark)
            await until_gone(mark)


async def test_nothing_is_left_after_a_broken_link(sshd: OpenSsh) -> None:
    await sshd.start()
    way = Way(sshd.port)
    await way.start()
    host = sshd.host(way.port)
    argv, mark = sleeper()
    async with linked(host) as links, AsyncExitStack() as stack:
        await links.reach("up")
        streams = []
        for stdin in (False, True):
            stream = await stack.enter_async_context(
                host.stream(["sh", "-c", 'echo begun; exec "$@"', "sh", *argv], stdin=stdin)
            )
            assert await anext(aiter(stream)) == b"begun\n"
            streams.append(stream)
        way.cut()
        for stream in streams:
            with pytest.raises(LinkDown):
                await stream.wait()
        await until_gone(mark)
        await links.reach("up", 2)
    await way.stop()


async def test_a_limit_of_sessions_is_no_dead_link(sshd: OpenSsh) -> None:
    """Case C58."""
    await sshd.start("MaxSessions 2")
    host = sshd.host()
    async with linked(host) as links:
        await links.reach("up")
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(host.stream(["cat"], stdin=True)) for _ in range(2)]
            with pytest.raises(TooManyChannels, match="MaxSessions"):
                await host.run(["true"])
            await streams[0].write(b"on\n")
            assert await anext(aiter(streams[0])) == b"on\n"
        assert (await host.run(["true"])).status == 0
        assert {reading.state for reading in links.readings} == {"connecting", "up"}


async def test_a_frozen_server_is_found_dead(sshd: OpenSsh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case C62, the other way round: the host stands still."""
    monkeypatch.setattr("probes.ssh_config.KEEPALIVE_SECONDS", 0.2)
    await sshd.start()
    host = sshd.host()
    async with linked(host) as links:
        await links.reach("up")
        async with host.stream(["cat"], stdin=True) as stream:
            frozen = sshd.sessions()
            assert frozen
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            try:
                with pytest.raises(LinkDown, match="has not answered"):
                    await asyncio.wait_for(stream.wait(), 10)
            finally:
                for pid in frozen:
                    os.kill(pid, signal.SIGCONT)
        await links.reach("down")


async def test_a_unix_socket_of_the_host_is_reached_as_its_ports_are(sshd: OpenSsh, tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    path = tmp_path / "v.sock"
    web = await asyncio.start_unix_server(answer, path)
    await sshd.start()
    host = sshd.host()
    async with linked(host) as links, host.http("", 0, socket=str(path)) as transport:
        await links.reach("up")
        assert (await httpx.AsyncClient(transport=transport).get("http://localhost/")).text == "ok"
        with pytest.raises(httpx.ConnectError, match="refused"):
            async with host.http("", 0, socket=str(tmp_path / "none.sock")) as other:
                await httpx.AsyncClient(transport=other).get("http://localhost/")
    await sshd.stop()
    web.close()


async def test_http_and_what_forbids_it(sshd: OpenSsh) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    web = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = web.sockets[0].getsockname()[1]
    for options, allowed in (((), True), (("AllowTcpForwarding no",), False)):
        await sshd.start(*options)
        host = sshd.host()
        async with linked(host) as links, host.http("127.0.0.1", port) as transport:
            await links.reach("up")
            client = httpx.AsyncClient(transport=transport)
            if allowed:
                assert (await client.get("http://127.0.0.1/")).text == "ok"
                with pytest.raises(httpx.ConnectError, match="refused"):
                    async with host.http("127.0.0.1", 1) as other:
                        await httpx.AsyncClient(transport=other).get("http://127.0.0.1:1/")
            else:
                with pytest.raises(HostError, match="forbids connections"):
                    await client.get("http://127.0.0.1/")
        await sshd.stop()
    web.close()


async def test_a_changed_key_a_wrong_key_and_too_many_keys(sshd: OpenSsh) -> None:
    await sshd.start("MaxAuthTries 2")
    host = sshd.host()
    right = sshd.key
    sshd.key = new_key()
    changed = sshd.host()
    sshd.key = right
    async with linked(changed) as links:
        assert "has CHANGED" in (await links.reach("refused")).reason
    keys = [new_key() for _ in range(5)]
    for tried in (keys[:1], keys):
        access = Access(config=(), known_hosts=host._access.known_hosts, keys=tried)
        async with linked(SshHost(host.name, access=access)) as links:
            reading = await links.reach("refused")
            assert "does not let" in reading.reason
            assert ("too many keys" in reading.reason) == (len(tried) > 1)


async def test_an_unknown_host_shows_the_fingerprint_that_ssh_shows(sshd: OpenSsh) -> None:
    rsa = sshd.folder / "rsa_key"
    rsa.write_bytes(new_key("ssh-rsa").export_private_key())
    rsa.chmod(0o600)
    await sshd.start(f"HostKey {rsa}")
    async with linked(SshHost(sshd.host().name, access=Access(config=(), known_hosts=b""))) as links:
        assert sshd.key.get_fingerprint() in (await links.reach("refused")).reason


async def test_a_forced_command_is_said(sshd: OpenSsh) -> None:
    await sshd.start("ForceCommand echo This account only copies files")
    host = sshd.host()
    async with linked(host) as links:
        await links.reach("up")
        with pytest.raises(HostError, match="ran no command for us: it said “This account only copies files”"):
            await host.run(["true"])


async def test_a_server_that_restarts_is_reached_again(sshd: OpenSsh) -> None:
    await sshd.start()
    host = sshd.host()
    async with linked(host) as links:
        await links.reach("up")
        await sshd.stop()
        await links.reach("down")
        await sshd.start()
        await host.up()
        assert (await host.run(["echo", "back"])).stdout == b"back\n"
        await until(lambda: len(sshd.sessions()) >= 1)


async def test_keys_of_other_kinds(sshd: OpenSsh) -> None:
    for kind in ("ecdsa-sha2-nistp256", "ssh-rsa"):
        sshd.key, sshd.client_key = asyncssh.generate_private_key(kind), asyncssh.generate_private_key(kind)
        await sshd.start()
        async with linked(sshd.host()) as links:
            await links.reach("up")
        await sshd.stop()
