"""The screen in a real browser; and the door in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import httpx
import pytest

from tests.tui.browser import Browser
from tests.tui.test_handover import runtime, watched
from tui.commands import web as command
from tui.exits import Ending, Exit
from tui.handover.daemon import tell
from tui.status.server import Address

__all__ = ["runtime"]

TOKEN = "a-token-of-the-test"
LOOPBACK = Address("127.0.0.1", 0)

SEEN = """window.seen === undefined ? "" :
  [...Array(seen.rows).keys()].map(row => seen.buffer.active.getLine(row)?.translateToString()).join("\\n")"""
"""What stands in the page's terminal, as text."""

CATCH = """
Object.defineProperty(Object.prototype, "terminal", {configurable: true, set(value) {
  window.seen = value;
  Object.defineProperty(this, "terminal", {value, writable: true, configurable: true});
}});
"""
"""The page's terminal is private to its script; this catches it as it is made."""


@asynccontextmanager
async def shown(speed: float) -> AsyncIterator[str]:
    """The demo's load in a web server; its address."""
    async with watched(speed) as (desk, hub, socket, stop):
        telling = asyncio.create_task(tell(desk.watching, hub, stop))
        try:
            async with command.served(socket, LOOPBACK, TOKEN) as where:
                yield f"http://{where}"
        finally:
            stop.set()
            await telling


async def test_a_browser_sees_the_phase_change(tmp_path: Path) -> None:
    async with Browser() as browser, shown(12.0) as address:  # a browser takes its time to begin
        await browser.before_each_page(CATCH)
        await browser.open(f"{address}/?token={TOKEN}")
        loading = await browser.until(SEEN, lambda text: "LOADING" in text and "weights" in text.splitlines()[0])
        assert "demo-30b-a3b" in loading
        await browser.picture(tmp_path / "loading.png")
        ready = await browser.until(SEEN, lambda text: "READY" in text.splitlines()[0])
        assert "Application startup complete" in ready
        await browser.picture(tmp_path / "ready.png")
        assert (tmp_path / "loading.png").read_bytes() != (tmp_path / "ready.png").read_bytes()
        assert await browser.value("location.search") == "", "the token does not stay in the address"
        assert TOKEN not in await browser.value("document.cookie"), "no script reads it"
        assert browser.complaints == []
        assert "Recordings" not in ready.splitlines()[-1], "a browser was let in to look at one watch"


async def test_nobody_gets_in_without_the_token() -> None:
    async with shown(1000.0) as address, httpx.AsyncClient(base_url=address, trust_env=False) as client:
        for path in ("/", "/ws", "/static/js/textual.js", "/?token=wrong", "/?token=", f"/ws?token={TOKEN}", "/x"):
            answer = await client.get(path)
            assert answer.status_code == 403, path
            assert TOKEN not in answer.text
        client.cookies.set("firstlight", "wrong")
        assert (await client.get("/")).status_code == 403
        client.cookies.clear()
        let_in = await client.get(f"/?token={TOKEN}")
        assert (let_in.status_code, let_in.headers["location"]) == (303, "./")
        cookie = let_in.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        page = await client.get("/")
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert "://" not in page.text.replace("wss://", "").replace("ws://", ""), "it loads from here alone"
        assert (await client.get("/static/js/textual.js")).status_code == 200
        assert (await client.get("/static/../server.py")).status_code == 404
        other = await client.get("/ws", headers={"Origin": "http://evil.example"})
        assert other.status_code == 403


async def test_a_socket_of_another_sites_page_is_refused() -> None:
    async with shown(1000.0) as address, aiohttp.ClientSession(cookies={"firstlight": TOKEN}) as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{address}/ws", origin="http://evil.example")
        assert refused.value.status == 403


def test_other_machines_only_where_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(Ending, match="other machines") as ending:
        command.run(["local", "vllm"], "0.0.0.0:0")
    assert ending.value.status == Exit.USAGE


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "textual_serve", None)
    with pytest.raises(Ending, match="textual-serve") as ending:
        command.run(["local", "vllm"], "127.0.0.1:0")
    assert "firstlight[web]" in ending.value.remedy
