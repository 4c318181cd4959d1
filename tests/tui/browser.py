"""A real Chromium without a window, driven through its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest


class Browser:
    """``async with Browser() as browser: await browser.open("http://…")``. One page. ``complaints``: what the console
    and the log have said of severity warning or worse, and exceptions nobody caught."""

    def __init__(self) -> None:
        program = shutil.which("chromium")
        if program is None:
            pytest.skip("a real browser needs: apt-get install chromium")
        self._program = program
        self._folder = tempfile.mkdtemp(prefix="firstlight-chromium-")
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.complaints: list[str] = []

    async def __aenter__(self) -> Browser:
        self._process = await asyncio.create_subprocess_exec(
            self._program, "--headless=new", "--no-sandbox", "--enable-unsafe-swiftshader", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--disable-component-update",
            "--disable-dev-shm-usage", "--remote-debugging-port=0", f"--user-data-dir={self._folder}",
            "--window-size=1600,900", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stderr is not None
        async with asyncio.timeout(30):
            port = ""
            while not port:
                line = (await self._process.stderr.readline()).decode()
                assert line, "chromium ended before it listened"
                if found := re.search(r"ws://127\.0\.0\.1:(\d+)/", line):
                    port = found[1]
        self._reading = asyncio.create_task(_drain(self._process.stderr))
        self._session = aiohttp.ClientSession(trust_env=False)
        async with self._session.get(f"http://127.0.0.1:{port}/json") as answer:
            (target,) = [one for one in await answer.json() if one["type"] == "page"]
        self._socket = await self._session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
        self._hearing = asyncio.create_task(self._hear())
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._hearing.cancel()
        await asyncio.gather(self._hearing, return_exceptions=True)
        await self._session.close()
        self._process.terminate()
        await self._process.wait()
        await self._reading
        shutil.rmtree(self._folder, ignore_errors=True)

    async def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        return await asyncio.wait_for(self._waiting[number], 30)

    async def before_each_page(self, script: str) -> None:
        await self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def open(self, address: str) -> None:
        await self.call("Page.navigate", url=address)

    async def value(self, expression: str) -> Any:
        """What an expression is in the page. AssertionError with what it throws."""
        said = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    async def until(self, expression: str, true: Callable[[Any], object] = bool, limit: float = 40.0) -> Any:
        """The first value that is wanted; AssertionError with the last one when none is."""
        value = None
        try:
            async with asyncio.timeout(limit):
                while not true(value := await self.value(expression)):  # noqa: ASYNC110 (a page can only be asked)
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{expression} was never as wanted; at last: {value!r}") from None
        return value

    async def picture(self, path: Path) -> None:
        said = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(said["data"]))

    async def _hear(self) -> None:
        async for message in self._socket:
            said = message.json()
            if waiting := self._waiting.pop(said.get("id", 0), None):
                if "error" in said:
                    waiting.set_exception(AssertionError(said["error"]))
                else:
                    waiting.set_result(said["result"])
            self._note(said.get("method", ""), said.get("params", {}))

    def _note(self, method: str, said: dict[str, Any]) -> None:
        if method == "Log.entryAdded" and said["entry"]["level"] in ("warning", "error"):
            self.complaints.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("warning", "error", "assert"):
            self.complaints.append(" ".join(str(one.get("value", "")) for one in said["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(said["exceptionDetails"]))


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.readline():
        continue
