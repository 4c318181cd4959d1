"""NVML in this process, for ``local``: one thread asks, one call at a time; a driver that hangs holds up only it."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from probes.gpu_agent import AgentDecoder, NoAgent
from probes.nvml_agent import Sampler, load_nvml
from probes.readings import Reading

INTERVAL = 1.0
LIMIT = 5.0
"""Seconds after which a call counts as hung. It is waited for, never repeated."""


class _Thread:
    """A daemon: a call that never returns must not keep the program from ending."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wanted: queue.SimpleQueue[asyncio.Future[dict[str, Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="firstlight-nvml", daemon=True).start()

    def sample(self) -> asyncio.Future[dict[str, Any]]:
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._wanted.put(answer)
        return answer

    def end(self) -> None:
        self._wanted.put(None)

    def _work(self) -> None:
        sampler: Sampler | None = None
        while (answer := self._wanted.get()) is not None:
            try:
                if sampler is None:
                    sampler = Sampler(load_nvml())
                    record = {"v": 1, "driver": sampler.driver}
                else:
                    record = sampler.sample()
            except ImportError:
                record = {"error": "the package nvidia-ml-py is not installed", "missing": True}
            except Exception as error:  # noqa: BLE001 (whatever NVML says is the answer)
                record = {"error": str(error) or type(error).__name__, "missing": sampler is None}
            try:
                self._loop.call_soon_threadsafe(_answer, answer, record)
            except RuntimeError:  # the loop has ended while the driver hung
                return


def _answer(answer: asyncio.Future[dict[str, Any]], record: dict[str, Any]) -> None:
    if not answer.done():
        answer.set_result(record)


async def nvml(interval: float = INTERVAL, limit: float = LIMIT) -> AsyncIterator[list[Reading]]:
    """Samples of this machine's GPUs. While a call hangs, the last figures come with ``hung`` every ``limit`` seconds.

    Raises NoAgent where NVML cannot be used here.
    """
    decoder = AgentDecoder()
    thread = _Thread()
    try:
        while True:
            asked = time.monotonic()
            answer = thread.sample()
            while not answer.done():
                await asyncio.wait({answer}, timeout=limit)
                if not answer.done():
                    yield _said(decoder, {"hung": round(time.monotonic() - asked, 1)})
            record = answer.result()
            if record.get("missing"):
                raise NoAgent(f"No NVML here ({record['error']})", "nvidia-smi is asked instead.")
            if batch := _said(decoder, record):
                yield batch
            await asyncio.sleep(max(0.0, asked + interval - time.monotonic()))
    finally:
        thread.end()


def _said(decoder: AgentDecoder, record: dict[str, Any]) -> list[Reading]:
    return decoder.feed(json.dumps({"t": time.time(), **record}).encode() + b"\n")
