"""This machine as a host keeps the same promises as one over SSH."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.command import HIGH_WATER, OUTPUT_LIMIT, STDERR_TAIL
from probes.host import CommandTimeout, LinkDown
from probes.local import LocalHost
from tests.probes.sshserver import processes, sleeper, until, until_gone


@pytest.fixture
async def host() -> AsyncIterator[LocalHost]:
    host = LocalHost()
    yield host
    await host.close()


async def test_a_command_gives_its_output_its_errors_and_its_status(host: LocalHost) -> None:
    done = await host.run(["sh", "-c", "echo out; echo err >&2; printenv LC_ALL; exit 3"])
    assert (done.status, done.stdout, done.stderr, done.truncated) == (3, b"out\nC\n", b"err\n", False)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=6))
@settings(max_examples=15)
def test_any_arguments_arrive_as_they_are(argv: list[str]) -> None:
    done = asyncio.run(LocalHost().run(["printf", r"%s\0", *argv]))
    assert done.stdout.split(b"\0")[:-1] == [os.fsencode(word) for word in argv or [""]]


@pytest.mark.parametrize(
    ("argv", "status"),
    [(["no-such-program"], 127), (["/etc/passwd"], 126), (["sh", "-c", "kill -SEGV $$"], -signal.SIGSEGV)],
)
async def test_how_a_command_ends_is_a_status(host: LocalHost, argv: list[str], status: int) -> None:
    assert (await host.run(argv)).status == status


async def test_input_is_given_whole_and_ends(host: LocalHost) -> None:
    data = bytes(range(256)) * 8192
    assert (await host.run(["cat"], stdin=data)).stdout == data
    assert (await host.run(["true"], stdin=data)).status == 0
    assert (await host.run(["wc", "-c"])).stdout.strip() == b"0"


async def test_long_output_is_kept_up_to_a_limit_and_the_tail_of_errors(host: LocalHost) -> None:
    done = await host.run(["head", "-c", str(OUTPUT_LIMIT + 5000), "/dev/zero"])
    assert (len(done.stdout), done.truncated) == (OUTPUT_LIMIT, True)
    done = await host.run(["sh", "-c", "yes 0123456789 | head -c 200000 >&2; echo last >&2"])
    assert len(done.stderr) == STDERR_TAIL
    assert done.stderr.endswith(b"last\n")


async def test_a_command_over_its_time_is_ended_and_said(host: LocalHost) -> None:
    argv, mark = sleeper()
    with pytest.raises(CommandTimeout, match=rf"`sleep {mark}` did not end within 0.3 s on this machine"):
        await host.run(argv, timeout=0.3)
    assert not processes(mark)


async def test_a_stream_gives_what_comes_when_it_comes(host: LocalHost) -> None:
    async with host.stream(["sh", "-c", "echo one; read -r line; echo $line; exit 4"], stdin=True) as stream:
        chunks = aiter(stream)
        assert await anext(chunks) == b"one\n"
        await stream.write(b"two\n")
        assert await anext(chunks) == b"two\n"
        assert [chunk async for chunk in chunks] == []
        assert await stream.wait() == 4
        await stream.write(b"nobody reads this any more\n")


async def test_a_slow_reader_holds_the_sender_up_and_loses_nothing(host: LocalHost) -> None:
    size = 8 * HIGH_WATER
    async with host.stream(["head", "-c", str(size), "/dev/zero"]) as stream:
        got = 0
        async for chunk in stream:
            got += len(chunk)
            assert len(chunk) < 2 * HIGH_WATER
            await asyncio.sleep(0.005)
        assert got == size


async def test_a_slow_writer_waits_for_the_command(host: LocalHost) -> None:
    async with host.stream(["sh", "-c", "head -c 2000000 | wc -c"], stdin=True) as stream:
        for _ in range(20):
            await stream.write(b"x" * 100_000)
        assert int(await anext(aiter(stream))) == 2_000_000


@pytest.mark.parametrize("stdin", [False, True])
async def test_leaving_a_stream_ends_its_command_and_its_children(host: LocalHost, stdin: bool) -> None:
    argv, mark = sleeper()
    async with host.stream(["sh", "-c", 'echo begun; "$@" & "$@"', "sh", *argv], stdin=stdin) as stream:
        assert await anext(aiter(stream)) == b"begun\n"
        assert processes(mark)
    assert not processes(mark)


async def test_a_command_that_obeys_nothing_is_killed(host: LocalHost) -> None:
    (program, argument), mark = sleeper()
    script = f"trap '' TERM; echo begun; {program} {argument}; {program} {argument}"
    async with host.stream(["sh", "-c", script]) as stream:
        assert await anext(aiter(stream)) == b"begun\n"
    await until_gone(mark)


async def test_commands_end_when_the_program_is_killed() -> None:
    argv, mark = sleeper()
    script = f"""
import asyncio
from probes.local import LocalHost

async def main():
    async with LocalHost().stream({argv!r}) as stream:
        await stream.wait()

asyncio.run(main())
"""
    root = Path(__file__).parents[2]
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", script, cwd=root)
    await until(lambda: [pid for pid in processes(mark) if pid != program.pid])
    program.kill()
    await program.wait()
    await until_gone(mark)


async def test_links_says_up_once_and_ends_with_the_host(host: LocalHost) -> None:
    await host.up()
    states = []
    async for reading in host.links():
        states.append(reading.state)
        await host.close()
    assert states == ["up"]
    with pytest.raises(LinkDown, match="closed"):
        await host.run(["true"])


async def test_http_goes_straight(host: LocalHost) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    web = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = web.sockets[0].getsockname()[1]
    async with host.http("127.0.0.1", port) as transport, httpx.AsyncClient(transport=transport) as client:
        assert (await client.get(f"http://127.0.0.1:{port}/")).text == "ok"
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:1/")
    web.close()
