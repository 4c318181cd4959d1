"""A link that breaks, falls silent or was never there: found soon, said in words, made again, nobody left waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from probes import ssh, ssh_config
from probes.host import Host, HostError, LinkDown, LinkRefused
from probes.ssh import SshHost
from probes.ssh_config import Access
from probes.ssh_errors import SILENCE
from tests.probes.sshserver import (
    SshServer,
    Way,
    connected,
    linked,
    new_key,
    processes,
    serving,
    sleeper,
    until,
    until_gone,
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt after a twentieth of the time."""
    delays = ssh._delays

    def short() -> Iterator[float]:
        return (delay / 20 for delay in delays())

    monkeypatch.setattr(ssh, "_delays", short)


@pytest.fixture
async def server() -> AsyncIterator[SshServer]:
    async with serving() as server:
        yield server


@pytest.fixture
async def way(server: SshServer) -> AsyncIterator[Way]:
    way = Way(server.port)
    await way.start()
    yield way
    await way.stop()


async def follow(host: Host, argv: list[str]) -> list[bytes]:
    async with host.stream(argv) as stream:
        return [chunk async for chunk in stream]


def test_a_silent_link_is_given_up_within_15_seconds() -> None:
    assert SILENCE == (ssh_config.KEEPALIVE_MISSES + 1) * ssh_config.KEEPALIVE_SECONDS
    assert SILENCE + ssh_config.KEEPALIVE_MISSES < 15


async def test_connecting_then_up_with_the_round_trip_time(server: SshServer) -> None:
    host = server.host()
    async with linked(host) as links:
        waiting = asyncio.ensure_future(host.up())
        up = await links.reach("up")
        await waiting
        assert [reading.state for reading in links.readings] == ["connecting", "up"]
        assert [reading.never_up for reading in links.readings] == [True, False]
        assert up.rtt_ms is not None
        assert 0 < up.rtt_ms < 5000


async def test_the_round_trip_time_is_told_again_and_again(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "PING_SECONDS", 0.05)
    async with linked(server.host()) as links:
        await links.reach("up", 4)
        assert {reading.state for reading in links.readings[1:]} == {"up"}


async def test_a_broken_link_releases_its_streams_and_comes_back(server: SshServer, way: Way) -> None:
    host = server.host(way.port)
    argv, mark = sleeper()
    async with linked(host) as links:
        await links.reach("up")
        streams = [asyncio.ensure_future(follow(host, argv)) for _ in range(3)]
        await until(lambda: len(processes(mark)) >= 3 * 2)
        way.cut()
        for stream in streams:
            with pytest.raises(LinkDown, match=r"The connection to 127\.0\.0\.1 was lost"):
                await stream
        await until_gone(mark)
        down = await links.reach("down")
        assert "lost" in down.reason
        assert down.remedy
        assert not down.never_up
        assert down.retry_in is not None
        await links.reach("up", 2)
        await host.up()
        assert (await host.run(["echo", "again"])).stdout == b"again\n"


