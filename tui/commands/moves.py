"""The watches of one run: the first one, and those of other units that the operator goes on to (a fallback unit)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Self

from msgspec.structs import replace

from probes.unit import full_name
from tui.desk import Desk
from watch.config import Config, Deployment


class Watches:
    """``open_one``: a watch of a deployment that has this name in the configuration; it may raise Ending. All of them
    stay open until the context ends, so that what was recorded of each is complete then."""

    def __init__(
        self, config: Config, open_one: Callable[[Deployment, str], AbstractAsyncContextManager[Desk]]
    ) -> None:
        self._config = config
        self._open_one = open_one
        self._stack = AsyncExitStack()
        self.opened: list[Desk] = []

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> bool | None:
        return await self._stack.__aexit__(*error)  # type: ignore[arg-type]

    async def open(self, deployment: Deployment, name: str = "") -> Desk:
        desk = await self._stack.enter_async_context(self._open_one(deployment, name))
        desk = dataclasses.replace(desk, elsewhere=partial(self._elsewhere, deployment))
        self.opened.append(desk)
        return desk

    async def _elsewhere(self, here: Deployment, unit: str) -> Desk:
        name, deployment = standing_in(self._config, here, unit)
        return await self.open(deployment, name)


def standing_in(config: Config, here: Deployment, unit: str) -> tuple[str, Deployment]:
    """The deployment of another unit of the same host: as it is configured, else as this one is, with an endpoint of
    its own and this one to go back to. It is read-only where this one is."""
    for name, deployment in config.deployments.items():
        if (deployment.target, full_name(deployment.unit)) == (here.target, full_name(unit)):
            fallback = deployment.fallback or here.unit
            return name, replace(deployment, fallback=fallback, read_only=deployment.read_only or here.read_only)
    return "", replace(here, unit=unit, endpoint="", fallback=here.unit)
