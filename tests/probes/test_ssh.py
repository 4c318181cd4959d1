"""Commands, streams and HTTP over a real SSH connection to a real server."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import asyncssh
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes import ssh, ssh_link
from probes.command import HIGH_WATER, OUTPUT_LIMIT, STDERR_TAIL
from probes.host import CommandTimeout, Host, HostError, LinkDown, TooManyChannels
from probes.ssh import SshHost
from tests.probes.sshserver import SshServer, connected, processes, serving, sleeper, until, until_gone

NOISE = b"\x1b[?25l\x1b[2JWelcome to gpu-host\nmaintenance window: Sunday 02:00 UTC\n"


@pytest.fixture
async def server() -> AsyncIterator[SshServer]:
    async with serving() as server:
        yield server


@pytest.fixture
async def host(server: SshServer) -> AsyncIterator[SshHost]:
    async with connected(server) as host:
        yield host


async def read_all(host: Host, argv: list[str]) -> bytes:
    async with host.stream(argv) as stream:
        return b"".join([chunk async for chunk in stream])


# --- commands


async def test_a_command_gives_its_output_its_errors_and_its_status(host: SshHost) -> None:
    done = await host.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.status, done.stdout, done.stderr, done.truncated) == (3, b"out\n", b"err\n", False)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=6))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_arguments_arrive_as_they_are(argv: list[str]) -> None:
    async def ask() -> bytes:
        async with serving() as server, connected(server) as host:
            return (await host.run(["printf", r"%s\0", *argv])).stdout

    assert asyncio.run(ask()).split(b"\0")[:-1] == [os.fsencode(word) for word in argv or [""]]


@pytest.mark.parametrize(("name", "number"), [("TERM", 15), ("KILL", 9), ("SEGV", 11)])
async def test_a_signal_is_a_negative_status(host: SshHost, name: str, number: int) -> None:
    assert (await host.run(["sh", "-c", f"kill -{name} $$"])).status == -number


@pytest.mark.parametrize(("argv", "status"), [(["no-such-program"], 127), (["/etc/passwd"], 126)])
async def test_a_program_that_cannot_run_is_a_status(host: SshHost, argv: list[str], status: int) -> None:
    done = await host.run(argv)
    assert done.status == status
    assert argv[0].encode() in done.stderr


async def test_input_is_given_whole_and_ends(host: SshHost) -> None:
    data = bytes(range(256)) * 8192
    assert (await host.run(["cat"], stdin=data)).stdout == data


async def test_input_that_nobody_reads_is_no_harm(host: SshHost) -> None:
    assert (await host.run(["true"], stdin=b"x" * 5_000_000)).status == 0


async def test_without_input_the_command_reads_nothing(host: SshHost) -> None:
    assert (await host.run(["wc", "-c"])).stdout.strip() == b"0"


async def test_long_output_is_kept_up_to_a_limit(host: SshHost) -> None:
    done = await host.run(["head", "-c", str(OUTPUT_LIMIT + 5000), "/dev/zero"])
    assert (done.status, len(done.stdout), done.truncated) == (0, OUTPUT_LIMIT, True)


async def test_the_tail_of_the_errors_is_kept(host: SshHost) -> None:
    done = await host.run(["sh", "-c", "yes 0123456789 | head -c 200000 >&2; echo last >&2"])
    assert len(done.stderr) == STDERR_TAIL
    assert done.stderr.endswith(b"last\n")


async def test_a_command_over_its_time_is_ended_and_said(host: SshHost, server: SshServer) -> None:
    argv, mark = sleeper()
    with pytest.raises(CommandTimeout, match=rf"`sleep {mark}` did not end within 0.3 s on ops@127.0.0.1"):
        await host.run(argv, timeout=0.3)
    await until_gone(mark)
    assert (await host.run(["echo", "still"])).stdout == b"still\n"


async def test_a_cancelled_command_is_ended(host: SshHost) -> None:
    argv, mark = sleeper()
    task = asyncio.ensure_future(read_all(host, ["sh", "-c", 'echo begun; exec "$@"', "sh", *argv]))
    await until(lambda: processes(mark))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until_gone(mark)


async def test_what_no_system_can_run_is_said_at_once(host: SshHost) -> None:
    with pytest.raises(ValueError, match="no program"):
        await host.run([])
    with pytest.raises(ValueError, match="NUL"):
        await host.run(["a", "\0"])


# --- streams


async def test_a_stream_gives_what_comes_when_it_comes(host: SshHost) -> None:
    async with host.stream(["sh", "-c", "echo one; read -r line; echo $line; exit 4"], stdin=True) as stream:
        chunks = aiter(stream)
        assert await anext(chunks) == b"one\n"
        await stream.write(b"two\n")
        assert await anext(chunks) == b"two\n"
        assert [chunk async for chunk in chunks] == []
        assert await stream.wait() == 4
        await stream.write(b"nobody reads this any more\n")


async def test_lines_of_a_megabyte_come_through_whole(host: SshHost) -> None:
    script = "for i in 1 2 3; do head -c 1000000 /dev/zero | tr '\\0' x; echo; done"
    assert await read_all(host, ["sh", "-c", script]) == (b"x" * 1_000_000 + b"\n") * 3


async def test_a_slow_reader_holds_the_sender_up_and_loses_nothing(host: SshHost) -> None:
    size = 8 * HIGH_WATER
    async with host.stream(["head", "-c", str(size), "/dev/zero"]) as stream:
        got = 0
        async for chunk in stream:
            got += len(chunk)
            assert len(chunk) < 4 * HIGH_WATER
            await asyncio.sleep(0.005)
        assert got == size
        assert await stream.wait() == 0


async def test_errors_of_a_stream_can_be_read_while_it_runs(host: SshHost) -> None:
    async with host.stream(["sh", "-c", "echo oh >&2; echo out; cat"], stdin=True) as stream:
        async for _ in stream:
            break
        await until(lambda: stream.stderr)
        assert stream.stderr == b"oh\n"


@pytest.mark.parametrize("stdin", [False, True])
async def test_leaving_a_stream_ends_its_command(host: SshHost, stdin: bool) -> None:
    argv, mark = sleeper()
    async with host.stream(["sh", "-c", 'echo begun; "$@" & "$@"', "sh", *argv], stdin=stdin) as stream:
        async for _ in stream:
            break
        assert processes(mark)
    await until_gone(mark)


# --- login shells and their start-up files


@pytest.mark.parametrize("login", ["bash", "zsh", "fish", "tcsh"])
async def test_any_login_shell_with_a_talkative_start_up_file(login: str, tmp_path: Path) -> None:
    if not shutil.which(login):
        pytest.skip(f"{login} is not installed here")
    files = {"bash": "rc", "zsh": ".zshenv", "fish": ".config/fish/config.fish", "tcsh": ".tcshrc"}
    file = tmp_path / files[login]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("echo Welcome to gpu-host\n/bin/sh -c 'echo stty: no terminal >&2'\n")
    environment = {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "BASH_ENV": str(tmp_path / "rc")}
    async with serving(SshServer(shell=(login,), environment=environment)) as server, connected(server) as host:
        done = await host.run(["printf", r"%s\n", "it's", "a\\b", "!!", "$HOME", "x\ny"])
        assert done.stdout == b"it's\na\\b\n!!\n$HOME\nx\ny\n"
        assert done.stderr == b""
        assert host.greeting == "Welcome to gpu-host\n"
        argv, mark = sleeper()
        async with host.stream(argv):
            await until(lambda: processes(mark))
        await until_gone(mark)


async def test_start_up_noise_is_skipped_and_told_once() -> None:
    """Case C60."""
    server = SshServer(noise=NOISE, noise_on_stderr=b"stty: no terminal\n")
    async with serving(server), connected(server) as host:
        assert host.greeting == ""
        assert (await host.run(["echo", "0, 41230 MiB"])).stdout == b"0, 41230 MiB\n"
        assert "Welcome to gpu-host\nmaintenance window" in host.greeting
        assert "\x1b" not in host.greeting
        assert await read_all(host, ["echo", "1"]) == b"1\n"


async def test_noise_in_any_pieces_is_told_from_output(host: SshHost, server: SshServer) -> None:
    server.shell = ("sh", "-c", 'printf "\\036%s\\n" deadbeefdeadbeef; printf "\\036"; exec sh "$@"', "sh")
    done = await host.run(["echo", "own"])
    assert (done.status, done.stdout) == (0, b"own\n")


async def test_a_login_shell_that_runs_nothing_is_said() -> None:
    shell = ("sh", "-c", "echo This account is currently not available.; exit 1")
    async with serving(SshServer(shell=shell)) as server, connected(server) as host:
        with pytest.raises(
            HostError, match=r"ran no command for us: it said “This account is currently not available\.”"
        ):
            await host.run(["true"])
        with pytest.raises(HostError, match="ran no command"):
            await read_all(host, ["true"])


async def test_endless_noise_is_given_up() -> None:
    async with serving(SshServer(shell=("sh", "-c", "yes"))) as server, connected(server) as host:
        with pytest.raises(HostError, match="ran no command for us: it said “y y y"):
            await host.run(["true"])


# --- channels


async def test_six_channels_at_once_and_the_seventh_waits(host: SshHost, server: SshServer) -> None:
    async with AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(host.stream(["cat"], stdin=True)) for _ in range(6)]
        seventh = asyncio.ensure_future(host.run(["echo", "seven"]))
        for stream in streams:
            await stream.write(b"x\n")
            assert await anext(aiter(stream)) == b"x\n"
        assert not seventh.done()
        await stack.aclose()
        assert (await seventh).stdout == b"seven\n"
    assert server.most == ssh_link.CHANNELS == 6


async def test_a_command_waits_no_longer_than_its_time_for_a_channel(host: SshHost) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(6):
            await stack.enter_async_context(host.stream(["cat"], stdin=True))
        with pytest.raises(TooManyChannels, match="All 6 channels"):
            await host.run(["true"], timeout=0.2)


async def test_a_server_at_its_limit_is_no_dead_link() -> None:
    """Case C58."""
    async with serving(SshServer(sessions=1)) as server, connected(server) as host:
        async with host.stream(["cat"], stdin=True) as stream:
            with pytest.raises(TooManyChannels, match=r"MaxSessions\); the link is fine"):
                await host.run(["true"])
            await stream.write(b"on\n")
            assert await anext(aiter(stream)) == b"on\n"
        assert (await host.run(["echo", "again"])).stdout == b"again\n"
        assert len(server.connections) == 1


async def test_many_commands_at_once_share_the_channels(host: SshHost, server: SshServer) -> None:
    done = await asyncio.gather(*(host.run(["echo", str(number)]) for number in range(25)))
    assert [int(each.stdout) for each in done] == list(range(25))
    assert server.most <= 6


async def test_a_login_that_may_not_run_commands_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncssh.SSHServerChannel, "_process_exec_request", lambda *_: False)
    async with serving() as server, connected(server) as host:
        with pytest.raises(HostError, match="refuses to run commands for this login"):
            await host.run(["true"])


async def test_giving_up_while_a_channel_opens_leaves_none_open(server: SshServer, host: SshHost) -> None:
    link = host._link
    assert link is not None
    for _ in range(20):
        task = asyncio.ensure_future(host.run(["true"]))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (await host.run(["true"])).status == 0
    await until(lambda: not link._connection._channels)


# --- HTTP


class Web:
    """A small HTTP server: /hello, /slow (never ends), /count (connections so far)."""

    def __init__(self) -> None:
        self.connections = 0
        self.open = 0
        self.port = 0

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                if b"/slow" in request:
                    await reader.read()
                    break
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    web = Web()
    server = await web.start()
    yield web
    server.close()


async def test_http_goes_through_a_socket_that_nobody_else_can_enter(host: SshHost, web: Web) -> None:
    before = listening()
    async with host.http("127.0.0.1", web.port) as transport, httpx.AsyncClient(transport=transport) as client:
        for _ in range(3):
            answer = await client.get(f"http://127.0.0.1:{web.port}/hello")
            assert (answer.status_code, answer.text) == (200, "hello")
        assert web.connections == 1
        assert host._folder is not None
        [path] = host._folder.iterdir()
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert listening() == before
    assert not path.exists()
    await host.close()
    assert not path.parent.exists()


def listening() -> set[str]:
    """Sockets of this machine that listen for TCP."""
    lines = (Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()).splitlines()
    return {line.split()[1] for line in lines if line.split()[3] == "0A"}


async def test_a_forgotten_host_leaves_no_folder(server: SshServer) -> None:
    host = server.host()
    async with host.http("127.0.0.1", 1):
        folder = host._folder
        assert folder is not None
        assert folder.exists()
    del host
    gc.collect()
    assert not folder.exists()


async def test_a_port_where_nothing_listens_is_refused(host: SshHost) -> None:
    async with host.http("127.0.0.1", 1) as transport, httpx.AsyncClient(transport=transport) as client:
        for _ in range(12):  # more often than there are channels
            with pytest.raises(httpx.ConnectError, match=r"refused: 127\.0\.0\.1:1 on ops@127.0.0.1"):
                await client.get("http://127.0.0.1:1/health")
        await host.close()
        with pytest.raises(LinkDown):
            await client.get("http://127.0.0.1:1/health")


async def test_a_port_that_opens_later_answers(host: SshHost) -> None:
    web = Web()
    server = await web.start()
    server.close()
    await server.wait_closed()
    url = f"http://127.0.0.1:{web.port}/hello"
    async with host.http("127.0.0.1", web.port) as transport, httpx.AsyncClient(transport=transport) as client:
        for _ in range(3):
            with pytest.raises(httpx.ConnectError):
                await client.get(url)
        server = await web.start()
        for _ in range(3):
            assert (await client.get(url)).text == "hello"
        assert web.connections == 2  # one only knocked; the other is kept
        server.close()


async def test_a_server_that_forbids_forwarding_is_said(web: Web) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(SshServer(forwarding=False)))
        host = await stack.enter_async_context(connected(server))
        transport = await stack.enter_async_context(host.http("127.0.0.1", web.port))
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport))
        with pytest.raises(HostError, match="forbids connections") as raised:
            await client.get("http://127.0.0.1/hello")
        assert "AllowTcpForwarding" in raised.value.remedy
        assert (await host.run(["true"])).status == 0


async def test_http_without_a_link_says_so(server: SshServer) -> None:
    host = server.host()
    async with host.http("127.0.0.1", 1) as transport, httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(LinkDown, match="not connected yet"):
            await client.get("http://127.0.0.1:1/health")


async def test_http_connections_are_channels_too(host: SshHost, web: Web) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(5):
            await stack.enter_async_context(host.stream(["cat"], stdin=True))
        transport = await stack.enter_async_context(host.http("127.0.0.1", web.port))
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, timeout=0.5))
        with pytest.raises(httpx.ReadTimeout):
            await client.get("http://127.0.0.1/slow")
        assert (await client.get("http://127.0.0.1/hello")).text == "hello"
        with pytest.raises(TooManyChannels):
            await host.run(["true"], timeout=0.2)
    assert (await host.run(["true"])).status == 0
    await until(lambda: not web.open)


# --- before and after the link


async def test_without_a_link_everything_says_so_at_once(server: SshServer) -> None:
    host = server.host()
    with pytest.raises(LinkDown, match=r"ops@127\.0\.0\.1:.* is not connected yet"):
        await host.run(["true"])
    with pytest.raises(LinkDown):
        await read_all(host, ["true"])


async def test_closing_ends_commands_and_says_so(server: SshServer) -> None:
    argv, mark = sleeper()
    async with connected(server) as host:
        reading = asyncio.ensure_future(read_all(host, argv))
        await until(lambda: processes(mark))
        await host.close()
        with pytest.raises(LinkDown, match="closed"):
            await reading
        with pytest.raises(LinkDown, match="closed"):
            await host.run(["true"])
        with pytest.raises(LinkDown, match="closed"):
            await host.up()
    await until_gone(mark)


def test_delays_grow_and_stay_within_half_a_minute() -> None:
    delays = ssh._delays()
    for longest in (1, 2, 4, 8, 16, 30, 30, 30):
        assert longest / 2 <= next(delays) <= longest