async def test_a_silent_link_is_found_and_releases_everybody(
    server: SshServer, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case C62: a machine that slept. Streams, a waiting command, one that waits for a channel, input, HTTP."""
    monkeypatch.setattr(ssh_config, "KEEPALIVE_SECONDS", 0.2)
    monkeypatch.setattr(ssh, "PING_SECONDS", 0.1)
    host = server.host(way.port)
    async with linked(host) as links, AsyncExitStack() as stack:
        await links.reach("up")
        transport = await stack.enter_async_context(host.http("127.0.0.1", server.port))
        client = await stack.enter_async_context(httpx.AsyncClient(transport=transport, timeout=20))
        stream = await stack.enter_async_context(host.stream(["sh", "-c", "echo on; cat"], stdin=True))
        assert await anext(aiter(stream)) == b"on\n"
        others = [await stack.enter_async_context(host.stream(["cat"], stdin=True)) for _ in range(3)]
        way.freeze()
        tasks = [
            asyncio.ensure_future(anext(aiter(stream))),
            asyncio.ensure_future(others[0].wait()),
            asyncio.ensure_future(others[1].write(b"x" * 4_000_000)),
            asyncio.ensure_future(host.run(["true"], timeout=60)),
            asyncio.ensure_future(client.get("http://127.0.0.1/")),
            asyncio.ensure_future(follow(host, ["true"])),
            asyncio.ensure_future(follow(host, ["true"])),
        ]
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        monkeypatch.setattr(ssh_config, "KEEPALIVE_SECONDS", 4)
        assert [type(each).__name__ for each in done if not isinstance(each, LinkDown | httpx.TransportError)] == []
        assert sum(isinstance(each, LinkDown) for each in done) >= 6
        down = await links.reach("down")
        assert "has not answered for" in down.reason
        assert "the link is dead" in down.reason
        assert isinstance(done[0], LinkDown)
        assert done[0].reason == down.reason
        with pytest.raises(LinkDown):
            await host.run(["true"])
        way.thaw()
        await host.up()
        assert (await host.run(["echo", "awake"])).stdout == b"awake\n"


async def test_a_server_that_goes_away_is_tried_again_until_it_is_back(server: SshServer) -> None:
    host = server.host()
    async with linked(host) as links:
        await links.reach("up")
        await server.stop()
        downs = [await links.reach("down", times) for times in (1, 2, 3)]
        assert "lost" in downs[0].reason or "ended the connection" in downs[0].reason
        assert downs[1].reason == f"127.0.0.1 refuses connections on port {server.port}: nothing listens there."
        waiting = asyncio.ensure_future(host.up())
        await server.start()
        await links.reach("up", 2)
        await waiting


async def test_a_host_that_was_never_reached_says_so(server: SshServer) -> None:
    await server.stop()
    async with linked(server.host()) as links:
        down = await links.reach("down", 2)
        assert down.never_up
        assert "refuses connections" in down.reason
        assert "Check the port" in down.remedy


async def test_a_stream_that_is_open_over_a_loss_can_be_left(server: SshServer, way: Way) -> None:
    host = server.host(way.port)
    async with linked(host) as links:
        await links.reach("up")
        async with host.stream(["cat"], stdin=True) as stream:
            way.cut()
            with pytest.raises(LinkDown):
                await stream.wait()
            with pytest.raises(LinkDown):
                await stream.write(b"x")
            with pytest.raises(LinkDown):
                await anext(aiter(stream))
        await links.reach("up", 2)


async def test_output_that_arrived_before_the_loss_is_not_lost(server: SshServer, way: Way) -> None:
    host = server.host(way.port)
    async with linked(host) as links:
        await links.reach("up")
        async with host.stream(["sh", "-c", "echo here; cat"], stdin=True) as stream:
            command = stream
            await until(lambda: command._chunks)  # type: ignore[attr-defined]
            way.cut()
            await until(lambda: command.ended)  # type: ignore[attr-defined]
            assert await anext(aiter(stream)) == b"here\n"
            with pytest.raises(LinkDown):
                await anext(aiter(stream))


async def test_http_goes_on_over_a_loss(server: SshServer, way: Way) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    web = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = web.sockets[0].getsockname()[1]
    host = server.host(way.port)
    async with linked(host) as links, host.http("127.0.0.1", port) as transport:
        client = httpx.AsyncClient(transport=transport)
        await links.reach("up")
        assert (await client.get("http://127.0.0.1/")).text == "ok"
        way.cut()
        await links.reach("down")
        with pytest.raises(LinkDown):
            await client.get("http://127.0.0.1/")
        await links.reach("up", 2)
        assert (await client.get("http://127.0.0.1/")).text == "ok"
    web.close()


async def test_a_login_that_is_refused_later_may_be_a_host_that_boots(
    server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "LONGEST_DELAY", 0.05)
    host = server.host()
    async with linked(host) as links:
        await links.reach("up")
        right, server.client_key = server.client_key, new_key()
        await server.stop()
        await server.start()
        down = await links.reach("down", 3)
        assert "does not let ops in" in down.reason
        await server.stop()
        server.client_key = right
        await server.start()
        await links.reach("up", 2)


async def test_a_login_that_stays_refused_ends_the_watch(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "LONGEST_DELAY", 0.05)
    host = server.host()
    async with linked(host) as links:
        await links.reach("up")
        server.client_key = new_key()
        await server.stop()
        await server.start()
        waiting = asyncio.ensure_future(host.up())
        refused = await links.reach("refused")
        await links.ended()
        assert "does not let ops in" in refused.reason
        tries = [reading for reading in links.of("down") if "does not let" in reading.reason]
        assert len(tries) == ssh.LOGIN_TRIES - 1
        with pytest.raises(LinkRefused):
            await host.up()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_who_waits_for_a_refused_host_is_told(server: SshServer) -> None:
    host = server.host(known_hosts=b"")
    waiting = asyncio.ensure_future(host.up())
    async with linked(host) as links:
        await links.reach("refused")
        with pytest.raises(LinkRefused):
            await waiting
        with pytest.raises(LinkRefused):
            await host.run(["true"])


async def test_closing_the_readings_closes_the_link(server: SshServer) -> None:
    host = server.host()
    readings = host.links()
    async for reading in readings:
        if reading.state == "up":
            break
    assert (await host.run(["true"])).status == 0
    await readings.aclose()
    await until(lambda: all(connection.is_closed() for connection in server.connections))
    with pytest.raises(HostError, match="closed"):
        await host.run(["true"])
    with pytest.raises(HostError, match="closed"):
        await host.up()


async def test_closing_breaks_off_an_attempt(server: SshServer, way: Way) -> None:
    way.freeze()
    host = server.host(way.port)
    async with linked(host) as links:
        await until(lambda: way.accepted)
        await host.close()
        await links.ended(5)
        assert [reading.state for reading in links.readings] == ["connecting"]


async def test_a_link_over_a_unix_socket(tmp_path: Path) -> None:
    """How the demo is watched: no port is opened at all."""
    path = tmp_path / "ssh"
    server = SshServer()
    await server.start(path)
    trusted = f"rehearsal {server.host_key.export_public_key().decode()}".encode()
    access = Access(config=(), known_hosts=trusted, keys=(server.client_key,), socket=path)
    host = SshHost("ops@rehearsal", access=access, name="demo")
    async with linked(host) as links:
        await links.reach("up")
        assert host.name == "demo"
        assert (await host.run(["echo", "hi"])).stdout == b"hi\n"
    await server.stop()


async def test_one_connection_carries_everything(server: SshServer, way: Way) -> None:
    async with connected(server, way.port) as host:
        await asyncio.gather(*(host.run(["true"]) for _ in range(8)))
        async with host.http("127.0.0.1", server.port):
            pass
    assert way.accepted == 1
