"""An operator at work on the real host, without a screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress

from probes.hosts import open_host
from probes.operate.actions import new_id, operate
from probes.operate.files import read_files
from probes.operate.orders import Action, File, Order, Rights
from probes.operate.rights import ask_rights
from probes.readings import OperatorAction
from watch.plan import plan

LIMIT = 90.0
"""seconds to wait for an action's end; generous, since the machine may be busy"""


class Operator:
    """``async with Operator("root@llm-two") as ann: steps = await ann.does("restart", "vllm-x")``."""

    def __init__(self, target: str, who: str = "ann@laptop", *, user: bool = False) -> None:
        self.host = open_host(target)
        self.who = who
        self.user = user
        self.steps: list[OperatorAction] = []
        """of the last action, as they come"""
        self._more = asyncio.Condition()
        self._links: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Operator:
        self._links = asyncio.create_task(self._run())
        async with asyncio.timeout(LIMIT):
            await self.host.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._links is not None
        self._links.cancel()
        with suppress(asyncio.CancelledError):
            await self._links
        await self.host.close()

    async def _run(self) -> None:
        async for _ in self.host.links():
            pass

    async def rights(self, unit: str) -> Rights:
        return await ask_rights(self.host, unit, user=self.user)

    def order(self, action: Action, unit: str, **how: object) -> Order:
        return Order(id=new_id(), action=action, unit=unit, who=self.who, **how)  # type: ignore[arg-type]

    async def rollback(self, unit: str, wanted: list[File]) -> Order:
        """What an operator says yes to: the way from the files as they are to these."""
        found = await read_files(self.host, await self.rights(unit), unit)
        made = plan(found, wanted)
        assert not made.refused, made.refused
        return self.order(
            "rollback", unit, edits=made.edits, expect=made.expect, result=made.result, verify=made.verify
        )

    async def has_done(
        self, order: Order, rights: Rights | None = None, *, at: Callable[[OperatorAction], None] = lambda _: None
    ) -> list[OperatorAction]:
        """All steps to the end. ``at``: called with each as it comes."""
        rights = rights or await self.rights(order.unit)
        self.steps = []
        async with asyncio.timeout(LIMIT), aclosing(operate(self.host, rights, order)) as steps:
            async for step in steps:
                self.steps.append(step)
                at(step)
                async with self._more:
                    self._more.notify_all()
        return self.steps

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until the steps of the action under way are such; TimeoutError when they never are."""
        async with asyncio.timeout(LIMIT), self._more:
            await self._more.wait_for(true)

    def waits(self, step: str) -> bool:
        """Whether the action under way has waited in this step."""
        return any(one.step == step and one.outcome == "wait" for one in self.steps)

    async def does(self, action: Action, unit: str, **how: object) -> list[OperatorAction]:
        return await self.has_done(self.order(action, unit, **how))


def story(steps: list[OperatorAction]) -> str:
    """For the message of a failed test."""
    return "\n".join(f"{step.step} {step.outcome}: {step.detail} {step.undo}" for step in steps)


def outcomes(steps: list[OperatorAction]) -> dict[str, str]:
    """How each step ended, by its name."""
    return {step.step: step.outcome for step in steps if step.outcome not in ("begun", "wait", "note", "state", "undo")}
