"""Hooks are done: real commands, a real HTTP server."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from probes import hook


def script(folder: Path, text: str) -> str:
    file = folder / "hook.sh"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


@asynccontextmanager
async def server(answer: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """An HTTP server that keeps what it is sent and gives this answer; None: it never answers."""
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l"))
        seen.append(head + await reader.readexactly(length))
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/T0/secret", seen


async def test_a_command_gets_its_words_and_variables(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = await hook.run([script(tmp_path, f'printf "%s|" "$@" "$FIRSTLIGHT_STATE" >{out}'), "a b", "$(x)"],
                          {"FIRSTLIGHT_STATE": "ready"})  # fmt: skip
    assert done == ""
    assert out.read_text() == "a b|$(x)|ready|"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("echo oh; echo no >&2; exit 3", "hook.sh ended with status 3: oh no"),
        ("kill -9 $$", "was killed by signal 9"),
        ("head -c 1000000 /dev/zero | tr '\\\\0' x; printf '\\\\033[31m end'; exit 1", "end"),
    ],
)
async def test_why_a_command_failed(tmp_path: Path, text: str, says: str) -> None:
    why = await hook.run([script(tmp_path, text)])
    assert says in why
    assert "\x1b" not in why
    assert len(why) < 700


async def test_a_command_that_is_not_there_or_may_not_be_run(tmp_path: Path) -> None:
    assert "cannot be run: No such file" in await hook.run(["/no/such/command"])
    (tmp_path / "plain").write_text("x")
    assert "cannot be run: Permission denied" in await hook.run([str(tmp_path / "plain")])


async def test_a_command_that_does_not_end_is_killed_with_all_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    why = await hook.run([script(tmp_path, f"trap '' TERM; sleep 600 & echo $! >{pid}; wait; wait")], limit=0.5)
    assert "did not end within 0.5 s" in why
    status = Path(f"/proc/{pid.read_text().strip()}/status")
    assert not status.exists() or "(zombie)" in status.read_text()


async def test_what_a_command_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    async with asyncio.timeout(20):
        assert await hook.run([script(tmp_path, f"sleep 600 & echo $! >{pid}")]) == ""
    os.kill(int(pid.read_text()), 9)


async def test_json_is_posted() -> None:
    async with server(b"HTTP/1.1 204 No Content\r\n\r\n") as (url, seen):
        assert await hook.post(url, b'{"event":"ready"}') == ""
    (request,) = seen
    assert request.startswith(b"POST /T0/secret HTTP/1.1\r\n")
    assert b"content-type: application/json" in request.lower()
    assert request.endswith(b'\r\n\r\n{"event":"ready"}')


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answered with 404"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "answered with 302"),
        (b"nonsense\r\n\r\n", "could not be asked"),
        (b"", "could not be asked"),
        (None, "did not answer within"),
    ],
)
async def test_why_a_webhook_failed(answer: bytes | None, says: str) -> None:
    async with server(answer) as (url, _):
        why = await hook.post(url, b"{}", limit=0.5 if answer is None else 20.0)
    assert says in why
    assert "secret" not in why


async def test_an_answer_without_end_is_not_read() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"
    async with server(head + b"x" * 100_000) as (url, _), asyncio.timeout(20):
        assert await hook.post(url, b"{}") == ""


async def test_nobody_listens() -> None:
    assert await hook.post("http://127.0.0.1:1/secret", b"{}") == "it cannot be reached"


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has osascript instead")
async def test_a_desktop_notification_is_text_and_not_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "libnotify-bin" in await hook.notify("t", "x")
    out = tmp_path / "out"
    stand_in = tmp_path / "notify-send"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >{out}\n')
    stand_in.chmod(0o755)
    assert await hook.notify("firstlight: kimi", "--help <b>x</b> & y") == ""
    assert out.read_text() == "--app-name=firstlight|--|firstlight: kimi|--help &lt;b&gt;x&lt;/b&gt; &amp; y|"
