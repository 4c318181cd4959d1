"""A host for tests: real processes of this machine, without the guarantees of ``probes.local`` and ``probes.ssh``."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import httpx

from probes.host import CommandTimeout, Completed, Forward, HostError, LinkDown
from probes.local import LocalHost
from probes.readings import LinkReading, Reading

R = TypeVar("R", bound=Reading)


class PlainStream:
    def __init__(self, process: asyncio.subprocess.Process, host: PlainHost) -> None:
        self._process = process
        self._host = host
        self._stderr = b""
        self._reader = asyncio.ensure_future(self._read_stderr())

    async def _read_stderr(self) -> None:
        assert self._process.stderr
        while data := await self._process.stderr.read(4096):
            self._stderr = (self._stderr + data)[-65536:]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert self._process.stdout
        while data := await self._process.stdout.read(32768):
            if self._host.cut:
                raise LinkDown("cut")
            yield data
        if self._host.cut:
            raise LinkDown("cut")
        await self._process.wait()
        await asyncio.wait({self._reader}, timeout=1)

    async def write(self, data: bytes) -> None:
        if self._host.cut:
            raise LinkDown("cut")
        if self._process.stdin:
            with suppress(ConnectionError):
                self._process.stdin.write(data)
                await self._process.stdin.drain()

    async def wait(self) -> int:
        return await self._process.wait()

    @property
    def stderr(self) -> bytes:
        return self._stderr


class PlainHost:
    """``environment``: added to the commands' own (a PATH with stand-in programs in front). ``cut_now()`` breaks the
    link: every command is killed and every stream raises LinkDown; ``mend()`` brings it back."""

    def __init__(self, *, name: str = "test", environment: dict[str, str] | None = None) -> None:
        self._name = name
        self._environment = {**os.environ, "LC_ALL": "C", **(environment or {})}
        self._running: set[asyncio.subprocess.Process] = set()
        self._up = asyncio.Event()
        self._up.set()
        self._changed = asyncio.Event()
        self.cut = False
        self.most = 0
        self.started: list[tuple[str, ...]] = []

    @property
    def name(self) -> str:
        return self._name

    greeting = ""

    @property
    def running(self) -> int:
        return len(self._running)

    def cut_now(self) -> None:
        self.cut = True
        self._up.clear()
        self._changed.set()
        for process in list(self._running):
            self._kill(process)

    def mend(self) -> None:
        self.cut = False
        self._up.set()
        self._changed.set()

    async def links(self) -> AsyncIterator[LinkReading]:
        while True:
            self._changed.clear()
            yield LinkReading(at=1.0, state="down" if self.cut else "up")
            await self._changed.wait()

    async def up(self) -> None:
        await self._up.wait()

    async def _start(self, argv: Sequence[str], stdin: int) -> asyncio.subprocess.Process:
        if self.cut:
            raise LinkDown("cut")
        self.started.append(tuple(argv))
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                start_new_session=True,
            )
        except FileNotFoundError:
            return await self._start(["sh", "-c", f"echo 'sh: 1: {argv[0]}: not found' >&2; exit 127"], stdin)
        self._running.add(process)
        self.most = max(self.most, len(self._running))
        return process

    def _kill(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 20.0) -> Completed:
        process = await self._start(argv, asyncio.subprocess.PIPE)
        try:
            async with asyncio.timeout(timeout):
                out, err = await process.communicate(stdin)
        except TimeoutError:
            raise CommandTimeout(f"{argv[0]} did not end within {timeout:g} s") from None
        finally:
            self._kill(process)
            await process.wait()
            self._running.discard(process)
        if self.cut:
            raise LinkDown("cut")
        assert process.returncode is not None
        return Completed(process.returncode, out, err)

    @asynccontextmanager
    async def stream(self, argv: Sequence[str], *, stdin: bool = False) -> AsyncIterator[PlainStream]:
        process = await self._start(argv, asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL)
        try:
            yield PlainStream(process, self)
        finally:
            self._kill(process)
            while process.stdout and await process.stdout.read(1 << 20):
                continue  # asyncio waits for the end of a pipe that it stopped reading while it was full
            await process.wait()
            self._running.discard(process)

    @asynccontextmanager
    async def http(
        self, host: str, port: int, *, socket: str = "", tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[httpx.AsyncBaseTransport]:
        async with httpx.AsyncHTTPTransport(uds=socket or None, verify=tls or True) as transport:
            yield transport

    @asynccontextmanager
    async def forward(self, host: str, port: int, *, socket: str = "") -> AsyncIterator[Forward]:
        async with LocalHost().forward(host, port, socket=socket) as way:
            yield way

    async def close(self) -> None:
        for process in list(self._running):
            self._kill(process)


class Programs:
    """A folder of stand-in programs in front of the machine's own, for a ``PlainHost``."""

    def __init__(self, folder: Path, *, name: str = "test") -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        self.host = PlainHost(name=name, environment={"PATH": f"{self.folder}:{os.environ['PATH']}"})

    def put(self, name: str, script: str) -> None:
        """A shell script under that name, whole at once even where an older one is about to be run."""
        new = self.folder / f".{name}"
        new.write_text(f"#!/bin/sh\n{script}\n")
        new.chmod(0o755)
        new.rename(self.folder / name)


class Reader:
    """Reads batches in a task. ``until`` waits for what has been read to satisfy a condition, or for the end."""

    def __init__(self, batches: AsyncIterator[list[Reading]]) -> None:
        self.readings: list[Reading] = []
        self.failed: HostError | None = None
        self._batches = batches
        self._more = asyncio.Condition()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            async with aclosing(self._batches) as batches:  # type: ignore[type-var]
                async for batch in batches:
                    async with self._more:
                        self.readings += batch
                        self._more.notify_all()
        except HostError as failed:
            self.failed = failed
        async with self._more:
            self._more.notify_all()

    def of(self, kind: type[R]) -> list[R]:
        return [reading for reading in self.readings if isinstance(reading, kind)]

    async def until(self, condition: Callable[[Reader], object]) -> Reader:
        async with asyncio.timeout(20), self._more:
            await self._more.wait_for(lambda: condition(self) or self._task.done())
        assert condition(self), f"ended before that: {self.failed and self.failed.reason}, {self.readings[-5:]}"
        return self

    async def end(self) -> HostError:
        """The failure that it ends with."""
        async with asyncio.timeout(20):
            await self._task
        assert self.failed is not None
        return self.failed

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
